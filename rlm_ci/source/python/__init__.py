"""Python source: its outline, its statements, its entry points."""
