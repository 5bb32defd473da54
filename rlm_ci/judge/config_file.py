"""The config file of a change: at its base when the change came from outside.

A pull request must not relax the rules that judge it: its own copy is never read, and a report
names the files that judge the change and that it edits.
"""

from __future__ import annotations

import os
from contextlib import suppress

from rlm_ci import checks
from rlm_ci.config import settings
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import CONFIG_FILES
from rlm_ci.errors import ConfigError, RlmCiError
from rlm_ci.git import tracked
from rlm_ci.report.findings import Evidence, Finding, Location, Part, Severity
from rlm_ci.system import files
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.settings import Settings
    from rlm_ci.git.repository import Repository

LIMIT = 1 << 20
TABLE = "rlm-ci"
#: Folder of the user's own templates: beside the code, where its base commit has it.
TEMPLATES = ".rlm-ci/templates"
#: Edited files that the summary names.
_SHOWN = 5
#: The rules of the parts that ``pr`` adds to the checks.
POLICY = {
    "edited": Severity.INFO,
}
BUDGET = {
    "pull-request": Severity.MEDIUM,
}
WIKI = {
    "stale": Severity.INFO,
}
TOGETHER = {
    "removed": Severity.HIGH, "changed": Severity.HIGH, "lost-hunk": Severity.HIGH,
    "conflict": Severity.MEDIUM, "added-twice": Severity.MEDIUM, "base-conflict": Severity.LOW,
    "same-issue": Severity.LOW,
}  # fmt: skip


def apply(options: Settings, change: ChangeSet) -> list[ConfigError]:
    """Apply the config file of ``change``, and return doubts about it and about variables.

    Raises ConfigError for an invalid file, of which some may have been applied, and for the
    variable of a setting of older versions.
    """
    record, source = read(options, change)
    doubts: list[ConfigError] = []
    rows = options.rows.values()
    if record or settings.variable_doubts(options.environ, rows):
        from rlm_ci.config.options import PROGRAM  # a hook without a configuration reads fewer

        table = (*PROGRAM, *checks.rows(checks.names()))
        doubts += settings.variable_doubts(options.environ, (*table, *rows))
        options.apply(record, source, table)
    checks.require(options.checks, options.sources["checks"])
    accepted = options.suppressions
    if accepted:
        from rlm_ci.report import suppressions

        doubts += suppressions.require(accepted, options.sources["suppressions"], _rules())
    return doubts


def _rules() -> dict[str, Collection[str] | None]:
    """What a suppression may name: the conditions of each check, and of our own parts."""
    own_rules: dict[str, Collection[str] | None] = {
        "policy": POLICY, "review": None, "wiki": WIKI, "budget": BUDGET, "together": TOGETHER,
    }  # fmt: skip
    return {name: checks.load(name).RULES for name in checks.names()} | own_rules


def accepted(part: Part, options: Settings) -> Part:
    """A part that no check made, with the findings marked that the config file accepts."""
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.report import suppressions

    source, redact = options.sources["suppressions"], Redactor(options.environ).finding
    return suppressions.apply(part, options.suppressions, source, redact=redact)


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
    records = []
    for name, data in zip(CONFIG_FILES, contents, strict=True):
        if data is not None:
            table = TABLE if name == "pyproject.toml" else None
            try:
                record = settings.parse_config(data, f"{name}{suffix}", table)
            except ConfigError:
                _refuse_link(change, commit, name)
                raise
            if record or table is None:
                records.append((record, f"{name}{suffix}"))
    if len(records) > 1:
        raise ConfigError(
            "there are two configurations",
            where=" and ".join(pair[1] for pair in records),
            hint="keep one: rlm-ci.toml, or [tool.rlm-ci] in pyproject.toml",
        )
    return records[0] if records else ({}, "")


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
    """``path`` relative to the repository, without following a link; None for one outside."""
    folder = os.path.realpath(os.path.dirname(os.path.abspath(path)))
    full = os.path.join(folder, os.path.basename(path))
    return files.below(os.path.realpath(root), full)


def read_worktree(repository: Repository, name: str, what: str = "config file") -> bytes | None:
    """A file at the top of the work tree, or None. Raises ConfigError."""
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


def awaiting(options: Settings, change: ChangeSet) -> Sequence[dict[str, Any]]:
    """The suppressions of the change's own config file, which count once its base has them."""
    repository = change.repository
    if change.policy_commit is None:
        return ()
    is_here = change.head == repository.head_commit()
    config = inside(repository.root, options.config) if options.config else None
    for name in (config,) if config else CONFIG_FILES:
        proposed = settings.Settings(CORE, {})
        with suppress(RlmCiError):  # of a file that is not whole, nothing counts
            data = read_worktree(repository, name) if is_here else change.read(name, LIMIT)
            table = TABLE if name.endswith(CONFIG_FILES[1]) else None
            record = settings.parse_config(data or b"", name, table)
            proposed.apply({"suppressions": record.get("suppressions", [])}, name, CORE)
            if proposed.suppressions:
                from rlm_ci.report import suppressions

                suppressions.require(proposed.suppressions, name, _rules())
                return tuple(proposed.suppressions)
    return ()


# ── files that judge the change, and that it edits ──


def edited(change: ChangeSet, options: Settings, ran: Sequence[str]) -> list[Part]:
    """The part that names edited files that judge a change from outside, if there are any.

    ``ran`` are the checks whose own policy files count.
    """
    commit = change.policy_commit
    if commit is None:
        return []
    root = change.repository.root
    configs = [inside(root, options.config)] if options.config else []
    decisive = {CONFIG_FILES[0], *checks.policy_files(ran), *configs}
    paths = [
        path
        for path in change.names()
        if path in decisive
        or path.rpartition("/")[2] == ".gitattributes"
        or path.startswith(f"{TEMPLATES}/")
        or (path == CONFIG_FILES[1] and _table_differs(change))
    ]
    if not paths:
        return []
    sizes = change.repository.sizes([f"{change.head}:{path}" for path in paths])
    findings = tuple(
        Finding(
            "policy/edited",
            Severity.INFO,
            f"the change edits {printable(path)}; rlm-ci used the version of its base",
            # A file that the change deletes has no place to point to.
            evidence=(Location(path),) if size >= 0 else (),
            subject=path,
        )
        for path, size in zip(paths, sizes, strict=True)
    )
    listed = ", ".join(printable(path) for path in paths[:_SHOWN])
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    places = sum(len(finding.evidence) for finding in findings)
    return [
        Part(
            "policy",
            f"edited here, and not used: {listed}{more}",
            {"edited": len(paths)},
            findings,
            evidence=Evidence(places, places),
        )
    ]


def _table_differs(change: ChangeSet) -> bool:
    """Whether the change edits our table of ``pyproject.toml``, by its text: it may be hostile."""
    path = CONFIG_FILES[1]
    # Not the base's own commit: that may have gone on since.
    specs = [f"{commit}:{path}" for commit in (change.merge_base, change.head)]
    if max(change.repository.sizes(specs)) > LIMIT:
        return True
    before, after = (_our_lines(data or b"") for data in change.repository.read(*specs))
    return before != after


def _our_lines(data: bytes) -> list[bytes]:
    is_ours, table = False, TABLE.encode()
    lines = []
    for line in data.split(b"\n"):
        text = line.strip()
        if text.startswith(b"["):
            is_ours = table in text
        if (is_ours or table in text) and text and not text.startswith(b"#"):
            lines.append(text)
    return lines
