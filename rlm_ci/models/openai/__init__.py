"""Models that speak OpenAI's API."""
