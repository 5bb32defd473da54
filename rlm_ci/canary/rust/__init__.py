"""Tests in Rust."""
