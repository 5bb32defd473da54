"""Who edits: a command of the user's, the built-in agent, fixes of tools."""
