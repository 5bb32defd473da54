"""Trees as folders, and commands over them."""
