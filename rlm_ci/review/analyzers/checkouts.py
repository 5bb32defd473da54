"""A tree of the repository as files, for a tool that looks at it as a whole.

Files that configure tools are the base's: a change must not relax its judge. The contents are
git's own, without filters, so that line numbers hold.
"""

from __future__ import annotations

import os
from contextlib import suppress

from rlm_ci.errors import ConfigError
from rlm_ci.git.objects import batches
from rlm_ci.review.analyzers.scratch_folder import NO_NAME, configures
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from rlm_ci.git.repository import Repository

#: Bytes of a file that is taken, and of those that are read at once.
_LARGEST = 16 << 20
_BATCH = 32 << 20
LINK, _SCRIPT = "120000", "100755"
#: They define what is built, so they must fit the code.
_BUILDS = frozenset(("Cargo.toml", "build.rs", "package-lock.json"))


class AnalyzedTree(Value):
    """The files of a commit, or of the work tree where ``commit`` is None; modes by path."""

    repository: Repository
    commit: str | None
    modes: Mapping[str, str]

    @classmethod
    def of(cls, repository: Repository, commit: str | None) -> AnalyzedTree:
        """List one. Raises ConfigError outside of git."""
        if not repository.git_dir:
            raise ConfigError(
                "a repository's own analyzers are those of a git repository",
                where="review.analyzers",
                hint="leave auto out, or name the programs: [[review.analyzers]]",
            )
        if commit is not None:
            entries = repository.tree(commit)
            modes = {path: one.mode for path, one in entries.items() if one.kind == "blob"}
            return cls(repository, commit, modes)
        with repository.start_listing() as listing:
            listed = os.fsdecode(listing.finish()).split("\0")
        return cls(repository, None, dict.fromkeys(filter(None, listed), "100644"))

    def read(self, paths: Iterable[str]) -> dict[str, bytes]:
        """The contents of those that are there, and not too large."""
        known = (path for path in paths if path in self.modes)
        batches = contents(self.repository, self.commit, known)
        return {path: content for some in batches for path, content in some.items()}

    def write(self, folder: str, paths: Iterable[str]) -> None:
        """Write files below ``folder``; links last, so that nothing is written through one."""
        links: dict[str, bytes] = {}
        known = (path for path in paths if path in self.modes and _is_safe(path))
        for some in contents(self.repository, self.commit, known):
            for path, content in some.items():
                if self.modes[path] == LINK:
                    links[path] = content
                else:
                    _write(os.path.join(folder, path), content, self.modes[path])
        for path, target in links.items():
            with suppress(OSError, ValueError):
                if make_folder(folder, os.path.dirname(path)):
                    os.symlink(os.fsdecode(target), os.path.join(folder, path))


def contents(
    repository: Repository, commit: str | None, paths: Iterable[str], largest: int = _LARGEST
) -> Iterator[dict[str, bytes]]:
    """Batches of files of at most ``largest`` bytes each, at a commit or in the work tree."""
    if commit is None:
        for path in paths:
            with suppress(files.UnreadableError):
                yield {path: files.read_inside(repository.root, path, largest)}
        return

    specs = [f"{commit}:{path}" for path in paths if "\n" not in path]
    sizes = zip(specs, repository.sizes(specs) if specs else (), strict=True)
    for some in batches(((spec, size) for spec, size in sizes if 0 <= size <= largest), _BATCH):
        found = zip(some, repository.read(*some), strict=True)
        yield {spec.partition(":")[2]: data for spec, data in found if data is not None}


def lay(
    tree: AnalyzedTree,
    policy: AnalyzedTree,
    folder: str,
    left_out: Collection[str] = (),
    instead: AnalyzedTree | None = None,
) -> None:
    """Write ``tree`` below ``folder``, with the files of ``policy`` that configure tools.

    Of those ``left_out`` it has what ``instead`` holds. ``folder`` is a real path.
    """
    settings = [path for path in policy.modes if is_setting(path) and policy.modes[path] != LINK]
    policy.write(folder, settings)
    if instead is not None:
        old = (path for path in left_out if path in instead.modes and not is_setting(path))
        instead.write(folder, (path for path in old if instead.modes[path] != LINK))
    kept = (path for path in tree.modes if path not in left_out)
    tree.write(folder, (path for path in kept if not is_setting(path)))


def make_folder(folder: str, path: str) -> bool:
    """Make ``path`` below ``folder``; False where a link of the tree would lead it elsewhere."""
    place = os.path.join(folder, path) if path else folder
    if os.path.realpath(place) != place:
        return False
    os.makedirs(place, 0o700, exist_ok=True)
    return True


def is_setting(path: str) -> bool:
    """Whether the base's version of the file counts."""
    return configures(path) and path.rpartition("/")[2] not in _BUILDS


def _is_safe(path: str) -> bool:
    return all(part not in ("", ".", "..") and part.lower() != ".git" for part in path.split("/"))


def _write(place: str, content: bytes, mode: str) -> None:
    try:
        os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
        with open(place, "xb") as file:
            file.write(content)
        if mode == _SCRIPT:
            os.chmod(place, 0o700)
    except OSError as error:
        # The file system cannot hold the name, or takes two names for one.
        if error.errno not in NO_NAME:
            raise files.storage_error(error, place) from None
