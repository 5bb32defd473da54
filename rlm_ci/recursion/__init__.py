"""Solves a task over a repository: splits it into nodes, solves the leaves, aggregates results."""
