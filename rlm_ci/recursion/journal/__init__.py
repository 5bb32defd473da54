"""The journals of a recursion: writing, reading, recovery."""
