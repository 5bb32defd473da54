"""Verifies the files of a symbolic run against its journal."""
