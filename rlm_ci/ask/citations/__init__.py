"""Citations in an answer, checked against the text that they name."""
