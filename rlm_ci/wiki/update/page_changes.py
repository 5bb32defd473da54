"""What is new in a wiki, page by page, and why: from the states before and after."""

from __future__ import annotations

from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.wiki.update.state import PageState, ProseSentence, WikiState

NEW = "it is new"
GONE = "its sources are gone"
CITED = "lines that it cites changed"
MORE = "there are new lines to cite"
MOVED = "lines that it cites moved"
OTHER = "what it says of files, names or history changed"
COMMIT = "the commit that it names is not in the history"
#: Files that a reason names.
_NAMED = 3


class PageChange(Value):
    """A page, why its text is another, and the files that the reason is about."""

    name: str
    why: str
    paths: tuple[str, ...] = ()

    def reason(self, shown: Callable[[str], str]) -> str:
        """The reason, and the first files in the form that ``shown`` gives a path."""
        if not self.paths:
            return self.why
        listing = ", ".join(map(shown, self.paths[:_NAMED]))
        more = len(self.paths) - _NAMED
        return f"{self.why}: {listing}" + (f" and {count(more, 'other file')}" if more > 0 else "")


def page_changes(old: WikiState | None, new: WikiState) -> tuple[PageChange, ...]:
    """The pages whose bytes differ, also those that are gone, by name."""
    before = old.pages if old is not None else {}
    changes = []
    for name in sorted(before.keys() | new.pages.keys()):
        state, other = before.get(name), new.pages.get(name)
        if state is None:
            changes.append(PageChange(name, NEW))
        elif other is None:
            paths = {claim.place.path for claim in state.claims} - new.blobs.keys()
            changes.append(PageChange(name, GONE, tuple(sorted(paths))))
        elif state.sha256 != other.sha256:
            changes.append(PageChange(name, *_why(state, other)))
    return tuple(changes)


def lost(old: WikiState | None, new: WikiState) -> tuple[ProseSentence, ...]:
    """The sentences of a model that ``old`` has and ``new`` lacks."""
    texts = {sentence.text for prose in new.prose.values() for sentence in prose.said}
    every = (sentence for prose in (old.prose.values() if old else ()) for sentence in prose.said)
    return tuple(sentence for sentence in every if sentence.text not in texts)


def _why(state: PageState, other: PageState) -> tuple[str, tuple[str, ...]]:
    if state.digest == other.digest:
        return COMMIT, ()
    places, now = set(state.claims), set(other.claims)
    quotes = {(claim.place.path, claim.quote) for claim in places}
    present = {(claim.place.path, claim.quote) for claim in now}
    moved = {claim.place.path for claim in places ^ now}
    for why, paths in (
        (CITED, {path for path, _ in quotes - present}),
        (MORE, {path for path, _ in present - quotes}),
        (MOVED, moved),
    ):
        if paths:
            return why, tuple(sorted(paths))
    return OTHER, ()
