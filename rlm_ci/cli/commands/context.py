"""``rlm-ci context``: build, search and read a context, a long text as an object on disk."""

from __future__ import annotations

import os
import sys
from bisect import bisect_right

from rlm_ci import errors
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.options import CONTEXT, LOOP, SYMBOLIC
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.console.messages import say
from rlm_ci.context.context import Context, PointerError
from rlm_ci.context.pointers import in_full
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.judge.options import output_of
from rlm_ci.text import neutralise
from rlm_ci.text.printable import count, encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, BinaryIO

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.context.context import FileLines, Hit, QueryResult

SUMMARY = "build, search and read a long text as an object on disk"
USAGE = (
    "build SOURCE [--out DIR] [--link] [--context-encoding E] | "
    "search OBJECT QUERY... [--top-k N] | "
    "read OBJECT POINTER [--bytes N] | info OBJECT [--verify]"
)
TAKES = ("an action", 0, sys.maxsize)
EXAMPLES = (
    "rlm-ci context build build.log",
    "rlm-ci context search build.log.context timeout",
)
FORMS = ("text", "json")
EXITS = {errors.OK: "done; also if nothing is found", errors.DAMAGED: "the object is damaged"}


#: Bytes of a file before a hit in which lines are counted.
_COUNTED = 32 << 20


def _flag(key: str, help_text: str, flag: str, **more: Any) -> Setting:
    return Setting(key, help_text, flag=flag, file=False, own_env=False, **more)


#: The options of each of its actions.
_ROWS: dict[str, tuple[Setting, ...]] = {
    "build": (
        _flag("out", "folder of the object (default: SOURCE.context in this folder)", "--out",
             metavar="DIR"),
        _flag("link", "use a hard link instead of a copy if possible; a later change to the "
             "file damages the object", "--link", default=False,
             kind="boolean"),
        *(row for row in SYMBOLIC if row.key == "context.encoding"),
    ),
    "search": (
        _flag("top_k", "maximum hits of a query (default: 20, or RLM_SEARCH_TOP_K)", "--top-k",
             metavar="N", kind="integer", minimum=1),
    ),
    "read": (
        _flag("bytes", "maximum bytes to read (default: 8192, or RLM_MAX_BYTES_PER_CHUNK_READ)",
             "--bytes", metavar="N", kind="integer", minimum=1),
    ),
    "info": (
        _flag("verify", "check all hashes", "--verify", default=False, kind="boolean"),
    ),
}  # fmt: skip
_OUT_DIR = tuple(row for row in LOOP if row.key == "out_dir")
_CELL = 14


def rows(argv: Sequence[str]) -> tuple[Setting, ...]:
    """The options of the action that ``argv`` begins with; without one, of all actions."""
    word = next((word for word in argv if word in _ROWS), None)
    settings = _ROWS[word] if word else tuple(row for group in _ROWS.values() for row in group)
    return (*settings, *COMMON)


def run(arguments: Arguments) -> int:
    words = (*arguments.positionals, *arguments.trailing_paths)
    action, operands = (words[0], words[1:]) if words else ("", ())
    if action not in _ROWS:
        what = f"context does not know {action[:80]!r}" if action else "context needs an action"
        raise UsageError(what, where="rlm-ci context", hint=f"rlm-ci context {USAGE}")
    carry_out, takes, fewest, limit = _ACTIONS[action]
    if not fewest <= len(operands) <= limit:
        raise UsageError(
            f"context {action} takes {takes}",
            where="rlm-ci context",
            hint=f"rlm-ci context {action} {takes}",
        )
    settings = Settings((*_ROWS[action], *COMMON, *CONTEXT, *_OUT_DIR), arguments.flags)
    output = output_of(settings).require_text_or_json("context")
    output.emit(carry_out(operands, settings))
    return errors.OK


# ── build ──


def _build(arguments: Sequence[str], settings: Settings) -> str:
    from rlm_ci.context.builder import build
    from rlm_ci.judge.judge import open_repository

    source = arguments[0]
    folder = settings.out or _default_folder(source)
    root = open_repository(settings).root
    with build.build(
        _standard_input() if source == "-" else source,
        folder,
        target_bytes=settings.context.target_bytes,
        overlap_bytes=settings.context.overlap_bytes,
        link=settings.link,
        root=root,
        without=[os.path.join(root, name) for name in (settings.runs_dir, settings.out_dir)],
        encoding=settings.context.encoding,
        environ=settings.environ,
    ) as context:
        if settings.format == "json":
            return neutralise.record({"object": encodable(folder), **_facts(context)})
        if not context.byte_length:
            say("warning: the source is empty")
        return "" if settings.quiet else f"{_text(context)}{printable(folder)}\n"


def _standard_input() -> BinaryIO:
    if sys.stdin is None:
        raise UsageError(
            "standard input is closed", where="rlm-ci context", hint="pipe a text into it"
        )
    return sys.stdin.buffer


def _default_folder(source: str) -> str:
    """``SOURCE.context`` in the current folder; for a pattern, named as the folder before it."""
    if source == "-":
        return "stdin.context"
    fixed = source.partition("*")[0].partition("?")[0]
    if fixed != source and not os.path.lexists(source):
        source = os.path.dirname(fixed) or "."
    return f"{os.path.basename(os.path.realpath(source)) or 'root'}.context"


# ── search ──


