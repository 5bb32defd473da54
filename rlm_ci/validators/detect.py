"""Which command says that the work is done: what a repository's root tells, and what was asked for.

Only the root is looked at, and nothing of it is run here. Inside one ecosystem the first match wins
that can run (``candidates.py`` tries them); between two of them, or between two package managers of
Node, nobody guesses.
"""

from __future__ import annotations

import os
import shlex

from rlm_ci.errors import UsageError
from rlm_ci.system.command_line import Command
from rlm_ci.system.files import UnreadableError, read_inside
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    class Root(Protocol):
        """The top folder of a repository, as far as detection looks into it."""

        def has(self, name: str) -> bool:
            """Whether a file of that name is there."""

        def read(self, name: str) -> bytes:
            """Its content. Raises UnreadableError."""


AUTO = "auto"
NONE = "none"
#: Bytes of a package.json or a Makefile that are read; a larger one is named as unreadable.
LIMIT = 1 << 20
_ANSWERS = 3
_AMBIGUOUS = "more than one validator is possible"
#: What `npm init` writes where there are no tests: a statement that nothing can be run.
PLACEHOLDER = "no test specified"

_LOCKS = (
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("package-lock.json", "npm"),
    ("npm-shrinkwrap.json", "npm"),
    ("bun.lockb", "bun"),
    ("bun.lock", "bun"),
)
_MANAGERS = ("pnpm", "yarn", "npm", "bun")
#: First match wins. A uv.lock lies beside a pyproject.toml and says more; what builds whole
#: environments (tox, nox) comes last, because a sandbox without network rarely can.
_PYTHON = (
    ("uv.lock", ("uv", "run", "pytest")),
    ("pyproject.toml", ("python", "-m", "pytest")),
    ("pytest.ini", ("pytest",)),
    ("requirements.txt", ("pytest",)),
    ("tox.ini", ("tox",)),
    ("noxfile.py", ("nox",)),
)
#: What stands in for any of them where pytest is installed.
_PYTEST = (("python", "-m", "pytest"), ("python3", "-m", "pytest"))
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")  # as make itself looks for them


class ValidatorCandidate(Value):
    """A command that may be the validator, and the file that says so.

    ``others`` do the same where it cannot run.
    """

    ecosystem: str
    command: tuple[str, ...]
    reason: str
    others: tuple[tuple[str, ...], ...] = ()

    @property
    def text(self) -> str:
        """The command as one types it."""
        return shlex.join(self.command)


class Detection(Value):
    """All candidates of a root; ``notes`` say what was seen there and could not be used."""

    candidates: tuple[ValidatorCandidate, ...] = ()
    notes: tuple[str, ...] = ()


class Selection(Value):
    """The validator of a run, and why it is that one; no command for ``none``.

    ``others`` are tried in order where it cannot run.
    """

    command: Command | None
    reason: str
    others: tuple[str, ...] = ()


class NoValidatorError(UsageError):
    """None could be selected. The run's ``final.status`` is ``no_validator``."""

    def __init__(self, what: str, detection: Detection, hint: str) -> None:
        super().__init__(what, where="validator detection", hint=hint)
        self.detection = detection


class RootFolder:
    """A root on disk. Links are not followed, and only regular files are read."""

    def __init__(self, path: str) -> None:
        self._path = path

    def has(self, name: str) -> bool:
        """Whether there is something of that name that is not a folder."""
        place = os.path.join(self._path, name)
        return os.path.lexists(place) and not os.path.isdir(place)

    def read(self, name: str) -> bytes:
        """Raises UnreadableError."""
        return read_inside(self._path, name, LIMIT)


# -- what a root tells --------------------------------------------------------------------------


def detect(root: Root) -> Detection:
    """The candidates of ``root``, in the order node, python, go, rust; else a Makefile's."""
    notes: list[str] = []
    candidates = [*_node(root, notes), *_python(root)]
    if root.has("go.mod"):
        candidates.append(ValidatorCandidate("go", ("go", "test", "./..."), "go.mod"))
    if root.has("Cargo.toml"):
        candidates.append(ValidatorCandidate("rust", ("cargo", "test"), "Cargo.toml"))
    if not candidates:
        candidates = _make(root, notes)
    return Detection(tuple(candidates), tuple(notes))


def _python(root: Root) -> list[ValidatorCandidate]:
    found = [(name, command) for name, command in _PYTHON if root.has(name)]
    if not found:
        return []
    name, first = found[0]
    others = dict.fromkeys((*(command for _, command in found[1:]), *_PYTEST))
    others.pop(first, None)
    return [ValidatorCandidate("python", first, name, tuple(others))]


def _node(root: Root, notes: list[str]) -> list[ValidatorCandidate]:
    signs: dict[str, list[str]] = {}
    package, remark = _package(root)
    scripts = package.get("scripts")
    test = scripts.get("test") if isinstance(scripts, dict) else None
    manager = package.get("packageManager")
    if isinstance(manager, str):
        name = manager.partition("@")[0].strip()
        if name in _MANAGERS:
            signs[name] = ["packageManager of package.json"]
        else:
            notes.append(f"package.json: packageManager {printable(name[:40])!r} is not known")
    elif manager is not None:
        notes.append("package.json: packageManager is not a text")
    for lock, tool in _LOCKS:
        if root.has(lock):
            signs.setdefault(tool, []).append(lock)
    has_test = isinstance(test, str) and bool(test.strip())
    if isinstance(test, str) and PLACEHOLDER in test:
        # `bun test` is bun's own runner, which asks no script
        signs = {tool: why for tool, why in signs.items() if tool == "bun"}
        notes.append(f'package.json: the test script is the placeholder "{PLACEHOLDER}"')
    elif has_test and not signs:
        signs["npm"] = ["package.json has a test script"]
    elif package and not has_test:
        remark = "package.json has no test script"
    if remark and not signs:
        notes.append(remark)
    return [
        ValidatorCandidate("node", (tool, "test"), ", ".join((*why, remark) if remark else why))
        for tool, why in signs.items()
    ]


