"""Delegation: an MCP server through which an agent starts runs and follows them."""
