"""What a change changes: public names and their callers, dependencies, permissions, places."""
