"""Tests in Go."""
