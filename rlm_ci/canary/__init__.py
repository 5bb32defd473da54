"""Checks that tests can still fail: some changed copies must fail, others must pass."""
