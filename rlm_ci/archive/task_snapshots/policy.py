"""The policy of the tasks archive, ``docs/tasks-archive-policy.json``: limits, branch, files."""

from __future__ import annotations

import json

from rlm_ci.checks._doc_archive.archive import is_branch
from rlm_ci.checks._doc_archive.stub import LinkTarget, link_to
from rlm_ci.errors import ConfigError
from rlm_ci.git import tracked
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rlm_ci.git.repository import Repository

POLICY = "docs/tasks-archive-policy.json"
_YEAR = "YYYY"
_DEFAULTS = {
    "archive_branch": "task-archives",
    "max_lines": 450,
    "reserve_lines": 10,
    "archive_file_pattern": f"docs/TASKS-archive-{_YEAR}.md",
}


class TasksPolicy(Value):
    """``pattern`` is the path of a year's file, with YYYY; ``address`` that of the repository."""

    branch: str
    max_lines: int
    reserve_lines: int
    pattern: str
    address: str

    @classmethod
    def read(cls, repository: Repository) -> TasksPolicy:
        """The policy of the work tree, defaults without one. Raises ConfigError."""
        try:
            record = json.loads(tracked.read(repository, POLICY, 1 << 20))
        except files.UnreadableError as error:
            if not error.missing:
                raise _bad(f"it cannot be read: {error}") from None
            record = {}
        except (ValueError, RecursionError):
            record = None
        if not isinstance(record, dict) or record.get("version", 1) != 1:
            raise _bad("it is not a JSON object of version 1")
        url = repository.config(f"remote.{repository.remote()}.url")
        fields = {**_DEFAULTS, "repo_url": url, **record}
        _require_valid(fields)
        return cls(*(fields[name] for name in (*_DEFAULTS, "repo_url")))

    @property
    def target(self) -> int:
        return self.max_lines - self.reserve_lines

    def path(self, year: str) -> str:
        return self.pattern.replace(_YEAR, year)

    def years(self, paths: Iterable[str]) -> set[str]:
        """The years of the files ``paths`` that are of the archive."""
        before = self.pattern.partition(_YEAR)[0]
        parts = {path[len(before) : len(before) + 4] for path in paths}
        path_set = frozenset(paths)
        return {
            year
            for year in parts
            if year.isascii() and year.isdigit() and self.path(year) in path_set
        }

    def index(self, years: Iterable[str]) -> list[str]:
        """The lines for ``docs/TASKS.md`` that say where the archive is."""
        links = [
            f"- {year}: {link_to(self.address, self.branch, self.path(year))}"
            for year in sorted(years)
        ]
        return [
            "## Archive index",
            f"Completed snapshots are on the branch `{self.branch}`.",
            *links,
        ]


def _require_valid(fields: dict[str, Any]) -> None:
    """Raises ConfigError."""
    branch, address = fields["archive_branch"], fields["repo_url"]
    if not isinstance(branch, str) or not is_branch(branch):
        raise _bad("archive_branch is not the name of a branch")
    if not isinstance(address, str) or LinkTarget.from_url(address) is None:
        raise ConfigError(
            "the web address of the repository is not known, and the index must link to it",
            where=POLICY,
            hint='write it there: "repo_url": "https://HOST/OWNER/NAME"',
        )
    maximum, reserve, pattern = (
        fields[name] for name in ("max_lines", "reserve_lines", "archive_file_pattern")
    )
    if any(type(number) is not int or number < 0 for number in (maximum, reserve)):
        raise _bad("max_lines and reserve_lines are not whole numbers")
    if reserve >= maximum:
        raise _bad("reserve_lines is not less than max_lines")
    parts = pattern.split("/") if isinstance(pattern, str) else [""]
    if _YEAR not in parts[-1] or not all(map(_is_plain, parts)):
        raise _bad(f"archive_file_pattern is not a path with {_YEAR} in its name")


def _is_plain(part: str) -> bool:
    return part not in ("", ".", "..") and part.lower() != ".git" and part.isprintable()


def _bad(what: str) -> ConfigError:
    return ConfigError(f"the policy of the tasks archive: {what}", where=POLICY, hint="correct it")
