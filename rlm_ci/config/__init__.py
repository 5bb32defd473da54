"""Settings: their table, the command line, the config file."""
