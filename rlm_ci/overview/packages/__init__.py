"""The packages that a project needs: manifests, lock files, and what a change does to them."""
