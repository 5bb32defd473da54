"""The fix loop from end to end: the real program, real git, a sandbox, a model on loopback."""
