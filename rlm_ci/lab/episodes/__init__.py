"""One episode: its steps, branches, children, record and report."""
