"""Detect the validator by the files in a repository's root, or take the one that was asked for.

Nothing runs here. Within one ecosystem the first match that can run wins (``validator_candidates``
tries them); between two ecosystems, or two package managers of Node, the user chooses.
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


AUTO = "auto"
NONE = "none"
#: Bytes of a package.json or a Makefile; a larger one counts as unreadable.
LIMIT = 1 << 20
_ANSWERS = 3
_AMBIGUOUS = "more than one validator is possible"
#: What `npm init` writes as the test script.
PLACEHOLDER = "no test specified"

#: The package manager of Node that a lock file belongs to.
LOCKS = (
    ("pnpm-lock.yaml", "pnpm"),
    ("yarn.lock", "yarn"),
    ("package-lock.json", "npm"),
    ("npm-shrinkwrap.json", "npm"),
    ("bun.lockb", "bun"),
    ("bun.lock", "bun"),
)
_MANAGERS = ("pnpm", "yarn", "npm", "bun")
#: First match wins. A uv.lock says more than the pyproject.toml beside it; tox and nox come last,
#: because they build environments, which needs network.
_PYTHON = (
    ("uv.lock", ("uv", "run", "pytest")),
    ("pyproject.toml", ("python", "-m", "pytest")),
    ("pytest.ini", ("pytest",)),
    ("requirements.txt", ("pytest",)),
    ("tox.ini", ("tox",)),
    ("noxfile.py", ("nox",)),
)
#: What replaces any of them if pytest is installed.
_PYTEST = (("python", "-m", "pytest"), ("python3", "-m", "pytest"))
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")  # as make itself looks for them


class ValidatorCandidate(Value):
    """A command that may be the validator, and the file that says so; ``others`` replace it."""

    command: tuple[str, ...]
    reason: str
    others: tuple[tuple[str, ...], ...] = ()

    @property
    def text(self) -> str:
        """The command as one types it."""
        return shlex.join(self.command)


class Detection(Value):
    """All candidates of a root; ``notes`` name files that could not be used."""

    candidates: tuple[ValidatorCandidate, ...] = ()
    notes: tuple[str, ...] = ()


class Selection(Value):
    """The validator of a run, and why; no command for ``none``. ``others`` replace it in order."""

    command: Command | None
    reason: str
    others: tuple[str, ...] = ()


class NoValidatorError(UsageError):
    """The run's ``final.status`` is ``no_validator``."""


def detect(root: str) -> Detection:
    """The candidates of the folder ``root``: node, python, go, rust; else that of a Makefile."""
    notes: list[str] = []
    candidates = [*_node(root, notes), *_python(root)]
    if _has(root, "go.mod"):
        candidates.append(ValidatorCandidate(("go", "test", "./..."), "go.mod"))
    if _has(root, "Cargo.toml"):
        candidates.append(ValidatorCandidate(("cargo", "test"), "Cargo.toml"))
    if not candidates:
        candidates = _make(root, notes)
    return Detection(tuple(candidates), tuple(notes))


def _has(root: str, name: str) -> bool:
    """Whether there is something of that name that is not a folder."""
    path = os.path.join(root, name)
    return os.path.lexists(path) and not os.path.isdir(path)


def _python(root: str) -> list[ValidatorCandidate]:
    matches = [(name, command) for name, command in _PYTHON if _has(root, name)]
    if not matches:
        return []
    name, first = matches[0]
    others = dict.fromkeys((*(command for _, command in matches[1:]), *_PYTEST))
    others.pop(first, None)
    return [ValidatorCandidate(first, name, tuple(others))]


def _node(root: str, notes: list[str]) -> list[ValidatorCandidate]:
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
    for lock, tool in LOCKS:
        if _has(root, lock):
            signs.setdefault(tool, []).append(lock)
    has_test = isinstance(test, str) and bool(test.strip())
    if isinstance(test, str) and PLACEHOLDER in test:
        test = None
        signs = {tool: why for tool, why in signs.items() if tool == "bun"}
        notes.append(f'package.json: the test script is the placeholder "{PLACEHOLDER}"')
    elif has_test and not signs:
        signs["npm"] = ["package.json has a test script"]
    elif package and not has_test:
        remark = "package.json has no test script"
    if remark and not signs:
        notes.append(remark)
    # `bun test` is bun's own runner, and runs no script
    has_own = isinstance(test, str) and test.strip() not in ("", "bun test")
    return [
        ValidatorCandidate(
            (tool, "run", "test") if tool == "bun" and has_own else (tool, "test"),
            ", ".join((*why, remark) if remark else why),
        )
        for tool, why in signs.items()
    ]


