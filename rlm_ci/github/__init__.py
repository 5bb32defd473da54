"""GitHub: its API, and what is posted there."""
