"""Tools of MCP servers: programs that the user has configured, outside of any repository."""
