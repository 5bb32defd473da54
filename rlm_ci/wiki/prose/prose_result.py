"""What a model said in one part of a run, as JSON, and how parts are put together."""

from __future__ import annotations

from rlm_ci.report.findings import Evidence
from rlm_ci.resources import loader
from rlm_ci.values import Value
from rlm_ci.wiki.update.kept_prose import SENTENCES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

#: Why there is no prose where an answer was of no use; see ``ask_object``.
NO_ANSWER = "no_answer: what the model said {}"
_LISTS = ("displaced", "done", "rejected")
_ROWS = ("prose", "shown")
_OBJECTS = ("quoted", "later", "flows")
#: What ``ProseResult.data`` has if no model is asked.
NOTHING: Mapping[str, Any] = {
    **{key: [] for key in _LISTS}, **{key: {} for key in (*_ROWS, *_OBJECTS)},
}  # fmt: skip


class ProseResult(Value):
    """What a model said of some files, or of the whole, and what became of its pointers.

    ``data`` is JSON: new sentences by path (``prose``), the lines of their quotes by hash
    (``quoted``), earlier ones that they replace (``displaced``), what was ``rejected`` and why,
    files that were asked about (``done``), hashes of their ``shown`` pieces, bytes by path that are
    asked about ``later``, and what was said of ``flows``; or sentences that were ``supported`` or
    not; or ``whole``, if that was asked. ``uncovered`` are paths of which something was left out,
    and why; ``turns`` is the number of questions.
    """

    data: Mapping[str, Any] = {}
    counts: Evidence = Evidence()
    uncovered: tuple[tuple[str, str], ...] = ()
    turns: int = 0


def gathered(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The data of several results as that of one."""
    parts = list(parts)
    data: dict[str, Any] = {key: [row for part in parts for row in part[key]] for key in _LISTS}
    for key in _ROWS:
        data[key] = {}
        for part in parts:
            for path, rows in part[key].items():
                data[key].setdefault(path, []).extend(rows)
    for key in _OBJECTS:
        data[key] = {name: row for part in parts for name, row in part[key].items()}
    return data


def misfit(answer: Mapping[str, Any], schema: str) -> str:
    """What is wrong with an answer of which no sentence can be used; "" for any other."""
    sentences = answer.get("sentences")
    if not isinstance(sentences, list):
        return "sentences must be a list"
    misfits = [loader.misfit(sentence, schema) for sentence in sentences[:SENTENCES]]
    return misfits[0] if misfits and all(misfits) else ""
