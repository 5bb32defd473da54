"""The config file of a change: at its base when the change came from outside.

A pull request must not relax the rules that judge it, so that its own copy is never read.
"""

from __future__ import annotations

import os

from rlm_ci import checks
from rlm_ci.config import settings
from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import CONFIG_FILES
from rlm_ci.errors import ConfigError
from rlm_ci.git import tracked
from rlm_ci.report import suppressions
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.settings import Settings
    from rlm_ci.git.repository import Repository

LIMIT = 1 << 20
TABLE = "rlm-ci"


def apply(options: Settings, change: ChangeSet) -> list[ConfigError]:
    """Take over what the config file of ``change`` says; the doubts that remain are returned.

    Raises ConfigError for a file that cannot be obeyed; then some of it is taken over.
    """
    record, source = read(options, change)
    if record:
        options.apply(record, source, (*PROGRAM, *checks.rows(checks.names())))
    _require_templates(options)
    checks.require(options.checks, options.sources["checks"])
    accepted = options.suppressions
    if not accepted:
        return []
    return suppressions.require(accepted, options.sources["suppressions"], _rules())


def _rules() -> dict[str, Collection[str] | None]:
    """What a suppression may name: the conditions of each check, and of our own parts."""
    from rlm_ci.judge.part_rules import POLICY, WIKI

    own: dict[str, Collection[str] | None] = {"policy": POLICY, "review": None, "wiki": WIKI}
    return {name: checks.load(name).RULES for name in checks.names()} | own


def _require_templates(options: Settings) -> None:
    folder = options.templates.rstrip("/")
    if {"", ".", ".."} & set(folder.split("/")):
        raise ConfigError(
            f"templates must be a folder below the top level, not {folder[:80]!r}",
            where=options.sources["templates"],
            hint="write it as .rlm-ci/templates",
        )


def read(options: Settings, change: ChangeSet) -> tuple[dict[str, Any], str]:
    """What the config file says, and how messages name it; at the base of a change from outside."""
    commit = change.policy_commit
    root = change.repository.root
    suffix = f" at {commit[:12]}" if commit else ""
    if options.config:
        return _named_config(options.config, root, change)
    if commit:
        contents = change.repository.read(*(f"{commit}:{name}" for name in CONFIG_FILES))
    else:
        contents = [read_worktree(change.repository, name) for name in CONFIG_FILES]
    found = []
    for name, data in zip(CONFIG_FILES, contents, strict=True):
        if data is not None:
            table = TABLE if name == "pyproject.toml" else None
            try:
                record = settings.parse_config(data, f"{name}{suffix}", table)
            except ConfigError:
                _refuse_link(change, commit, name)
                raise
            if record or table is None:
                found.append((record, f"{name}{suffix}"))
    if len(found) > 1:
        raise ConfigError(
            "there are two configurations",
            where=" and ".join(one[1] for one in found),
            hint="keep one: rlm-ci.toml, or [tool.rlm-ci] in pyproject.toml",
        )
    return found[0] if found else ({}, "")


def _refuse_link(change: ChangeSet, commit: str | None, name: str) -> None:
    """Raise ConfigError where what git holds under ``name`` is the text of a link."""
    if commit and change.repository.run("ls-tree", commit, "--", name).startswith(b"120000 "):
        raise ConfigError(
            "the config file cannot be read: it is a link, not a regular file",
            where=f"{name} at {commit[:12]}",
            hint="make it a regular file, or remove it",
        )


def _named_config(path: str, root: str, change: ChangeSet) -> tuple[dict[str, Any], str]:
    """``--config``: inside the repository it follows the same rule as the default file."""
    tracked = inside(root, path)
    commit = change.policy_commit
    data: bytes | None
    if commit and tracked:
        source = f"{tracked} at {commit[:12]}"
        data = change.repository.read(f"{commit}:{tracked}")[0]
        why = "it does not exist there"
    else:
        source, data, why = path, None, ""
        try:
            data = files.read(os.path.realpath(path), LIMIT)
        except files.UnreadableError as error:
            why = str(error)
    if data is None:
        raise ConfigError(
            f"the config file cannot be read: {why}",
            where=source,
            hint="name a file that exists; on a pull request, in its base",
        )
    table = TABLE if os.path.basename(path) == "pyproject.toml" else None
    return settings.parse_config(data, source, table), source


def inside(root: str, path: str) -> str | None:
    """``path``, relative to the top level where it lies in the repository, else None.

    A link stands for itself: what it leads to may be part of what is judged.
    """
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    full = os.path.join(folder, os.path.basename(path))
    return files.below(os.path.realpath(root), full)


def read_worktree(repository: Repository, name: str, what: str = "config file") -> bytes | None:
    """A file at the top of the work tree, None where there is none. Raises ConfigError."""
    try:
        return tracked.read(repository, name, LIMIT)
    except files.UnreadableError as error:
        if error.missing:
            return None
        raise ConfigError(
            f"the {what} cannot be read: {error}",
            where=name,
            hint="make it a regular file, or remove it",
        ) from None
