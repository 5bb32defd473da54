"""A model service on loopback: OpenAI's chat API, what goes wrong with it, and who asked what."""
