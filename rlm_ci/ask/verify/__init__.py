"""What must hold before an answer is shown."""
