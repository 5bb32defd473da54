"""What the code of a REPL gets from the host, and what the run keeps of it."""
