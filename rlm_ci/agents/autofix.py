"""The agent without a model: the fixes of the linters and formatters of a repository.

It needs no key and no network. Unsafe fixes stay off, and a formatter runs only if the repository
uses it, so that no fix becomes a rewrite.
"""

from __future__ import annotations

import json
import os

from rlm_ci import checks
from rlm_ci.agents.agent import OUTPUT_LIMIT, AgentOutcome
from rlm_ci.environments.quoting import SUMMARY_LIMIT
from rlm_ci.errors import ConfigError
from rlm_ci.system import files
from rlm_ci.system.transcript import transcribe
from rlm_ci.text.printable import clip, count
from rlm_ci.values import Value
from rlm_ci.workspace.sandboxed_commands import Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rlm_ci.agents.agent import Assignment

#: Seconds for one fixer.
TIMEOUT = 600.0
_CONFIG_LIMIT = 1 << 20
#: Files that are named of what one fixer changed.
_NAMED = 5
_PRE_COMMIT = ".pre-commit-config.yaml"
_BLACK = ("psf/black", "id: black", "black --check", "black --diff", "black .")
#: Files that call tools.
_CALLERS = (_PRE_COMMIT, "Makefile", "justfile", "tox.ini", "noxfile.py")
#: Where the version that a project pins may lie, before the one on PATH.
_FOLDERS = ("node_modules/.bin/", ".venv/bin/", "venv/bin/", "")


class Fixer(Value):
    """One command that fixes files; ``fine`` are the exit codes that are no failure."""

    name: str
    argv: tuple[str, ...]
    fine: tuple[int, ...] = (0,)


class FixerProject:
    """The fixers of a repository, by the files at its root."""

    def __init__(self, root: str, validator: str = "") -> None:
        self._root = root
        self._names = frozenset(os.listdir(root))
        self._calls = "\n".join((validator, *map(self._text, _CALLERS)))

    def fixers(self) -> Iterator[Fixer]:
        """The fixers that are set up: linters first, then formatters, then hooks."""
        configs = ("ruff.toml", ".ruff.toml")
        if self._has(*configs) or self._has_table("tool.ruff") or self._calls_any("ruff check"):
            argv = ("ruff", "check", "--fix", "--no-unsafe-fixes", "--exit-zero", "--no-cache", ".")
            yield Fixer("ruff check --fix", argv)
        formats = self._has_table("format", *configs) or self._has_table("tool.ruff.format")
        if formats or self._calls_any("ruff format", "ruff-format"):
            yield Fixer("ruff format", ("ruff", "format", "--no-cache", "."))
        sections = (
            self._has_table(section, "setup.cfg", "tox.ini") for section in ("isort", "tool:isort")
        )
        if self._has(".isort.cfg") or self._has_table("tool.isort") or any(sections):
            yield Fixer("isort", ("isort", "--quiet", "."))
        if self._has_table("tool.black") or self._calls_any(*_BLACK):
            yield Fixer("black", ("black", "--quiet", "."))
        if self._is_configured("eslint"):
            # 1: it cannot fix all problems
            yield Fixer("eslint --fix", ("eslint", "--fix", "."), (0, 1))
        if self._is_configured("prettier"):
            yield Fixer("prettier --write", ("prettier", "--write", "--ignore-unknown", "."))
        if self._has("go.mod") and (places := self._go_places()):
            yield Fixer("gofmt", ("gofmt", "-l", "-w", *places))
        if self._has("Cargo.toml"):
            yield Fixer("cargo fmt", ("cargo", "fmt", "--all"))
        if self._has(_PRE_COMMIT):
            # 1: a hook failed, or fixed something
            hooks = ("pre-commit", "run", "--all-files", "--color", "never")
            yield Fixer("pre-commit", hooks, (0, 1))

    def _text(self, name: str) -> str:
        """A file at the root; "" when it is not there or cannot be read."""
        try:
            return files.read_inside(self._root, name, _CONFIG_LIMIT).decode("utf-8", "replace")
        except files.UnreadableError:
            return ""

    def _has(self, *names: str) -> bool:
        return not self._names.isdisjoint(names)

    def _calls_any(self, *words: str) -> bool:
        """Whether the validator, or a file that calls tools, has one of these words."""
        return any(word in self._calls for word in words)

    def _has_table(self, name: str, *places: str) -> bool:
        """Whether one of the files, ``pyproject.toml`` if none is named, has that table."""
        text = "\n".join(map(self._text, places or ("pyproject.toml",)))
        heads = (line.strip().lstrip("[").strip() for line in text.splitlines() if "[" in line)
        return any(head.startswith((f"{name}]", f"{name}.", f"{name} ]")) for head in heads)

    def _is_configured(self, name: str) -> bool:
        """Whether a package of npm has a file of its own, or is a dependency."""
        rc, config = f".{name}rc", f"{name}.config."
        is_set_up = (name == rc or name.startswith((f"{rc}.", config)) for name in self._names)
        return any(is_set_up) or self._has_package(name)

    def _has_package(self, name: str) -> bool:
        try:
            package = json.loads(self._text("package.json") or "{}")
        except (ValueError, RecursionError):
            return False
        if not isinstance(package, dict):
            return False
        groups = (package.get("dependencies"), package.get("devDependencies"))
        return any(isinstance(group, dict) and name in group for group in groups)

    def _go_places(self) -> tuple[str, ...]:
        """The files and folders for gofmt, without vendored code."""
        return tuple(
            f"./{name}"
            for name in sorted(self._names)
            if not name.startswith((".", "_"))
            and name not in ("vendor", "node_modules")
            and not os.path.islink(os.path.join(self._root, name))
            and (name.endswith(".go") or os.path.isdir(os.path.join(self._root, name)))
        )


