"""Texts of files and commands as a model is shown them: data, all of it visible, bounded."""

from __future__ import annotations

from rlm_ci.texts import encodable, fenced, printable

#: Characters of one observation, and of one line in it.
OUTPUT_LIMIT = 20_000
LINE_LIMIT = 500


def visible(line: str) -> str:
    """One line with tabs kept and whatever else cannot be seen written out."""
    text = "\t".join(printable(part) for part in line[:LINE_LIMIT].split("\t"))
    left_out = len(line) - LINE_LIMIT
    return f"{text} [… {left_out:,} characters left out]" if left_out > 0 else text


def quoted(head: str, text: str) -> str:
    """``text`` as data under ``head``; the head alone where there is none."""
    body = encodable(text).strip("\n")
    return fenced(head, body) if body else f"{head}."
