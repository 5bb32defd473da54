"""What the maintainers wish for, as the base says it: found, shown to a model, pointed to."""
