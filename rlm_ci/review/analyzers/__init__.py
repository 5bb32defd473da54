"""Analyzers at work: which ones, where they run, on which files."""
