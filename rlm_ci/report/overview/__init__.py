"""The overview of a change: its record, and how it is shown."""
