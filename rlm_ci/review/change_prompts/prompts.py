"""The prompts of a change: all of its hunks, parted by relation, with what stands around them.

Each is a leaf of a recursion.
"""

from __future__ import annotations

import re

from rlm_ci.pipelines.repository import plan
from rlm_ci.recursion import prompt_windows
from rlm_ci.recursion.corpus.corpus import CorpusFile
from rlm_ci.recursion.tree_split import PromptPart
from rlm_ci.review.change.affected_files import AffectedFiles
from rlm_ci.review.change_prompts.changed_files import readable
from rlm_ci.review.change_prompts.cut_hunks import too_long
from rlm_ci.review.change_prompts.digest import ROOM, digest_of
from rlm_ci.review.change_prompts.hunk_rows import (
    CODE,
    DOCUMENT,
    MOST,
    NEW,
    PROSE,
    REMOVED,
    fits,
    joined,
    rows,
    spans,
)
from rlm_ci.review.change_prompts.listing import AROUND, ChangePrompts, Listing, Neighbours
from rlm_ci.review.change_prompts.pieces import packed, pieces_of, size_of
from rlm_ci.text.printable import clip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.git.repository import Repository
    from rlm_ci.pipelines.repository.plan import RepositoryScope
    from rlm_ci.review.change_prompts.hunk_rows import ReadableFile
    from rlm_ci.review.change_prompts.listing import ChangePrompt


#: All listings of a change have at most so many times the bytes of its diff with 12 lines of
#: context, without documents if it has more code, or as many bytes as this if it is small.
_TIMES, _LEAST = 1.15, 24_000
#: The same for files that a push has touched: what stands around them was read with the others.
_LEAST_AGAIN = 12_000
#: The share of that diff for documents, or as many bytes where that is less, and those that come
#: first: they say what is promised.
_DOCUMENTS, _LEAST_DOCUMENTS = 0.1, 12_000
_NEWS = re.compile(r"(?i)(change|history|news|release)[^/]*$")
#: The share of it that the hunks may need; context is cut until they do.
_HUNKS = 0.9
#: The share of each prompt that hunks fill where they need several.
_FILLED = 0.87
#: The share of a plain diff that the digest may have, or as many bytes where that is less.
_DIGEST, _LEAST_DIGEST = 0.15, 4_000
_CONTEXTS = (MOST, 8, 5, 3, 1)
#: Characters about files without lines to show.
_SILENT = 4_000


