"""Which pages of a wiki a change makes stale: what they show of the sources is another.

It compares lines that pages cite and what the changed files offer to cite. ``rlm-ci wiki --check``
makes all pages, and finds the same ones stale, but for some that this takes for stale in vain.
"""

from __future__ import annotations

from collections import Counter
from functools import cache
from hashlib import sha256
from itertools import islice

from rlm_ci.report.findings import Location
from rlm_ci.values import Value
from rlm_ci.wiki.facts.file_facts import facts_of
from rlm_ci.wiki.pages.citations import QUOTED, LineRuns, lines_in, quote_hash
from rlm_ci.wiki.pages.facts_page import FACTS
from rlm_ci.wiki.pages.layout import is_source
from rlm_ci.wiki.pages.paths import page_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from rlm_ci.change.change_set import ChangeSet, FileChange
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.citations import HashedPlace
    from rlm_ci.wiki.update.state import WikiState

#: Bytes of a file that are read to find cited lines.
_LIMIT = 8 << 20
#: Changed files whose facts are compared; of more, those that are cited count as others.
_MOST = 500


class StalePage(Value):
    """A page, and the places that it cites and that are no more: as they were, old side.

    ``paths`` are the changed files of which it shows something else now.
    """

    page: str
    places: tuple[Location, ...]
    paths: tuple[str, ...] = ()


def stale(state: WikiState, change: ChangeSet, folder: str = "") -> tuple[StalePage, ...]:
    """The pages that a run of the wiki would write again because of ``change``.

    ``folder`` is that of the wiki, which is no source of itself.
    """
    files = [file for file in change.files() if not f"/{file.path}".startswith(f"/{folder}/")]
    places = _cited_and_gone(state, change, files)
    paths = _shown_otherwise(state, change, files)
    return tuple(
        StalePage(name, tuple(places.get(name, ())), tuple(paths.get(name, ())))
        for name in sorted(places.keys() | paths.keys())
    )


def _shown_otherwise(
    state: WikiState, change: ChangeSet, files: Sequence[FileChange]
) -> dict[str, list[str]]:
    """The changed files of which a page shows something else, or could show more, by page."""
    changed = {file.path: file for file in files}
    lines_of = _lines_of(change)
    citing: dict[str, dict[str, bool]] = {}
    beside: dict[str, set[str]] = {}
    for name, page in state.pages.items():
        for claim in page.claims:
            path = claim.place.path
            beside.setdefault(path.rpartition("/")[0], set()).add(name)
            if path in changed:
                verdicts = citing.setdefault(path, {})
                is_same = verdicts.get(name, True) and _stands(claim, changed, (), lines_of)
                verdicts[name] = is_same
    paths_by_page: dict[str, list[str]] = {}
    for number, file in enumerate(files):
        pages = set(beside.get(file.path.rpartition("/")[0], ()))
        if file.status == "M":
            verdicts = citing.get(file.path, {})
            has_more = bool(verdicts) and (number >= _MOST or _has_more(change, file.path))
            pages = {name for name, is_same in verdicts.items() if has_more or not is_same}
        if file.status != "M" or file.added != file.deleted:  # numbers of files and lines
            pages |= {FACTS} & state.pages.keys() | _page_of(file.path, state)
        for name in pages:
            paths_by_page.setdefault(name, []).append(file.path)
    return paths_by_page


def _page_of(path: str, state: WikiState) -> set[str]:
    """The page of a file of the program: its own, or that of the nearest folder around it."""
    keys = [path, *_parents(path)] if is_source(path) else []
    names = (f"modules/{page_names([key])[key]}.md" for key in keys)
    return set(islice((name for name in names if name in state.pages), 1))


def _parents(path: str) -> Iterator[str]:
    """The folders around a path, the innermost first, and "" for the top."""
    while path:
        path = path.rpartition("/")[0]
        yield path


def _lines_of(change: ChangeSet) -> Callable[[str], Sequence[str]]:
    return cache(lambda path: lines_in(change.read(path, _LIMIT) or b""))


def _has_more(change: ChangeSet, path: str) -> bool:
    """Whether there is more to cite in a file than before."""
    old, new = change.read(path, _LIMIT, old=True), change.read(path, _LIMIT)
    if old is None or new is None:
        return True
    return bool(_names_cited(facts_of(path, new)) - _names_cited(facts_of(path, old)))


