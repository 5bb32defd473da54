"""The checks: is this change acceptable? No key, no network, milliseconds.

A check is a module of this package with ``ID``, ``SUMMARY``, ``RULES`` (the conditions that it
finds), ``OPTIONS`` (its rows of the settings table, all in its own section), ``HOOKS`` (pre-commit
hooks: id to arguments, stages and, for a check of files, their pattern) and ``run(changes, options,
runs)``, which returns a part. An optional ``applies(changes, options)`` returns why the check is
off if it was not named.
"""

from __future__ import annotations

import os
import sys

from rlm_ci.config.settings import nearest
from rlm_ci.errors import ConfigError, RlmCiError, UsageError
from rlm_ci.report.findings import Part

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.settings import Setting, Settings
    from rlm_ci.runs.store import RunStore


#: Checks that have nothing to judge at a hook, which has no time to find that out.
_NOT_AT = {
    "pre-commit": ("ai-policy", "description", "test-bite"),
    "pre-push": ("description", "test-bite"),
}


def names(hook: str | None = None) -> tuple[str, ...]:
    """The ids of all checks, sorted; of those that this ``hook`` runs without their names."""
    files = (entry for entry in os.listdir(os.path.dirname(__file__)) if entry.endswith(".py"))
    ids = (entry[:-3].replace("_", "-") for entry in files if entry[0] not in "._")
    return tuple(sorted(name for name in ids if name not in _NOT_AT.get(hook or "", ())))


def load(name: str) -> ModuleType:
    """The module of the check ``name``."""
    module = f"{__name__}.{name.replace('-', '_')}"
    __import__(module)  # importlib itself takes a millisecond to be imported
    return sys.modules[module]


def rows(checks: Sequence[str]) -> tuple[Setting, ...]:
    """The rows of the settings table that belong to ``checks``."""
    return tuple(row for name in checks for row in load(name).OPTIONS)


def require(requested: Sequence[str], source: str, *, usage: bool = False) -> tuple[str, ...]:
    """``requested`` without repeats; raises UsageError or ConfigError for one that is unknown."""
    checks = names()
    for name in requested:
        if name not in checks:
            kind = UsageError if usage else ConfigError
            raise kind(f"unknown check {name[:80]!r}", where=source, hint=nearest(name, checks))
    return tuple(dict.fromkeys(requested))


def run(
    names: Sequence[str],
    changes: ChangeSet,
    options: Settings,
    runs: RunStore,
    *,
    is_named: bool,
) -> list[Part]:
    """Run the checks in order, each one if ``is_named``; an error becomes a part."""
    parts = []
    for name in names:
        check = load(name)
        applies = None if is_named else getattr(check, "applies", None)
        try:
            off = applies(changes, options) if applies else None
            if off:
                parts.append(Part(name, f"off: {off}", {"enabled": False}, enabled=False))
            else:
                parts.append(check.run(changes, options, runs))
        except RlmCiError as error:
            parts.append(Part.from_error(name, error))
    return parts


def policy_files(checks: Sequence[str]) -> tuple[str, ...]:
    """The files, besides config and templates, that decide how the checks judge."""
    return tuple(path for name in checks for path in getattr(load(name), "POLICY_FILES", ()))
