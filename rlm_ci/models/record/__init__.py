"""The record of a run: every fact from outside, in the order in which it came."""
