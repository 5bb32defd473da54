"""The packages that a project needs: those of its manifests, and of its lock files."""
