"""The parts of test-guard that ask git: reverts, and files that no change touches."""
