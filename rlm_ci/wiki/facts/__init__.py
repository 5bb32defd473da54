"""What is known of each file of a repository, without a model."""
