"""Have a claim shown and mended: ask for a reproduction, run it, judge it, and try a repair.

What an earlier review of a pull request asked about a claim is not asked again. It is read from a
comment, which others may forge. So a stored reproduction is code like any other: it runs in the
sandbox, and what this run measures decides. What its judge said of it counts only beside a failure
of this run, for the same claim in the same words, as the judge was asked about no other. A stored
argument only keeps a claim from being shown; whoever can forge it could leave the whole claim out,
too.
"""

from __future__ import annotations

import json
from difflib import unified_diff
from functools import partial

from rlm_ci.environments.object_question import UNREADABLE, ask_object
from rlm_ci.environments.quoting import said_of
from rlm_ci.models.json_question import answer_form
from rlm_ci.recursion.prompt_windows import fence
from rlm_ci.report.details import fixes_and_proofs
from rlm_ci.report.findings import Finding, Severity
from rlm_ci.report.proof import ARGUED
from rlm_ci.resources import loader
from rlm_ci.review.model.claim_context import ClaimPrompt, part_of, tried
from rlm_ci.review.model.refute import verdict_form, verdict_misfit
from rlm_ci.review.proofs.reproduction import (
    PASSED,
    SCRIPT,
    RepairOutcome,
    Reproduction,
    looks_at,
    shows_nothing,
)
from rlm_ci.text.printable import clip, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from rlm_ci.models import Message
    from rlm_ci.models.json_question import Ask
    from rlm_ci.review.model.claim_context import Sources
    from rlm_ci.review.proofs.reproduction import ProofOutcome
    from rlm_ci.review.proofs.runner import ProofRunner

    Read = Callable[[str], bytes | None]


#: Characters of a reproduction and of a repair, and of a line, that are stored.
_CODE, LINE = 8_000, 400


class EarlierTrial(Value):
    """``reproduction`` showed the claim, and its judge said ``severity`` and ``shown``, or did not.

    With a ``reason`` nothing showed it, nor its reproduction, if any. ``verdict`` and
    ``verdict_reason`` are those of the second look, "" if there was none. ``repair`` is a patch
    that mended it, ``repair_reason`` says why there is none, "" if nobody was asked.
    """

    _optional = (
        "reproduction", "breaks", "severity", "shown", "reason", "verdict", "verdict_reason",
        "repair", "repair_reason",
    )  # fmt: skip

    reproduction: Reproduction | None = None
    breaks: str = ""
    severity: str = ""
    shown: str = ""
    reason: str = ""
    verdict: str = ""
    verdict_reason: str = ""
    repair: str = ""
    repair_reason: str = ""

    @property
    def is_shown(self) -> bool:
        """Whether its reproduction showed the claim."""
        return self.reproduction is not None and not self.reason

    def stored(self, mask: Callable[[str], str]) -> EarlierTrial | None:
        """As it can be stored; None if it is too long, or has what ``mask`` takes out."""
        code = self.reproduction
        texts = [*code.to_dict().values(), self.repair] if code else []
        if any(len(text) > _CODE or mask(text) != text for text in texts):
            return self.replace(reproduction=None).stored(mask) if self.reason else None
        lines = {
            name: mask(text)[:LINE]
            for name, text in self.to_dict().items()
            if isinstance(text, str) and name != "repair"
        }
        return self.replace(**lines)

    def read_for(self, finding: Finding) -> EarlierTrial:
        """What was stored, as words on ``finding`` for a report."""
        lines = {
            name: printable(" ".join(text.split()))
            for name, text in self.to_dict().items()
            if isinstance(text, str) and name not in {"repair", "severity", "verdict"}
        }
        shown = part_of(finding.message, lines["shown"]) if self.shown else ""
        return self.replace(**{**lines, "shown": shown, "repair": encodable(self.repair)})


class EarlierClaim(Value):
    """A claim as it was before it was decided, and what was asked about it, if anything was."""

    _optional = ()

    finding: Finding
    trial: EarlierTrial | None = None

    @property
    def reproduction(self) -> Reproduction | None:
        """The one that showed it, if there is one."""
        return self.trial.reproduction if self.trial and self.trial.is_shown else None

    def is_same(self, finding: Finding) -> bool:
        """Whether ``finding`` claims the same in the same words, and nothing more severe."""
        is_worse = finding.severity > self.finding.severity
        words = (self.finding.rule, self.finding.message)
        return words == (finding.rule, finding.message) and not is_worse


def trial_of(finding: Finding, earlier: Iterable[EarlierClaim]) -> EarlierTrial | None:
    """What was asked about the claim ``finding``, or one that was merged into it.

    For a claim in other words, it is the reproduction alone.
    """
    places = frozenset(finding.evidence)
    some = [claim for claim in earlier if claim.trial and places.issuperset(claim.finding.evidence)]
    for claim in some:
        if claim.is_same(finding):
            return claim.trial
    code = next((earlier_claim.trial for earlier_claim in some if earlier_claim.reproduction), None)
    return None if code is None else EarlierTrial(code.reproduction, code.breaks)


