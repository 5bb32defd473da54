"""The two trees of a finished fix loop: the one that it began with, and its result.

A report points into both. They are in the objects of the run; in an export, which has none, the
result is made from the patch.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress

from rlm_ci.change import evidence
from rlm_ci.errors import RlmCiError
from rlm_ci.system import files
from rlm_ci.text.object_id import is_object_id
from rlm_ci.workspace.snapshot import RESULT, PrivateGit, Snapshot, is_sha256, object_folders
from rlm_ci.workspace.tree import apply_patch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.git.repository import Repository
    from rlm_ci.report.findings import Location, Report

SNAPSHOT = "snapshot.json"
PATCH = "result.patch"
_LIMIT = 64 << 20
#: What begins the rules of findings that a loop makes; a report may hold those of checks, too.
_OWN = ("validator/", "tamper/")


def locations_held(
    folder: str, report: Report, repository: Repository, environ: Mapping[str, str]
) -> frozenset[Location]:
    """The places of a report that hold in the trees of the run with the artifacts in ``folder``.

    The folder may come from anywhere, so each content must match its hash.
    """
    findings = (finding for finding in report.findings if finding.rule.startswith(_OWN))
    locations = dict.fromkeys(location for finding in findings for location in finding.evidence)
    begun = _snapshot(folder)
    if not locations or begun is None:
        return frozenset()
    with files.scratch("rlm-ci-") as scratch:
        git = PrivateGit(scratch, environ)
        git.make((*_objects(folder), *object_folders(repository)), sha256=is_sha256(begun.commit))
        sides = {"old": _entries(git, begun.tree), "new": _result(git, folder, begun)}
        entries = {location: sides[location.side].get(location.path) for location in locations}
        contents = _contents(git, {entry.oid for entry in entries.values() if entry})
    # git does not look whether an object is what its name says.
    lines_by_path = {
        oid: content
        for oid, content in contents.items()
        if content is not None and repository.blob_id(content) == oid
    }
    return frozenset(
        location
        for location, entry in entries.items()
        if entry is not None
        and entry.oid in lines_by_path
        and evidence.flaw(location, lines_by_path[entry.oid], entry.oid) is None
    )


def _contents(git: PrivateGit, oids: Iterable[str]) -> Mapping[str, bytes | None]:
    """The contents that can be had; a hostile folder may name any size, or break off."""
    contents: dict[str, bytes | None] = {}
    for oid in sorted(oids):  # one by one: what is damaged takes no other along
        with suppress(RlmCiError):
            contents[oid] = git.objects.read_small([oid], _LIMIT)[0]
    return contents


def _snapshot(folder: str) -> Snapshot | None:
    try:
        return Snapshot.from_dict(json.loads(files.read_inside(folder, SNAPSHOT, _LIMIT)))
    except (files.UnreadableError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _objects(folder: str) -> tuple[str, ...]:
    """The objects of the run, if they lead nowhere else."""
    path = os.path.realpath(folder)
    for name in ("git", "objects", "objects"):
        path = os.path.join(path, name)
        if os.path.islink(path) or not os.path.isdir(path):
            return ()
    try:
        others = files.read_inside(path, "info/alternates", 0)
    except files.UnreadableError as error:
        return (path,) if error.missing else ()
    return () if others else (path,)


def put(folder: str, tree: str, environ: Mapping[str, str]) -> None:
    """Apply the patch of the run with the artifacts in ``folder`` to the files below ``tree``."""
    patch = files.read_inside(folder, PATCH, _LIMIT)
    if patch:
        apply_patch(patch, tree, environ)


def _entries(git: PrivateGit, tree: str) -> Mapping[str, TreeEntry]:
    with suppress(RlmCiError):
        return git.objects.tree(tree)
    return {}


def _result(git: PrivateGit, folder: str, begun: Snapshot) -> Mapping[str, TreeEntry]:
    """The files of the result, or those that its patch makes."""
    with suppress(files.UnreadableError, UnicodeDecodeError):
        tree = files.read_inside(folder, f"git/{RESULT}", 1024).decode("ascii").strip()
        if is_object_id(tree) and (entries := _entries(git, tree)):
            return entries
    index = "result.index"
    with suppress(files.UnreadableError, RlmCiError):
        patch = files.read_inside(folder, PATCH, _LIMIT)
        before = begun.tree if _entries(git, begun.tree) else begun.head
        git.read(git.folder, index, "read-tree", *([before] if before else ["--empty"]))
        git.read(git.folder, index, "apply", "--cached", "--whitespace=nowarn", "-", stdin=patch)
        return _entries(git, git.read(git.folder, index, "write-tree").decode().strip())
    return {}
