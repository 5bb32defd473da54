"""Fix until green: an agent edits, a validator decides, until it passes or a budget ends."""
