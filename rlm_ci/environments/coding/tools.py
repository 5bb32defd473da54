"""Tools to work on code, with their schemas: read, search, edit, run commands and tests, end.

The answer of a tool follows from the files and the arguments alone, or is a fact of the run's
record, so a resumed run sees the same. Text of files and commands is quoted in a fence that it
cannot close, with invisible characters written out, and clipped with a count of what is missing.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from rlm_ci.environments.coding import code_queries, replace_text
from rlm_ci.environments.quoting import OUTPUT_LIMIT, SUMMARY_LIMIT, numbered, quoted, visible
from rlm_ci.environments.tool_calls import function
from rlm_ci.environments.turn_loop import Observation
from rlm_ci.system import files
from rlm_ci.system.safe_tree import FILE_LIMIT, Missing, Refused, SafeTree, checked, matches
from rlm_ci.text.patterns import LinePattern, PatternError
from rlm_ci.text.printable import clip, count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.source.uses.references import ReferenceIndex


#: Hits that are listed.
HITS = 100


def literal(text: str, *, fold: bool) -> Callable[[str], bool]:
    """Whether a text contains ``text``."""
    needle = text.casefold() if fold else text
    return lambda line: needle in (line.casefold() if fold else line)


def expression(text: str, *, fold: bool) -> Callable[[str], bool]:
    """Whether a line matches the regular expression ``text``. Raises Refused for a wrong one."""
    try:
        pattern = LinePattern(text, fold=fold)
    except PatternError as error:
        raise Refused(str(error)) from None

    def is_hit(line: str) -> bool:
        try:
            return pattern.is_in(line)
        except PatternError as error:
            raise Refused(str(error)) from None

    return is_hit


def search(
    texts: Iterable[tuple[str, str]], pattern: str, *, regex: bool, fold: bool, around: int
) -> str:
    """The lines of ``texts`` (by path) that contain ``pattern``, with ``around`` lines at each.

    Raises Refused for a text that no line can contain, and for a wrong or slow expression.
    """
    if not pattern or "\n" in pattern:
        raise Refused("text is one line or a part of one")
    matches = (expression if regex else literal)(pattern, fold=fold)
    shown: list[str] = []
    number = files = 0
    for path, text in texts:
        if not regex and not matches(text):
            continue
        lines = replace_text.lines(text)
        hits = [at for at, line in enumerate(lines) if matches(line)]
        files += bool(hits)
        shown += _shown(path, lines, hits[: max(0, HITS - number)], around)
        number += len(hits)
    head = f"{count(number, 'line')} in {count(files, 'file')}"
    if number > HITS:
        head += f"; the first {HITS}"
    return quoted(head, clip("\n".join(shown), OUTPUT_LIMIT))


def _shown(path: str, lines: Sequence[str], hits: Sequence[int], around: int) -> Iterator[str]:
    """The hits as ``path:number: line``, lines around them as ``path-number- line``."""
    numbers, last = frozenset(hits), -1
    for hit in hits:
        first = max(last + 1, hit - around)
        if around and 0 <= last < first - 1:
            yield "--"
        last = max(last, min(len(lines) - 1, hit + around))
        for at in range(first, last + 1):
            mark = ":" if at in numbers else "-"
            yield f"{path}{mark}{at + 1}{mark} {visible(lines[at])}"


_STRING = {"type": "string"}
_NUMBER = {"type": "integer"}
_FLAG = {"type": "boolean"}
_NAME = {"type": "string", "description": "name, Class.method or module.name"}
#: name: what it does, arguments, how many of them (from the first) must be there. All of it is in
#: every request: what a name says needs no description.
_TOOLS: Mapping[str, tuple[str, Mapping[str, Any], int]] = {
    "read": (
        "Read lines of a text file, 400 by default. The numbers before them are not in the file.",
        {"path": _STRING, "start": _NUMBER, "lines": _NUMBER},
        1,
    ),
    "search": (
        "Find lines with a text; context: lines around each hit.",
        {
            "text": _STRING,
            "path": {"type": "string", "description": "file or folder"},
            "glob": _STRING,
            "ignore_case": _FLAG,
            "regex": _FLAG,
            "context": _NUMBER,
        },
        1,
    ),
    "list": ("List files below a folder with their sizes.", {"path": _STRING, "glob": _STRING}, 0),
    "outline": ("List the definitions of a file.", {"path": _STRING}, 1),
    "definition": ("Show where something is defined.", {"name": _NAME}, 1),
    "references": ("List calls, other uses and imports, by syntax.", {"name": _NAME}, 1),
    "history": (
        "Show the commits that changed lines of a file, numbered as at the start.",
        {"path": _STRING, "start": _NUMBER, "end": _NUMBER},
        2,
    ),
    "edit": (
        "Replace a text that is in the file exactly count times, once by default.",
        {"path": _STRING, "old": _STRING, "new": _STRING, "count": _NUMBER},
        3,
    ),
    "write": ("Make or replace a whole file.", {"path": _STRING, "content": _STRING}, 2),
    "delete": ("Delete a file.", {"path": _STRING}, 1),
    "diff": ("Show what differs from the start.", {}, 0),
    "restore": ("Put a file or folder back as it was at the start.", {"path": _STRING}, 1),
    "run": ("Run one line of shell at the root.", {"command": _STRING}, 1),
    "run_tests": (
        "Run the validator, for all tests or those named.",
        {
            "tests": {
                "type": "array",
                "items": _STRING,
                "description": "paths or ids such as tests/test_a.py::test_one",
            }
        },
        0,
    ),
    "done": ("End your work.", {"summary": _STRING}, 1),
    "blocked": ("Give up: no edit can reach the goal.", {"reason": _STRING}, 1),
}


def schema(name: str) -> dict[str, Any]:
    """A tool as OpenAI describes a function."""
    return function(name, *_TOOLS[name])


#: Lines that are read by default, paths that are listed.
READ_LINES = 400
PATHS = 500
#: Bytes that one search reads.
SEARCH_LIMIT = 64 << 20
_TESTS = 50
_COMMAND = 8_000
#: Edited places that are shown, and lines around each.
_SHOWN_EDITS, _AROUND = 3, 2
#: Tools that a model can do without: each takes room in every request.
_MANY = ("outline", "definition", "references", "history", "diff", "restore")
#: Lines around a hit of a search, at most.
_AROUND_LIMIT = 10


class Services(Value):
    """What tools need of the run besides the files. There is no tool for a service of None.

    ``tests`` runs the validator, for the named tests or for all; ``run`` runs one line of shell;
    both return the output. ``diff`` shows what differs from the start of the run. ``restore`` puts
    a file or a folder back, and returns whether it had changed.
    ``history`` shows the commits that changed lines of a file. ``variables``: the names in the
    environment of commands.
    """

    tests: Callable[[tuple[str, ...]], str] | None = None
    run: Callable[[str], str] | None = None
    diff: Callable[[], str] | None = None
    restore: Callable[[str], bool] | None = None
    history: Callable[[str, tuple[int, int]], str] | None = None
    variables: tuple[str, ...] = ()


class CodeTools:
    """The tools for the files below ``root``.

    With ``read_only``, there is none that edits, and none that runs unless it ``may_run``.
    ``files`` are files outside that it can read, too: their names, and paths. ``room`` are the
    characters that a read shows; the tools are ``few`` for a model that reads little.
    """

    def __init__(
        self,
        root: str,
        services: Services | None = None,
        *,
        read_only: bool = False,
        may_run: bool = False,
        files: Mapping[str, str] = {},
        room: int = OUTPUT_LIMIT,
        few: bool = False,
    ) -> None:
        self._given = files
        self._room = min(room, OUTPUT_LIMIT)
        #: Kept where nothing can change the files.
        self._kept: ReferenceIndex | None = None
        self._is_fixed = read_only and not may_run
        self._tree = SafeTree(root)
        services = services or Services()
        tools: dict[str, Callable[[Mapping[str, Any]], str] | None] = {
            "read": self._read,
            "search": self._search,
            "list": self._list,
            "outline": self._outline,
            "definition": self._definition,
            "references": self._references,
            "history": services.history and partial(_history, services.history),
            "diff": services.diff and partial(_diff, services.diff),
        }
        if not read_only:
            tools |= {
                "edit": self._edit,
                "write": self._write,
                "delete": self._delete,
                "restore": services.restore and partial(_restore, services.restore),
            }
        if may_run or not read_only:
            tools |= {
                "run": services.run and partial(_run, services.run),
                "run_tests": services.tests and partial(_run_tests, services.tests),
            }
        left_out = _MANY if few else ()
        self._tools = {
            name: tool for name, tool in tools.items() if tool is not None and name not in left_out
        }
        self._ends = ("done",) if read_only else ("done", "blocked")

    def tools(self) -> tuple[dict[str, Any], ...]:
        """The tools as OpenAI describes functions."""
        return tuple(map(schema, (*self._tools, *self._ends)))

    def act(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Carry out one call; a refusal is an observation too. Raises StorageError."""
        try:
            return self.carry_out(name, arguments)
        except Refused as error:
            return Observation(f"Refused: {error}")

    def carry_out(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """The same; raises Refused."""
        if name in self._ends:
            [text] = arguments.values()
            summary = clip(text.strip(), SUMMARY_LIMIT)
            return Observation(summary, final=True, blocked=name == "blocked")
        return Observation(self._tools[name](arguments))

    def _read(self, arguments: Mapping[str, Any]) -> str:
        path = checked(arguments["path"])
        data = self._handed(path) if path in self._given else self._tree.read(path)
        lines = replace_text.lines(_text(path, data))
        first, number = arguments.get("start", 1), arguments.get("lines", READ_LINES)
        return numbered(path, lines, max(1, first), max(1, number), self._room)

    def _handed(self, path: str) -> bytes:
        try:
            return files.read(self._given[path], FILE_LIMIT)
        except files.UnreadableError as error:
            raise Refused(f"{path} cannot be read: {error}") from None

    def _list(self, arguments: Mapping[str, Any]) -> str:
        folder = arguments.get("path", "")
        glob = arguments.get("glob", "")
        rows = [
            f"{size:>9,}  {printable(path)}"
            for path, size in self._tree.paths(folder)
            if not glob or matches(glob, path)
        ]
        head = f"{count(len(rows), 'file')} with their bytes"
        if len(rows) > PATHS:
            head += f"; the first {PATHS}: name a folder or a glob for others"
        return quoted(head, clip("\n".join(rows[:PATHS]), OUTPUT_LIMIT))

    def _search(self, arguments: Mapping[str, Any]) -> str:
        paths = self._files(arguments.get("path", ""), arguments.get("glob", ""))
        return search(
            ((path, self._searched(path)) for path in paths),
            arguments["text"],
            regex=arguments.get("regex", False),
            fold=arguments.get("ignore_case", False),
            around=min(max(0, arguments.get("context", 0)), _AROUND_LIMIT),
        )

    def _outline(self, arguments: Mapping[str, Any]) -> str:
        path = checked(arguments["path"])
        return code_queries.outlined(path, self._tree.read(path))

    def _definition(self, arguments: Mapping[str, Any]) -> str:
        return code_queries.definition(self._index(), self._searched, arguments["name"])

    def _references(self, arguments: Mapping[str, Any]) -> str:
        return code_queries.references(self._index(), arguments["name"])

    def _index(self) -> ReferenceIndex:
        from rlm_ci.source.uses.references import ReferenceIndex

        if self._kept is None or not self._is_fixed:
            self._kept = ReferenceIndex(self._files("", ""), self._content)
        return self._kept

    def _content(self, path: str) -> bytes | None:
        with suppress(Refused):
            return self._tree.read(path)
        return None

    def _files(self, path: str, glob: str) -> Iterator[str]:
        """The files at or below ``path``. Raises Refused beyond SEARCH_LIMIT bytes."""
        if self._is_file(path):
            yield checked(path)
            return
        room = SEARCH_LIMIT
        for name, size in self._tree.paths(path):
            if size > FILE_LIMIT or (glob and not matches(glob, name)):
                continue
            room -= size
            if room < 0:
                raise Refused(f"more than {SEARCH_LIMIT:,} bytes to search: name a path or a glob")
            yield name

    def _is_file(self, path: str) -> bool:
        with suppress(Refused):
            self._tree.read(checked(path))
            return True
        return False

    def _searched(self, path: str) -> str:
        """The text of a file; "" for a binary one, or a name that tools refuse."""
        with suppress(Refused):
            return _text(path, self._tree.read(path))
        return ""

    def _edit(self, arguments: Mapping[str, Any]) -> str:
        path = checked(arguments["path"])
        before = _text(path, self._tree.read(path))
        after, places = replace_text.replace(
            path, before, arguments["old"], arguments["new"], arguments.get("count", 1)
        )
        self._tree.write(path, _bytes(after))
        report = f"Edited {path} at line {', '.join(map(str, places))}."
        lines, length = replace_text.lines(after), len(replace_text.lines(arguments["new"]))
        grown = length - len(replace_text.lines(arguments["old"]))
        for index, line in enumerate(places[:_SHOWN_EDITS]):
            first = max(1, line + index * grown - _AROUND)
            report += "\n" + numbered(path, lines, first, length + 2 * _AROUND)
        return report

    def _write(self, arguments: Mapping[str, Any]) -> str:
        path = checked(arguments["path"])
        content: str = arguments["content"]
        try:
            before = _text(path, self._tree.read(path))
        except Missing:
            pass
        else:
            content = replace_text.like(before, content)
        is_new = self._tree.write(path, _bytes(content))
        size = count(len(replace_text.lines(content)), "line")
        return f"{'Made' if is_new else 'Replaced'} {path}: {size}."

    def _delete(self, arguments: Mapping[str, Any]) -> str:
        path = checked(arguments["path"])
        self._tree.delete(path)
        return f"Deleted {path}."


def _run(run: Callable[[str], str], arguments: Mapping[str, Any]) -> str:
    command: str = arguments["command"]
    if not command.strip() or "\0" in command or len(command) > _COMMAND:
        raise Refused(f"a command has 1 to {_COMMAND:,} characters, none of them NUL")
    return clip(run(command), OUTPUT_LIMIT)


def _diff(diff: Callable[[], str], _arguments: Mapping[str, Any]) -> str:
    return quoted("What differs from the start", clip(diff(), OUTPUT_LIMIT))


def _history(history: Callable[[str, tuple[int, int]], str], arguments: Mapping[str, Any]) -> str:
    path, first = checked(arguments["path"]), max(1, arguments["start"])
    return clip(history(path, (first, max(first, arguments.get("end", first)))), OUTPUT_LIMIT)


def _restore(restore: Callable[[str], bool], arguments: Mapping[str, Any]) -> str:
    path = checked(arguments["path"].rstrip("/"))
    return f"{path} is as it was." if restore(path) else f"Nothing has changed at {path}."


def _run_tests(tests: Callable[[tuple[str, ...]], str], arguments: Mapping[str, Any]) -> str:
    return quoted(
        "The validator", clip(tests(named_tests(arguments.get("tests", []))), OUTPUT_LIMIT)
    )


def named_tests(tests: Sequence[str]) -> tuple[str, ...]:
    """Tests by path or node id; none can be an option or lead outside."""
    if len(tests) > _TESTS:
        raise Refused(f"name at most {_TESTS} tests")
    for test in tests:
        if test.startswith("-"):
            raise Refused(f"'{printable(test[:100])}': the name of a test does not begin with '-'")
        path, _, node = test.partition("::")
        checked(path)
        if printable(node) != node or len(node) > 500:
            raise Refused("the name of a test is one line of at most 500 characters")
    return tuple(tests)


def _text(path: str, data: bytes) -> str:
    """A text whose odd bytes survive being written back. Raises Refused for a binary file."""
    if b"\0" in data:
        raise Refused(f"{path} is a binary file of {len(data):,} bytes")
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