def _search(arguments: Sequence[str], settings: Settings) -> str:
    path, *queries = arguments
    if not all(query.strip() for query in queries):
        raise UsageError(
            "a query is empty", where="rlm-ci context", hint="say what to look for, in quotes"
        )
    with Context.open(path) as context:
        results = context.search(
            queries,
            top_k=settings.top_k or settings.symbolic.top_k,
            preview_bytes=settings.symbolic.preview_bytes,
        )
        if settings.format == "json":
            return neutralise.record(
                {
                    "queries": [
                        result.to_dict() | {"query": encodable(result.query)} for result in results
                    ]
                },
                depth=5,
            )
        return "\n".join(_hits(context, result) for result in results)


def _hits(context: Context, result: QueryResult) -> str:
    name = printable(result.query)
    if not result.total_hits:
        return f"{name}: no hits\n"
    lines = [
        f"{name}: {count(result.total_hits, 'hit')} in {count(result.chunks_matched, 'chunk')}"
    ]
    for hit in result.hits:
        whereabouts = _whereabouts(context, hit)
        lines.append(
            f"{hit.score:>7,}  {hit.pointer}  bytes {hit.start_byte}-{hit.end_byte}{whereabouts}"
        )
        before = len(context.raw(hit.preview_start, hit.start_byte).decode("utf-8", "replace"))
        line = _line_of(hit.preview, before)
        lines.append(f"         {neutralise.clip(printable(line.strip()), 160)}")
    return "".join(f"{neutralise.log(line)}\n" for line in lines)


def _whereabouts(context: Context, hit: Hit) -> str:
    """The line of a file in which a hit begins; its byte, if counting lines would take long."""
    number = bisect_right(context.files.ends, hit.start_byte)
    if number == len(context.files):
        return ""
    piece = context.files[number]
    before = hit.start_byte - piece.start
    if before > _COUNTED:
        return f"  {printable(piece.path)}, byte {before:,}"
    places = context.lines(hit.start_byte, hit.end_byte)
    return f"  {_line_range(places[0])}" if places else ""


def _line_of(text: str, at: int) -> str:
    return text[text.rfind("\n", 0, at) + 1 :].partition("\n")[0]


def _line_range(file_lines: FileLines) -> str:
    lines = str(file_lines.line_start)
    if file_lines.line_end != file_lines.line_start:
        lines += f"-{file_lines.line_end}"
    return f"{printable(file_lines.path)}:{lines}"


# ── read, info ──


def _read(arguments: Sequence[str], settings: Settings) -> str:
    path, pointer = arguments
    with Context.open(path) as context:
        try:
            pointer = in_full(pointer, context.object_id)
            excerpt = context.read(pointer, settings.bytes or settings.symbolic.read_bytes)
        except PointerError as error:
            raise ConfigError(
                str(error), where="POINTER", hint=f"see rlm-ci context info {printable(path)}"
            ) from None
        places = context.lines(excerpt.start, excerpt.end)
    if settings.format == "json":
        record = {
            "pointer": pointer,
            "start_byte": excerpt.start,
            "end_byte": excerpt.end,
            "truncated": excerpt.truncated,
            "text": excerpt.text,
            "places": [lines.to_dict() | {"path": encodable(lines.path)} for lines in places],
        }
        return neutralise.record(record)
    if not settings.quiet:
        facts = [f"bytes {excerpt.start}-{excerpt.end}", *map(_line_range, places[:4])]
        if len(places) > 4:
            facts.append(f"and {count(len(places) - 4, 'more file')}")
        say(f"{', '.join(facts)}{'; there is more' if excerpt.truncated else ''}")
    return neutralise.document(_visible(excerpt.text))


def _visible(text: str) -> str:
    """``text`` line by line, with control characters written out."""
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    shown = "\n".join("\t".join(map(printable, line.split("\t"))) for line in lines)
    return shown if shown.endswith("\n") or not shown else f"{shown}\n"


def _info(arguments: Sequence[str], settings: Settings) -> str:
    with Context.open(arguments[0]) as context:
        if settings.verify:
            context.verify()
        else:
            context.full_index()
        if settings.format == "json":
            return neutralise.record({**_facts(context), "verified": bool(settings.verify)})
        verified = _row("verified", "all hashes match") if settings.verify else ""
        return f"{_text(context)}{verified}"


def _facts(context: Context) -> dict[str, Any]:
    names = ("object_id", "created_at", "byte_length", "chunk_count", "target_bytes",
             "overlap_bytes")  # fmt: skip
    facts = {name: getattr(context, name) for name in names}
    numbers = {"omitted": context.omitted, "decoded": context.decoded}
    return {**facts, "files": len(context.files), **numbers}


def _text(context: Context) -> str:
    size = count(context.byte_length, "byte")
    cut = f", of {context.target_bytes:,} bytes, each {context.overlap_bytes:,} into the one before"
    rows_of = [
        ("object", context.object_id),
        ("made", printable(context.created_at)),
        ("source", size),
        ("chunks", f"{context.chunk_count:,}{cut}"),
    ]
    if context.files:
        rows_of.append(("files", f"{len(context.files):,}"))
    rows_of += [(name, text) for name, _, text in (note.partition(": ") for note in context.notes)]
    if context.chunk_count:
        rows_of.append(("first chunk", context.pointer(0)))
    return "".join(_row(*row) for row in rows_of)


def _row(name: str, text: str) -> str:
    return f"{name:<{_CELL}}{text}\n"


#: Each action, its words, and their minimum and maximum.
_ACTIONS = {
    "build": (_build, "SOURCE", 1, 1),
    "search": (_search, "OBJECT QUERY...", 2, sys.maxsize),
    "read": (_read, "OBJECT POINTER", 2, 2),
    "info": (_info, "OBJECT", 1, 1),
}
