"""Ask a model to mend a fault that a reproduction shows, and try what it answers."""

from __future__ import annotations

from difflib import unified_diff

from rlm_ci.environments.object_question import ask_object
from rlm_ci.models.json_question import answer_form
from rlm_ci.report.details import suggestions
from rlm_ci.review.proofs.reproduction import RepairOutcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from rlm_ci.models.json_question import Ask
    from rlm_ci.report.findings import Finding
    from rlm_ci.review.model.claim_context import ClaimPrompt, Sources
    from rlm_ci.review.model.reproduce import Trial
    from rlm_ci.review.proofs.reproduction import Reproduction
    from rlm_ci.review.proofs.runner import ProofRunner

    Read = Callable[[str], bytes | None]

#: What a patch has below a last line without a line break; difflib leaves it out.
_NO_BREAK = "\\ No newline at end of file"
#: Lines around each edit of a patch: people read eight of them in one comment.
_CONTEXT = 1
#: Edits of one repair, and the answer that has them.
_MOST = 10
_EDIT = {member: {"type": "string"} for member in ("path", "old", "new")}
_EDITS = {"type": "object", "properties": _EDIT, "required": list(_EDIT)}
_ANSWER = {
    "type": "object",
    "properties": {"edits": {"type": "array", "items": _EDITS}},
    "required": ["edits"],
}


def by_suggestion(
    runner: ProofRunner, sources: Sources, finding: Finding, reproduction: Reproduction
) -> RepairOutcome | None:
    """What came of the finding's own suggestion; None where it has none that can be run."""
    location = finding.evidence[0]
    content = None if location.side == "old" else sources.read(location.path)
    start, end = location.line_start or 0, location.line_end or location.line_start or 0
    text = suggestions.replacement(finding.suggested_fix)
    if content is None or text is None or start < 1:
        return None
    before = content.decode("utf-8", "surrogateescape")
    lines = _lines(before)
    now = "".join((*lines[: start - 1], text, *lines[end:]))
    if now == before or end > len(lines):
        return None
    return runner.try_repair(_patch({location.path: (before, now)}), reproduction)


def by_question(  # noqa: PLR0917 - who asks, where it is tried, and what
    ask: Ask, runner: ProofRunner, sources: Sources, mark: str, prompt: ClaimPrompt, trial: Trial
) -> RepairOutcome:
    """What came of the edits that a model answers. Raises what ``ask`` raises."""
    reproduction = trial.reproduction
    if reproduction is None:
        raise AssertionError("only what ran is mended")
    question = prompt.asking("mend", {}, trial.tried)
    answer, wrong = ask_object(ask, f"mend-{mark}", question, _misfit, answer_form(_ANSWER))
    if answer is None:
        return RepairOutcome(ok=False, reason=f"the model's answer {wrong}")
    if not answer["edits"]:
        return RepairOutcome(ok=False, reason="the model knows no edit that mends it")
    patch = patch_of(answer["edits"], sources.read)
    if not patch:
        return RepairOutcome(ok=False, reason="an edit of the model does not fit its file")
    return runner.try_repair(patch, reproduction)


def patch_of(edits: Iterable[Mapping[str, str]], read: Read) -> str:
    """The edits as a patch of the files that ``read`` gives; "" if one of them does not fit."""
    texts: dict[str, tuple[str, str]] = {}
    for edit in edits:
        path, old = edit["path"], edit["old"]
        if path not in texts:
            content = read(path)
            text = "" if content is None else content.decode("utf-8", "surrogateescape")
            texts[path] = text, text
        before, now = texts[path]
        if not old or now.count(old) != 1:
            return ""
        texts[path] = before, now.replace(old, edit["new"])
    return _patch(texts)


def _patch(texts: Mapping[str, tuple[str, str]]) -> str:
    """The patch that makes the second text of each file of the first."""
    rows = (
        row
        for path, (before, now) in texts.items()
        for row in unified_diff(_lines(before), _lines(now), f"a/{path}", f"b/{path}", n=_CONTEXT)
    )
    return "".join(row if row.endswith("\n") else f"{row}\n{_NO_BREAK}\n" for row in rows)


def _lines(text: str) -> list[str]:
    """The lines of a text with their line breaks, which the last may lack."""
    *complete, last = text.split("\n")
    return [*(f"{line}\n" for line in complete), *filter(None, (last,))]


def _misfit(answer: Mapping[str, Any]) -> str:
    edits = answer.get("edits")
    names = list(_EDIT)
    is_list = isinstance(edits, list) and len(edits) <= _MOST
    if is_list and all(
        isinstance(edit, dict) and all(isinstance(edit.get(name), str) for name in names)
        for edit in edits or ()
    ):
        return ""
    return f"edits must be a list of at most {_MOST} objects with the texts path, old and new"
