"""Claims of a model, proven by what runs at head and at the base."""
