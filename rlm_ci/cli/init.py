"""``rlm-ci init``: write a workflow, a pre-commit configuration and ``rlm-ci.toml``.

It asks nothing, and overwrites nothing without ``--force``.
"""

from __future__ import annotations

import os

from rlm_ci import __version__, checks, errors, files, resources
from rlm_ci.cli import output
from rlm_ci.cli.judging import open_repository
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.git import Repository, discover
from rlm_ci.settings import COMMON, CORE, Setting, Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.cli.arguments import Arguments

SUMMARY = "write a workflow, a pre-commit configuration and rlm-ci.toml"
USAGE = "[--force] [OPTION...]"
FORCE = Setting(
    "force",
    "overwrite files that are there",
    default=False,
    kind="boolean",
    flag="--force",
    file=False,
)
URL = "https://github.com/rlm-ci/rlm-ci"
_LIMIT = 1 << 20


def rows(_argv: Sequence[str]) -> tuple[Setting, ...]:
    return (*COMMON, FORCE)


def run(arguments: Arguments) -> int:
    if arguments.positionals:
        raise UsageError(
            "init takes no arguments", where="rlm-ci init", hint=f"rlm-ci init {USAGE}"
        )
    settings = Settings((*CORE, FORCE), arguments.flags)
    repository = open_repository(settings)
    if repository.git_dir is None:
        raise ConfigError(
            "not a git repository", where=repository.root, hint="make one first: git init"
        )
    lines = [
        _write(repository.root, path, text, force=settings.force)
        for path, text in _contents(settings.environ).items()
    ]
    lines.append(_ignore_runs(repository.root))
    lines += ["", "next: commit these files; run the checks now with: rlm-ci check"]
    output.emit("\n".join(lines) + "\n", settings)
    return errors.OK


def _contents(environ: Mapping[str, str]) -> dict[str, str]:
    commit = own_commit(environ)
    rev = commit or f"v{__version__}"
    comment = f"rlm-ci {__version__}" if commit else f"pin it: git ls-remote {URL} v{__version__}"
    pin = f"{URL.removeprefix('https://github.com/')}@{rev} # {comment}"
    workflow = resources.read_template("init/workflow.yml").replace("@PIN@", pin)
    hooks = resources.read_template("init/pre-commit-config.yaml")
    return {
        ".github/workflows/rlm-ci.yml": workflow,
        ".pre-commit-config.yaml": hooks.replace("@URL@", URL).replace("@REV@", rev),
        "rlm-ci.toml": config_file(),
    }


def own_commit(environ: Mapping[str, str]) -> str | None:
    """The commit of rlm-ci that is running, where it was installed from git or a checkout."""
    from importlib import metadata

    try:
        record = metadata.distribution("rlm-ci").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        record = None
    if record:
        import json

        commit = json.loads(record).get("vcs_info", {}).get("commit_id")
        if isinstance(commit, str):
            return commit
    package = os.path.dirname(os.path.dirname(os.path.abspath(resources.__file__)))
    root, git_dir = discover(package)
    if git_dir is None or os.path.realpath(root) != os.path.realpath(package):
        return None
    return Repository(root, git_dir, environ).resolve("HEAD")[0]


def config_file() -> str:
    """``rlm-ci.toml`` with every setting at its default, commented out."""
    table = [row for row in (*CORE, *checks.rows(checks.names())) if row.file and not row.secret]
    lines = ["# The settings of rlm-ci, each at its default. On a pull request the base's holds."]
    section = ""
    for row in sorted(table, key=lambda row: row.key.count(".")):
        prefix, _, name = row.key.rpartition(".")
        if prefix != section:
            section = prefix
            lines += ["", f"[{section}]"]
        if lines[-1] and not lines[-1].startswith("["):
            lines.append("")
        if row.kind == "table":
            lines += [f"# {row.help}:", f"# [[{row.key}]]"]
            lines += [
                f"# {column.key} = {_example(column)}  # {column.help}" for column in row.columns
            ]
        else:
            lines += [f"# {row.help}", f"# {name} = {_toml(row.default)}"]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[]"
    return str(value) if isinstance(value, int) else f'"{value or ""}"'


def _example(column: Setting) -> str:
    return {"integer": "100", "number": "0.5"}.get(column.kind, '"…"')


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
            return f"kept       {path} (it is there; --force overwrites it)"
    if os.path.islink(os.path.dirname(full)):
        raise ConfigError("the folder is a link", where=path, hint="write the file by hand")
    files.make_folder(os.path.dirname(full))
    files.write(full, text.encode())
    return f"written    {path}"


def _ignore_runs(root: str) -> str:
    """Runs are the machine's own: they never belong into a commit."""
    path = os.path.join(root, ".gitignore")
    try:
        data = files.read(path, _LIMIT)
    except files.UnreadableError as error:
        if not error.missing:
            return f"kept       .gitignore ({error}; add .runs/ to it)"
        data = b""
    if b".runs/" in data.split():
        return "unchanged  .gitignore"
    end = b"" if not data or data.endswith(b"\n") else b"\n"
    files.write(path, data + end + b".runs/\n")
    return "written    .gitignore (.runs/ added)"
