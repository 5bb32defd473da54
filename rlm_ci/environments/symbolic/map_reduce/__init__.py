"""Maps: one sub-call a part of the context, and one result of their answers."""
