"""What a change does to the packages that a project needs."""
