"""A result, applied to the work tree."""
