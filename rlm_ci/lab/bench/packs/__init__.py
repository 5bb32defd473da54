"""Files of cases, read, checked and found by name."""
