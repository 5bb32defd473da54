"""The tasks archive: completed snapshots of ``docs/TASKS.md`` on a branch of their own."""
