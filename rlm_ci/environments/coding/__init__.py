"""The built-in agent: a model that reads and edits files by tools."""
