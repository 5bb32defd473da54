"""Permissions that a change gives to the token of a workflow, and its migrations of data.

Workflows are read by their indentation: what is written in another way is told as not read.
"""

from __future__ import annotations

import re

from rlm_ci.report.overview.changes import Migration, PermissionChange
from rlm_ci.source.signatures import clipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlm_ci.overview.sides import ChangeSides

_WORKFLOW = re.compile(r"(?:.*/)?\.github/workflows/[^/]+\.ya?ml")
_ENTRY = re.compile(r"""( *)(?:- +)?["']?([\w.-]+)["']?\s*:(?:\s+(.*?))?\s*$""")
_LEVELS = {"none": 0, "read": 1, "write": 2}
#: The scope of all permissions at once; that of a workflow that no longer names any.
_ALL, _DEFAULT = "all", "default"
_MIGRATION = re.compile(
    r"(?:.*/)?(?:migrations?|migrate|alembic/versions|flyway)/(?:.*/)?[^/]+\.(?:py|sql|rb|js|ts|php|go|"
    r"cs|kt|java|xml|ya?ml|prisma)|(?:.*/)?[VU]\d[\d_.]*__[^/]+\.sql"
)
_NO_MIGRATION = frozenset(("__init__.py", "env.py"))
_CHANGES = {"A": "added", "C": "added", "D": "removed", "R": "moved"}


def is_workflow(path: str) -> bool:
    """Whether GitHub reads a workflow from ``path``, in a repository at any folder."""
    return _WORKFLOW.fullmatch(path) is not None


def permissions(sides: ChangeSides) -> tuple[PermissionChange, ...]:
    """What tokens of workflows may do at the head, and may not at the base."""
    changes: list[PermissionChange] = []
    for file in sides.files:
        if file.status == "D" or not is_workflow(file.path):
            continue
        new = sides.fetch(file.path, old=False)
        old = sides.fetch(file.old_path or file.path, old=True) if file.status != "A" else b""
        if new is None or old is None:
            continue
        if re.search(rb"(?m)^\s*\{|^[^#\n]*permissions[\"']?\s*:\s*[*&!|>]", new):
            sides.limit(f"{file.path}: permissions in another form than a block")
            continue
        before, after = levels_by_scope(old), levels_by_scope(new)
        for (job, scope), level in after.items():
            old_level = _level(before, job, scope)
            if _rank(level) > _rank(old_level):
                texts = (clipped(text, 80) for text in (job, scope, old_level, level))
                changes.append(PermissionChange(file.path, *texts))
        if any(not job for job, _ in before) and all(job for job, _ in after):
            changes.append(PermissionChange(file.path, "", _DEFAULT, "", "settings"))
    return tuple(changes[:100])


def _rank(level: str) -> int:
    """Unknown words count as the most."""
    return _LEVELS.get(level or "none", 2)


def _level(permissions: Mapping[tuple[str, str], str], job: str, scope: str) -> str:
    """What a job may do: by its own permissions, or else by those of the workflow."""
    job_key = job if any(other == job for other, _ in permissions) else ""
    return permissions.get((job_key, scope), permissions.get((job_key, _ALL), ""))


def levels_by_scope(content: bytes) -> Mapping[tuple[str, str], str]:
    """The level of each scope, by job; "" stands for the whole workflow."""
    levels: dict[tuple[str, str], str] = {}
    way: list[tuple[int, str]] = []
    for indent, key, value, is_item in entries(content):
        if is_item:
            continue
        while way and way[-1][0] >= indent:
            way.pop()
        keys = [outer for _, outer in way]
        job = keys[1] if len(keys) > 1 and keys[0] == "jobs" else ""
        if key == "permissions" and (not keys or (len(keys) == 2 and keys[0] == "jobs")):
            levels.update(((job, scope), level) for scope, level in _inline(value))
        elif keys and keys[-1] == "permissions" and keys[:-1] in ([], ["jobs", job]):
            levels[job, key] = value
        way.append((indent, key))
    return levels


def entries(content: bytes) -> Iterator[tuple[int, str, str, bool]]:
    """The keys of a file with their indentation and values, without texts of several lines.

    The last one says whether the key begins an item of a list.
    """
    text_within = -1
    for line in content.decode("utf-8", "replace").split("\n"):
        bare = re.sub(r"(?:^|\s)#.*", "", line.rstrip("\r"))
        if not bare.strip():
            continue
        indent = len(bare) - len(bare.lstrip(" "))
        if 0 <= text_within < indent:
            continue
        text_within = -1
        match = _ENTRY.match(bare) if len(bare) < 500 else None
        if match:
            value = (match[3] or "").strip("\"'")
            if value[:1] in ("|", ">"):
                text_within = match.start(2)
            else:
                yield indent, match[2], value, bare.lstrip().startswith("-")


def _inline(value: str) -> Iterator[tuple[str, str]]:
    """The scopes of a value on the line of its key: ``read-all``, ``{contents: read}``."""
    if value.endswith("-all"):
        yield _ALL, value.removesuffix("-all")
    yield from re.findall(r"([\w-]+)[\"']?\s*:\s*[\"']?([\w-]+)", value)
    if value.startswith("{") and value.strip("{} ") == "":
        yield _ALL, "none"


def migrations(sides: ChangeSides) -> tuple[Migration, ...]:
    """Files that change the shape of stored data, by their place and their name."""
    all_migrations = [
        Migration(file.path, _CHANGES.get(file.status, "changed"))
        for file in sides.files
        if _MIGRATION.fullmatch(file.path) and file.path.rpartition("/")[2] not in _NO_MIGRATION
    ]
    if all_migrations[100:]:
        sides.limit(f"{len(all_migrations) - 100:,} more migrations are not listed")
    return tuple(all_migrations[:100])
