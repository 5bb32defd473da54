"""What tries models and environments: episodes, benchmarks, frameworks, chat."""
