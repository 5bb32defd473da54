"""What a user of a program meets, read off its code: messages, exit codes, settings."""
