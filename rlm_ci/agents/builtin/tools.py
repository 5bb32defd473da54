"""Tools to work on code: read, search, list, edit, write, delete, run the tests, done.

An answer follows from the files and the arguments alone, so that a resumed run sees the same. It is
quoted in a fence that it cannot close, with what cannot be seen written out, and clipped.
"""

from __future__ import annotations

from functools import partial

from rlm_ci.agents.agent import SUMMARY_LIMIT
from rlm_ci.agents.builtin import replace_text
from rlm_ci.agents.builtin.quoting import OUTPUT_LIMIT, quoted, visible
from rlm_ci.agents.builtin.turn_loop import Observation
from rlm_ci.system.safe_tree import FILE_LIMIT, Missing, Refused, SafeTree, checked, matches
from rlm_ci.text.printable import clip, count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

#: Lines that are read when nothing is said, hits and paths that are listed.
READ_LINES = 400
HITS = 100
PATHS = 500
#: Bytes that one search reads.
SEARCH_LIMIT = 64 << 20
_TESTS = 50


class CodeTools:
    """An environment whose world is the files below ``root``.

    ``tests`` runs the validator, for the tests named in its argument or for all, by words for an
    argv, never for a shell. Without it there is no ``run_tests``; ``read_only`` takes all edits
    away.
    """

    def __init__(
        self,
        root: str,
        *,
        tests: Callable[[tuple[str, ...]], str] | None = None,
        read_only: bool = False,
    ) -> None:
        self._tree = SafeTree(root)
        named: dict[str, Callable[[Mapping[str, Any]], str]] = {
            "read": self._read,
            "search": self._search,
            "list": self._list,
        }
        if not read_only:
            named |= {"edit": self._edit, "write": self._write, "delete": self._delete}
            if tests is not None:
                named["run_tests"] = partial(_run_tests, tests)
        self._tools = named

    def tools(self) -> tuple[dict[str, Any], ...]:
        """The tools as OpenAI describes functions."""
        return tuple(_function(name, *_TOOLS[name]) for name in (*self._tools, "done"))

    def act(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Carry out one call; a refusal is an observation too. Raises StorageError."""
        if name == "done":
            summary = arguments["summary"].strip()
            return Observation(clip(summary, SUMMARY_LIMIT), final=True)
        try:
            return Observation(self._tools[name](arguments))
        except Refused as error:
            return Observation(f"Refused: {error}")

    def _read(self, arguments: Mapping[str, Any]) -> str:
        path = checked(arguments["path"])
        lines = replace_text.lines(_text(path, self._tree.read(path)))
        first = arguments.get("start", 1)
        wanted = lines[first - 1 : first - 1 + arguments.get("lines", READ_LINES)]
        if not wanted:
            return f"{path} has {count(len(lines), 'line')}; there is no line {first}."
        shown: list[str] = []
        room = OUTPUT_LIMIT
        for number, line in enumerate(wanted, first):
            text = f"{number}\t{visible(line)}"
            room -= len(text) + 1
            if room < 0:
                break
            shown.append(text)
        last = first + len(shown) - 1
        return quoted(f"{path}, lines {first}-{last} of {len(lines)}", "\n".join(shown))

    def _list(self, arguments: Mapping[str, Any]) -> str:
        folder = arguments.get("path", "")
        glob = arguments.get("glob", "")
        found = [
            f"{size:>9,}  {printable(path)}"
            for path, size in self._tree.paths(folder)
            if not glob or matches(glob, path)
        ]
        head = f"{count(len(found), 'file')} with their bytes"
        if len(found) > PATHS:
            head += f"; the first {PATHS}: name a folder or a glob for others"
        return quoted(head, clip("\n".join(found[:PATHS]), OUTPUT_LIMIT))

    def _search(self, arguments: Mapping[str, Any]) -> str:
        wanted, glob = arguments["text"], arguments.get("glob", "")
        if not wanted or "\n" in wanted:
            raise Refused("text is one line or a part of one, taken literally")
        fold = arguments.get("ignore_case", False)
        needle = wanted.casefold() if fold else wanted
        hits: list[str] = []
        found = files_hit = 0
        room = SEARCH_LIMIT
        for path, size in self._tree.paths(arguments.get("path", "")):
            if size > FILE_LIMIT or (glob and not matches(glob, path)):
                continue
            room -= size
            if room < 0:
                raise Refused(f"more than {SEARCH_LIMIT:,} bytes to search: name a path or a glob")
            here = self._hits(path, needle, fold=fold)
            files_hit += bool(here)
            found += len(here)
            hits += here[: max(0, HITS - len(hits))]
        head = f"{count(found, 'line')} in {count(files_hit, 'file')}"
        if found > len(hits):
            head += f"; the first {len(hits)}"
        return quoted(head, clip("\n".join(hits), OUTPUT_LIMIT))

    def _hits(self, path: str, needle: str, *, fold: bool) -> list[str]:
        try:
            text = _text(path, self._tree.read(path))
        except Refused:  # binary, or its name could not be given to any tool
            return []
        if needle not in (text.casefold() if fold else text):
            return []
        return [
            f"{path}:{number}: {visible(line)}"
            for number, line in enumerate(replace_text.lines(text), 1)
            if needle in (line.casefold() if fold else line)
        ]

    def _edit(self, arguments: Mapping[str, Any]) -> str:
        path = checked(arguments["path"])
        before = _text(path, self._tree.read(path))
        after, places = replace_text.replace(
            path, before, arguments["old"], arguments["new"], arguments.get("count", 1)
        )
        self._tree.write(path, _bytes(after))
        return f"Edited {path} at line {', '.join(map(str, places))}."

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
        told = count(len(replace_text.lines(content)), "line")
        return f"{'Made' if is_new else 'Replaced'} {path}: {told}."

    def _delete(self, arguments: Mapping[str, Any]) -> str:
        path = checked(arguments["path"])
        self._tree.delete(path)
        return f"Deleted {path}."


def _run_tests(tests: Callable[[tuple[str, ...]], str], arguments: Mapping[str, Any]) -> str:
    return quoted("The validator", clip(tests(_named(arguments.get("tests", []))), OUTPUT_LIMIT))


def _named(tests: Sequence[str]) -> tuple[str, ...]:
    """Tests by path or node id, none of which can be an option or lead outside."""
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


_STRING = {"type": "string"}
_PATH = {"type": "string", "description": "relative to the root of the repository"}
_GLOB = {
    "type": "string",
    "description": "only files that fit, such as *.py or src/**/test_*.py",
}
#: name: what it does, arguments, how many of them (from the first) must be there.
_TOOLS: Mapping[str, tuple[str, Mapping[str, Any], int]] = {
    "read": (
        "Read lines of a text file. Line numbers and the tab behind them are not in the file.",
        {
            "path": _PATH,
            "start": {"type": "integer", "minimum": 1, "description": "first line; default 1"},
            "lines": {"type": "integer", "minimum": 1, "description": f"default {READ_LINES}"},
        },
        1,
    ),
    "search": (
        "Find a literal text in the lines of all files.",
        {
            "text": {"type": "string", "description": "taken literally; no regular expression"},
            "path": {"type": "string", "description": "folder to search; default: everything"},
            "glob": _GLOB,
            "ignore_case": {"type": "boolean"},
        },
        1,
    ),
    "list": (
        "List files with their sizes.",
        {"path": {"type": "string", "description": "folder; default: everything"}, "glob": _GLOB},
        0,
    ),
    "edit": (
        "Replace a text. It must be in the file exactly as given, and as often as count says.",
        {
            "path": _PATH,
            "old": {"type": "string", "description": "whole lines are safest"},
            "new": _STRING,
            "count": {"type": "integer", "minimum": 1, "description": "default 1"},
        },
        3,
    ),
    "write": (
        "Make a file, with its folders, or replace the whole of it.",
        {"path": _PATH, "content": _STRING},
        2,
    ),
    "delete": ("Delete a file.", {"path": _PATH}, 1),
    "run_tests": (
        "Run the validator, for all tests or for those named.",
        {
            "tests": {
                "type": "array",
                "items": _STRING,
                "description": "paths or ids such as tests/test_a.py::test_one",
            }
        },
        0,
    ),
    "done": (
        "End your work. Call it when there is nothing more to do, or nothing that you can do.",
        {"summary": {"type": "string", "description": "what you did, and what is left"}},
        1,
    ),
}


def _function(
    name: str, description: str, properties: Mapping[str, Any], required: int
) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": properties,
                "required": list(properties)[:required],
                "additionalProperties": False,
            },
        },
    }
