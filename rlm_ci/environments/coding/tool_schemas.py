"""The schemas of the built-in agent's tools, for the model."""

from __future__ import annotations

from rlm_ci.environments.tool_calls import function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

_STRING = {"type": "string"}
_PATH = {"type": "string", "description": "relative to the root of the repository"}
_NAME = {"type": "string", "description": "name, Class.method or module.name"}
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
            "lines": {"type": "integer", "minimum": 1, "description": "default 400"},
        },
        1,
    ),
    "search": (
        "Find lines that contain a text, in all files or in some.",
        {
            "text": {"type": "string", "description": "taken literally, unless regex is true"},
            "path": {"type": "string", "description": "file or folder; default: everything"},
            "glob": _GLOB,
            "ignore_case": {"type": "boolean"},
            "regex": {"type": "boolean", "description": "text is a regular expression of Python"},
            "context": {
                "type": "integer",
                "minimum": 0,
                "maximum": 10,
                "description": "lines to show around each hit; default 0",
            },
        },
        1,
    ),
    "list": (
        "List files with their sizes.",
        {"path": {"type": "string", "description": "folder; default: everything"}, "glob": _GLOB},
        0,
    ),
    "outline": ("List the definitions of a file with their lines.", {"path": _PATH}, 1),
    "definition": (
        "Show where a function, class, method or constant is defined, in the whole repository.",
        {"name": _NAME},
        1,
    ),
    "references": (
        "List the calls, other uses and imports of a name, by syntax: not in texts or comments.",
        {"name": _NAME},
        1,
    ),
    "history": (
        "Show the commits that changed some lines of a file, numbered as at the start.",
        {
            "path": _PATH,
            "start": {"type": "integer", "minimum": 1},
            "end": {"type": "integer", "minimum": 1, "description": "default: start"},
        },
        2,
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
    "diff": ("Show what differs from the start, your own edits included.", {}, 0),
    "restore": ("Put a file or a folder back as it was at the start.", {"path": _PATH}, 1),
    "run": (
        "Run one line of shell (sh) at the root of the repository: no network, limited time.",
        {"command": _STRING},
        1,
    ),
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
        "End your work: the goal is reached, or you cannot get closer.",
        {"summary": {"type": "string", "description": "what you changed and why; what is left"}},
        1,
    ),
    "blocked": (
        "Give up: no edit of this repository can reach the goal.",
        {
            "reason": {
                "type": "string",
                "description": "what stands in the way, and what a person must do",
            }
        },
        1,
    ),
}


def schema(name: str) -> dict[str, Any]:
    """A tool as OpenAI describes a function."""
    return function(name, *_TOOLS[name])