def judgement(trial: EarlierTrial, finding: Finding) -> dict[str, str] | None:
    """What a judge said of the reproduction, as its answer; None if it is to be asked."""
    if not trial.severity:
        return None
    severity = min(Severity.from_label(trial.severity), finding.severity)
    return {"reason": "", "severity": severity.label, "shown": trial.shown}


NONE = "none"
FAULT, WRONG_TEST, UNSURE = _VERDICTS = ("fault", "wrong_test", "unsure")
#: What a judgement has besides its verdict and its reason.
_MORE: Mapping[str, Mapping[str, Any]] = {
    "line": {"type": "string"},
    "severity": {"enum": [severity.label for severity in Severity]},
    "shown": {"type": "string"},
}
_SCHEMA = "review-reproduction.schema.json"
#: Reproductions that a model may try for one claim.
_TRIES = 2
#: Characters of a line in a report, and of a judge's line that name one.
_LINE, _NAMES = 300, 8
#: What is said where a judge would shorten a claim in words of its own.
_REWORDED = "what its judge would cut from the claim is not told in the claim's words, so it stays"


class Trial(Value):
    """What came of a claim: its level, why, and the last reproduction with what ran, if any.

    ``breaks`` says in a line what breaks. ``severity`` is what the failure shows, None for that of
    the claim; ``shown`` is the part of the claim that it shows, "" for all of it. ``is_wrong``: its
    test shows nothing of the claim, by its judge or by what it does. ``prompt`` is what its
    questions began with, if any was asked.
    """

    level: str
    reason: str
    breaks: str = ""
    reproduction: Reproduction | None = None
    outcome: ProofOutcome | None = None
    severity: Severity | None = None
    shown: str = ""
    is_wrong: bool = False
    prompt: ClaimPrompt | None = None

    @property
    def is_missed(self) -> bool:
        """Whether its reproduction passes at head, so that it shows nothing."""
        return self.outcome is not None and self.outcome.head.status == PASSED

    @property
    def is_open(self) -> bool:
        """Whether it fails at head alone, and nobody has judged that it shows the claim or not."""
        is_run = self.outcome is not None and self.outcome.level != ARGUED
        return is_run and self.level == ARGUED and not self.is_wrong

    @property
    def tried(self) -> str:
        """What was run, for a prompt; "" if nothing was."""
        if self.reproduction is None or self.outcome is None:
            return ""
        return tried(self.reproduction, self.outcome, self.breaks)


