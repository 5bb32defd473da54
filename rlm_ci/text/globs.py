"""Path patterns of the settings: the ones of ``.gitignore``, by ``pathspec``; known file names."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: What package managers write to pin versions.
LOCK_FILES = frozenset((
    "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock",
    "bun.lockb", "poetry.lock", "uv.lock", "pdm.lock", "Pipfile.lock", "Cargo.lock", "go.sum",
    "composer.lock", "Gemfile.lock", "flake.lock", "gradle.lockfile",
))  # fmt: skip


def matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """A test for paths: does any of ``patterns`` match? The library loads only if there are any.

    ``*`` stays within a folder, ``**`` does not, a pattern without ``/`` matches at any
    depth, one that ends with ``/`` everything below a folder. Raises ValueError for a
    pattern that cannot be read.
    """
    if not patterns:
        return lambda _path: False
    import re

    from pathspec import GitIgnoreSpec

    try:
        matches = GitIgnoreSpec.from_lines(patterns).match_file
    except re.error as error:  # [z-a], which the library hands on as it is
        raise ValueError(str(error)) from None
    # A pattern ends at a line break, to a regular expression; a name does not.
    return lambda path: matches(path.replace("\n", "\0"))
