"""The pages of a wiki."""