def _package(root: str) -> tuple[dict[str, object], str]:
    """The package.json, or an empty one with the reason why it cannot be read."""
    import json

    if not _has(root, "package.json"):
        return {}, ""
    try:
        read = json.loads(read_inside(root, "package.json", LIMIT).decode("utf-8-sig"))
        if isinstance(read, dict):
            return read, ""
        why = "it is not an object"
    except UnreadableError as error:
        why = str(error)
    except RecursionError:
        why = "it is nested too deeply"
    except ValueError as error:  # a number of a million digits, too
        why = printable(str(error)[:100])
    return {}, f"package.json is unreadable: {why}"


def _make(root: str, notes: list[str]) -> list[ValidatorCandidate]:
    name = next((file for file in _MAKEFILES if _has(root, file)), None)
    try:
        text = read_inside(root, name, LIMIT).decode("utf-8", "replace") if name else ""
    except UnreadableError as error:
        notes.append(f"{name} is unreadable: {error}")
        return []
    if not any(map(_makes_test, text.split("\n"))):
        return []
    return [ValidatorCandidate(("make", "test"), f"target test of {name}")]


def _makes_test(line: str) -> bool:
    """Whether a line of a Makefile is a rule for ``test``, not a variable of that name."""
    if line[:1] in ("\t", "#"):
        return False
    targets, colon, recipe = line.partition(":")
    return bool(colon) and not recipe.lstrip(":").startswith("=") and "test" in targets.split()


def select(choice: str, detection: Detection, ask: Callable[[str], str] | None = None) -> Selection:
    """The validator: ``choice`` is ``auto``, ``none`` or a command.

    If ``auto`` finds none, or more than one, ``ask`` shows a question and returns what the user
    types: a number of the list, a command, or ``none``. Raises NoValidatorError without an answer,
    UsageError for a command that cannot be parsed.
    """
    choice = choice.strip()
    if choice == NONE:
        return Selection(None, "none was asked for")
    if choice and choice != AUTO:
        return Selection(Command.parse(choice), "it was asked for")
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
    hint = 'pass --validator "COMMAND", or --validator none'
    if candidates:
        hint = f'pass --validator "{candidates[0].text}", or another command, or --validator none'
    raise NoValidatorError(_problem(detection), where="validator detection", hint=hint)


def choose(detection: Detection, ask: Callable[[str], str], problem: str) -> Selection | None:
    """What the user picks after reading the ``problem``; None after three wrong answers."""
    for _ in range(_ANSWERS):
        chosen = _answered(ask(_question(detection, problem)).strip(), detection.candidates)
        if isinstance(chosen, Selection):
            return chosen
        problem = chosen
    return None


def _answered(answer: str, candidates: tuple[ValidatorCandidate, ...]) -> Selection | str:
    """What was picked, or what is wrong with the answer."""
    if answer.isdecimal() and len(answer) < 4:
        number, last = int(answer), len(candidates)
        if 1 <= number <= last:
            return Selection(Command.of(*candidates[number - 1].command), "it was picked")
        bounds = f"which go from 1 to {last}" if last else "as there are none"
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
    for number, candidate in enumerate(detection.candidates, 1):
        lines.append(f"  {number}. {candidate.text}  ({candidate.reason})")
    pick = "a number, a command" if detection.candidates else "a command"
    return "\n".join((*lines, f"Validator ({pick}, or none): "))


def _problem(detection: Detection) -> str:
    if not detection.candidates:
        seen = f": {'; '.join(detection.notes)}" if detection.notes else ""
        return f"no validator was found{seen}"
    listed = "; ".join(
        f"{candidate.text} ({candidate.reason})" for candidate in detection.candidates
    )
    return f"{_AMBIGUOUS}: {listed}"
