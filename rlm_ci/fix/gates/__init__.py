"""Gates: what must hold besides the validator for a result to be green."""
