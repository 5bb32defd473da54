"""What a description claims, and what of it is in the change."""
