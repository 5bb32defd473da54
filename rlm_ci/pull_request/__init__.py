"""A pull request as a whole: posting, commands in comments, overrides."""
