"""Search in a context."""
