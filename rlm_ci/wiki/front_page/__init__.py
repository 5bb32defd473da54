"""What the first page teaches: commands, where a change begins, configuration, errors."""
