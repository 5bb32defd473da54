"""A change: its files, its hunks, what it was triggered by."""
