"""What a change brings, and what it concerns."""
