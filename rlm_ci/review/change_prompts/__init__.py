"""A change as a model sees it: hunks, and what stands around them."""
