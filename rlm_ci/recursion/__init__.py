"""Models that act: turns of tool calls, and the environments that carry them out."""
