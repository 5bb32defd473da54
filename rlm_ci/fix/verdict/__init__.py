"""The verdict on a fix: in the copy, in a fresh tree, on changed tests."""
