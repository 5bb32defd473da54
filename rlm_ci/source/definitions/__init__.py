"""What a definition is in each language that a grammar reads: one file a language."""
# The TAGS_QUERY of the grammars' own packages fails for this: of what stands here they find 46 to
# 95 % (C 46, JavaScript 54, TypeScript 17; none for C#, whose package looks for it in a wrong
# folder), and neither constants, fields and macros nor heads, comments, imports and entries.
