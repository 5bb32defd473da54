"""Templates and schemas: found, read, validated."""
