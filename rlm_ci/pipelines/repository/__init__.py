"""What review and wiki share: a recursion over a repository."""
