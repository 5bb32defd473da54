"""Tests in Python."""