def prompts_of(
    change: ChangeSet,
    files: AffectedFiles,
    scope: RepositoryScope,
    room: int,
    container: Container[str] | None = None,
    *,
    described: Container[str] | None = None,
    minimum: int = 2 * prompt_windows.LEAST,
) -> ChangePrompts:
    """The prompts of ``change``, each listing of at most ``room`` bytes; none for ``minimum``.

    Only the changed files ``container`` are shown (None: all). Every line of theirs that is new or
    removed is in a prompt, or its file is missing or unread. The digest shows the files
    ``described`` (None: all). Raises StorageError.
    """
    readable_change = readable(change, files.corpus, scope, None)
    read = (
        readable_change if container is None else readable(change, files.corpus, scope, container)
    )
    plain, unread = _plain(readable_change.files)
    quiet = [f"=== {prompt_windows.name(path)} === changed; not shown" for path in unread]
    read = read.replace(
        files=tuple(
            readable_file for readable_file in read.files if readable_file.path not in unread
        )
    )
    silent = clip("\n".join((*read.silent, *quiet)), min(_SILENT, room // 4))
    room -= len(silent.encode("utf-8", "replace")) + len(AROUND) + 2
    if room < minimum:
        missing = ((file.path, "a prompt has no room for its hunks") for file in read.files)
        return ChangePrompts((), (*read.missing, *missing))
    short = _LEAST if container is None else _LEAST_AGAIN
    limit = max(short, int(_TIMES * plain * _share(read.files, readable_change.files)))
    context = _context(read.files, int(_HUNKS * limit))
    fill = room
    pieces = [piece for file in read.files for piece in pieces_of(file, context, fill, room)]
    if sum(piece.size for piece in pieces) > room:
        fill = int(_FILLED * room)
        pieces = [piece for file in read.files for piece in pieces_of(file, context, fill, room)]
    total = sum(piece.size for piece in pieces)
    groups = packed(pieces, context, fill, room)
    neighbours = Neighbours(files, change.names(), read.files)
    prompts = []
    for number, group in enumerate(groups, 1):
        size = sum(piece.size for piece in group)
        spare = min(room - size, max(0, limit - total) * size // max(1, total))
        listing = Listing(group, context, room)
        listing.fill(neighbours, spare)
        prompts.append(listing.prompt(number, len(groups), silent if number == 1 else ""))
    lost = (row for file in read.files for row in _missing(file, room))
    unseen = tuple(dict.fromkeys((*read.missing, *lost)))
    some = [
        readable_file
        for readable_file in readable_change.files
        if described is None or readable_file.path in described
    ]
    cap = max(_LEAST_DIGEST, min(ROOM, int(_DIGEST * plain * _share(some, readable_change.files))))
    digest = digest_of(readable_change, min(room, cap), described)
    return ChangePrompts(tuple(prompts), unseen, digest, unread)


def _share(some: Sequence[ReadableFile], every: Sequence[ReadableFile]) -> float:
    return sum(map(_diffed, some)) / max(1, sum(map(_diffed, every)))


def _plain(files: Sequence[ReadableFile]) -> tuple[int, tuple[str, ...]]:
    """About the bytes of a plain diff, and the documents that are too many beside the code."""
    sizes = {file.path: _diffed(file) for file in files}
    documents = [file.path for file in files if file.kind == DOCUMENT]
    total = sum(sizes.values())
    code = total - sum(sizes[path] for path in documents)
    if 2 * code < total:
        return total, ()
    left = max(_LEAST_DOCUMENTS, int(_DOCUMENTS * code))
    unread = []
    for path in sorted(documents, key=lambda path: (not _NEWS.search(path), sizes[path], path)):
        if sizes[path] > left:
            unread.append(path)
        else:
            left -= sizes[path]
    return code, tuple(unread)


def _missing(file: ReadableFile, room: int) -> Iterator[tuple[str, str]]:
    """What no prompt of ``room`` bytes shows of the changes of a file."""
    for row in rows(file, spans(file, file.edits, 0)):
        if row.mark in (NEW, REMOVED) and not fits(row, room):
            yield file.path, too_long(row)


def _diffed(file: ReadableFile) -> int:
    """About the bytes of a file in git's diff, with the context that a person would ask for."""
    around = {CODE: MOST, DOCUMENT: PROSE}.get(file.kind, 0)
    shown = joined(((edit.at - around, edit.last + around) for edit in file.edits), len(file.lines))
    gone = sum(len(line) + 2 for edit in file.edits for line in edit.removed)
    lines = (line for low, high in shown for line in file.lines[low - 1 : high])
    return gone + sum(len(line) + 2 for line in lines)


def _context(files: Sequence[ReadableFile], limit: int) -> int:
    """The most lines of context with which the hunks have at most ``limit`` bytes."""
    for context in _CONTEXTS:
        listed = (rows(file, spans(file, file.edits, context)) for file in files)
        if sum(map(size_of, listed)) <= limit:
            return context
    return _CONTEXTS[-1]


def near_of(
    within: RepositoryScope, repository: Repository, own_folders: Sequence[str]
) -> AffectedFiles:
    """All files at the head; ``own_folders`` are folders in which rlm-ci writes."""
    change = plan.change_of(within, repository)
    kinds = {} if change is None else change.kinds
    gone = [path for path, kind in kinds.items() if kind == "D"]
    return AffectedFiles(plan.corpus(within, repository, own_folders), gone)


def part_of(prompt: ChangePrompt, files: AffectedFiles) -> PromptPart:
    """A prompt as a leaf, with the files that it answers for and those that it shows besides."""
    by_path = {file.path: file for file in files.files((*prompt.paths, *prompt.files))}
    covered = tuple(by_path.pop(path, CorpusFile.of((path, "", 0))) for path in prompt.paths)
    size = len(prompt.text.encode("utf-8", "replace"))
    return PromptPart.of((prompt.label, covered, tuple(by_path.values()), size))
