"""The outcome of each test of a validator: from a plugin inside of pytest, else from its output.

For a run: make an empty folder, add ``environment(folder, root, base)`` to the job's variables and
``mounts(folder)`` to its mounts, and keep ``collect(folder)`` with the record of the run.
``read(printed, lines, root)`` turns these lines and the output into outcomes. If
``refused(output)``, the plugin could not be imported (a Makefile that sets PYTHONPATH, ``python
-I``) and nothing ran: run again with ``plugin=False``, and pytest prints each test in its summary.
"""

from __future__ import annotations

import json
import os
import posixpath
import re

from rlm_ci.sandbox import Mount
from rlm_ci.system import files
from rlm_ci.system.transcript import plain
from rlm_ci.text.printable import printable
from rlm_ci.validators import outcomes, parsers
from rlm_ci.validators.outcomes import TestOutcome, TestOutcomes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: The folder that the plugin lies in, alone.
PLUGIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "pytest_plugin")
_NAME = "rlm_ci_outcomes"
_VARIABLE = "RLM_CI_OUTCOMES"
#: Bounds of what is read back: files, bytes of one, lines of all, characters of one.
_FILES = 256
_SIZE = 32 << 20
_LINES = 60_000
_LINE = 20_000
_TEXT = 4_000
#: Texts in a row of each kind.
_LENGTHS = {"begun": 1, "test": 6, "held": 2, "conftest": 2, "full": 2}
#: It is not on the path, or this Python is too old to read it.
_REFUSED = re.compile(
    rf"^(?:E +|ERROR: )?(?:[\w.]*ImportError: )?Error importing plugin \"{_NAME}\": "
    rf"|^ *File \"[^\"\n]{{1,4096}}/{_NAME}\.py\", line \d",
    re.MULTILINE,
)


def environment(
    folder: str,
    root: str,
    base: Mapping[str, str],
    *,
    plugin: bool = True,
    short: bool = False,
    hide: bool = False,
) -> dict[str, str]:
    """Variables of a job that reports its outcomes, over ``base``, its own.

    ``folder`` is where the plugin writes, ``root`` the repository, both as the job sees them.
    ``short`` keeps tracebacks to a line, has hypothesis take the first example of a failure, and
    runs every test, despite ``-x`` or ``--lf``; ``hide`` removes the variables by which code can
    see that pytest runs it.
    """
    if not plugin:
        more = ["-rap", *(["--tb=line", "--maxfail=0"] if short else [])]
        return {"PYTEST_ADDOPTS": " ".join([base.get("PYTEST_ADDOPTS", ""), *more]).strip()}
    own = {"PYTHONPATH": (PLUGIN, os.pathsep), "PYTEST_PLUGINS": (_NAME, ",")}
    before = {name: base.get(name) for name in own}
    settings = {"folder": folder, "root": root, "short": short, "hide": hide, "before": before}
    variables = {_VARIABLE: json.dumps(settings)}
    for name, (value, parting) in own.items():
        old = before[name]
        variables[name] = value if old is None else f"{value}{parting}{old}"
    return variables


def mounts(folder: str) -> tuple[Mount, ...]:
    """What the job must see for it, each in its own place."""
    return Mount(PLUGIN, PLUGIN), Mount(folder, folder, writable=True)


def collect(folder: str) -> list[str]:
    """The lines that the plugin wrote into ``folder``. Never raises."""
    lines: dict[str, None] = {}
    for name in files.names_in(folder)[:_FILES]:
        try:
            data = files.read(os.path.join(folder, name), _SIZE)
        except files.UnreadableError:
            continue
        for line in data.decode("ascii", "replace").split("\n"):
            if line and len(line) <= _LINE and len(lines) < _LINES:
                lines[line] = None
    return list(lines)


def refused(output: str) -> bool:
    """Whether pytest says that it could not load the plugin."""
    return _REFUSED.search(plain(output)) is not None


def read(printed: Iterable[str], lines: Iterable[str], root: str) -> TestOutcomes:
    """The outcomes: from the plugin's ``lines``, and from what other runners printed.

    ``printed`` are the lines of a transcript, ``root`` is the repository as the job saw it.
    """
    rows = [row for line in lines if (row := _row(line))]
    test_outcomes = outcomes.merged(
        _outcome(*row[1:]) for row in rows if row[0] == "test" and row[4] in outcomes.STATES
    )
    if not rows:
        return parsers.outcomes(printed, root)
    others = parsers.outcomes(printed, root, without=("pytest",) if test_outcomes else ())
    held = {row[1] for row in rows if row[0] == "held"}
    conftests = {row[1] for row in rows if row[0] == "conftest"}
    is_full = any(row[0] == "full" and row[1] == "test" for row in rows)
    return TestOutcomes(
        tests=(*test_outcomes, *others.tests),
        complete=not is_full and others.complete,
        test_files=frozenset(filter(_is_path, held | conftests)),
    )


def _row(line: str) -> list[str]:
    """One line of the plugin; empty for anything else."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return []
    if not isinstance(row, list) or not row or not all(isinstance(one, str) for one in row):
        return []
    if len(row) != _LENGTHS.get(row[0]):
        return []
    return [one[:_TEXT].encode("utf-8", "replace").decode() for one in row]


def _outcome(path: str, name: str, case: str, state: str, message: str) -> TestOutcome:
    message = "\n".join(map(printable, message.split("\n")))
    return TestOutcome(path if _is_path(path) else "", name, state, case, message)


def _is_path(path: str) -> bool:
    """Whether a text is a normal relative path."""
    parts = path.split("/")
    return "\0" not in path and posixpath.normpath(path) == path and parts[0] not in ("", ".", "..")
