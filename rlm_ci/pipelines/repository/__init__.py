"""The recursion over a repository, which review and wiki share."""
