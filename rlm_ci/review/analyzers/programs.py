"""Analyzers as programs: built-in ruff, those that the settings name, and where they are."""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache

from rlm_ci.config.settings import environment as ours
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.review.analyzers import ruff
from rlm_ci.system import installation, process
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


#: The variables that an analyzer gets.
_KEPT = ("PATH", "PATHEXT", "HOME", "LANG", "LC_ALL", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP")


class Analyzer(Value):
    """An analyzer as the options have it. Only the built-in ruff has ``rules``.

    Others run in the ``sandbox`` of this name. ``settings`` are pairs of path and text of files
    beside what they look at. ``results`` are those of one that has run already: by a mark of each
    file, or why it failed on it.
    """

    name: str
    command: tuple[str, ...]
    files: tuple[str, ...]
    domain: str
    max_severity: str
    version: str = ""
    rules: tuple[str, ...] = ()
    network: bool = False
    sandbox: str = "auto"
    format: str = "sarif"
    settings: tuple[tuple[str, str], ...] = ()
    results: Mapping[str, Sequence[Sequence[Any]] | str] | None = None


def search_path() -> str:
    """PATH, and the folder of our interpreter."""
    folders = ours().get("PATH", "").split(os.pathsep)
    absolute = [folder for folder in folders if os.path.isabs(folder)]
    python_folder = os.path.dirname(os.path.abspath(sys.executable))
    return os.pathsep.join([*absolute, python_folder])


def locate(program: str) -> str | None:
    """The file of a program, or None."""
    from shutil import which

    return which(program, path=search_path())


def builtin(extend: Sequence[str] = ()) -> Analyzer | None:
    """The installed ruff with the default rules that it knows, and those that ``extend`` names.

    Raises ValueError with a selector that names no rule.
    """
    program = locate(ruff.NAME)
    return None if program is None else _installed(program, tuple(extend))


@lru_cache(maxsize=4)
def _installed(program: str, extend: tuple[str, ...]) -> Analyzer | None:
    result = process.run((program, "--version"), env=environment(), timeout=60)
    version = result.stdout.decode("utf-8", "replace").split()[-1:] or ["?"]
    listed = process.run(
        (program, "rule", "--all", "--output-format", "json"), env=environment(), timeout=60
    )
    codes = set(re.findall(r'"code": ?"([A-Z]+[0-9]+)"', listed.stdout.decode("utf-8", "replace")))
    rules = tuple(rule for rule in ruff.rules() if rule in codes)
    if not rules:
        return None
    rules = tuple(sorted({*rules, *ruff.selected_rules(extend, codes)}))
    return Analyzer(
        ruff.NAME, (), ruff.FILES, "quality", "critical", printable(version[0][:40]), rules
    )


def environment() -> dict[str, str]:
    """The environment of ruff."""
    variables = ours()
    chosen = {name: variables[name] for name in _KEPT if name in variables}
    return {**chosen, "NO_COLOR": "1", "PYTHONSAFEPATH": "1"}


def configured_ruff(ruff: str, extend: Sequence[str]) -> Analyzer | None:
    """The built-in ruff, with the rules of ``extend``. Raises ConfigError, UnavailableError."""
    try:
        analyzer = builtin(extend)
    except ValueError as error:
        raise ConfigError(
            f"no rule of the ruff that is installed is called {str(error)[:80]!r}",
            where="review.ruff.extend",
            hint="write codes as ruff does: D103, or D for all that begin with it",
        ) from None
    if analyzer is None and ruff == "on":
        raise UnavailableError(
            "ruff is not installed",
            where="review.ruff",
            hint=f'{installation.command("review")}; or let it be: review.ruff = "auto"',
        )
    return analyzer


def configured(row: Mapping[str, Any], number: int, sandbox: str) -> Analyzer:
    """The analyzer of a row of the settings. Raises ConfigError for one that cannot work."""
    where = f"[[review.analyzers]] number {number}"
    name, command = row["name"], tuple(row.get("command") or ())
    plain = name.replace("-", "").replace("_", "")
    if not (plain.isascii() and plain.isalnum() and name == name.casefold() and len(name) <= 40):
        raise ConfigError(
            f"an analyzer cannot be called {name[:80]!r}",
            where=where,
            hint="use small letters, digits and hyphens",
        )
    if not command or not all(isinstance(word, str) and word for word in command):
        raise ConfigError(
            f"the analyzer {name} has no command",
            where=where,
            hint='say what to run: command = ["tool", "--format", "sarif", "{files}"]',
        )
    if not any(word == "{files}" or "{folder}" in word for word in command):
        raise ConfigError(
            f"the command of the analyzer {name} names no files",
            where=where,
            hint="put {files}, as a word of its own, or {folder} where it takes them",
        )
    return Analyzer(
        name,
        command,
        tuple(row.get("files") or ()),
        row.get("domain") or "quality",
        row.get("max_severity") or "high",
        network=bool(row.get("network")),
        sandbox=sandbox,
    )