class AutofixAgent:
    """The fixers of a repository as an agent: every turn runs all of them once.

    ``find`` gives the path of a program in the sandbox, or None; ``roles_from`` is the source of
    the roles, for errors.
    """

    name = "autofix"
    metered = True  # it makes no call, so a budget of calls holds

    def __init__(
        self,
        *,
        find: Callable[[str], str | None],
        redact: Callable[[str], str],
        validator: str = "",
        roles_from: str = "loop.roles",
    ) -> None:
        self._find = find
        self._redact = redact
        self._validator = validator
        self._roles_from = roles_from

    def act(self, task: Assignment) -> AgentOutcome:
        """Run them, and say which ran and what they changed. Raises ConfigError for a role."""
        if task.read_only:
            raise ConfigError(
                f"autofix cannot be the {task.role}: it only edits",
                where=self._roles_from,
                hint="use the roles single (--roles single), or another agent",
            )
        chosen = list(FixerProject(task.workspace.root, self._validator).fixers())
        if not chosen:
            reason = "no linter or formatter that fixes files is set up in this repository"
            return AgentOutcome(1, "", "", reason)
        rows: list[str] = []
        output: list[str] = []
        failed: list[str] = []
        before = left = task.workspace.tree()
        for fixer in chosen:
            program = self._program(fixer.argv[0])
            if program is None:
                rows.append(f"{fixer.name}: {fixer.argv[0]} is set up here, and not installed")
                continue
            task.on_progress(fixer.name)
            line, text, is_fine = self._run(task, fixer, program)
            was, left = left, task.workspace.tree()
            rows.append(f"{line}, {_edited(task.workspace.status(was, left))}" if is_fine else line)
            output.append(f"$ {fixer.name}\n{text}")
            if not is_fine:
                failed.append(line)
        status = task.workspace.status(before, left).strip()
        if not status:
            rows.append("nothing was changed")
        elif failed:  # the line of a fixer that failed does not say what it changed
            rows.append(f"changed:\n{status}")
        reason = "; ".join(failed)
        if not output:
            reason = f"{count(len(chosen), 'fixer')} set up here, but none of them is installed"
        summary = clip("\n".join(rows), SUMMARY_LIMIT)
        return AgentOutcome(
            1 if reason else 0, summary, clip("\n".join(output), OUTPUT_LIMIT), reason
        )

    def _program(self, name: str) -> str | None:
        """How to call a program: the project's own, or the one on PATH; None without any."""
        return next((folder + name for folder in _FOLDERS if self._find(folder + name)), None)

    def _run(self, task: Assignment, fixer: Fixer, program: str) -> tuple[str, str, bool]:
        """A line on one fixer, what it printed, and whether it worked."""
        timeout = task.seconds_left(TIMEOUT)
        if timeout <= 0:
            return f"{fixer.name}: no time was left", "", False
        argv = (program, *fixer.argv[1:])
        ended = task.workspace.run(Launch(argv, timeout, env={"SKIP": _own_hooks()}))
        text = "\n".join(transcribe(ended.output, self._redact).lines)
        if ended.reason:
            return f"{fixer.name}: stopped: {ended.reason}", text, False
        if fixer.name == "pre-commit" and ended.returncode == 3:  # it failed, not a hook
            hint = "run `pre-commit install-hooks` first, with network"
            return f"pre-commit: its hooks are not installed here; {hint}", text, True
        if ended.returncode not in fixer.fine:
            last = text.strip().rpartition("\n")[2].strip()[:300]
            return f"{fixer.name}: ended with {ended.returncode}: {last}", text, False
        return f"{fixer.name}: ran", text, True


def _edited(status: str) -> str:
    """What one fixer changed, on one line; ``status`` has a line for each file."""
    lines = status.splitlines()
    more = f" and {len(lines) - _NAMED:,} more" if len(lines) > _NAMED else ""
    return f"{'; '.join(lines[:_NAMED])}{more}" if lines else "nothing to change"


def _own_hooks() -> str:
    """Hooks of ours, which would start us again."""
    return ",".join(
        ("rlm-fix", *(hook for name in checks.names() for hook in checks.load(name).HOOKS))
    )
