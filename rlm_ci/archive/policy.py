"""Which documents are archived, and where to: the policy file, or what stands for a missing one."""

from __future__ import annotations

from rlm_ci.checks._doc_archive.archive import POLICY, bad_policy, place_of, policy_record
from rlm_ci.checks._doc_archive.stub import LinkTarget
from rlm_ci.errors import ConfigError
from rlm_ci.report.rules import SITE
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet

_VERSION = 1
#: Without a policy file, as the reference has them.
_DEFAULTS = {
    "version": _VERSION,
    "retain_days": 14,
    "stray_retain_days": 90,
    "max_lines": 300,
    "archived_cadence_days": 365,
    "doc_patterns": [
        "docs/PRD-*", "docs/TECH_SPEC-*", "docs/ACTION_PLAN-*", "docs/PRD_*", "docs/TECH_SPEC_*",
        "docs/design/PRD-*", "tasks/*-prd-*", "tasks/tasks-*", "tasks/specs/*", ".agent/task/*",
    ],
    "exclude_paths": ["docs/PRD.md", "docs/TECH_SPEC.md", "docs/ACTION_PLAN.md"],
    "allowlist_task_keys": [],
    "allowlist_paths": [],
}  # fmt: skip
#: Numbers of the policy, with the smallest that each may be.
_NUMBERS = {"retain_days": 0, "stray_retain_days": 0, "max_lines": 1, "archived_cadence_days": 1}
_LISTS = ("doc_patterns", "exclude_paths", "allowlist_task_keys", "allowlist_paths")


class ArchivePolicy(Value):
    """``address`` is that of the repository with the archive, as the policy or the remote has it.

    In patterns, ``*`` stands for any characters, ``/`` among them. What an allow list names is
    kept; paths of ``exclude_paths`` are not looked at.
    """

    branch: str
    address: str
    retain_days: int
    stray_retain_days: int
    max_lines: int
    archived_cadence_days: int
    doc_patterns: tuple[str, ...]
    exclude_paths: tuple[str, ...]
    allowlist_task_keys: tuple[str, ...]
    allowlist_paths: tuple[str, ...]

    @classmethod
    def read(cls, changes: ChangeSet) -> ArchivePolicy:
        """The policy that holds for ``changes``. Raises ConfigError for one that is not whole."""
        record = policy_record(changes)
        if record is not None:
            _require_whole(record)
        branch, address = place_of(record or {}, changes.repository)
        if not address:
            raise ConfigError(
                "the web address of the repository is not known, and stubs must link to it",
                where=POLICY,
                hint=f"write this file, as {SITE}doc-archive.html has it, with your repo_url",
            )
        fields: Mapping[str, Any] = _DEFAULTS if record is None else record
        numbers = [fields[name] for name in _NUMBERS]
        return cls(branch, address, *numbers, *(tuple(fields[name]) for name in _LISTS))

    @property
    def target(self) -> LinkTarget:
        """Where the links of stubs lead."""
        return LinkTarget.from_url(self.address) or LinkTarget()

    def covers(self, path: str) -> bool:
        """Whether a pattern of documents matches ``path``."""
        return any(matches(doc_pattern, path) for doc_pattern in self.doc_patterns)

    def keeps(self, path: str) -> bool:
        """Whether ``path`` is on the allow list of paths."""
        return any(matches(allowlist_path, path) for allowlist_path in self.allowlist_paths)


def _require_whole(record: Mapping[str, object]) -> None:
    """Raise ConfigError for a field that is missing, or not what it must be."""
    rules: dict[str, tuple[Callable[[Any], bool], str]] = {
        "version": (lambda value: _is_number(value) and value == _VERSION, f"{_VERSION}"),
        "archive_branch": (lambda value: isinstance(value, str), "the name of a branch"),
        "repo_url": (lambda value: isinstance(value, str), "an address"),
        "doc_patterns": (lambda value: _is_list(value) and bool(value), "a list of patterns"),
        **dict.fromkeys(_LISTS[1:], (_is_list, "a list of texts")),
    }
    for name, minimum in _NUMBERS.items():
        rules[name] = (_at_least(minimum), f"a whole number from {minimum} on")
    for name, (is_valid, kind) in rules.items():
        if name not in record:
            hint = f"add it ({kind}): every field is needed, as {SITE}doc-archive.html has them"
            raise bad_policy(f"{name} is missing", hint)
        if not is_valid(record[name]):
            raise bad_policy(f"{name} is not {kind}", "correct it")


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _at_least(minimum: int) -> Callable[[Any], bool]:
    return lambda value: _is_number(value) and value >= minimum


def _is_list(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) and item for item in value)


def matches(pattern: str, path: str) -> bool:
    """Whether all of ``path`` is like ``pattern``, in which ``*`` stands for any characters."""
    first, *parts = pattern.split("*")
    if not parts:
        return path == pattern
    last = parts.pop()
    if len(path) < len(first) + len(last) or not path.startswith(first):
        return False
    return path.endswith(last) and _in_order(parts, path[len(first) : len(path) - len(last)])


def _in_order(parts: Sequence[str], text: str) -> bool:
    """Whether ``text`` has the ``parts`` one behind the other: the first place of each is best."""
    at = 0
    for part in parts:
        index = text.find(part, at)
        if index < 0:
            return False
        at = index + len(part)
    return True
