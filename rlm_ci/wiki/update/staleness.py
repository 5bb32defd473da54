"""Which pages of a wiki a change makes stale: it takes lines away that they cite."""

from __future__ import annotations

from functools import cache
from hashlib import sha256

from rlm_ci.report.findings import Location
from rlm_ci.values import Value
from rlm_ci.wiki.pages.citations import QUOTED, LineRuns, lines_in, quote_hash

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from rlm_ci.change.change_set import ChangeSet, FileChange
    from rlm_ci.wiki.pages.citations import HashedPlace
    from rlm_ci.wiki.update.state import WikiState

#: Bytes of a file that are read to find cited lines.
_LIMIT = 8 << 20


class StalePage(Value):
    """A page, and the places that it cites and that are no more: as they were, old side."""

    page: str
    places: tuple[Location, ...]


def stale(state: WikiState, change: ChangeSet) -> tuple[StalePage, ...]:
    """The pages that cite lines which ``change`` edits or removes, and which were there before."""
    changed = {one.old_path or one.path: one for one in change.files() if one.status != "A"}
    wanted: dict[str, dict[HashedPlace, list[str]]] = {}
    for name, page in state.pages.items():
        for claim in page.claims:
            if claim.place.path in changed:
                pages = wanted.setdefault(claim.place.path, {}).setdefault(claim, [])
                pages.append(name)
    found: dict[str, list[Location]] = {}
    for path in sorted(wanted):
        one = changed[path]
        old = change.read(path, _LIMIT, old=True)
        is_gone = one.status == "D" or one.path != path  # links name the path, too
        new = None if is_gone else change.read(one.path, _LIMIT)
        if old is None or (new is None and not is_gone):
            continue  # too large to be cited by lines
        for claim, place in _gone(wanted[path], path, one.old_oid, (old, new)):
            for name in wanted[path][claim]:
                found.setdefault(name, []).append(place)
    return tuple(StalePage(name, tuple(found[name])) for name in sorted(found))


def renewed(
    pages: Iterable[str], brought: WikiState | None, change: ChangeSet, folder: str
) -> frozenset[str]:
    """Those of ``pages`` that the change itself updates in ``folder``, or removes.

    The state that it brings, ``brought``, is checked: it must describe the page, and each changed
    line that the page cites must be there.
    """
    if brought is None:
        return frozenset()
    changed = {one.path: one for one in change.files()}
    there = {path for path, one in changed.items() if one.status != "D"}
    gone = {one.old_path or one.path for one in changed.values() if one.status in "DR"} - there
    found = set()

    @cache
    def lines_of(path: str) -> Sequence[str]:
        return lines_in(change.read(path, _LIMIT) or b"")

    for name in pages:
        page = brought.pages.get(name)
        text = change.read(f"{folder}/{name}", _LIMIT)
        if page is None or text is None:
            is_right = page is None and text is None
        else:
            is_right = sha256(text).hexdigest() == page.sha256 and all(
                _stands(claim, changed, gone, lines_of) for claim in page.claims
            )
        if is_right:
            found.add(name)
    return frozenset(found)


def _stands(
    claim: HashedPlace,
    changed: Mapping[str, FileChange],
    gone: set[str],
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
