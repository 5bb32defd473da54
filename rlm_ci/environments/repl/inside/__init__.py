"""What runs in the sandbox: a package of its own there, which imports nothing else of ours."""
