"""One verdict on a change: settings, config file, checks."""
