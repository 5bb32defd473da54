"""Receipts: what a change says of the subagent runs that were made for it."""
