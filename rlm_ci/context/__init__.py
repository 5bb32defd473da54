"""A long text as an object on disk."""
