"""The coverage of a scope, and the confidence of a result.

The confidence of a leaf is its objective's, times the share of its bytes that were covered; files
without the model's part count half. The confidence of a split node is the mean of its children's,
weighted by size, where a failed child counts 0; or the objective's, if that is less.
"""

from __future__ import annotations

from collections import Counter

from rlm_ci.errors import RemoteError
from rlm_ci.models import PROMPT_CUT, PROMPT_TOO_LONG, SHORTER
from rlm_ci.recursion.nodes import COMPLETED, FAILED, PARTIAL, NodeResult
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlm_ci.recursion.corpus.corpus import CorpusFile

#: Why a part of a scope was not covered, if another attempt may cover it.
BUDGET = "budget"
DEADLINE = "deadline_exceeded"
REMOTE = "remote"
AGAIN = (BUDGET, DEADLINE, REMOTE)
#: What to do about a refusal, by words of ``models.openai.errors``: results keep no hints.
_HINTS = (
    ("(429)", "what was done is kept: resume the run when there is room again"),
    (PROMPT_TOO_LONG, SHORTER),
)
_HINT = "look at the key, the name of the model and the endpoint"
_DIGITS = 6


def _weight(size: int) -> int:
    """The weight of ``size`` bytes; an empty file counts, too."""
    return size + 1


def of_leaf(identifier: str, result: NodeResult, files: Sequence[CorpusFile]) -> NodeResult:
    """The result of a leaf with its coverage."""
    status, confidence = result.status, result.confidence
    if result.uncovered and status != FAILED:
        status = PARTIAL
        left_out = {path for path, _ in result.uncovered}
        total = sum(_weight(file.size) for file in files)
        half = sum(_weight(file.size) for file in files if file.path in left_out) / 2
        confidence = confidence * (total - half) / total if total else 0.0
    elif identifier == result.node_id:
        return result
    return result.replace(node_id=identifier, status=status, confidence=round(confidence, _DIGITS))


def of_split(
    identifier: str, result: NodeResult, children: Sequence[NodeResult], sizes: Sequence[int]
) -> NodeResult:
    """The result of a split node with its coverage; ``sizes`` are its children's, in bytes."""
    pairs: list[tuple[str, str]] = []
    ends = Counter(child.status for child in children)
    below = sum(len(child.findings) for child in children)
    summary = ", ".join(f"{ends[status]} {status}" for status in sorted(ends))
    notes = [f"{count(len(children), 'part')}: {summary}"]
    if below:
        notes.append(f"{count(len(result.findings), 'finding')}, of {below:,} in the parts")
    total = summed = 0.0
    statuses = {result.status, *ends}
    for child, size in zip(children, sizes, strict=True):
        pairs += child.uncovered
        total += _weight(size)
        if child.status != FAILED:
            summed += _weight(size) * child.confidence
    uncovered = tuple(dict.fromkeys((*pairs, *result.uncovered)))
    if result.status == FAILED or all(child.status == FAILED for child in children):
        status = FAILED
    else:
        status = COMPLETED if statuses == {COMPLETED} and not uncovered else PARTIAL
    confidence = min(result.confidence, summed / total if total else 1.0)
    return result.replace(
        node_id=identifier,
        status=status,
        confidence=0.0 if status == FAILED else round(confidence, _DIGITS),
        uncovered=uncovered,
        aggregation_notes=tuple(notes),
    )


def without_model(result: NodeResult, paths: Iterable[str], word: str, what: str) -> NodeResult:
    """A result for which the model failed."""
    reason = f"{word}: {printable(what)}"
    uncovered_paths = {path for path, _ in result.uncovered}
    more = tuple((path, reason) for path in paths if path not in uncovered_paths)
    return result.replace(
        status=FAILED if result.status == FAILED else PARTIAL,
        uncovered=(*result.uncovered, *more),
    )


def refusal(result: NodeResult) -> RemoteError | None:
    """The error of the model's service, if that alone left something uncovered."""
    whys = [why for _, why in result.uncovered]
    if not whys or any(why.partition(":")[0] != REMOTE or PROMPT_CUT in why for why in whys):
        return None  # a service that answers has not failed
    what = whys[0].partition(": ")[2] or "the model's service did not answer"
    hint = next((hint for words, hint in _HINTS if words in what), _HINT)
    return RemoteError(what, hint=hint)


def failed(identifier: str, files: Iterable[CorpusFile], word: str, what: str) -> NodeResult:
    """The result of a node that failed."""
    reason = f"{word}: {printable(what)}" if what else word
    return NodeResult(
        identifier,
        FAILED,
        printable(what) or word,
        0.0,
        uncovered=tuple((file.path, reason) for file in files),
    )
