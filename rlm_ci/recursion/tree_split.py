"""Splits a node into ranges of the corpus, cut where folders, files and definitions end.

A part is a plain tuple, because a large repository has hundreds of thousands of them: its kind,
its path, its first file and the one behind its last, its first and last line (0 for whole files),
its bytes. The parts of a part lie end to end and leave nothing out. Beside its files, a root may
have prompts: leaves that a model answers, about lines of several files.
"""

from __future__ import annotations

import posixpath
from array import array
from bisect import bisect_left, bisect_right
from hashlib import sha256
from itertools import accumulate

from rlm_ci.recursion.nodes import (
    FILE_GROUP,
    FILE_SLICE,
    FOLDER,
    MODULE,
    PROMPT,
    REPO,
    Node,
    NodeScope,
)  # fmt: skip
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rlm_ci.recursion.corpus.corpus import Corpus, CorpusFile

    #: kind, path, first, last, line_start, line_end, size
    Part = tuple[str, str, int, int, int, int, int]
    Slice = tuple[int, int, int]  # first line, last line, bytes

#: Why a node is a leaf.
SMALL_ENOUGH = "small_enough"
MAX_DEPTH_REACHED = "max_depth_reached"
BUDGET_BELOW_RESERVE = "budget_below_reserve"
SPLIT_CONFIDENCE_LOW = "split_confidence_low"
DEADLINE_EXCEEDED = "deadline_exceeded"
#: Why a node is split.
TOO_LARGE = "too_large"
TOO_MANY_FILES = "too_many_files"
HAS_PROMPTS = "has_prompts"

#: Confidence that parts make sense separately, if they are files.
_BY_FILES = 0.9

#: Confidence in pieces, if any begins with a definition, or all begin between lines.
BY_SYNTAX = 0.8
BY_LINES = 0.5

#: A folder with one of these is a package of its language.
_PACKAGES = frozenset((
    "__init__.py", "pyproject.toml", "setup.py", "go.mod", "Cargo.toml", "package.json", "pom.xml",
    "build.gradle", "build.gradle.kts", "composer.json", "CMakeLists.txt", "BUILD", "BUILD.bazel",
    "mod.rs", "package-info.java",
))  # fmt: skip
_PACKAGE_ENDS = (".csproj", ".fsproj", ".gemspec", ".cabal")
#: Folders of at most this part of a leaf are put together.
_TINY = 4


class TreeShape(Value):
    """How large a leaf may be, and how many parts a node has at most."""

    leaf_bytes: int = 256 << 10
    leaf_files: int = 16
    most_parts: int = 64


class PromptPart(Row):
    """A leaf of the root beside its files. ``covered`` are the files that it answers for, also
    those that are gone, without an id; ``around`` are others that it shows lines of.
    """

    label: str
    covered: tuple[CorpusFile, ...]
    around: tuple[CorpusFile, ...]
    size: int


