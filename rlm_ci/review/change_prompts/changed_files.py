"""The files of a change with all that a prompt shows of them, and those that no prompt shows."""

from __future__ import annotations

from rlm_ci.recursion.corpus.eligibility import LOCK_FILE, filter_by
from rlm_ci.recursion.prompt_windows import name
from rlm_ci.review.change_prompts.hunk_rows import (
    CODE,
    DOCUMENT,
    LOCK,
    ReadableFile,
    edits_of,
    is_of_endings,
)
from rlm_ci.source.languages import language
from rlm_ci.source.outline import outline
from rlm_ci.text.globs import LOCK_FILES
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from rlm_ci.change.change_set import ChangeSet, FileChange
    from rlm_ci.git.patches import Hunk
    from rlm_ci.pipelines.repository.plan import RepositoryScope
    from rlm_ci.recursion.corpus.corpus import Corpus
    from rlm_ci.review.change_prompts.hunk_rows import LineEdit
    from rlm_ci.source import Outline, Symbol

_DOCUMENTS = frozenset(("Markdown", "reStructuredText", "Text", "AsciiDoc", "Org", "TeX"))
_KINDS = {"A": "new file", "C": "copied from", "D": "deleted", "R": "renamed from", "T": "new type"}
#: Bytes of a lock file's hunks that are shown.
_LOCK = 4_000
_SUBMODULE, _LINK = "160000", "120000"


class ReadableChange(Value):
    """``files`` have lines to show; ``silent`` are rows about the others.

    ``missing`` are pairs of path and reason for text that cannot be shown.
    """

    files: tuple[ReadableFile, ...]
    silent: tuple[str, ...]
    missing: tuple[tuple[str, str], ...]


def readable(
    change: ChangeSet, corpus: Corpus, scope: RepositoryScope, container: Container[str] | None
) -> ReadableChange:
    """The change below the folder of ``scope``, of the files ``container`` (None: all)."""
    hunks, broken = change.hunks(context=0)
    by_path = {file.path: file for file in corpus.files}
    omitted = dict(corpus.omitted)
    reason = filter_by(scope.rules, committed=True)
    files, silent, missing, others = [], [], [], []
    rows = [
        file_change for file_change in change.files() if _is_below(file_change.path, scope.under)
    ]
    texts = _Texts(change, rows, scope.max_file_bytes)
    for row in rows:
        if container is not None and row.path not in container:
            others.append(name(row.path))
            continue
        is_gone = row.status[:1] == "D"
        why = reason(row.path, texts.size(row)) if is_gone else omitted.get(row.path)
        word = (why or "").partition(":")[0]
        content = texts.head(row)
        some = hunks.get(row.path, ())
        heading = _heading(row)
        if (why and word != LOCK_FILE) or not _is_file(row):
            silent.append(f"=== {name(row.path)} === {heading}; not shown: {_about(row, why)}")
        elif (
            row.path in broken
            or (not is_gone and content is None)
            or (row.path in by_path and row.added is None)
        ):
            missing.append((row.path, "git shows no lines of its change"))
        elif not some and row.status[:1] != "R":
            silent.append(f"=== {name(row.path)} === {heading}, without a changed line")
        elif is_of_endings(some) and row.status[:1] == "M":
            silent.append(f"=== {name(row.path)} === {heading}: only the ends of lines")
        else:
            readable_file = _readable_file(row, heading, content or b"", texts.old(row), some)
            if readable_file.edits or readable_file.gone:
                files.append(readable_file)
            else:
                silent.append(f"=== {name(row.path)} === {readable_file.heading}")
    if others:
        silent.append(f"Changed as well, but not part of this review: {', '.join(others)}")
    return ReadableChange(tuple(files), tuple(silent), tuple(missing))


