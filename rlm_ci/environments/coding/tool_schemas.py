"""The schemas of the built-in agent's tools, for the model."""

from __future__ import annotations

from rlm_ci.environments.tool_calls import function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

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
