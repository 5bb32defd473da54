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
    from rlm_ci.pipelines.repository.scope import RepositoryScope
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
    change: ChangeSet, whole: Corpus, here: RepositoryScope, asked: Container[str] | None
) -> ReadableChange:
    """The change below the folder of ``here``, of the files ``asked`` (None: all)."""
    hunks, broken = change.hunks(context=0)
    known = {file.path: file for file in whole.files}
    omitted = dict(whole.omitted)
    reason = filter_by(here.rules, committed=True)
    found, silent, missing, others = [], [], [], []
    rows = [one for one in change.files() if _is_below(one.path, here.under)]
    texts = _Texts(change, rows, here.max_file_bytes)
    for one in rows:
        if asked is not None and one.path not in asked:
            others.append(name(one.path))
            continue
        is_gone = one.status[:1] == "D"
        why = reason(one.path, texts.size(one)) if is_gone else omitted.get(one.path)
        word = (why or "").partition(":")[0]
        content = texts.head(one)
        some = hunks.get(one.path, ())
        told = _heading(one)
        if (why and word != LOCK_FILE) or not _is_file(one):
            silent.append(f"=== {name(one.path)} === {told}; not shown: {_about(one, why)}")
        elif (
            one.path in broken
            or (not is_gone and content is None)
            or (one.path in known and one.added is None)
        ):
            missing.append((one.path, "git shows no lines of its change"))
        elif not some and one.status[:1] != "R":
            silent.append(f"=== {name(one.path)} === {told}, without a changed line")
        elif is_of_endings(some) and one.status[:1] == "M":
            silent.append(f"=== {name(one.path)} === {told}: only the ends of lines")
        else:
            made = _made(one, told, content or b"", texts.old(one), some)
            if made.edits or made.gone:
                found.append(made)
            else:
                silent.append(f"=== {name(one.path)} === {made.heading}")
    if others:
        silent.append(f"Changed as well, but not part of this review: {', '.join(others)}")
    return ReadableChange(tuple(found), tuple(silent), tuple(missing))


class _Texts:
    """Both sides of changed files."""

    def __init__(self, change: ChangeSet, rows: Sequence[FileChange], most: int) -> None:
        new = [one.new_oid for one in rows if _is_regular(one.new_mode)]
        old = [one.old_oid for one in rows if _is_regular(one.old_mode)]
        oids = [*dict.fromkeys((*new, *old))]
        read = change.repository.read_small(oids, most)
        self._contents: Mapping[str, bytes | None] = dict(zip(oids, read, strict=True))
        self._most = most

    def head(self, one: FileChange) -> bytes | None:
        return self._contents.get(one.new_oid)

    def old(self, one: FileChange) -> bytes:
        return self._contents.get(one.old_oid) or b""

    def size(self, one: FileChange) -> int:
        """The bytes of a deleted file; more than is read for a larger one."""
        content = self._contents.get(one.old_oid)
        return self._most + 1 if content is None else len(content)


def _made(
    one: FileChange, told: str, content: bytes, old: bytes, hunks: Sequence[Hunk]
) -> ReadableFile:
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    if lines[-1] == "":
        lines.pop()
    kind = kind_of(one.path)
    edits = edits_of(hunks)
    if kind == LOCK:
        edits, told = _beginning(edits, lines, told)
    gone = {"D": one.path, "R": one.old_path}.get(one.status[:1], "")
    file = ReadableFile(one.path, told, kind, tuple(lines), edits, gone, one.old_oid)
    if kind != CODE:
        return file
    now, then = outline(one.path, content), outline(one.old_path or one.path, old)
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
    edits: Sequence[LineEdit], lines: Sequence[str], told: str
) -> tuple[tuple[LineEdit, ...], str]:
    """The first edits of a lock file; programs write it, and no review counts it as read."""
    kept: list[LineEdit] = []
    used = 0
    for edit in edits:
        texts = (*edit.removed, *lines[edit.at - 1 : edit.at - 1 + edit.added])
        used += sum(len(line) + 8 for line in texts)
        if used > _LOCK:
            return tuple(kept), f"{told}; only its first {len(kept):,} of {len(edits):,} hunks"
        kept.append(edit)
    return tuple(kept), told


def _definitions(known: Outline) -> tuple[Symbol, ...]:
    return tuple(sorted(known.symbols, key=lambda one: (one.line_start, -one.line_end)))


def kind_of(path: str) -> str:
    if path.rpartition("/")[2] in LOCK_FILES:
        return LOCK
    return DOCUMENT if language(path) in _DOCUMENTS else CODE


def _heading(one: FileChange) -> str:
    kind = _KINDS.get(one.status[:1], "changed")
    if kind.endswith("from"):
        kind = f"{kind} {name(one.old_path)}"
    if one.status[:1] in "MRC" and one.old_mode != one.new_mode:
        kind += f", mode {one.old_mode} → {one.new_mode}"
    return kind


def _about(one: FileChange, why: str | None) -> str:
    if _SUBMODULE in (one.old_mode, one.new_mode):
        return f"a submodule, {one.old_oid[:12]} → {one.new_oid[:12]}"
    if _LINK in (one.old_mode, one.new_mode):
        return "a symbolic link"
    return printable(why or "no text")[:200]


def _is_regular(mode: str) -> bool:
    return mode.startswith("100")


def _is_file(one: FileChange) -> bool:
    return _is_regular(one.old_mode if one.status[:1] == "D" else one.new_mode)


def _is_below(path: str, under: str) -> bool:
    return not under or path == under or path.startswith(f"{under}/")
