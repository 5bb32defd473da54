"""The guard of a fix loop: green counts only if nothing was bent to get there."""
