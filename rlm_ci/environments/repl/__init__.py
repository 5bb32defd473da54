"""The REPL: a model answers by Python that runs in a sandbox, with the text as a variable."""
