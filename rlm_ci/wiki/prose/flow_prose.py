"""How a call flows, as a model is shown it, and by which lines a sentence about it is held."""

from __future__ import annotations

import re
from hashlib import sha256

from rlm_ci.recursion.prompt_windows import name
from rlm_ci.values import Value
from rlm_ci.wiki.facts.call_flows import TOP
from rlm_ci.wiki.update.kept_prose import FLOW_GONE, STEPS_GONE
from rlm_ci.wiki.update.pieces import excerpt, mark, row_size, with_statement
from rlm_ci.wiki.update.state import FLOW

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from rlm_ci.recursion.nodes import LeafText
    from rlm_ci.wiki.facts.call_flows import CallFlow, FlowStep
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.update.kept_prose import KeptProse
    from rlm_ci.wiki.update.pieces import ShownPiece
    from rlm_ci.wiki.update.state import Prose, ProseSentence, QuotedLines

#: Sentences about one flow, and flows of one prompt: of more, the answer may be cut off.
SENTENCES, _MOST = 3, 8
#: Lines of a definition that are all shown; of a longer one its head, calls and raises, each with
#: the line before if a condition, a loop or an expression begins there, and a condition with its
#: first statement.
_SHORT = 12
_BEGINS = re.compile(r"[:{(\[]\s*(?:(?:#|//).*)?$")


class FlowText(Value):
    """A flow as a prompt has it: ``rows`` are its steps, ``sources`` their files.

    ``digest`` is a hash of the steps and of their lines, wherever these are; ``lines`` are those
    that a prompt shows, and ``spans`` the first and last lines of the functions of its steps, by
    path: a sentence may quote what is in one of these, shown or not.
    """

    key: str
    digest: str
    rows: tuple[str, ...]
    lines: Mapping[str, frozenset[int]]
    spans: Mapping[str, frozenset[tuple[int, int]]]
    sources: Mapping[str, LeafText]

    @property
    def path(self) -> str:
        """The file in which it begins."""
        return self.key.removeprefix(FLOW).rpartition("#")[0]

    def holds(self, sentence: ProseSentence) -> bool:
        """Whether all that the sentence quotes is in functions of its steps."""
        return all(map(self._shows, sentence.quotes))

    def _shows(self, quoted: QuotedLines) -> bool:
        return any(
            first <= quoted.line_start and quoted.line_end <= last
            for first, last in self.spans.get(quoted.path, ())
        )


def flow_key(flow: CallFlow) -> str:
    """What is said of a flow is kept by where it begins."""
    at = flow.steps[0].at
    return f"{FLOW}{at.path}#{at.symbol.name}"


def flow_text(
    flow: CallFlow, files: Mapping[str, FileFacts], sources: Mapping[str, LeafText]
) -> FlowText:
    """The flow through ``sources``, which has all files of its steps."""
    lines: dict[str, set[int]] = {}
    spans: dict[str, set[tuple[int, int]]] = {}
    rows, parts = [], []
    for step in flow.steps:
        path, symbol = step.at.path, step.at.symbol
        content = sources[path].content.decode("utf-8", "surrogateescape").split("\n")
        numbers = sorted(_lines(step, files[path], content))
        lines.setdefault(path, set()).update(numbers)
        is_class = symbol.kind in {"class", "struct"}  # whose other members are no step
        ends = numbers if is_class else [*numbers, symbol.line_start, symbol.line_end]
        span = min(ends), max(ends)
        spans.setdefault(path, set()).add(span)
        called = "the code of the file" if symbol.kind == TOP else f"`{name(symbol.name)}`"
        by = f", called by step {step.caller}" if step.caller else ""
        location = f"{name(path)}:{symbol.line_start}-{symbol.line_end}"
        rows.append(f"  step {step.number}: {called} in {location}{by}")
        parts.append(f"{step.number} {step.caller} True {symbol.kind} ")
        parts += ["" if symbol.kind == TOP else symbol.name]
        parts += [content[line - 1].strip() for line in numbers]
    digest = sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()
    return FlowText(
        key=flow_key(flow),
        digest=mark(digest),
        rows=tuple(rows),
        lines={path: frozenset(line) for path, line in lines.items()},
        spans={path: frozenset(inside) for path, inside in spans.items()},
        sources={path: sources[path] for path in lines},
    )


