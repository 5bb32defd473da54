"""``rlm-ci init``: write workflows, a pre-commit configuration and ``rlm-ci.toml``.

It asks nothing. Only ``--force`` overwrites existing files, and keeps the old ones renamed.
"""

from __future__ import annotations

import os
from contextlib import suppress
from itertools import count

from rlm_ci import __version__, checks, errors
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import CONFIG_FILES, Setting, Settings, parse_config
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.git import tracked
from rlm_ci.git.hardening import without_hook
from rlm_ci.git.repository import Repository, discover
from rlm_ci.judge.config_file import LIMIT, TABLE
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import output_of
from rlm_ci.resources import loader
from rlm_ci.system import files
from rlm_ci.system.installation import URL, checkout, recorded_commit
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.config.arguments import Arguments

SUMMARY = "write workflows, a pre-commit configuration and rlm-ci.toml"
USAGE = "[--fork-safe] [--slash-commands] [--pin COMMIT] [OPTION...]"
TAKES = ("no arguments", 0, 0)
EXAMPLES = ("rlm-ci init --fork-safe",)
EXITS = {
    errors.OK: "the files are written; those that exist are kept",
    errors.CONFIG: "no Git repository, or no known commit to pin the action to",
}


def _own(key: str, help_text: str, **more: Any) -> Setting:
    return Setting(key, help_text, flag=f"--{key.replace('_', '-')}", file=False, **more)


_SWITCH: Any = {"default": False, "kind": "boolean"}
OWN = (
    _own("fork_safe", "write two workflows: one checks without permissions, the other posts, "
         "also for forks", **_SWITCH),
    _own("slash_commands", "write a workflow that runs comments such as /rlm-ci check", **_SWITCH),
    _own("pin", "commit of rlm-ci for the workflows (default: the installed one)"),
    _own("force", "overwrite existing files; keep each one as FILE.orig", **_SWITCH),
)  # fmt: skip
_LIMIT = 1 << 20
#: The artifact that the first of the two jobs passes to the second.
REPORT_NAME = "rlm-ci-report"
ROWS = (*COMMON, *OWN)


def run(arguments: Arguments) -> int:
    settings = Settings((*PROGRAM, *OWN), arguments.flags)
    if settings.format != "text":
        raise UsageError(
            f"init has no form {settings.format!r}", where="--format", hint="leave it out: text"
        )
    repository = open_repository(settings)
    if repository.git_dir is None:
        raise ConfigError(
            "not a git repository", where=repository.root, hint="make one first: git init"
        )
    contents = _contents(
        _pinned(settings.pin, settings.environ),
        fork_safe=settings.fork_safe,
        slash_commands=settings.slash_commands,
    )
    if settings.fork_safe and not settings.force:
        _require_first_job(repository)
    lines = []
    if _is_configured(repository):
        # With a second configuration file every command would stop.
        del contents[CONFIG_FILES[0]]
        lines.append("kept       [tool.rlm-ci] of pyproject.toml is the configuration")
    if not settings.force:
        missing = [
            path for path in contents if not os.path.lexists(os.path.join(repository.root, path))
        ]
        for path in tracked.left_out(repository, missing):
            del contents[path]
            lines.append(f"kept       {path} (your sparse checkout leaves it out)")
    lines += [
        _write(repository.root, path, text, force=settings.force) for path, text in contents.items()
    ]
    lines.append(_ignore_runs(repository))
    lines += ["", "next: commit these files; run the checks now with: rlm-ci check"]
    if settings.fork_safe or settings.slash_commands:
        lines.append(
            "      workflows that post or run commands start once they are on the default branch"
        )
    output_of(settings).emit("\n".join(lines) + "\n")
    return errors.OK


def _is_configured(repository: Repository) -> bool:
    name = CONFIG_FILES[1]
    with suppress(files.UnreadableError, ConfigError):
        return bool(parse_config(tracked.read(repository, name, LIMIT), name, TABLE))
    return False


def _require_first_job(repository: Repository) -> None:
    """Raise ConfigError if an existing workflow leaves the second job no report."""
    path = ".github/workflows/rlm-ci.yml"
    try:
        data = tracked.read(repository, path, _LIMIT)
    except files.UnreadableError:
        return
    if REPORT_NAME.encode() not in data:
        raise ConfigError(
            "a workflow exists already, and uploads no report for the second job to post",
            where=path,
            hint="move it away and run this again; or overwrite every file that is there, each "
            "kept as FILE.orig: rlm-ci init --fork-safe --force",
        )


def workflows(commit: str, *, fork_safe: bool, slash_commands: bool) -> dict[str, str]:
    """The workflows by their file names, with the action pinned to ``commit`` of rlm-ci."""
    templates = {"rlm-ci.yml": "check.yml" if fork_safe else "workflow.yml"}
    if fork_safe:
        templates["rlm-ci-publish.yml"] = "publish.yml"
    if slash_commands:
        templates["rlm-ci-comment.yml"] = "commands.yml"
    pin = f"{URL.removeprefix('https://github.com/')}@{commit} # rlm-ci {__version__}"
    return {
        name: loader.read_template(f"init/{template}").replace("@PIN@", pin)
        for name, template in templates.items()
    }


def _contents(commit: str, *, fork_safe: bool, slash_commands: bool) -> dict[str, str]:
    made = workflows(commit, fork_safe=fork_safe, slash_commands=slash_commands)
    hooks = loader.read_template("init/pre-commit-config.yaml")
    return {
        **{f".github/workflows/{name}": text for name, text in made.items()},
        ".pre-commit-config.yaml": hooks.replace("@URL@", URL).replace("@REV@", commit),
        CONFIG_FILES[0]: config_file(),
    }


