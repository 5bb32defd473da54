"""Questions to long texts, through the real command: planner, sub-calls, answer, evidence."""
