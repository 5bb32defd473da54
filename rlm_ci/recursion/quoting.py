"""Texts of files and commands as a model is shown them: data, all of it visible, bounded."""

from __future__ import annotations

from rlm_ci.texts import encodable, printable

#: Characters of one observation, and of one line in it.
OUTPUT_LIMIT = 20_000
LINE_LIMIT = 500


def visible(line: str) -> str:
    """One line with tabs kept and whatever else cannot be seen written out."""
    text = "\t".join(printable(part) for part in line[:LINE_LIMIT].split("\t"))
    left_out = len(line) - LINE_LIMIT
    return f"{text} [… {left_out:,} characters left out]" if left_out > 0 else text


def clipped(text: str, limit: int = OUTPUT_LIMIT) -> str:
    """Head and tail of a long text: a list's start, and a test run's end."""
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def quoted(head: str, text: str) -> str:
    """``text`` as data under ``head``, in a fence longer than any run of backticks in it."""
    body = encodable(text).strip("\n")
    if not body:
        return f"{head}."
    fence = "```"
    while fence in body:
        fence += "`"
    return f"{head}:\n{fence}\n{body}\n{fence}"
