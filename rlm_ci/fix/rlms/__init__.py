"""Whether a role gets an analysis of its context before its turn."""
