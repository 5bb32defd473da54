"""The report: its model, its rendering, its formats."""
