"""What edits files: the built-in agent, other programs, and the fixes of linters."""