def _names_cited(facts: FileFacts) -> Counter[tuple[str, ...]]:
    """What a page may cite of a file, by name: what is said of it has its lines."""
    outline = facts.outline
    return Counter(
        (
            *((symbol.kind, symbol.name) for symbol in outline.symbols),
            *(("import", entry.module, *entry.names) for entry in outline.imports),
            *((note.kind, note.within) for note in facts.notes),
            *(("needs", name) for name, _ in facts.declared),
            *(("command", command.text) for command in facts.commands),
            *(("chapter", chapter.text, chapter.paths) for chapter in facts.chapters),
        )
    )


def _cited_and_gone(
    state: WikiState, change: ChangeSet, files: Sequence[FileChange]
) -> dict[str, list[Location]]:
    """The places on the old side that pages cite, and which ``change`` edits or removes."""
    changed = {file.old_path or file.path: file for file in files if file.status != "A"}
    claims_by_path: dict[str, dict[HashedPlace, list[str]]] = {}
    for name, page in state.pages.items():
        for claim in page.claims:
            if claim.place.path in changed:
                pages = claims_by_path.setdefault(claim.place.path, {}).setdefault(claim, [])
                pages.append(name)
    locations: dict[str, list[Location]] = {}
    for path in sorted(claims_by_path):
        file_change = changed[path]
        old = change.read(path, _LIMIT, old=True)
        is_gone = file_change.status == "D" or file_change.path != path  # links name the path, too
        new = None if is_gone else change.read(file_change.path, _LIMIT)
        if old is None or (new is None and not is_gone):
            continue  # too large to be cited by lines
        for claim, location in _gone(claims_by_path[path], path, file_change.old_oid, (old, new)):
            for name in claims_by_path[path][claim]:
                locations.setdefault(name, []).append(location)
    return locations


def renewed(
    pages: Iterable[StalePage], brought: WikiState | None, change: ChangeSet, folder: str
) -> frozenset[str]:
    """Those of ``pages`` that the change itself updates in ``folder``, or removes.

    The state that it brings, ``brought``, is checked: it must describe the page, and each changed
    line that the page cites must be there.
    """
    if brought is None:
        return frozenset()
    changed = {file.path: file for file in change.files()}
    present = {path for path, file_change in changed.items() if file_change.status != "D"}
    gone = {
        file_change.old_path or file_change.path
        for file_change in changed.values()
        if file_change.status in "DR"
    } - present
    updated = set()

    lines_of = _lines_of(change)

    for outdated in pages:
        name = outdated.page
        page = brought.pages.get(name)
        text = change.read(f"{folder}/{name}", _LIMIT)
        if page is None or text is None:
            is_right = page is None and text is None
        else:
            oids = {path: changed[path].new_oid for path in outdated.paths if path in brought.blobs}
            is_right = (
                sha256(text).hexdigest() == page.sha256
                and all(brought.blobs[path] == oid for path, oid in oids.items())
                and all(_stands(claim, changed, gone, lines_of) for claim in page.claims)
            )
        if is_right:
            updated.add(name)
    return frozenset(updated)


def _stands(
    claim: HashedPlace,
    changed: Mapping[str, FileChange],
    gone: Collection[str],
    lines_of: Callable[[str], Sequence[str]],
) -> bool:
    """Whether the cited lines are there, if the file is a changed one."""
    path, start, end = claim.place
    if path not in changed or path in gone:
        return path not in gone
    lines = lines_of(path)
    if not 1 <= start <= end <= len(lines):
        return False
    quote = "\n".join(lines[start - 1 : end])
    if end - start >= QUOTED:
        quote = f"\0{changed[path].new_oid}"
    return quote_hash(quote) == claim.quote


def _gone(
    claims: Iterable[HashedPlace], path: str, blob: str, sides: tuple[bytes, bytes | None]
) -> list[tuple[HashedPlace, Location]]:
    """The claims whose lines are on the old side only."""
    old = lines_in(sides[0])
    new = None if sides[1] is None else LineRuns(lines_in(sides[1]), _hashes)
    before = LineRuns(old, _hashes)
    gone = []
    for claim in sorted(claims, key=lambda claim: tuple(claim.place)):
        start, end = claim.place.line_start, claim.place.line_end
        length = end - start + 1
        if length > QUOTED:  # the file as a whole is meant: it may change, but must be there
            if new is None:
                gone.append((claim, Location(path, None, None, "old", blob)))
            continue
        places = before.starts(claim.quote, length)
        if not places or (new is not None and new.starts(claim.quote, length)):
            continue
        first = min(places, key=lambda number: (abs(number - start), number))
        quote = "\n".join(old[first - 1 : first - 1 + length])
        gone.append((claim, Location(path, first, first + length - 1, "old", blob, quote)))
    return gone


def _hashes(lines: Sequence[str]) -> tuple[str, ...]:
    return (quote_hash("\n".join(lines)),)
