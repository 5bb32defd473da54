"""The repository, read by a hardened git."""
