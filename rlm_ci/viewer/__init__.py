"""A stored run as one page: what it did, step by step, whatever kind of run it is."""
