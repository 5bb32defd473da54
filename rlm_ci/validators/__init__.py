"""What decides whether a goal is met: commands, and what they print."""
