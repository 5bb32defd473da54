"""How a task is split into nodes."""