class _Texts:
    """Both sides of changed files."""

    def __init__(self, change: ChangeSet, rows: Sequence[FileChange], limit: int) -> None:
        new = [row.new_oid for row in rows if _is_regular(row.new_mode)]
        old = [row.old_oid for row in rows if _is_regular(row.old_mode)]
        oids = [*dict.fromkeys((*new, *old))]
        read = change.repository.read_small(oids, limit)
        self._contents: Mapping[str, bytes | None] = dict(zip(oids, read, strict=True))
        self._most = limit

    def head(self, change: FileChange) -> bytes | None:
        return self._contents.get(change.new_oid)

    def old(self, change: FileChange) -> bytes:
        return self._contents.get(change.old_oid) or b""

    def size(self, change: FileChange) -> int:
        """The bytes of a deleted file; more than is read for a larger one."""
        content = self._contents.get(change.old_oid)
        return self._most + 1 if content is None else len(content)


def _readable_file(
    change: FileChange, text: str, content: bytes, old: bytes, hunks: Sequence[Hunk]
) -> ReadableFile:
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    if lines[-1] == "":
        lines.pop()
    kind = kind_of(change.path)
    edits = edits_of(hunks)
    if kind == LOCK:
        edits, text = _beginning(edits, lines, text)
    gone = {"D": change.path, "R": change.old_path}.get(change.status[:1], "")
    file = ReadableFile(change.path, text, kind, tuple(lines), edits, gone, change.old_oid)
    if kind != CODE:
        return file
    now, then = outline(change.path, content), outline(change.old_path or change.path, old)
    signatures = {symbol.name: symbol.signature for symbol in now.symbols}
    removed = [symbol.name for symbol in then.symbols if symbol.name not in signatures]
    changed = [
        symbol.name
        for symbol in then.symbols
        if signatures.get(symbol.name, symbol.signature) != symbol.signature
    ]
    return file.replace(
        symbols=_definitions(now),
        removed=tuple(dict.fromkeys(removed)),
        resigned=tuple(dict.fromkeys(changed)),
    )


def _beginning(
    edits: Sequence[LineEdit], lines: Sequence[str], text: str
) -> tuple[tuple[LineEdit, ...], str]:
    """The first edits of a lock file; programs write it, and no review counts it as read."""
    line_edits: list[LineEdit] = []
    used = 0
    for edit in edits:
        texts = (*edit.removed, *lines[edit.at - 1 : edit.at - 1 + edit.added])
        used += sum(len(line) + 8 for line in texts)
        if used > _LOCK:
            return tuple(
                line_edits
            ), f"{text}; only its first {len(line_edits):,} of {len(edits):,} hunks"
        line_edits.append(edit)
    return tuple(line_edits), text


def _definitions(outline: Outline) -> tuple[Symbol, ...]:
    return tuple(sorted(outline.symbols, key=lambda symbol: (symbol.line_start, -symbol.line_end)))


def kind_of(path: str) -> str:
    if path.rpartition("/")[2] in LOCK_FILES:
        return LOCK
    return DOCUMENT if language(path) in _DOCUMENTS else CODE


def _heading(change: FileChange) -> str:
    kind = _KINDS.get(change.status[:1], "changed")
    if kind.endswith("from"):
        kind = f"{kind} {name(change.old_path)}"
    if change.status[:1] in "MRC" and change.old_mode != change.new_mode:
        kind += f", mode {change.old_mode} → {change.new_mode}"
    return kind


def _about(change: FileChange, why: str | None) -> str:
    if _SUBMODULE in (change.old_mode, change.new_mode):
        return f"a submodule, {change.old_oid[:12]} → {change.new_oid[:12]}"
    if _LINK in (change.old_mode, change.new_mode):
        return "a symbolic link"
    return printable(why or "no text")[:200]


def _is_regular(mode: str) -> bool:
    return mode.startswith("100")


def _is_file(change: FileChange) -> bool:
    return _is_regular(change.old_mode if change.status[:1] == "D" else change.new_mode)


def _is_below(path: str, under: str) -> bool:
    return not under or path == under or path.startswith(f"{under}/")