class SplitTree:
    """The parts of a corpus. Only a file that has to be cut is read."""

    def __init__(
        self, corpus: Corpus, shape: TreeShape, prompts: Sequence[PromptPart] = ()
    ) -> None:
        if shape.leaf_bytes < 1 or shape.leaf_files < 1 or shape.most_parts < 2:
            raise ValueError("a leaf has a byte and a file, a split at least two parts")
        self.shape = shape
        self.corpus = corpus
        self._files = corpus.files
        sizes = (file.size for file in corpus.files)
        #: Bytes before each file.
        self._before = array("q", accumulate(sizes, initial=0))
        self._lines = LineStarts(corpus)
        self._prompts = {prompt.label: prompt for prompt in prompts}

    def root_part(self) -> Part:
        return REPO, "", 0, len(self._files), 0, 0, self._before[-1]

    def size(self, first: int, last: int) -> int:
        return self._before[last] - self._before[first]

    def is_small(self, part: Part) -> bool:
        return self._fits(part[6], part[3] - part[2])

    def _fits(self, size: int, files: int) -> bool:
        return size <= self.shape.leaf_bytes and files <= self.shape.leaf_files

    def has_prompts(self, part: Part) -> bool:
        return bool(self._prompts) and part[0] == REPO

    def files(self, part: Part) -> Sequence[CorpusFile]:
        """The files that a part answers for."""
        if part[0] == PROMPT:
            return self._prompts[part[1]].covered
        return self._files[part[2] : part[3]]

    def readable(self, part: Part) -> Sequence[CorpusFile]:
        """The files whose texts a leaf gets."""
        if part[0] != PROMPT:
            return self.files(part)
        prompt_part = self._prompts[part[1]]
        return [file for file in (*prompt_part.covered, *prompt_part.around) if file.oid]

    def confidence(self, part: Part) -> float:
        """The confidence that its parts make sense separately; 0.0 if it cannot be split."""
        _, _, first, last, start, end, _ = part
        if last - first != 1:
            return _BY_FILES if last > first else 0.0
        return self._lines.confidence(first, start, end, self.shape.leaf_bytes)

    def parts(self, part: Part) -> list[Part]:
        """The parts of a part, in order; the part itself if it cannot be split."""
        _, _, first, last, start, end, _ = part
        if self.has_prompts(part):
            return self._beside(first, last)
        pieces = self._sliced(first, start, end) if last - first == 1 else self._units(part)
        return self._few(part, pieces) if pieces else [part]

    def _beside(self, first: int, last: int) -> list[Part]:
        """The files as one part, and the prompts."""
        files: list[Part] = [(FILE_GROUP, "", first, last, 0, 0, self.size(first, last))]
        prompts = (
            (PROMPT, prompt.label, last, last, 0, 0, prompt.size)
            for prompt in self._prompts.values()
        )
        return [*(files if last > first else ()), *prompts]

    def _units(self, part: Part) -> list[Part]:
        """Its files and folders; small neighbours together."""
        first, last = part[2:4]
        files = self._files
        folder = self._above(part)
        depth = len(folder) + 1 if folder else 0
        at = self._until(first, last, lambda file: "/" in file.path[depth:])
        parts = self._packed_files(folder, first, at)
        tiny: list[Part] = []
        while at < last:
            name = files[at].path
            inner = name[: name.index("/", depth) + 1]
            end = self._behind(inner, at, last)
            folder_part = self._folder(at, end)
            if not self._fits(folder_part[6] * _TINY, (end - at) * _TINY):
                parts += [*self._together(folder, tiny), folder_part]
                tiny = []
            elif tiny and not self._fits(self.size(tiny[0][2], end), end - tiny[0][2]):
                parts += self._together(folder, tiny)
                tiny = [folder_part]
            else:
                tiny.append(folder_part)
            at = end
        return [*parts, *self._together(folder, tiny)]

    def _packed_files(self, folder: str, first: int, last: int) -> list[Part]:
        """The files of a folder, as many together as a leaf takes; a large one alone."""
        parts: list[Part] = []
        start = first
        for at in range(first, last + 1):
            is_full = at > start and (
                at == last
                or at - start == self.shape.leaf_files
                or self.size(start, at + 1) > self.shape.leaf_bytes
            )
            if is_full:
                parts.append(self._group(folder, start, at))
                start = at
        return parts

    def _group(self, folder: str, first: int, last: int) -> Part:
        size = self.size(first, last)
        is_large = last - first == 1 and size > self.shape.leaf_bytes
        path = self._files[first].path if is_large else folder
        return FILE_GROUP, path, first, last, 0, 0, size

    def _folder(self, first: int, last: int) -> Part:
        """A folder; the innermost one if it has only one folder in it."""
        files = self._files
        path = _common(files[first].path, files[last - 1].path)
        depth = len(path) + 1
        loose = self._until(first, last, lambda corpus_file: "/" in corpus_file.path[depth:])
        names = (file.path[depth:] for file in files[first:loose])
        is_package = any(name in _PACKAGES or name.endswith(_PACKAGE_ENDS) for name in names)
        kind = MODULE if is_package else FOLDER
        return kind, path, first, last, 0, 0, self.size(first, last)

    def _behind(self, folder: str, first: int, last: int) -> int:
        return self._until(first, last, lambda file: not file.path.startswith(folder))

    def _until(self, first: int, last: int, is_behind: Callable[[CorpusFile], bool]) -> int:
        """The first file that ``is_behind``, as are all those after it, else ``last``."""
        return bisect_left(self._files, x=True, lo=first, hi=last, key=is_behind)

    def _together(self, folder: str, some: list[Part]) -> list[Part]:
        if len(some) < 2:
            return some
        first, last = some[0][2], some[-1][3]
        return [(FILE_GROUP, folder, first, last, 0, 0, self.size(first, last))]

    def _sliced(self, file: int, start: int, end: int) -> list[Part]:
        path = self._files[file].path
        slices = self._lines.slices(file, start, end, self.shape.leaf_bytes)
        if len(slices) < 2:
            return []
        return [
            (FILE_SLICE, path, file, file + 1, first, last, size) for first, last, size in slices
        ]

    def _few(self, parent: Part, parts: list[Part]) -> list[Part]:
        """The parts, no more than a node may have: neighbours are joined, and split later."""
        limit = self.shape.most_parts
        if len(parts) <= limit:
            return parts
        each = -(-len(parts) // limit)
        grouped: list[Part] = []
        for at in range(0, len(parts), each):
            some = parts[at : at + each]
            head, tail = some[0], some[-1]
            size = sum(part[6] for part in some)
            if len(some) == 1:
                grouped.append(head)
            elif head[0] == FILE_SLICE:
                grouped.append((*head[:4], head[4], tail[5], size))
            else:
                folder = self._above(parent)
                grouped.append((FILE_GROUP, folder, head[2], tail[3], 0, 0, size))
        return grouped

    def _above(self, part: Part) -> str:
        """The folder whose files and folders are the parts of ``part``."""
        if part[0] == FILE_GROUP:
            return part[1]
        return _common(self._files[part[2]].path, self._files[part[3] - 1].path)


def _common(text: str, other: str) -> str:
    return posixpath.commonpath((posixpath.dirname(text), posixpath.dirname(other)))


def identity(parent: str, part: Part, files: Sequence[CorpusFile]) -> str:
    """The id of a node, from its scope and its parent.

    A folder is identified by its path, so that files which come or go elsewhere do not matter.
    """
    kind, path, first, last, start, end, _ = part
    if kind == FILE_GROUP:
        text = f"{parent}\0{kind}\0{path}\0{files[first].path}\0{files[last - 1].path}"
    elif kind == FILE_SLICE:
        text = f"{parent}\0{kind}\0{path}\0{start}-{end}"
    else:
        text = f"{parent}\0{kind}\0{path}"
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


def node_of(identifier: str, parent: str | None, depth: int, part: Part) -> Node:
    kind, path, first, last, start, end, _ = part
    scope = NodeScope.of((kind, path, first, last, start or None, end or None))
    return Node.of((identifier, parent, depth, scope))


class LineStarts:
    """Where the lines of a large file begin; the last file is kept."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._file = -1
        self._starts: Sequence[int] = ()
        self._borders: Sequence[int] = ()

    def slices(self, file: int, start: int, end: int, limit: int) -> list[Slice]:
        """The lines ``start`` to ``end`` (0: all) in pieces of at most ``limit`` bytes.

        A longer line is a piece of its own. A piece ends before a definition if one is near.
        """
        starts = self._opened(file)
        start, end = start or 1, end or len(starts) - 1
        slices = []
        while start <= end:
            # The last line that ends within.
            room = bisect_right(starts, starts[start - 1] + limit) - 1
            last = max(start, min(room, end))
            if last < end:
                last = self._border(start, last)
            slices.append((start, last, starts[last] - starts[start - 1]))
            start = last + 1
        return slices

    def confidence(self, file: int, start: int, end: int, limit: int) -> float:
        """The confidence that the pieces make sense separately; 0.0 for a single one."""
        begins = {first for first, _, _ in self.slices(file, start, end, limit)[1:]}
        if not begins:
            return 0.0
        return BY_LINES if begins.isdisjoint(self._borders) else BY_SYNTAX

    def _border(self, start: int, last: int) -> int:
        """The last line of a piece: before a border in its latter half, else ``last``."""
        borders = self._borders
        at = bisect_right(borders, last + 1) - 1
        if at < 0 or borders[at] <= start + (last - start) // 2:
            return last
        return borders[at] - 1

    def _opened(self, file: int) -> Sequence[int]:
        if file != self._file:
            from rlm_ci.source.cut_points import borders

            corpus_file = self._corpus.files[file]
            content = self._corpus.read((corpus_file,))[0]
            starts = offsets(content)
            border_lines = sorted(
                {line for line in borders(corpus_file.path, content) if 1 < line < len(starts)}
            )
            self._borders = border_lines
            self._starts, self._file = starts, file
        return self._starts


def offsets(content: bytes) -> Sequence[int]:
    """The offset of each line, and the length of all behind them."""
    starts = array("q", (0,))
    at = content.find(b"\n") + 1
    while at:
        starts.append(at)
        at = content.find(b"\n", at) + 1
    if starts[-1] != len(content):
        starts.append(len(content))
    return starts


def cut(content: bytes, start: int, end: int) -> bytes:
    """The lines ``start`` to ``end`` of a text."""
    starts = offsets(content)
    return content[starts[start - 1] : starts[min(end, len(starts) - 1)]]