class ClaimTrial:
    """The trial of one claim. ``mark`` names its questions in the record."""

    def __init__(
        self, ask: Ask, runner: ProofRunner, mark: str, finding: Finding, prompt: ClaimPrompt
    ) -> None:
        self._ask = ask
        self._runner = runner
        self._mark = mark
        self._finding = finding
        self._prompt = prompt
        self._messages: list[Message] = []
        #: What has come of the claim so far.
        self.last = Trial(ARGUED, "the model gave no reproduction")
        #: Whether the claim is that a fix leaves the fault where it was.
        self.unmended = False
        #: The judgement of an earlier reproduction, if it counts for this claim.
        self._judgement: Mapping[str, Any] | None = None

    def again(self, earlier: EarlierTrial) -> Trial:
        """Run the reproduction of an earlier review. Raises what ``ask`` raises."""
        if earlier.reproduction is None:
            raise AssertionError("only what ran is run again")
        self._judgement = judgement(earlier, self._finding)
        self.last = self._tried({**earlier.reproduction.to_dict(), "breaks": earlier.breaks}, 0)
        return self.last

    def run(self) -> Trial:
        """Try a reproduction, and once more if it shows nothing.

        Raises what ``ask`` raises; what has come of the claim until then is ``last``.
        """
        question = self._prompt.asking("reproduce", {"unmended": self.unmended})
        for number in range(1, _TRIES + 1):
            answer, wrong = ask_object(
                self._ask, f"reproduce-{self._mark}-{number}", question, _reproduction_misfit,
                answer_form(_SCHEMA), self._messages,
            )  # fmt: skip
            if answer is None:
                if self.last.outcome is None and wrong != UNREADABLE:
                    self.last = self.last.replace(reason=f"{self.last.reason}: its answer {wrong}")
                break
            if answer["kind"] == NONE:
                why = self._line(answer["breaks"])
                before = f"{self.last.reason}; " if self.last.outcome else ""
                reason = f"{before}the model has no reproduction: {why}"
                return self.last.replace(reason=reason)
            self._messages += [
                {"role": "user", "content": question},
                {"role": "assistant", "content": json.dumps(answer)},
            ]
            self.last = self._tried(answer, number)
            if self.last.level != ARGUED:
                break
            question = self._again(self.last)
        return self.last

    def _tried(self, answer: Mapping[str, Any], number: int) -> Trial:
        reproduction = Reproduction(
            *(encodable(answer[name]) for name in ("path", "content", "kind", "expects"))
        )
        is_python = reproduction.kind == SCRIPT or reproduction.path.endswith(".py")
        looked_at = is_python and looks_at(reproduction.content, self._finding.message)
        if looked_at:
            why = (
                f"it looks at `{looked_at}`, which shows how the code is written, not what it does"
            )
            return Trial(ARGUED, why)
        outcome = self._runner.check(reproduction, unmended=self.unmended)
        breaks = self._line(answer["breaks"])
        trial = Trial(outcome.level, outcome.reason, breaks, reproduction, outcome)
        if outcome.level == ARGUED:
            return trial
        subject, message = self._prompt.subject, self._finding.message
        if why := shows_nothing(outcome.uses, subject, message):
            return trial.replace(level=ARGUED, reason=why, is_wrong=True)
        self.last = trial.replace(level=ARGUED, reason=f"it {trial.reason}")
        answer = self._judged(trial, number, reproduction.content, outcome.line)
        verdict, why = answer["verdict"], self._line(answer["reason"])
        if verdict == FAULT:
            severity = Severity.from_label(answer.get("severity", self._finding.severity.label))
            claimed = answer.get("shown", "").strip()
            shown = part_of(self._finding.message, claimed)
            if claimed and not shown:
                trial = trial.replace(reason=f"{trial.reason}; {_REWORDED}")
            return trial.replace(severity=severity, shown=shown)
        doubt = "that the test is wrong" if verdict == WRONG_TEST else "nothing certain"
        reason = f"it fails at head, but its judge says {doubt}: {why or 'no reason given'}"
        return trial.replace(level=ARGUED, reason=reason, is_wrong=verdict == WRONG_TEST)

    def _again(self, trial: Trial) -> str:
        render = loader.load_template("prompts/review-reproduce-again.md.j2")
        output = "" if trial.outcome is None else trial.outcome.head.tail
        data = {"why": printable(trial.reason), "output": output}
        return render({**data, "is_miss": trial.is_missed, "fence": fence(*data.values())})

    def _judged(self, trial: Trial, number: int, content: str, failing: str) -> Mapping[str, Any]:
        """Whether the failure shows the claim, and how severe it is.

        ``content`` is that of the reproduction, and ``failing`` its line that fails.
        """
        if number == 0 and self._judgement is not None:
            return {"verdict": FAULT, **self._judgement}
        prompt = self._prompt.asking("judge", {}, trial.tried)
        misfit = partial(_misjudged, content, failing)
        form = verdict_form(_VERDICTS, **_MORE)
        answer, wrong = ask_object(self._ask, f"judge-{self._mark}-{number}", prompt, misfit, form)
        return answer or {"verdict": UNSURE, "reason": f"the answer {wrong}"}

    def _line(self, text: str) -> str:
        """Words of a model for a report, on one line."""
        return clip(printable(" ".join(said_of(self._prompt.texts, text).split())), _LINE)


def _reproduction_misfit(answer: Mapping[str, Any]) -> str:
    return loader.every_misfit(answer, _SCHEMA)


def _misjudged(content: str, failing: str, answer: Mapping[str, Any]) -> str:
    """All that is wrong with a judgement of a test that fails at its line ``failing``.

    A judge is shown this line, so that its verdict is about it without its name, too. Where no run
    tells the line, "", the judge must.
    """
    wrong = [verdict_misfit(answer, _VERDICTS)]
    line = answer.get("line", failing)
    if answer.get("verdict") == FAULT and not _names(line, failing or content):
        suffix = f", which is: {failing}" if failing else ""
        wrong.append(f"line must be the line of the test that fails, to the letter{suffix}")
    if answer.get("severity", Severity.LOW.label) not in _MORE["severity"]["enum"]:
        wrong.append("severity must be one of critical, high, medium, low")
    if not isinstance(answer.get("shown", ""), str):
        wrong.append("shown must be a text")
    return "; ".join(filter(None, wrong))


def _names(line: object, text: str) -> bool:
    """Whether ``line`` is all of ``text``, or enough of it to be no other line."""
    words, passage = (" ".join(raw.split()) for raw in (str(line), text))
    return isinstance(line, str) and words in passage and (words == passage or len(words) >= _NAMES)


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
    text = fixes_and_proofs.replacement(finding.suggested_fix)
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
    answer, wrong = ask_object(ask, f"mend-{mark}", question, _mend_misfit, answer_form(_ANSWER))
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


def _mend_misfit(answer: Mapping[str, Any]) -> str:
    edits = answer.get("edits")
    names = list(_EDIT)
    is_list = isinstance(edits, list) and len(edits) <= _MOST
    if is_list and all(
        isinstance(edit, dict) and all(isinstance(edit.get(name), str) for name in names)
        for edit in edits or ()
    ):
        return ""
    return f"edits must be a list of at most {_MOST} objects with the texts path, old and new"
