"""Go, read by its grammar."""
