"""Dangling stubs repaired: full texts of the history, put to the archive branch."""
