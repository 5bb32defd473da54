"""A report on a pull request: summary, review comments, check run."""
