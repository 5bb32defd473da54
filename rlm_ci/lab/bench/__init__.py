"""Benchmarks: packs of cases with known answers, runs of them, and comparisons of runs."""
