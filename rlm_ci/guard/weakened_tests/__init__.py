"""What was done to a test: nothing, more of it, or less."""
