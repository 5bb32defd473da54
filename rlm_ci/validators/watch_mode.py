"""Validators that wait for changes of files and never end, by their words alone.

Scripts of package.json, targets of a Makefile and shell scripts are followed.
"""

from __future__ import annotations

import os
import re
import shlex
from itertools import islice, pairwise

from rlm_ci.text.printable import printable
from rlm_ci.validators.script_commands import MANAGERS, commands
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_MOST, _SHOWN = 400, 200
#: What starts another program, named behind its own words.
_LAUNCHERS = MANAGERS | frozenset(
    ("npx", "bunx", "node", "cross-env", "dotenv", "env", "nyc", "c8", "time", "timeout")
)
#: Runners and compilers that have such an option; ``-w`` is another one of some.
_RUNNERS = frozenset(
    (
        "jest", "vitest", "mocha", "ava", "tsc", "vue-tsc", "bun", "deno", "wtr", "karma", "ng",
        "web-test-runner", "react-scripts", "craco", "vue-cli-service", "tap", "uvu", "tsx",
    )
)  # fmt: skip
_SHORT = frozenset(("vitest", "mocha", "ava", "tsc", "vue-tsc"))
#: What watches unless it is told otherwise: a program, and its first word.
_ALWAYS = (
    ("nodemon", ""), ("ptw", ""), ("pytest-watch", ""), ("watchexec", ""), ("entr", ""),
    ("chokidar", ""), ("cargo", "watch"), ("dotnet", "watch"), ("tsx", "watch"),
    ("ng", "test"), ("karma", "start"),
)  # fmt: skip
#: The same, but where CI is set.
_UNLESS_CI = (("react-scripts", "test"), ("craco", "test"))
_ON = re.compile(r"--watch(?:-?[aA]ll)?(?:=true)?")
_OFF = re.compile(r"--no-watch|--watch(?:-?[aA]ll)?=false|--run|--single-?[rR]un(?:=true)?")
#: What a tool prints when it begins to wait.
WAITING = re.compile(
    rb"Watch Usage|[Ww]aiting for (?:file )?changes|[Ww]atching for (?:file )?changes"
    rb"|press h to show help|\[nodemon\] (?:watching|clean exit)"
)


class WatchedCommand(Value):
    """The command that watches, where it stands, and the one that runs once, "" if unknown.

    ``ends``: without a terminal it does not watch.
    """

    text: str
    location: str
    once: str
    ends: bool = False


def find(command: str, text: Callable[[str], str], *, is_ci: bool = False) -> WatchedCommand | None:
    """The first command that a validator runs, and that never ends; None if none is seen.

    ``text`` gives the text of a file of the repository, or "".
    """
    for script_command in islice(commands(command, text), _MOST):
        words, place = list(script_command.words), script_command.origin
        for at, word in enumerate(words):
            name, rest = os.path.basename(word), words[at + 1 :]
            is_program = not at or os.path.basename(words[0]) in _LAUNCHERS
            if not is_program or not _watches(name, rest, is_ci=is_ci):
                continue
            once = [one for one in rest if not _ON.fullmatch(one)]
            if name == "vitest":
                once = ["run", *(one for one in once if one not in ("watch", "dev", "-w"))]
            elif name in _SHORT:
                once = [one for one in once if one != "-w"]
            program = ["npx", name] if name in _RUNNERS and name != "bun" else [name]
            return WatchedCommand(
                printable(shlex.join(words))[:_SHOWN],
                place,
                printable(shlex.join((*program, *once))) if once != rest else "",
                ends=name == "vitest" and once[1:] == rest,
            )
    return None


def _watches(name: str, words: list[str], *, is_ci: bool) -> bool:
    """Whether a program with these words watches, where it has a terminal."""
    has_false = any(_ON.fullmatch(one) and after == "false" for one, after in pairwise(words))
    if has_false or any(map(_OFF.fullmatch, words)):
        return False
    first = next((one for one in words if not one.startswith("-")), "")
    if name == "node":  # behind its script, options are those of the script
        return "--watch" in (words[: words.index(first)] if first else words)
    if name == "vitest" and first not in ("run", "bench", "list", "related", "init"):
        return True
    always = (*_ALWAYS, *(() if is_ci else _UNLESS_CI))
    if any(name == program and word in ("", first) for program, word in always):
        return True
    is_on = any(map(_ON.fullmatch, words)) or (name in _SHORT and "-w" in words)
    return name in _RUNNERS and is_on
