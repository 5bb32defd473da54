"""The symbolic mode: a planner looks into a context and asks others, until it has an answer."""
