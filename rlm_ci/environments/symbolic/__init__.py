"""A planner reads parts of a context and asks sub-calls until it can answer."""
