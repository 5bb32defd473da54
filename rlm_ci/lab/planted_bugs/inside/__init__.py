"""What runs in a process of its own, with edited libraries."""
