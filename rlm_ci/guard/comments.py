"""What a place in a source is, by the language alone: code, a comment, or the text of a literal.

Nothing is parsed: Python's own tokenizer takes minutes for a megabyte of quotes. What is not closed
may be a comment, so that no silencer in it is passed over.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache, cached_property
from itertools import accumulate

CODE, COMMENT, TEXT, OPEN = "code", "comment", "text", "open"
#: What begins a comment or a literal, by language.
_SIGNS = {
    "Python Cython": "hash \"\"\" ''' \" '",
    "JavaScript TypeScript TSX": "// /* regex \" ' `",
    "Go": "// /* \" ' `",
    "Vue Svelte Astro": "<!-- // /* \" ' `",
    "HTML Markdown": "<!--",
    "CSS": "/* \" '",
    "SCSS Less JSON GraphQL": "// /* # \" '",
    "Rust": "// /* raw long char",
    "Swift": '// /* "',
    "PHP": "// /* # \" '",
    "SQL": "-- /* '",
    "Ruby Shell YAML Dockerfile": "# \" '",
}
_PATTERNS = {
    "//": (COMMENT, r"//[^\n]*"),
    "/*": (COMMENT, r"/\*.*?(?:\*/|\Z)"),
    "#": (COMMENT, r"(?<!\S)#(?!\[)[^\n]*"),
    "hash": (COMMENT, r"#[^\n]*"),
    "--": (COMMENT, r"--[^\n]*"),
    "<!--": (COMMENT, r"<!--.*?(?:-->|\Z)"),
    "regex": (
        TEXT,
        r"(?<=[=(,:!&|?]) ?/(?![/*])(?:\\.|\[(?:\\.|[^\]\\\n]){0,99}\]|[^/\\\n\[]){1,99}/",
    ),
    "raw": (TEXT, r"\br(?P<hashes>#*)\".*?(?:\"(?P=hashes)|\Z)"),
    "char": (TEXT, r"'(?:\\.[^'\n]{0,9}|[^'\\\n])'"),
    # Not (?:a|b)*+: Python 3.11.2 does not match all of such a group.
    '"""': (TEXT, r'"""[^"\\]*+(?:(?:\\.|"(?!""))[^"\\]*+)*"""'),
    "'''": (TEXT, r"'''[^'\\]*+(?:(?:\\.|'(?!''))[^'\\]*+)*'''"),
    "long": (TEXT, r"\"[^\"\\]*+(?:\\.[^\"\\]*+)*(?:\"|\\?\Z)"),
    '"': (TEXT, r"\"[^\"\\\n]*+(?:\\.[^\"\\\n]*+)*\""),
    "'": (TEXT, r"'[^'\\\n]*+(?:\\.[^'\\\n]*+)*'"),
    "`": (TEXT, r"`[^`\\]*+(?:\\.[^`\\]*+)*`"),
}  # fmt: skip
_UNCLOSED = r"(?:\"\"\"|'''|`).*|[\"'][^\n]*"


class SourcePlaces:
    """The places of a source in a language; a language that is not known is all comment."""

    def __init__(self, language: str, source: str) -> None:
        self._language = language
        self._source = source

    def kind(self, line: int, column: int) -> str:
        """What holds a character, by its line (1-based) and column (0-based)."""
        starts, spans = self._lines, self._spans
        if spans is None:
            return OPEN
        offset = starts[line - 1] + column
        at = bisect_right(spans, offset, key=lambda span: span[0]) - 1
        return spans[at][2] if at >= 0 and offset < spans[at][1] else CODE

    @cached_property
    def _lines(self) -> list[int]:
        lengths = (len(line) + 1 for line in self._source.split("\n"))
        return list(accumulate(lengths, initial=0))

    @cached_property
    def _spans(self) -> list[tuple[int, int, str]] | None:
        pattern = _pattern(self._language)
        if pattern is None:
            return None
        return [
            (*match.span(), next(kind for kind in (COMMENT, TEXT, OPEN) if match[kind] is not None))
            for match in pattern.finditer(self._source)
        ]


@cache
def _pattern(language: str) -> re.Pattern[str] | None:
    signs = next((signs for names, signs in _SIGNS.items() if language in names.split()), None)
    if signs is None:
        return None
    some = [_PATTERNS[sign] for sign in signs.split()]
    kinds = (
        (COMMENT, "|".join(words for kind, words in some if kind == COMMENT)),
        (TEXT, "|".join(words for kind, words in some if kind == TEXT) or r"(?!)"),
        (OPEN, _UNCLOSED if '"' in signs or "'" in signs else r"(?!)"),
    )
    return re.compile("|".join(f"(?P<{kind}>{words})" for kind, words in kinds), re.DOTALL)
