"""Tools for a work tree: read, search, edit, run."""
