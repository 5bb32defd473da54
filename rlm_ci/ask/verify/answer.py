"""Verifies the answer of a run, its report and its end against the journal.

The journal has the last plan with the planner's answer; the stored prompts have the excerpts.
"""

from __future__ import annotations

from rlm_ci.ask import report as ask_report
from rlm_ci.ask.citations.citations import cite
from rlm_ci.ask.citations.compare_files import refuted_by
from rlm_ci.ask.verify.artifacts import PLANNER, STATE, RunArtifacts, WrongError
from rlm_ci.ask.verify.recorded_answers import RecordedAnswers
from rlm_ci.environments.symbolic import subcalls
from rlm_ci.environments.symbolic.iteration import SUBCALL, all_calls, counted_in
from rlm_ci.environments.symbolic.loop import AskEnd, unread_note
from rlm_ci.environments.symbolic.planner.prompt_layout import spans_of
from rlm_ci.environments.symbolic.secret_masking import is_masked, is_masked_in_places
from rlm_ci.errors import FINDINGS, OK, DamagedError, StorageError
from rlm_ci.models.strict_json import read_object
from rlm_ci.report.findings import Location
from rlm_ci.runs.state import EXIT_CODES, FAILED, LIMITS, PASSED, FinalState
from rlm_ci.text.printable import encodable, printable, printable_file
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.ask.citations.citations import CitedAnswer
    from rlm_ci.context.context import Context
    from rlm_ci.report.findings import Report

REPORT = "report.json"
#: The parts of a report that follow from the run alone.
_FOLLOWING = ("parts", "findings", "documents", "evidence")
#: How plans end a run; all other ends have causes outside of plans.
_ENDS = {"final": PASSED, "fail": FAILED}


class AnswerCheck(Value):
    """``verified`` citations hold, None without an answer; ``held`` are their places.

    ``marked`` citations do not hold, and the answer says so. ``problems`` are differences from
    the record; each names the file.
    """

    verified: int | None
    held: tuple[Location, ...]
    problems: tuple[str, ...]
    marked: int = 0


def review(folder: str, context: Context, report: Report) -> AnswerCheck:
    """Check the answer that a run left in ``folder``, its ``rlm/``, and its ``report``."""
    return _AnswerChecker(folder, context, report).run()


