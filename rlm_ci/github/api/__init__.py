"""GitHub's API."""
