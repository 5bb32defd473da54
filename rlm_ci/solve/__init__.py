"""What joins the verbs: the built-in pipelines by name, and the verification of runs."""
