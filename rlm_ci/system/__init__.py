"""The operating system: processes, files, folders, threads."""
