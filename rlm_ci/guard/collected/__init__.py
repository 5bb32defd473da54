"""Which files a runner takes its tests from, by their names and its settings."""
