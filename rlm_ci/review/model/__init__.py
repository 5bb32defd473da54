"""What a model finds in a change."""
