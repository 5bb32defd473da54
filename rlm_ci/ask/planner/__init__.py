"""The planner: what the model is shown, and the plan that it writes."""
