"""A wiki that exists already: what is stale, what is kept."""
