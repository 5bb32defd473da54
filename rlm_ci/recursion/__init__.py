"""A repository in parts: each node is looked at as a leaf, or split, solved and put together."""
