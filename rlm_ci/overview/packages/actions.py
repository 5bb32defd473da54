"""The actions, reusable workflows and images that workflows use, and their versions."""

from __future__ import annotations

import re

from rlm_ci.overview.workflows import entries
from rlm_ci.report.overview.changes import ADDED, CHANGED, REMOVED, DependencyChange
from rlm_ci.source.signatures import clipped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlm_ci.overview.sides import ChangeSides

ACTIONS = "GitHub Actions"
_FILE = re.compile(r"(?:.*/)?(?:\.github/workflows/[^/]+|action)\.ya?ml")
_IMAGE = "docker://"
#: Actions of a file that are read.
_MOST = 200


def actions(sides: ChangeSides) -> Iterator[DependencyChange]:
    """What changed workflows and actions use in other versions, by file."""
    for file in sides.files:
        old_path = file.old_path or file.path
        if not _FILE.fullmatch(file.path) and not _FILE.fullmatch(old_path):
            continue
        old = sides.fetch(old_path, old=True)
        new = sides.fetch(file.path, old=False)
        lacks = (sides.size(old_path, old=True), old), (sides.size(file.path, old=False), new)
        if any(size and content is None for size, content in lacks):
            continue  # too large, which is told
        before, after = used(old or b""), used(new or b"")
        for name in sorted(before.keys() | after.keys()):
            old_version, new_version = before.get(name, ""), after.get(name, "")
            if old_version != new_version:
                yield DependencyChange(
                    CHANGED if old_version and new_version else ADDED if new_version else REMOVED,
                    clipped(name, 200), ACTIONS, file.path, clipped(old_version, 200),
                    clipped(new_version, 200), group="workflow",
                )  # fmt: skip


def used(content: bytes) -> Mapping[str, str]:
    """The versions of each action that a file uses; those of its own repository have none."""
    versions_by_name: dict[str, dict[str, None]] = {}
    for _, key, value, _ in entries(content):
        if key != "uses" or len(versions_by_name) >= _MOST:
            continue
        name, _, version = value.rpartition(":" if value.startswith(_IMAGE) else "@")
        if name and version and name != "docker":
            versions_by_name.setdefault(name, {})[version] = None
    return {name: ", ".join(sorted(versions)) for name, versions in versions_by_name.items()}
