"""Decides which files of a repository are read, with a reason for each other file.

A reason is a word for machines, then a colon and the details for people.
"""

from __future__ import annotations

import os
from contextlib import suppress

from rlm_ci.errors import ConfigError
from rlm_ci.system import files
from rlm_ci.text.globs import LOCK_FILES, matcher
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rlm_ci.git.repository import Repository

#: The first words of reasons.
LINK = "link"
SUBMODULE = "submodule"
SPECIAL = "special"
MISSING = "missing"
UNREADABLE = "unreadable"
TOO_LARGE = "too_large"
LOCK_FILE = "lock_file"
EXCLUDED = "excluded"
IGNORED = "ignored"
LITTER = "litter"
OWN = "own"
GENERATED = "generated"
VENDORED = "vendored"
BINARY = "binary"
#: The reason for a binary file.
ZERO = f"{BINARY}: a zero byte near its beginning"

#: The folder of runs.
_RUNS = ".runs/"
_ATTRIBUTES = ".gitattributes"
#: Attributes and their reasons, strongest first.
_MARKS = {"linguist-vendored": VENDORED, "linguist-generated": GENERATED, "binary": BINARY}
#: Bytes of an attribute file, and of all of them, that are read.
_ATTRIBUTES_LIMIT = 1 << 20
_ATTRIBUTES_WHOLE = 64 << 20
#: A file with a zero byte among its first ones is binary, as for git.
_SNIFFED = 8000
#: Folders of vendored code, and the endings of generated files.
_OTHERS = frozenset((
    "vendor", "vendors", "vendored", "_vendor", "_vendored", "third_party", "third-party",
    "thirdparty", "3rdparty", "node_modules", "bower_components",
))  # fmt: skip
_SCRIPTS = (".js", ".mjs", ".cjs", ".css")
_MINIFIED = (*(f".min{end}" for end in _SCRIPTS), ".js.map", ".css.map", ".mjs.map", ".cjs.map")
#: Mean bytes of a line in generated code; and the bytes of a file that this judges.
_DENSE = 110
_JUDGED = 2000
#: The guesses as attributes, which a repository can unset.
_ALL = b"* linguist-generated linguist-vendored\n"


class EligibilityRules(Value):
    """What to leave out: patterns, large files, generated files.

    With ``guess`` also files that look generated or vendored by their names or lines.
    """

    exclude: tuple[str, ...] = ()
    max_file_bytes: int = 1 << 20
    include_generated: bool = False
    guess: bool = False


def filter_by(rules: EligibilityRules, *, committed: bool) -> Callable[[str, int], str | None]:
    """A function of path and size that says why a file is left out; None if it is read.

    ``committed`` files may lie where runs are kept. Raises ConfigError for a bad pattern.
    """
    runs = () if committed else (_RUNS,)
    limit = rules.max_file_bytes
    try:
        is_excluded = matcher(rules.exclude)
    except ValueError as error:
        raise ConfigError(
            f"recursion.exclude has a pattern that cannot be read: {error}", hint="fix the pattern"
        ) from None

    def reason(path: str, size: int) -> str | None:
        if path.startswith(runs):
            return f"{OWN}: a run of rlm-ci"
        if is_excluded(path):
            return f"{EXCLUDED}: by the configuration"
        if path.rpartition("/")[2] in LOCK_FILES:
            return f"{LOCK_FILE}: written by a package manager"
        return f"{TOO_LARGE}: {size:,} bytes, more than {limit:,}" if size > limit else None

    return reason


def is_binary(content: bytes) -> bool:
    return content.find(b"\0", 0, _SNIFFED) >= 0


def is_attributes(path: str) -> bool:
    """Whether git would read it as a file of attributes."""
    folders, _, name = path.rpartition("/")
    return name == _ATTRIBUTES and not any(
        part in ("", ".", "..") or part.lower() == ".git" for part in folders.split("/") if folders
    )


def marked(
    repository: Repository,
    attributes: Mapping[str, bytes],
    paths: list[str],
    *,
    include_generated: bool,
) -> dict[str, str]:
    """Those of ``paths`` that the attribute files exclude, with the reasons."""
    names = ("binary",) if include_generated else tuple(_MARKS)
    return {
        path: next(f"{word}: by .gitattributes" for name, word in _MARKS.items() if name in has)
        for path, has in _attributes(repository, attributes, names, paths).items()
    }


def is_dense(content: bytes) -> bool:
    """Whether its lines are as long as those of a bundle."""
    return len(content) >= _JUDGED and len(content) > _DENSE * (content.count(b"\n") + 1)


def guess(path: str, *, dense: bool) -> str | None:
    """Why a file is not the project's own, by its name or the length of its lines."""
    *folders, name = path.split("/")
    folder = next((part for part in folders if part.lower() in _OTHERS), None)
    if folder is not None:
        return f"{VENDORED}: by its folder, {folder}/"
    if name.endswith(_MINIFIED):
        return f"{GENERATED}: by its name"
    if dense and name.endswith(_SCRIPTS):
        return f"{GENERATED}: its lines are those of a bundle"
    return None


def confirmed(
    repository: Repository, attributes: Mapping[str, bytes], guesses: Mapping[str, str]
) -> dict[str, str]:
    """The guesses that no attribute file unsets: ``vendor/** -linguist-vendored``."""
    if not attributes:
        return dict(guesses)
    assumed = {**attributes, _ATTRIBUTES: _ALL + attributes.get(_ATTRIBUTES, b"")}
    names = {word: name for name, word in _MARKS.items() if word != BINARY}
    marks = _attributes(repository, assumed, tuple(names.values()), list(guesses))
    return {
        path: why
        for path, why in guesses.items()
        if names[why.partition(":")[0]] in marks.get(path, ())
    }


def heeded(attributes: Iterable[tuple[str, bytes | None]]) -> dict[str, bytes]:
    """The attribute files that are small enough to be read, with their contents."""
    contents: dict[str, bytes] = {}
    size = 0
    for path, content in attributes:
        if content and len(content) <= _ATTRIBUTES_LIMIT:
            size += len(content)
            if size > _ATTRIBUTES_WHOLE:
                break
            contents[path] = content
    return contents


def _attributes(
    repository: Repository, contents: Mapping[str, bytes], names: Sequence[str], paths: list[str]
) -> dict[str, set[str]]:
    """The attributes ``names`` of ``paths`` by these files, which git reads from a folder.

    Raises StorageError.
    """
    if not contents or not paths:
        return {}
    from tempfile import TemporaryDirectory

    try:
        holder = TemporaryDirectory(prefix="rlm-ci-", ignore_cleanup_errors=True)
    except OSError as error:
        raise files.storage_error(error, "the folder of temporary files") from None
    with holder as root:
        for path, content in contents.items():
            # A name that no file system takes could not be checked out either.
            with suppress(OSError):
                os.makedirs(os.path.join(root, os.path.dirname(path)), exist_ok=True)
                with open(os.path.join(root, path), "wb") as stream:
                    stream.write(content)
        return repository.attributes(names, paths, root)
