"""The archive of documents, and its stubs."""
