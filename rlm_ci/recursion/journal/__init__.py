"""What a recursion writes down, and finds again."""
