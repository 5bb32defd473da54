"""The settings: one table of rows, read from flags, environment and config file.

Flags, environment names, the config file's keys, its schema, the reference page and the
inputs of the action are all views of the rows. This is the only reader of ``os.environ``.
Order, highest first: flag, environment, config file, default; the winner is remembered.
"""

from __future__ import annotations

import os

from rlm_ci.errors import ConfigError
from rlm_ci.texts import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

CONFIG_FILES = ("rlm-ci.toml", "pyproject.toml")
SEVERITIES = ("info", "low", "medium", "high", "critical")
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


class Setting(Value):
    """One row of the table.

    ``key`` is ``name`` or ``section.name``; ``kind`` one of text, integer, number, boolean,
    choice, list, table. Environment: ``RLM_CI_<KEY>`` first, then ``env`` in order. ``flag``
    is the option's name, ``input`` that of the action. A row with ``file=False`` belongs to
    one run, or to the machine, and never stands in a config file; a ``secret`` one is read
    from the environment only and never printed. ``columns`` are the rows of a table's entry;
    ``off`` is the help of the flag that turns a boolean off.
    """

    key: str
    help: str
    default: Any = None
    kind: str = "text"
    env: tuple[str, ...] = ()
    flag: str | None = None
    short: str | None = None
    metavar: str = "TEXT"
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    input: str | None = None
    file: bool = True
    own_env: bool = True
    secret: bool = False
    required: bool = False
    columns: tuple[Setting, ...] = ()
    off: str = ""

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment names, the strongest first."""
        if not self.own_env:
            return self.env
        return ("RLM_CI_" + self.key.upper().replace(".", "_"), *self.env)


def _machine(key: str, variable: str, help_text: str, kind: str = "text") -> Setting:
    """A row for what the surroundings tell: read from one variable, nowhere else."""
    return Setting(key, help_text, kind=kind, env=(variable,), own_env=False, file=False)


COMMON: tuple[Setting, ...] = (
    Setting("repo", "repository to look at (default: the git top level of the current folder)",
            env=("CODEX_ORCHESTRATOR_ROOT",), flag="--repo", short="-C", metavar="DIR", file=False,
            input="working-directory"),
    Setting("config", "config file in place of rlm-ci.toml or [tool.rlm-ci] in pyproject.toml",
            flag="--config", metavar="FILE", file=False, input="config"),
    Setting("task", "task id that the run belongs to",
            env=("MCP_RUNNER_TASK_ID", "TASK", "CODEX_ORCHESTRATOR_TASK_ID"),
            flag="--task", metavar="ID", file=False, input="task-id"),
    Setting("format", "form of the result", "text", "choice", flag="--format", metavar="NAME",
            choices=("text", "json", "markdown", "sarif", "github", "html"), file=False),
    Setting("output", "write the result to a file instead of standard output",
            flag="--output", short="-o", metavar="FILE", file=False),
    Setting("quiet", "say only what is wrong", default=False, kind="boolean",
            flag="--quiet", short="-q", file=False),
    Setting("verbose", "say more", default=False, kind="boolean",
            flag="--verbose", short="-v", file=False),
    Setting("color", "colour on a terminal (NO_COLOR turns it off too)", default=True,
            kind="boolean", flag="--color", file=False, off="no colour"),
    Setting("interactive", "may prompt on a terminal", default=True, kind="boolean",
            flag="--interactive", file=False, off="never prompt"),
    Setting("runs_dir", "folder of the runs, relative to the repository", ".runs",
            env=("CODEX_ORCHESTRATOR_RUNS_DIR",), metavar="DIR", file=False),
)  # fmt: skip
CHANGE: tuple[Setting, ...] = (
    Setting("base", "compare with the merge base of this ref", flag="--base", metavar="REF",
            file=False, input="base"),
    Setting("head", "judge this ref (default: HEAD)", flag="--head", metavar="REF", file=False,
            input="head"),
    Setting("event", "GitHub event payload that tells the change", flag="--event", metavar="FILE",
            file=False),
)  # fmt: skip
LOCAL_CHANGE: tuple[Setting, ...] = (
    Setting("commit", "judge one commit against its first parent", flag="--commit",
            metavar="REF", file=False),
    Setting("staged", "judge what is staged", default=False, kind="boolean",
            flag="--staged", file=False),
    Setting("hook", "run as this native git hook, with what git gives it on standard input",
            kind="choice", flag="--hook", metavar="STAGE", choices=("pre-commit", "pre-push"),
            file=False),
    Setting("dry_run", "report as always, but end with 0", default=False, kind="boolean",
            flag="--dry-run", file=False),
)  # fmt: skip
PATHS: tuple[Setting, ...] = (
    Setting(
        "paths",
        "judge these files only, in the checks that work on files",
        (),
        "list",
        own_env=False,
        file=False,
        metavar="PATH",
    ),
)
REPORT: tuple[Setting, ...] = (
    Setting("checks", "checks to run (default: all; the delegation guard where it applies)", (),
            "list", metavar="CHECK", input="checks"),
    Setting("fail_level", "severity from which a finding fails the run", "high", "choice",
            flag="--fail-level", metavar="LEVEL", choices=SEVERITIES, input="fail-level"),
    Setting("templates", "folder of your own templates, read from the base commit",
            ".rlm-ci/templates", metavar="DIR"),
    Setting("suppressions", "findings that are known and accepted: reported, never failing", (),
            "table", columns=(
                Setting("rule", "rule id, or a check's id for all its rules", required=True),
                Setting("path", "pattern of the paths (default: every path)"),
                Setting("reason", "why it is accepted", required=True),
                Setting("until", "last day that it holds, YYYY-MM-DD"),
            )),
)  # fmt: skip
OUT: tuple[Setting, ...] = (
    Setting("out", "folder for report.json, comment.md, report.sarif, report.html (default: the "
            "run directory)", flag="--out", metavar="DIR", file=False, input="out"),
)  # fmt: skip
PUBLISH: tuple[Setting, ...] = (
    Setting("publish.enabled", "post the report on its pull request, if there is a token",
            default=True, kind="boolean", flag="--publish", off="post nothing"),
    Setting("publish.comment", "what to write on the pull request: a summary (sticky), that and "
            "review comments (review), or nothing", "review", "choice",
            choices=("sticky", "review", "none"), input="comment"),
    Setting("publish.check_run", "post a check run with the verdict", default=True,
            kind="boolean"),
    Setting("publish.unfinished", "conclusion of the check run where not everything was judged",
            "action_required", "choice", choices=("action_required", "failure")),
    Setting("publish.least", "severity from which a finding gets a review comment", "low",
            "choice", choices=SEVERITIES),
    Setting("publish.max_comments", "most review comments of one run", 50, "integer", minimum=0),
    Setting("publish.max_per_file", "most review comments of one run on one file", 10, "integer",
            minimum=0),
    Setting("publish.max_on_files", "most comments of one run on files as a whole, each a request "
            "of its own", 5, "integer", minimum=0),
    Setting("publish.max_annotations", "most annotations of one check run", 500, "integer",
            minimum=0),
    Setting("github.token", "token that posts on GitHub", env=("GITHUB_TOKEN",), secret=True,
            file=False, input="github-token"),
    _machine("github.api_url", "GITHUB_API_URL", "address of GitHub's API"),
)  # fmt: skip
MACHINE: tuple[Setting, ...] = (
    _machine("ci", "CI", "set in CI", "boolean"),
    _machine("no_color", "NO_COLOR", "no colour, whatever its value"),
    _machine("term", "TERM", "kind of terminal: a dumb one gets no colour"),
    _machine("base_sha", "BASE_SHA", "base of the change, where nothing else tells it"),
    _machine("github.actions", "GITHUB_ACTIONS", "set in GitHub Actions", "boolean"),
    _machine("github.event_name", "GITHUB_EVENT_NAME", "event that started the workflow"),
    _machine("github.event_path", "GITHUB_EVENT_PATH", "its payload"),
    _machine("github.repository", "GITHUB_REPOSITORY", "owner/name"),
    _machine("github.server_url", "GITHUB_SERVER_URL", "web address of GitHub"),
    _machine("github.output", "GITHUB_OUTPUT", "file for the outputs of the step"),
    _machine("github.step_summary", "GITHUB_STEP_SUMMARY", "file for the job summary"),
    _machine("pre_commit.from_ref", "PRE_COMMIT_FROM_REF", "what the remote has"),
    _machine("pre_commit.to_ref", "PRE_COMMIT_TO_REF", "what is pushed"),
    _machine("pre_commit.remote_name", "PRE_COMMIT_REMOTE_NAME", "where it is pushed to"),
    _machine("pre_commit.local_branch", "PRE_COMMIT_LOCAL_BRANCH", "branch that is pushed"),
)  # fmt: skip
#: What every judging command may need; a hook has no time to look at more.
CORE = (*COMMON, *CHANGE, *LOCAL_CHANGE, *PATHS, *REPORT, *OUT, *MACHINE)
#: What no check has a say in.
PROGRAM = (*CORE, *PUBLISH)


def environment() -> Mapping[str, str]:
    """The process environment, for those who are handed it: nobody else reads it."""
    return os.environ


class Section:
    """The settings of one section as attributes; ``settings.diff_budget.max_files``."""

    def __init__(self, settings: Settings, prefix: str) -> None:
        self._settings = settings
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        try:
            return self._settings.values[self._prefix + name]
        except KeyError:
            raise AttributeError(self._prefix + name) from None


class Settings:
    """The effective values of ``rows``, with the source that each came from."""

    def __init__(
        self,
        rows: Iterable[Setting],
        flags: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """``flags`` maps keys to what the command line says. Raises ConfigError."""
        self.rows = {row.key: row for row in rows}
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.environ = environment() if environ is None else environ
        flags = flags or {}
        for row in self.rows.values():
            self._set(row, *self._given(row, flags))

    def _given(self, row: Setting, flags: Mapping[str, Any]) -> tuple[Any, str]:
        if row.key in flags:
            return flags[row.key], row.flag or "the command line"
        for name in row.variables:
            text = self.environ.get(name, "").strip()
            if text:
                return text, name
        return None, "default"

    def _set(self, row: Setting, raw: Any, source: str) -> None:
        self.values[row.key] = row.default if raw is None else convert(row, raw, source)
        self.sources[row.key] = source

    def __getattr__(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if any(key.startswith(f"{name}.") for key in self.rows):
            return Section(self, f"{name}.")
        raise AttributeError(name)

    def apply(self, record: Mapping[str, Any], source: str, known: Iterable[Setting]) -> None:
        """Take over what a config file says and nothing stronger does.

        ``known`` are the rows of the whole program: a key outside of them is an error.
        """
        rows = {row.key: row for row in known}
        for key, raw in _flatten(record, rows):
            row = rows.get(key)
            if row is None or not row.file or row.secret:
                allowed = [name for name, one in rows.items() if one.file and not one.secret]
                raise _unknown("setting", key, allowed, source)
            value = convert(row, raw, source)
            if key in self.rows and self.sources[key] == "default":
                self.values[key], self.sources[key] = value, source

    def items(self) -> Iterator[tuple[Setting, Any, str]]:
        """Row, value and source of each setting; the value of a secret is hidden."""
        for key, row in self.rows.items():
            shown = "(set)" if row.secret and self.values[key] else self.values[key]
            yield row, shown, self.sources[key]


def convert(row: Setting, raw: Any, source: str) -> Any:
    """``raw`` as the kind of ``row``. Raises ConfigError that names value and source."""
    if row.kind == "table":
        return _table(row, raw, source)
    if row.kind == "list":
        items = _split(raw) if isinstance(raw, str) else raw
        if isinstance(items, (list, tuple)) and all(isinstance(item, str) for item in items):
            return tuple(items)
        raise _bad(row, raw, source, "a list of texts")
    if row.kind == "boolean":
        if isinstance(raw, bool):
            return raw
        word = raw.strip().lower() if isinstance(raw, str) else ""
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        if word and not row.own_env:  # another program's variable: CI=woodpecker is a yes
            return True
        raise _bad(row, raw, source, "true or false")
    if row.kind in ("integer", "number"):
        return _number(row, raw, source)
    if hasattr(raw, "isoformat"):  # TOML has days without quotes
        raw = raw.isoformat()
    if not isinstance(raw, str) or "\0" in raw:
        raise _bad(row, raw, source, "a text")
    if row.kind == "choice" and raw not in row.choices:
        raise _bad(row, raw, source, f"one of {', '.join(row.choices)}")
    return raw


def _number(row: Setting, raw: Any, source: str) -> Any:
    wanted = "a whole number" if row.kind == "integer" else "a number"
    if row.minimum is not None:
        wanted += f" of at least {row.minimum}"
    try:
        if isinstance(raw, bool) or (row.kind == "integer" and isinstance(raw, float)):
            raise ValueError(raw)
        # int() would also take "1_000" and other digits than ASCII ones.
        if isinstance(raw, str) and not (
            raw.isascii() and raw.replace(".", "").lstrip("-").isdigit()
        ):
            raise ValueError(raw)
        number = int(raw) if row.kind == "integer" else float(raw)
    except (TypeError, ValueError):
        raise _bad(row, raw, source, wanted) from None
    if not -(10**15) < number < 10**15 or (row.minimum is not None and number < row.minimum):
        raise _bad(row, raw, source, wanted)
    return number


def _table(row: Setting, raw: Any, source: str) -> tuple[dict[str, Any], ...]:
    if not isinstance(raw, list) or not all(isinstance(entry, dict) for entry in raw):
        raise _bad(row, raw, source, f"a list of tables: [[{row.key}]]")
    columns = {column.key: column for column in row.columns}
    entries = []
    for number, entry in enumerate(raw, 1):
        place = f"{source}, [[{row.key}]] number {number}"
        for name in entry:
            if name not in columns:
                raise _unknown("key", name, list(columns), place)
        values = {name: column.default for name, column in columns.items()}
        values.update((name, convert(columns[name], value, place)) for name, value in entry.items())
        for name, column in columns.items():
            if column.required and not str(values[name] or "").strip():
                raise ConfigError(
                    f"{name} is missing", where=place, hint=f"add {name}: {column.help}"
                )
        entries.append(values)
    return tuple(entries)


def _split(text: str) -> list[str]:
    parts = text.replace(",", "\n").split("\n") if "\n" not in text else text.split("\n")
    return [part.strip() for part in parts if part.strip()]


def _flatten(record: Mapping[str, Any], rows: Mapping[str, Setting]) -> Iterator[tuple[str, Any]]:
    for name, value in record.items():
        if isinstance(value, dict) and name not in rows:
            if not value and not any(key.startswith(f"{name}.") for key in rows):
                yield name, value  # an empty section, and none of ours
            for inner, inner_value in value.items():
                yield f"{name}.{inner}", inner_value
        else:
            yield name, value


def _bad(row: Setting, raw: Any, source: str, wanted: str) -> ConfigError:
    shown = (raw if isinstance(raw, str) else repr(raw))[:80]
    return ConfigError(
        f"{row.key} must be {wanted}, not {shown!r}", where=source, hint=f"{row.key}: {row.help}"
    )


def _unknown(what: str, name: str, known: Sequence[str], source: str) -> ConfigError:
    return ConfigError(f"unknown {what} {name[:80]!r}", where=source, hint=nearest(name, known))


def nearest(name: str, known: Sequence[str]) -> str:
    """What the writer of ``name`` may have meant."""
    from difflib import get_close_matches

    # Most forget the section before they misspell the name.
    close = [one for one in known if one.endswith(f".{name}")] or get_close_matches(name, known, 1)
    return f"did you mean {close[0]}?" if close else f"known are: {', '.join(sorted(known))}"


def parse_config(data: bytes, source: str, table: str | None) -> dict[str, Any]:
    """The settings in a config file; of ``[tool.<table>]`` where ``table`` is given.

    Raises ConfigError when it cannot be read.
    """
    if table is not None and table.encode() not in data:
        return {}  # most pyproject.toml say nothing about us, and the parser costs 8 ms
    import tomllib

    try:
        record: dict[str, Any] = tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"not valid TOML: {printable(str(error))[:200]}", where=source, hint="mend the file"
        ) from None
    if table is None:
        return record
    tools = record.get("tool")
    section = tools.get(table, {}) if isinstance(tools, dict) else {}
    if not isinstance(section, dict):
        raise ConfigError(f"[tool.{table}] must be a table", where=source, hint="mend the file")
    return section
