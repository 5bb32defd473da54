"""A question to a long text: its run, its citations, the verification of its answer."""
