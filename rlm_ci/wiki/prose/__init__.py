"""What a model says: asked for, held by its quotes, judged."""
