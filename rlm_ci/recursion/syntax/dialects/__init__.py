"""What a definition is in each language that a grammar reads: one file a language."""
