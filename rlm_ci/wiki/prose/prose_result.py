"""What a model said in one part of a run, as JSON."""

from __future__ import annotations

from rlm_ci.report.findings import Evidence
from rlm_ci.resources import loader
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: Why there is no prose where an answer was of no use; see ``ask_object``.
NO_ANSWER = "no_answer: what the model said {}"
#: What ``ProseResult.data`` has if no model is asked.
NOTHING: Mapping[str, Any] = {
    **{key: [] for key in ("displaced", "done", "rejected")},
    **{key: {} for key in ("prose", "shown", "quoted", "flows")},
}


class ProseResult(Value):
    """What a model said of some files, or of the whole, and what became of its pointers.

    ``data`` is JSON: new sentences by path (``prose``), the lines of their quotes by hash
    (``quoted``), earlier ones that they replace (``displaced``), what was ``rejected`` and why,
    files that were asked about (``done``), hashes of their ``shown`` pieces, and what was said of
    ``flows``; or sentences that were ``supported`` or not; or ``whole``, if that was asked.
    ``uncovered`` are paths of which something was left out, and why.
    """

    data: Mapping[str, Any] = {}
    counts: Evidence = Evidence()
    uncovered: tuple[tuple[str, str], ...] = ()

    def then(self, more: ProseResult) -> ProseResult:
        """The sum of both; where they have the same data, those of ``more``."""
        return ProseResult(
            {**self.data, **more.data},
            self.counts + more.counts,
            tuple(dict.fromkeys((*self.uncovered, *more.uncovered))),
        )


def misfit(answer: Mapping[str, Any], schema: str) -> str:
    """What is wrong with an answer of which no sentence can be used; "" for any other."""
    sentences = answer.get("sentences")
    if not isinstance(sentences, list):
        return "sentences must be a list"
    misfits = [loader.misfit(sentence, schema) for sentence in sentences]
    return misfits[0] if misfits and all(misfits) else ""
