"""Open pull requests, or branches, held against each other: what breaks when all are merged."""
