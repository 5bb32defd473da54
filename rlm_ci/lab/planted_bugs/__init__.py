"""Changes with planted bugs among harmless edits, made by a seeded program; their reviews."""
