"""Citations in an answer, held against the text that they name."""
