"""Finds the definitions of a file by its grammar: a module for each language."""
# The TAGS_QUERY of the grammars' packages finds only 17 to 95 % of the definitions, none for C#,
# and neither constants, fields and macros nor heads, comments, imports and entries.
