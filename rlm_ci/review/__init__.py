"""A review: what analyzers and a model find in each leaf, held to its evidence and put together."""