def _lines(step: FlowStep, file: FileFacts, content: Sequence[str]) -> set[int]:
    """The lines by which a step is told."""
    symbol = step.at.symbol
    first, last = symbol.line_start, min(symbol.line_end, len(content))
    if last - first < _SHORT and symbol.kind not in {"class", "struct"}:
        return set(range(first, last + 1))
    numbers: set[int] = set()
    if symbol.kind != TOP:
        start, end = file.head_of(symbol)
        numbers.update(range(start, end + 1))
        if symbol.doc:
            numbers.update(range(symbol.doc_start, symbol.doc_end + 1))
    for line in (*(call.line for call in step.calls), *(site.line for site in step.raises)):
        numbers.update(with_statement(content, line))
        if line > 1 and _BEGINS.search(content[line - 2]):
            numbers.add(line - 1)
    return {line for line in numbers if first <= line <= last}


def flowing(kept: KeptProse, flows: Sequence[FlowText]) -> KeptProse:
    """``kept`` with prose of these flows alone, each by its present key."""
    prose = {key: entry for key, entry in kept.prose.items() if not key.startswith(FLOW)}
    left = {key: entry for key, entry in kept.prose.items() if key.startswith(FLOW)}
    keys = {flow.key for flow in flows}
    dropped = list(kept.dropped)
    for flow in flows:
        entry = left.pop(_key_before(flow, left, keys), None)
        if entry is None:
            continue
        stays = tuple(sentence for sentence in entry.said if flow.holds(sentence))
        dropped += [(sentence, STEPS_GONE) for sentence in entry.said if sentence not in stays]
        prose[flow.key] = entry.replace(said=stays)
    dropped += [(sentence, FLOW_GONE) for entry in left.values() for sentence in entry.said]
    return kept.replace(prose={key: prose[key] for key in sorted(prose)}, dropped=tuple(dropped))


def _key_before(flow: FlowText, known: Mapping[str, Prose], own: Collection[str]) -> str:
    """The key by which a flow was known, which is another one where its file was renamed."""
    if flow.key in known:
        return flow.key
    others = [key for key in known if key not in own]
    same = [key for key in others if known[key].digest == flow.digest]
    last = flow.key.rpartition("#")[2]
    return next(iter((*same, *(key for key in others if key.rpartition("#")[2] == last))), "")


class PromptShare:
    """What one prompt shows: pieces of sources, and flows with the lines that are not in these."""

    def __init__(self, pieces: Iterable[ShownPiece] = ()) -> None:
        self.pieces = list(pieces)
        self.flows: list[FlowText] = []
        #: Whether it also asks about the whole.
        self.has_whole = False
        self._lines: dict[str, set[int]] = {}
        self.used = 0
        for piece in self.pieces:
            self._add(piece)

    def flow_rows(self) -> Iterator[str]:
        for number, flow in enumerate(self.flows, 1):
            yield f"[{number}]"
            yield from flow.rows

    def take(self, flow: FlowText, room: int) -> bool:
        """Add a flow if ``room`` bytes have room for it; of one that no prompt has, a part."""
        if len(self.flows) == _MOST:
            return False
        left = room - self.used - sum(map(row_size, flow.rows)) - row_size("[99]")
        new = list(self._missing(flow))
        if sum(piece.cost for piece in new) > left:
            if self.used:
                return False
            new = list(_fitting(new, left))
        self.used += room - self.used - left
        for piece in new:
            self.pieces.append(piece)
            self._add(piece)
        self.flows.append(flow)
        return True

    def _add(self, piece: ShownPiece) -> None:
        self.used += piece.cost
        self._lines.setdefault(piece.piece.text.path, set()).update(piece.lines)

    def _missing(self, flow: FlowText) -> Iterator[ShownPiece]:
        for path, lines in flow.lines.items():
            new = lines - self._lines.get(path, set())
            if new:
                yield excerpt(flow.sources[path], new)


def shares(
    windows: Iterable[Sequence[ShownPiece]], flows: Iterable[FlowText], room: int
) -> list[PromptShare]:
    """The windows, and the flows in the room that the last one leaves, or behind it."""
    prompt_shares = [PromptShare(window) for window in windows]
    for flow in flows:
        if not prompt_shares or not prompt_shares[-1].take(flow, room):
            prompt_shares.append(PromptShare())
            prompt_shares[-1].take(flow, room)
    return prompt_shares


def _fitting(pieces: Iterable[ShownPiece], room: int) -> Iterator[ShownPiece]:
    for piece in pieces:
        fits = piece.fitted(room)
        if fits.lines:
            room -= fits.cost
            yield fits
