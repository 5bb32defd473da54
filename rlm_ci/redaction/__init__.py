"""Secrets, taken out of all that is written."""
