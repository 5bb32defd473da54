"""Findings of a review, put together."""
