"""What the wiki knows of one file, from its content alone."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode

from rlm_ci.redaction.redactor import SIGN, Redactor
from rlm_ci.source import PARSED, Outline
from rlm_ci.source.definitions import shell
from rlm_ci.source.outline import outline
from rlm_ci.source.uses.branches import LOOP, around, branches
from rlm_ci.values import Row
from rlm_ci.wiki.facts.commands import ProjectCommand, commands, is_document
from rlm_ci.wiki.facts.dependencies import declared, description, project
from rlm_ci.wiki.facts.note import EXIT, Chapter, CodeNote, Statement, bounded, other_notes
from rlm_ci.wiki.facts.python_notes import python_notes
from rlm_ci.wiki.facts.readme import chapters, heading, introduction, is_readme
from rlm_ci.wiki.pages.paths import is_test
from rlm_ci.wiki.surface.failures import other_failures
from rlm_ci.wiki.surface.registries import other_registries
from rlm_ci.wiki.surface.settings import other_settings, tested_paths

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from rlm_ci.source import Symbol
    from rlm_ci.source.uses.branches import Branch

    Mask = Callable[[str], str]


class FileFacts(Row):
    """One file; ``heads`` are the lines of the heads of the outline's symbols.

    ``about`` is how a README or a manifest introduces the project, ``declared`` what one needs,
    ``project`` the name that either gives. ``is_generated``: its comments say that. ``commands``
    are those by which one works on the project, ``chapters`` the headings of a guide to that.
    """

    outline: Outline
    heads: tuple[tuple[int, int], ...] = ()
    notes: tuple[CodeNote, ...] = ()
    about: Statement | None = None
    declared: tuple[tuple[str, Statement], ...] = ()
    project: str = ""
    is_generated: bool = False
    commands: tuple[ProjectCommand, ...] = ()
    chapters: tuple[Chapter, ...] = ()

    @property
    def path(self) -> str:
        return self.outline.path

    def head_of(self, symbol: Symbol) -> tuple[int, int]:
        """The lines that name a definition; its first line where that is none of the outline."""
        key = symbol.name, symbol.line_start
        for candidate, lines in zip(self.outline.symbols, self.heads, strict=True):
            if (candidate.name, candidate.line_start) == key:
                return lines
        return symbol.line_start, symbol.line_start

    def masked(self, mask: Mask) -> FileFacts:
        """The same with ``mask`` over every text that a page may show."""
        old, about = self.outline, self.about
        outline = old.replace(
            doc=mask(old.doc),
            symbols=_altered(old.symbols, mask, "signature", "doc"),
            entries=_altered(old.entries, mask, "name", "runs"),
            exported=tuple(map(mask, old.exported)),
        )
        return self.replace(
            outline=outline,
            notes=_altered(self.notes, mask, "text", "detail"),
            about=None if about is None else about.replace(text=mask(about.text)),
            project=mask(self.project),
            declared=tuple(
                (mask(name), statement.replace(text=mask(statement.text)))
                for name, statement in self.declared
            ),
            commands=_altered(self.commands, mask, "text", "runs"),
            chapters=_altered(self.chapters, mask, "text"),
        )

    @classmethod
    def of_json(cls, record: Sequence[Any]) -> FileFacts:
        """One from the list that JSON makes of it."""
        outline, heads, notes, about, needed, project, is_generated, commands, chapters = record
        return cls(
            Outline.of_json(outline),
            tuple((start, end) for start, end in heads),
            tuple(map(CodeNote.of, notes)),
            None if about is None else Statement.of(about),
            tuple((name, Statement.of(statement)) for name, statement in needed),
            project,
            is_generated,
            tuple(map(ProjectCommand.of, commands)),
            tuple(map(Chapter.of, chapters)),
        )


def _altered(rows: Iterable[Any], change: Callable[[Any], Any], *names: str) -> tuple[Any, ...]:
    """``rows`` with ``change`` made to these fields, where they are not empty."""
    return tuple(
        row.replace(**{name: change(value) for name in names if (value := getattr(row, name))})
        for row in rows
    )


def facts_of(path: str, content: bytes) -> FileFacts:
    """The facts of one file, without what looks like a secret; never raises."""
    bare = without_secrets(content)
    facts = _facts(path, bare)
    return facts if bare is content else facts.masked(_SECRETS.text)


def without_secrets(content: bytes) -> bytes:
    """``content`` itself, or without what looks like a secret, with as many lines."""
    text = content.decode("utf-8", "surrogateescape")
    if _SECRETS.text(text) == text:
        return content
    # Line by line, so that places stay what they are.
    keyless = _PRIVATE_KEY.sub(lambda match: SIGN + "\n" * match[0].count("\n"), text)
    lines = "\n".join(map(_SECRETS.text, keyless.split("\n")))
    return lines.encode("utf-8", "surrogateescape")


#: Knows the forms of tokens, and no value of this machine: facts are the same everywhere.
_SECRETS = Redactor({})
#: A private key to its end, or, without one, as long as lines look like one.
_PRIVATE_KEY = re.compile(
    r"-----BEGIN[ A-Z]*PRIVATE KEY(?: BLOCK)?-----"
    r"(?:(?:(?!-----BEGIN)[\s\S]){0,16000}?-----END[ A-Z]*PRIVATE KEY(?: BLOCK)?-----"
    r"|(?:\n[^\n]{0,12}[A-Za-z0-9+/=]{20,}[^\n]{0,12})*)"
)


def _facts(path: str, content: bytes) -> FileFacts:
    read = _described(outline(path, content), content)
    if read.language == "Shell":
        read = read.replace(symbols=shell.functions(content), state=PARSED)
    if is_test(path):  # no risk, and no invariant, of the program
        notes: list[CodeNote] = []
    elif read.language == "Python":
        notes = python_notes(content, path)
    else:
        notes = [
            *other_notes(read.language, content),
            *bounded(other_failures(read.language, content)),
            *bounded(other_settings(read.language, content)),
            *other_registries(read.language, content),
            *tested_paths(path, content),
        ]
    about = introduction(content, path) if is_readme(path) else description(path, content)
    title = project(read, content) or heading(content, path)
    sound = _sound(read, notes, content)
    last = _last_line(content)
    project_commands = tuple(
        command for command in commands(sound[0], content) if command.line <= last
    )
    needed = declared(path, content)
    guide = chapters(content, path) if is_document(path) and not is_readme(path) else ()
    return FileFacts(*sound, about, needed, title, _is_generated(content), project_commands, guide)


#: Where a file says how it was made, in which lines.
_HEAD, _HEAD_LINES = 8192, 40
_COMMENT = re.compile(r"\s*(?://|#|/?\*|--|;|<!--|%|\(\*|\"{3}|'{3}|REM\b)")


def _is_generated(content: bytes) -> bool:
    """Whether the comments at the head of a file say that a program wrote it."""
    head = content[:_HEAD].decode("utf-8", "replace").split("\n")[:_HEAD_LINES]
    notice = " ".join(line for line in head if _COMMENT.match(line))
    return "@generated" in notice or ("DO NOT EDIT" in notice and "generated" in notice.casefold())


def _sound(
    read: Outline, notes: Sequence[CodeNote], content: bytes
) -> tuple[Outline, tuple[tuple[int, int], ...], tuple[CodeNote, ...]]:
    """Only what points into the file; nothing if a lone carriage return ends a line in Python."""
    last = _last_line(content)
    read = read.replace(
        symbols=tuple(
            symbol for symbol in read.symbols if max(symbol.line_end, symbol.doc_end) <= last
        ),
        imports=tuple(imported for imported in read.imports if imported.line <= last),
        entries=tuple(entry for entry in read.entries if entry.line_end <= last),
    )
    if read.doc_end > last or not 0 < read.doc_start <= read.doc_end:
        read = read.replace(doc="", doc_start=0, doc_end=0)
    lines = content.split(b"\n")
    heads = tuple(_head(symbol, lines) for symbol in read.symbols)
    inside = tuple(_within(note, read) for note in notes if note.line_end <= last)
    if read.language != "Python" and any(map(_ends, inside)):
        all_branches = branches(read.path, content)
        inside = tuple(_if(note, all_branches) if _ends(note) else note for note in inside)
    return read, heads, inside


def _ends(note: CodeNote) -> bool:
    """Whether it is a place at which the process gets its code."""
    return note.kind == EXIT and bool(_EXIT.match(note.text))


def _if(note: CodeNote, all_branches: tuple[Branch, ...]) -> CodeNote:
    """The note with the condition next to it, as far as that is short."""
    inner = [branch for branch in around(all_branches, note.line_start) if branch.kind != LOOP][-1:]
    if not inner or inner[0].text == "else" or len(note.text) + len(inner[0].text) > _CONDITION:
        return note
    condition = inner[0].text
    word = "" if condition.startswith("on ") else "if "
    return note.replace(text=f"{note.text} {word}{condition}")


def _within(note: CodeNote, read: Outline) -> CodeNote:
    """The note with the innermost definition around it, where its reader has not said it."""
    if note.within or read.language == "Python":
        return note
    around = [
        (symbol.line_start, symbol.name)
        for symbol in read.symbols
        if symbol.kind not in _VALUES
        and symbol.line_start <= note.line_start
        and note.line_end <= symbol.line_end
    ]
    return note.replace(within=max(around)[1]) if around else note


def _last_line(content: bytes) -> int:
    if b"\r" in content and b"\r" in content.replace(b"\r\n", b""):
        return 0
    return content.count(b"\n") + (not content.endswith(b"\n") and bool(content))


#: Characters of what ends the process, with the condition of that.
_CONDITION = 120
_EXIT = re.compile(r"(?:raise |return )?[\w.:]*[eE]xit\w*(?:::\w+)?\s*[(=]")
#: Symbols that code does not stand within.
_VALUES = ("constant", "variable")
#: Copyright, licence and words for a linter, which do not say what a file is.
_LEGAL = re.compile(
    r"(?i)^(?:shellcheck|file generated by) |^(?:frozen|warn|encoding|coding)[\w-]*: "
    r"|copyright\s*(?:\(c\)|©|\d)|\b(?:mit|bsd|apache) licen[cs]e|spdx-licen[cs]e"
)
_RULE = re.compile(rb"\s*([=~^*+#-])\1{2,}\s*")
#: What begins and ends a documentation in Python, and ends one elsewhere.
_QUOTES, _COMMENT_END = re.compile(rb"\"{3}|'{3}"), re.compile(rb"\*/")


def _described(read: Outline, content: bytes) -> Outline:
    """The outline with the text below the title of its documentation, if that has one."""
    if not read.doc:
        return read
    undescribed = read.replace(doc="", doc_start=0, doc_end=0)
    if _LEGAL.search(read.doc):
        return undescribed
    lines = content.split(b"\n")
    title = lines[read.doc_start - 1 : read.doc_end]
    opened = _QUOTES.search(b"\n".join(lines[max(0, read.doc_start - 2) : read.doc_start]))
    ends = re.compile(opened[0]) if opened else _COMMENT_END
    if _is_own_name(read):
        if any(ends.search(line.rstrip()[3:]) for line in title):
            return undescribed
    elif not any(map(_RULE.fullmatch, title)):
        return read
    start = read.doc_end
    while start < len(lines) and not lines[start].strip():
        start += 1
    texts: list[bytes] = []
    for line in lines[start:]:
        text, *behind = ends.split(line, maxsplit=1)
        if text.strip():
            texts.append(text)
        if behind or not text.strip():
            break
    if not texts or len(texts) > 30 or _RULE.fullmatch(texts[-1]):
        return undescribed
    if texts[0].lstrip().startswith((b"..", b":", b">>>")):
        return undescribed
    text = b" ".join(b" ".join(texts).split())
    doc = text.decode("utf-8", "surrogateescape")
    return read.replace(doc=doc, doc_start=start + 1, doc_end=start + len(texts))


def _is_own_name(read: Outline) -> bool:
    stem = read.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    name = read.doc.rstrip(".").removesuffix(".py")
    return read.language == "Python" and bool(name) and f".{stem}".endswith(f".{name}")


def _head(symbol: Symbol, lines: Sequence[bytes]) -> tuple[int, int]:
    """Where a symbol is named, without decorators and body; its documentation if it is near."""
    name = re.split(r"\.|::|#", symbol.name)[-1].encode("utf-8", "surrogateescape")
    first = symbol.line_start
    for number in range(symbol.line_start, min(symbol.line_end, symbol.line_start + 40) + 1):
        line = lines[number - 1] if number <= len(lines) else b""
        if name in line and not line.lstrip().startswith((b"@", b"#[", b"//", b"/*", b"*")):
            first = number
            break
    last = first
    if symbol.doc and symbol.doc_start > first and symbol.doc_end - first <= 60:
        last = symbol.doc_end
    elif symbol.doc and 0 < symbol.doc_start < first and first - symbol.doc_start <= 60:
        first = symbol.doc_start
    return first, min(last, len(lines))


# ── many files, packed ──


def pack(files: Iterable[FileFacts]) -> str:
    """Facts as one text: a result travels to its parent, to the parent's parent, and so on."""
    text = json.dumps(list(files), ensure_ascii=True, separators=(",", ":"))
    return b64encode(zlib.compress(text.encode("ascii"), 6)).decode("ascii")


def unpack(packed: str) -> list[FileFacts]:
    """Raises ValueError for what ``pack`` has not written."""
    try:
        records = json.loads(zlib.decompress(b64decode(packed, validate=True)))
        return [FileFacts.of_json(record) for record in records]
    except (zlib.error, TypeError, KeyError) as error:
        raise ValueError(f"these are not facts: {error}") from None