def _pinned(named: str | None, environ: Mapping[str, str]) -> str:
    """The commit that workflows run; a tag could be moved. Raises ConfigError if none is known."""
    if named is not None and not (len(named) == 40 and is_object_id(named)):
        raise ConfigError(
            f"no commit: {printable(named)!r}",
            where="--pin",
            hint="give the 40 hex digits of a commit of rlm-ci",
        )
    commit = named or own_commit(environ)
    if commit is None:
        raise ConfigError(
            "the commit of this rlm-ci is not known, and workflows are pinned to one",
            where=f"rlm-ci {__version__}",
            hint=f"look it up, and name it: git ls-remote {URL} 'v{__version__}*'; the line that "
            "ends in ^{} if there is one; then rlm-ci init --pin COMMIT",
        )
    return commit


def own_commit(environ: Mapping[str, str]) -> str | None:
    """The commit of the running rlm-ci; None if it is unknown."""
    commit, folder = recorded_commit(), checkout()
    if commit or folder is None:
        return commit
    root, git_dir = discover(folder)
    if git_dir is None or os.path.realpath(root) != os.path.realpath(folder):
        return None
    return Repository(root, git_dir, without_hook(environ)).resolve("HEAD")[0]


def config_file() -> str:
    """``rlm-ci.toml`` with every setting at its default, commented out."""
    table = [row for row in (*PROGRAM, *checks.rows(checks.names())) if row.file and not row.secret]
    lines = [
        "# The settings of rlm-ci, each with its default, or with an example if it has none.",
        "# On a pull request, the file of the base applies.",
    ]
    section = ""
    keys = {row.key for row in table}
    for row in sorted(table, key=lambda row: row.key.count(".")):
        prefix, _, name = row.key.rpartition(".")
        if prefix in keys:  # TOML allows either a value or a table here
            continue
        if prefix != section:
            section = prefix
            lines += ["", f"[{section}]"]
        if lines[-1] and not lines[-1].startswith("["):
            lines.append("")
        if row.kind in ("table", "tables"):
            heading = f'[{row.key}."a name"]' if row.kind == "tables" else f"[[{row.key}]]"
            lines += [f"# {row.help}:", f"# {heading}"]
            lines += [
                f"# {column.key} = {_example(column)}  # {column.help}" for column in row.columns
            ]
        else:
            has_none = row.default is None
            lines.append(f"# {row.help}{' (not set)' if has_none else ''}")
            lines.append(f"# {name} = {_example(row) if has_none else _toml(row.default)}")
        for inner in table:
            if inner.key.rpartition(".")[0] == row.key:
                value = f"{{ {inner.key.rpartition('.')[2]} = {_toml(inner.default)} }}"
                lines += ["", f"# {inner.help}; instead of the line above:"]
                lines.append(f"#   {name} = {value}")
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[]"
    return str(value) if isinstance(value, (int, float)) else f'"{value or ""}"'


def _example(column: Setting) -> str:
    if column.choices:
        return f'"{column.choices[0]}"'
    if column.kind == "boolean":
        return "true"
    return {"integer": "100", "number": "0.5", "cap": "60"}.get(column.kind, '"…"')


def _write(root: str, path: str, text: str, *, force: bool) -> str:
    full = os.path.join(root, path)
    if os.path.lexists(full):
        try:
            same = files.read_inside(root, path, _LIMIT) == text.encode()
        except files.UnreadableError:
            same = False
        if same:
            return f"unchanged  {path}"
        if not force:
            return f"kept       {path} (it exists; --force overwrites it){_missing(full, text)}"
    folder = os.path.dirname(full)
    own = os.path.normpath(os.path.join(os.path.realpath(root), os.path.dirname(path)))
    if os.path.realpath(folder) != own:
        raise ConfigError("the folder is a link", where=path, hint="write the file by hand")
    files.make_folder(folder)
    kept = _set_aside(full)
    files.write(full, text.encode())
    return f"written    {path}" + (f" (the previous one: {kept})" if kept else "")


def _missing(full: str, text: str) -> str:
    """The lines that an existing pre-commit configuration lacks; "" for other files."""
    if os.path.basename(full) != ".pre-commit-config.yaml":
        return ""
    with suppress(files.UnreadableError):
        if f"{URL}\n".encode() in files.read(full, _LIMIT):
            return ""
    first, _, rest = text.partition("repos:\n")
    lines = [*first.splitlines(), *rest.splitlines()]
    return "\n".join(["; add these lines, from the second on below repos:", *lines])


def _set_aside(full: str) -> str:
    """Rename an existing file; its new name, or "". Raises StorageError."""
    if not os.path.lexists(full) or os.path.isdir(full):
        return ""
    names = (f"{full}.orig{number or ''}" for number in count())
    aside = next(name for name in names if not os.path.lexists(name))
    try:
        os.rename(full, aside)
    except OSError as error:
        raise files.storage_error(error, full) from None
    return os.path.basename(aside)


def _ignore_runs(repository: Repository) -> str:
    """Add the folder of runs to the ignored files: runs never belong in a commit."""
    path = os.path.join(repository.root, ".gitignore")
    try:
        data = tracked.read(repository, ".gitignore", _LIMIT)
    except files.UnreadableError as error:
        if not error.missing:
            return f"kept       .gitignore ({error}; add .runs/ to it)"
        data = b""
    if b".runs/" in data.split():
        return "unchanged  .gitignore"
    end = b"" if not data or data.endswith(b"\n") else b"\n"
    files.write(path, data + end + b".runs/\n")
    return "written    .gitignore (.runs/ added)"
