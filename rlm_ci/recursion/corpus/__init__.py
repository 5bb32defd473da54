"""The files that a recursion reads."""
