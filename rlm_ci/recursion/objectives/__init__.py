"""What a recursion can be asked for: one file an objective (see ``recursion.objective``)."""
