"""Questions of newcomers, and whether a page of a wiki has the answer."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from html import unescape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

#: How to run it, what a call does, where to add something, what configures it, how it fails.
KINDS = ("run", "call", "add", "configure", "fail")
_KEYS = {"kind", "ask", "from", "answer"}
_LINK = re.compile(r"\[((?:[^\]\\]|\\.)*)\]\([^)]*\)")
_CODE = re.compile(r"</?code>")
_MARKS = re.compile(r"[`\\]")
_OF_CALLS = ("index.md", "flows.md")
_DIAGRAM = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Question:
    """What is asked, and the phrases that a passage must all have."""

    kind: str
    ask: str
    answer: tuple[str, ...]


@dataclass(frozen=True)
class Questions:
    """The table of one repository at one commit."""

    repository: str
    commit: str
    questions: tuple[Question, ...]


def read_questions(path: Path) -> Questions:
    """Errors: KeyError, TypeError, ValueError for a table of another form."""
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    found = []
    for row in table["question"]:
        if row.keys() != _KEYS or row["kind"] not in KINDS or not row["answer"]:
            raise ValueError(f"{path.name}: a question has another form: {row}")
        found.append(Question(row["kind"], row["ask"], tuple(row["answer"])))
    return Questions(table["repository"], table["commit"], tuple(found))


def answering(question: Question, pages: Mapping[str, str]) -> list[str]:
    """The pages with a passage that has all phrases of the answer; the first page first.

    A passage is a paragraph, a list item or the row of a table. The steps of a call stand in
    several: there, it is what stands below one heading. ``pages`` are texts of Markdown by name.
    """
    names = sorted(pages, key=lambda name: (name != "index.md", name))
    if question.kind == "call":  # elsewhere, what stands below a heading are no steps
        names = [name for name in names if name in _OF_CALLS]
    return [name for name in names if passage(question, pages[name])]


def passage(question: Question, page: str) -> str:
    """The first passage of a page that has all phrases of the answer; "" without one."""
    return next(_having(question, page), "")


def _having(question: Question, page: str) -> Iterator[str]:
    patterns = [_pattern(phrase) for phrase in question.answer]
    for passage in _passages(page, is_section=question.kind == "call"):
        if all(pattern.search(passage) for pattern in patterns):
            yield passage


def _passages(page: str, *, is_section: bool) -> Iterator[str]:
    """What a reader sees, in pieces: without diagrams and targets of links."""
    text = unescape(_CODE.sub("", _MARKS.sub("", _LINK.sub(r"\1", _DIAGRAM.sub("", page)))))
    for piece in re.split(r"\n(?=#)" if is_section else r"\n\n|\n(?=[|]|#| *- | *\d+\. )", text):
        yield " ".join(piece.split())


def _pattern(phrase: str) -> re.Pattern[str]:
    """The phrase, as words of their own where it begins or ends with one."""
    before = r"(?<!\w)" if phrase[0].isalnum() else ""
    after = r"(?!\w)" if phrase[-1].isalnum() else ""
    return re.compile(f"{before}{re.escape(phrase)}{after}")
