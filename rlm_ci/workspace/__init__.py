"""The copies of a work tree that a fix loop edits, and how results come back."""
