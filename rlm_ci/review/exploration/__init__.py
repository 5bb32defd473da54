"""A reviewer that looks around: tools for base and head, and conversations that use them."""
