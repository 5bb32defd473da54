"""The planner: its prompts, and the plans that it writes."""
