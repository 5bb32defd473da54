"""What analyzers print, as findings."""
