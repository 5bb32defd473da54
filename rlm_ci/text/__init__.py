"""Texts: what they show, dates, Markdown, globs, references to lines."""
