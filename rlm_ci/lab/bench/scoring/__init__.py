"""From an answer to a score."""
