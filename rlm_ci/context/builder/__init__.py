"""How a context is built."""
