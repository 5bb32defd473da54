"""Tests of a change, run at head, at the base, and on broken code."""
