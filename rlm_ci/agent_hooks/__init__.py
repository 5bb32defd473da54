"""What the hooks of coding agents run."""