class _AnswerChecker:
    def __init__(self, folder: str, context: Context, report: Report) -> None:
        self._folder = folder
        self._context = context
        self._report = report
        self._files = RunArtifacts(folder, context)
        self._problems: list[str] = []
        self._cited: CitedAnswer | None = None

    def run(self) -> AnswerCheck:
        try:
            self._look()
        except (WrongError, DamagedError, StorageError) as error:
            self._problem(str(error))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            self._problem(f"{STATE}: it is not as it was written ({type(error).__name__})")
        problems, cited = tuple(self._problems), self._cited
        if cited is None:
            return AnswerCheck(None, (), problems)
        # The same form as places that were read from a report.
        held = tuple(Location.from_dict(place.to_dict()) for place in cited.locations)
        return AnswerCheck(cited.verified, held, problems, cited.offered - cited.verified)

    def _problem(self, what: str) -> None:
        self._problems.append(printable(what))

    def _look(self) -> None:
        state = self._files.record(STATE)
        answers = RecordedAnswers.read(self._folder)
        end = state["final"]
        final = FinalState(end["status"], end["exitCode"], end["reason"])
        intent, answer = _answer(answers.last_plan)
        is_answered = intent == "final" and bool(self._report.documents)
        if is_answered or final.status == PASSED:
            turns = state["symbolic_iterations"]
            answer += unread_note(turns)
            seen, refute = self._seen(turns), refuted_by(answers.refuted)
            limits = (answers.terms or {}).get("limits", {})
            counts = counted_in(turns) if "counts" in limits else None
            self._cited = cite(answer, self._context, seen, refute=refute, counts=counts)
            self._compare_file(self._cited)
        self._compare_end(final, intent, is_answered=is_answered)
        if final.status in (PASSED, FAILED, *LIMITS):
            self._compare_report(final, state, answers.notes)

    # ── from the record ──

    def _seen(self, turns: list[Mapping[str, Any]]) -> Iterator[tuple[int, int]]:
        for turn in turns:
            number = int(turn["iteration"])
            attempts = self._files.names(f"{PLANNER}/{number}")
            if not attempts:
                raise WrongError(f"{PLANNER}/{number}: the prompt is missing")
            meta = self._files.record(f"{PLANNER}/{number}/{attempts[-1]}/meta.json")
            for section in meta["sections"]:
                yield from spans_of(section)
            for entry in all_calls(turn):
                folder = f"{subcalls.NAME}/{number}/{entry['id']}"
                attempts = self._files.record(f"{folder}/meta.json")["attempts"]
                if not any(one["finish_reason"] for one in attempts):
                    continue  # a prompt without an answer counts as not shown
                given = self._files.record(f"{folder}/input.json")
                for piece in given["pieces"]:
                    if not piece["pointer"].startswith(SUBCALL):
                        yield piece["start_byte"], piece["end_byte"]

    # ── comparisons ──

    def _compare_end(self, final: FinalState, intent: str, *, is_answered: bool) -> None:
        """Only an error may end a run otherwise than its last plan does."""
        ends = _ENDS.get(intent)
        if is_answered or (ends == FAILED and final.exit_code in (OK, FINDINGS)):
            is_so = final.status == ends
        else:
            is_so = final.status not in (PASSED, FAILED)
        if not is_so or final.exit_code != EXIT_CODES.get(final.status, final.exit_code):
            end = f"{final.status}, exit code {final.exit_code}"
            self._problem(f"{STATE}: the run did not end as it says ({end})")

    def _compare_file(self, cited: CitedAnswer) -> None:
        written = self._files.bytes_of(ask_report.ANSWER)
        # Only secrets in names of files are redacted.
        if written != printable_file(cited.text) and not is_masked_in_places(
            written.decode("utf-8", "replace"),
            [*((_in_file(text), is_place) for text, is_place in cited.pieces()), ("\n", False)],
        ):
            self._problem(f"{ask_report.ANSWER}: it is not what the planner answered")

    def _compare_report(
        self, final: FinalState, state: Mapping[str, Any], notes: Sequence[str]
    ) -> None:
        report, cited = self._report, self._cited
        metrics = ask_report.metrics(state["model"], self._context, state["symbolic_iterations"])
        made = ask_report.build(
            AskEnd(final), cited, metrics=metrics, subject=report.subject, usage=report.usage,
            notes=notes,
        ).to_dict()  # fmt: skip
        written = report.to_dict()
        if cited is not None:
            pieces = [(encodable(text), is_place) for text, is_place in cited.pieces()]
            _hide(made["documents"], written["documents"], pieces)
        for key in _FOLLOWING:
            if not _is_same(written[key], made[key]):
                self._problem(f"{REPORT}: its {key} are not what the record of the run gives")


def _answer(text: str) -> tuple[str, str]:
    """The intent and the answer of a plan; empty if ``text`` is none."""
    try:
        plan = read_object(text)
    except ValueError:
        return "", ""
    intent, answer = plan.get("intent"), plan.get("final_answer")
    return str(intent), answer if isinstance(answer, str) else ""


def _in_file(text: str) -> str:
    return printable_file(text).decode("utf-8", "replace")[:-1]


def _hide(made: list[Any], written: list[Any], pieces: Sequence[tuple[str, bool]]) -> None:
    """Make ``made`` equal to ``written``, if only secrets in names of files are redacted.

    ``pieces`` are the text of the answer; a report omits places with a secret in their names.
    """
    for one, other in zip(made, written, strict=False):
        one["evidence"] = [
            place
            for place in one["evidence"]
            if place in other["evidence"] or printable(encodable(place["path"])) in other["text"]
        ]
        if is_masked_in_places(other["text"], pieces):
            one["text"] = other["text"]


def _is_same(written: Any, made: Any) -> bool:
    """Whether ``written`` is ``made``, but for secrets in messages and quotes."""
    if isinstance(written, dict) and isinstance(made, dict):
        return written.keys() == made.keys() and all(
            _is_same(written[key], made[key])
            or (key == "quote" and written[key] is None)
            or (key == "message" and is_masked(written[key], made[key]))
            for key in made
        )
    if isinstance(written, list) and isinstance(made, list):
        return len(written) == len(made) and all(map(_is_same, written, made))
    return bool(written == made)
