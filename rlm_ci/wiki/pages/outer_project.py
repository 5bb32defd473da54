"""The repository around a folder that has its own wiki: paths, and manifests."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from hashlib import sha256

from rlm_ci.git.objects import parse_tree
from rlm_ci.source.outline import outline
from rlm_ci.system import files
from rlm_ci.values import Value
from rlm_ci.wiki.facts.dependencies import declared, is_listed
from rlm_ci.wiki.pages.paths import folder_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rlm_ci.git.repository import Repository
    from rlm_ci.source import Outline

#: They say what a project needs, and by which name its parts are imported.
_MANIFEST = re.compile(
    r"pyproject\.toml|setup\.(?:py|cfg)|package\.json|Cargo\.toml|go\.mod"
    r"|requirements[\w.-]*\.txt|(?:ts|js)config(?:\.[\w.-]+)?\.json"
)
#: So many of them are read, the nearest to the top, and so many bytes of each.
_MOST, _LONGEST = 500, 1 << 20


class OuterProject(Value):
    """The repository around the folder ``under``: its paths, and the contents of its manifests."""

    under: str
    paths: tuple[str, ...] = ()
    manifests: Mapping[str, bytes] = {}

    @classmethod
    def at_commit(cls, repository: Repository, commit: str, under: str) -> OuterProject:
        with repository.start_tree(commit, sizes=True) as listing:
            tree = parse_tree(listing.finish())
        paths = _beyond((path for path, entry in tree.items() if entry.is_file), under)
        manifests = [
            manifest for manifest in _manifests(paths) if 0 <= tree[manifest].size <= _LONGEST
        ]
        contents = repository.read(*(tree[path].oid for path in manifests)) if manifests else []
        pairs = zip(manifests, contents, strict=True)
        return cls(under, paths, {path: data for path, data in pairs if data is not None})

    @classmethod
    def on_disk(cls, repository: Repository, every: Iterable[str], under: str) -> OuterProject:
        """``every``: the files of the work tree."""
        paths, manifests = _beyond(every, under), {}
        for path in _manifests(paths):
            with suppress(files.UnreadableError):
                manifests[path] = files.read_inside(repository.root, path, _LONGEST)
        return cls(under, paths, manifests)

    def digest(self) -> str:
        parts = [self.under, *self.paths]
        parts += [f"{path}\0{sha256(data).hexdigest()}" for path, data in self.manifests.items()]
        return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()

    def outlines(self) -> list[Outline]:
        return [outline(path, data) for path, data in self.manifests.items()]

    def needed(self) -> frozenset[str]:
        """The packages that the manifests above the folder declare."""
        above = [
            (path, data)
            for path, data in self.manifests.items()
            if f"{self.under}/".startswith(f"{_home(path)}/") or not _home(path)
        ]
        return frozenset(name for path, data in above for name, _ in declared(path, data))


def _home(path: str) -> str:
    return path.rpartition("requirements/")[0].rstrip("/") if is_listed(path) else folder_of(path)


def _beyond(every: Iterable[str], under: str) -> tuple[str, ...]:
    return tuple(
        sorted(path for path in every if path != under and not path.startswith(f"{under}/"))
    )


def _manifests(paths: Sequence[str]) -> list[str]:
    manifests = [
        path for path in paths if _MANIFEST.fullmatch(path.rpartition("/")[2]) or is_listed(path)
    ]
    return sorted(manifests, key=lambda path: (path.count("/"), path))[:_MOST]


def listed(repository: Repository) -> list[str]:
    """The files of a work tree that git knows or does not ignore. Raises what git raises."""
    with repository.start_listing() as listing:
        names = dict.fromkeys(listing.finish().split(b"\0"))
    return [os.fsdecode(name).replace(os.sep, "/") for name in names if name]
