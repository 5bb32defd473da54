"""The text of a wiki's pull request: which pages changed and why, what was lost, what it cost."""

from __future__ import annotations

from rlm_ci.report import wording
from rlm_ci.report.findings import Usage
from rlm_ci.text.neutralise import clip, code, prose
from rlm_ci.text.printable import count
from rlm_ci.values import Value
from rlm_ci.wiki.update.page_changes import lost, page_changes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlm_ci.wiki.update.state import ProseSentence, WikiState

#: Pages and lost sentences that are listed; characters of a sentence.
_PAGES, _LOST, _SHORT = 50, 20, 200

_HEAD = (
    "`rlm-ci wiki` made the pages in {folder} from the sources. The next run brings this pull "
    "request and its text up to date. Close it to keep the pages as they are."
)


class RefreshCost(Value):
    """What the last refresh used, and why it dropped sentences, by their text."""

    usage: Usage = Usage()
    dropped: Mapping[str, str] = {}


def body_of(folder: str, old: WikiState | None, new: WikiState | None, spent: RefreshCost) -> str:
    """The text, in Markdown: ``old`` is the state in the branch to merge into, None for none."""
    parts = [_HEAD.format(folder=code(folder))]
    if new is not None:
        parts += _pages(old, new)
        parts += _sentences(old, new, spent.dropped)
    parts.append(_cost(spent.usage))
    return "\n\n".join(parts) + "\n"


def _pages(old: WikiState | None, new: WikiState) -> Iterator[str]:
    changes = page_changes(old, new)
    rows = [
        f"| {code(change.name, cell=True)} | {change.reason(lambda path: code(path, cell=True))} |"
        for change in changes[:_PAGES]
    ]
    if rows:
        yield "\n".join(["| page | why |", "|---|---|", *rows])
    if changes[_PAGES:]:
        yield f"And {count(len(changes) - _PAGES, 'other page')}."


def _sentences(old: WikiState | None, new: WikiState, dropped: Mapping[str, str]) -> Iterator[str]:
    gone, added = lost(old, new), lost(new, old) if old is not None else ()
    present = sum(len(entry.said) for entry in new.prose.values())
    if not (gone or present):
        return
    fresh = len(added) if old is not None else present
    counts = [f"{present - fresh:,} kept", f"{fresh:,} new", f"{len(gone):,} lost"]
    yield f"**Sentences of a model:** {', '.join(counts)}."
    rows = [_lost_row(sentence, dropped.get(sentence.text, "")) for sentence in gone[:_LOST]]
    if gone[_LOST:]:
        rows.append(f"- and {count(len(gone) - _LOST, 'other')}")
    if rows:
        yield "\n".join(rows)


def _lost_row(sentence: ProseSentence, why: str) -> str:
    location = code(f"{sentence.path}#L{sentence.line_start}-L{sentence.line_end}")
    return f"- {location}{f', {why}' if why else ''}: {prose(clip(sentence.text, _SHORT))}"


def _cost(usage: Usage) -> str:
    if not usage.calls:
        return "**Cost:** none, no model was asked."
    return f"**Cost of the last refresh:** {wording.spent(usage)}."
