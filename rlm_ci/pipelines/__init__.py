"""Pipelines, their runs and their attempts, which all long commands share."""