def _package(root: Root) -> tuple[dict[str, object], str]:
    """The package.json, or an empty one with the reason why it cannot be read."""
    import json

    if not root.has("package.json"):
        return {}, ""
    try:
        read = json.loads(root.read("package.json").decode("utf-8-sig"))
    except UnreadableError as error:
        return {}, f"package.json is unreadable: {error}"
    except RecursionError:
        return {}, "package.json is unreadable: it is nested too deeply"
    except ValueError as error:  # a number of a million digits, too
        return {}, f"package.json is unreadable: {printable(str(error)[:100])}"
    if not isinstance(read, dict):
        return {}, "package.json is unreadable: it is not an object"
    return read, ""


def _make(root: Root, notes: list[str]) -> list[ValidatorCandidate]:
    for name in _MAKEFILES:
        if root.has(name):
            try:
                text = root.read(name).decode("utf-8", "replace")
            except UnreadableError as error:
                notes.append(f"{name} is unreadable: {error}")
            else:
                if any(map(_makes_test, text.split("\n"))):
                    return [ValidatorCandidate("make", ("make", "test"), f"target test of {name}")]
            break
    return []


def _makes_test(line: str) -> bool:
    """Whether a line of a Makefile is a rule for ``test``, not a variable of that name."""
    if line[:1] in ("\t", "#"):
        return False
    targets, colon, rest = line.partition(":")
    return bool(colon) and not rest.lstrip(":").startswith("=") and "test" in targets.split()


# -- what was asked for -------------------------------------------------------------------------


def select(wanted: str, detection: Detection, ask: Callable[[str], str] | None = None) -> Selection:
    """The validator: ``wanted`` is ``auto``, ``none`` or a command.

    Where ``auto`` finds none, or more than one, ``ask`` shows a question and returns what was
    typed: a number of the list, a command, or ``none``. Raises NoValidatorError without it, and
    when it brings no answer; UsageError for a command that cannot be read.
    """
    wanted = wanted.strip()
    if wanted == NONE:
        return Selection(None, "none was asked for")
    if wanted and wanted != AUTO:
        return Selection(Command.parse(wanted), "it was asked for")
    candidates = detection.candidates
    if len(candidates) == 1:
        [only] = candidates
        return Selection(
            Command.of(*only.command), only.reason, tuple(map(shlex.join, only.others))
        )
    if ask:
        problem = _AMBIGUOUS if candidates else _problem(detection)  # the question lists them
        chosen = choose(detection, ask, problem)
        if chosen is not None:
            return chosen
    raise NoValidatorError(_problem(detection), detection, _cure(candidates))


def choose(detection: Detection, ask: Callable[[str], str], problem: str) -> Selection | None:
    """What a person picks when told of the ``problem``; None after as many answers as are taken.

    It is also what follows a validator whose program is not there.
    """
    for _ in range(_ANSWERS):
        chosen = _answered(ask(_question(detection, problem)).strip(), detection.candidates)
        if isinstance(chosen, Selection):
            return chosen
        problem = chosen
    return None


def _answered(answer: str, candidates: tuple[ValidatorCandidate, ...]) -> Selection | str:
    """What was picked, or why nothing was: a slip of the keyboard, and the question comes again."""
    if answer.isdecimal() and len(answer) < 4:
        number, most = int(answer), len(candidates)
        if 1 <= number <= most:
            return Selection(Command.of(*candidates[number - 1].command), "it was picked")
        bounds = f"which go from 1 to {most}" if most else "as there are none"
        return f"{answer} is not one of the numbers, {bounds}"
    if not answer:
        return "nothing was answered"
    if not answer.isprintable():  # an arrow key, for instance
        return "the answer has a character that a command cannot have"
    if answer == AUTO:
        return f"{AUTO} was tried already"
    try:
        return select(answer, Detection())
    except UsageError as error:
        return error.what


def _question(detection: Detection, problem: str) -> str:
    lines = [f"{printable(problem)}."]
    for number, one in enumerate(detection.candidates, 1):
        lines.append(f"  {number}. {one.text}  ({one.reason})")
    pick = "a number, a command" if detection.candidates else "a command"
    return "\n".join((*lines, f"Validator ({pick}, or none): "))


def _problem(detection: Detection) -> str:
    if not detection.candidates:
        seen = f": {'; '.join(detection.notes)}" if detection.notes else ""
        return f"no validator was found{seen}"
    listed = "; ".join(f"{one.text} ({one.reason})" for one in detection.candidates)
    return f"{_AMBIGUOUS}: {listed}"


def _cure(candidates: tuple[ValidatorCandidate, ...]) -> str:
    if not candidates:
        return 'pass --validator "COMMAND", or --validator none'
    return f'pass --validator "{candidates[0].text}", or another command, or --validator none'
