"""The questions that delegated runs ask a person, and how a run waits for an answer.

They are events in the inbox of the parent, which keeps them; what is read here follows from these.
A question expires as soon as somebody reads or writes after its time.
"""

from __future__ import annotations

import heapq
import os
import threading
import time
from functools import partial

from rlm_ci import decoding
from rlm_ci.decoding import DecodeError
from rlm_ci.delegation import control
from rlm_ci.delegation.tool import STATUS_ONLY, Call, ServerContext
from rlm_ci.errors import DamagedError, LimitError, RlmCiError, UsageError
from rlm_ci.runs import delegated, manifest
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.delegated import INBOX
from rlm_ci.runs.inbox import ACTOR, USER, Inbox
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.decoding import Words
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.redaction.redactor import Redactor
    from rlm_ci.runs.find import FoundRun
    from rlm_ci.runs.inbox import Post

    Urgency = str
    Fallback = str
    Wait = int


QUEUED, ANSWERED, EXPIRED, DISMISSED = STATES = ("queued", "answered", "expired", "dismissed")
URGENCIES = ("low", "med", "high")
PAUSE, RESUME, FAIL = FALLBACKS = ("pause", "resume", "fail")
#: Characters of a question, and of its answer.
PROMPT, ANSWER = 8_000, 16_000
#: Questions of one child, open ones and all; and all questions to one parent.
MOST_OPEN, MOST_OF_ONE, MOST = 100, 1_000, 10_000
#: Milliseconds until a question expires at the latest, if it does: 30 days.
LONGEST = 30 * 86_400_000
if not TYPE_CHECKING:
    Urgency = decoding.one_of(*URGENCIES)
    Fallback = decoding.one_of(*FALLBACKS)
    Wait = decoding.number(1, LONGEST)
_ADDED, _ANSWERED, _CLOSED = "question_queued", "question_answered", "question_closed"


class RunQuestion(Value):
    """A question, and its answer."""

    question_id: Words
    parent_run_id: Words
    from_run_id: Words
    from_manifest_path: Words
    prompt: Words
    urgency: Urgency
    queued_at: manifests.Timestamp
    expires_at: manifests.Timestamp | None
    expires_in_ms: Wait | None
    auto_pause: bool
    expiry_fallback: Fallback
    status: str = QUEUED
    answer: str | None = None
    closed_at: str | None = None

    def question_record(self) -> dict[str, Any]:
        """What it is made of when it is asked."""
        record = self.to_dict()
        return {name: record[name] for name in record if name in self._required}

    @classmethod
    def of_asked(cls, payload: Mapping[str, Any]) -> RunQuestion | None:
        """The question that was asked by ``payload``; None for none of ours."""
        record = {name: payload[name] for name in payload if name in cls._required}
        try:
            return cls.from_dict(record)
        except DecodeError:
            return None

    @property
    def is_open(self) -> bool:
        return self.status == QUEUED

    @property
    def fallback(self) -> str | None:
        """What is done about it, since it has expired."""
        return self.expiry_fallback if self.status == EXPIRED else None

    def to_record(self) -> dict[str, Any]:
        expired = self.closed_at if self.status == EXPIRED else None
        return {**self.to_dict(), "expired_at": expired, "fallback_action": self.fallback}


class Asker(Value):
    """The delegated run that asks, which has shown that it is that one."""

    run_id: str
    manifest_path: str


class QuestionQueue:
    """The questions to the run in the folder ``path``, safe for threads and other processes.

    ``settle`` gets all questions for which one child pauses, by their ids, and those of them that
    have been closed; also once those that were closed before. It finds out itself what is left to
    do. ``problems`` are the errors of that.
    """

    def __init__(
        self,
        path: str,
        redactor: Redactor,
        settle: Callable[[Mapping[str, RunQuestion], Sequence[RunQuestion]], object],
        now: Callable[[], float] = time.time,
    ) -> None:
        self.problems: list[RlmCiError] = []
        self._run_id = os.path.basename(os.path.abspath(path))
        self._redactor = redactor
        self._settle = settle
        self._now = now
        self._inbox = Inbox(path, redactor, take=self._fold, now=now)
        self._mutex = threading.RLock()
        self._questions: dict[str, RunQuestion] = {}
        self._asked: dict[str, list[str]] = {}  # for each child, as the next ones
        self._open: dict[str, int] = {}
        self._expiring: list[tuple[float, str]] = []
        # Those for which it pauses, and of these the newly closed ones.
        self._pausing: dict[str, dict[str, RunQuestion]] = {}
        self._unsettled: dict[str, list[RunQuestion]] = {}

    def read(self) -> Mapping[str, RunQuestion]:
        """All questions by their ids, the oldest first.

        Raises DamagedError, StorageError, LockedError.
        """
        with self._mutex:
            self._inbox.read()
            if self._is_due():
                with self._inbox.writing() as post:
                    self._expire(post)
            while self._unsettled:
                child, closed = self._unsettled.popitem()
                try:
                    self._settle(self._pausing[child], closed)
                except RlmCiError as error:
                    self.problems.append(error)
            return self._questions

    def latest(self, child: str) -> RunQuestion | None:
        """The latest question of one child. Raises as ``read``."""
        with self._mutex:
            questions = self.read()
            return questions[self._asked[child][-1]] if child in self._asked else None

    def enqueue(
        self,
        asker: Asker,
        prompt: str,
        *,
        urgency: str = "med",
        expires_in_ms: int | None = None,
        auto_pause: bool = True,
        fallback: str = PAUSE,
    ) -> RunQuestion:
        """Ask. Raises LimitError where too much was asked, and as ``read``."""
        with self._mutex, self._inbox.writing() as post:
            self._expire(post)
            self._require_room(asker.run_id)
            at = self._now()
            until = None if expires_in_ms is None else at + expires_in_ms / 1000
            question_id = f"q-{len(self._questions) + 1:04}-{os.urandom(4).hex()}"
            question = RunQuestion(
                question_id,
                self._run_id,
                asker.run_id,
                asker.manifest_path,
                prompt,
                urgency,
                manifests.timestamp(at),
                None if until is None else manifests.timestamp(until),
                expires_in_ms,
                auto_pause,
                fallback,
            )
            post(_ADDED, question.question_record(), ACTOR)
            return self._questions[question_id]

    def paused(self, question_id: str) -> RunQuestion:
        """The question, once its child was asked to pause: it may have been closed before."""
        with self._mutex:
            question = self.read()[question_id]
            if not question.is_open:
                self._unsettled.setdefault(question.from_run_id, []).append(question)
                self.read()
            return question

    def answer(self, question_id: str, text: str) -> RunQuestion:
        """Answer a question, for a person. Raises UsageError for one that is closed, and as
        ``read``.
        """
        return self._close(question_id, _ANSWERED, {"status": ANSWERED, "answer": text}, USER)

    def dismiss(self, question_id: str) -> RunQuestion:
        """Close a question without an answer. Raises as ``answer``."""
        return self._close(question_id, _CLOSED, {"status": DISMISSED}, USER)

    def _close(
        self, question_id: str, event: str, payload: Mapping[str, Any], actor: str
    ) -> RunQuestion:
        with self._mutex:
            with self._inbox.writing() as post:
                self._expire(post)
                question = self._questions[question_id]
                if question.is_open:
                    self._post_end(post, event, question_id, payload, actor)
            self.read()
            if not question.is_open:
                raise UsageError(
                    f"the question is closed: it was {question.status} at {question.closed_at}",
                    where=question_id,
                    hint="rlm-ci questions lists those that are open",
                )
            return self._questions[question_id]

    def _post_end(
        self, post: Post, event: str, question_id: str, payload: Mapping[str, Any], actor: str
    ) -> None:
        at = manifests.timestamp(self._now())
        post(event, {"question_id": question_id, "closed_at": at, **payload}, actor)

    def _require_room(self, child: str) -> None:
        waiting, asked_count = self._open.get(child, 0), len(self._asked.get(child, ()))
        if waiting >= MOST_OPEN:
            what = f"{waiting:,} questions of this run wait for an answer"
        elif asked_count >= MOST_OF_ONE:
            what = f"this run has asked {asked_count:,} questions"
        elif len(self._questions) >= MOST:
            what = f"the run was asked {len(self._questions):,} questions"
        else:
            return
        raise LimitError(
            f"{what}, and no more are taken",
            budget="questions",
            where=self._run_id,
            hint="go on without; a person closes questions with rlm-ci answer",
        )

    # -- expiry --

    def _is_due(self) -> bool:
        return bool(self._expiring) and self._expiring[0][0] <= self._now()

    def _expire(self, post: Post) -> None:
        while self._is_due():
            _, question_id = heapq.heappop(self._expiring)
            if self._questions[question_id].is_open:
                self._post_end(post, _CLOSED, question_id, {"status": EXPIRED}, ACTOR)

    # -- what the inbox says --

    def _fold(self, records: Sequence[Mapping[str, Any]]) -> None:
        for record in records:
            event, payload = record["event"], record["payload"]
            if event == _ADDED:
                self._add(payload)
            elif event in (_ANSWERED, _CLOSED):
                self._end(payload, (ANSWERED,) if event == _ANSWERED else (EXPIRED, DISMISSED))

    def _add(self, payload: Mapping[str, Any]) -> None:
        question = RunQuestion.of_asked(payload)
        if question is None or question.parent_run_id != self._run_id:
            return
        if question.question_id in self._questions:
            return
        self._keep(question)
        self._asked.setdefault(question.from_run_id, []).append(question.question_id)
        self._open[question.from_run_id] = self._open.get(question.from_run_id, 0) + 1
        if question.expires_at is not None:
            until = manifests.moment(question.expires_at)
            heapq.heappush(self._expiring, (until, question.question_id))

    def _end(self, payload: Mapping[str, Any], possible: Sequence[str]) -> None:
        question = self._questions.get(str(payload.get("question_id")))
        status, at = payload.get("status"), payload.get("closed_at")
        is_end = status in possible and manifests.is_time(at)
        if question is None or not question.is_open or not is_end:
            return
        answer = payload.get("answer")
        answer_text = answer if status == ANSWERED and isinstance(answer, str) else None
        closed = question.replace(status=status, answer=answer_text, closed_at=at)
        self._keep(closed)
        self._open[question.from_run_id] -= 1
        if question.auto_pause:
            self._unsettled.setdefault(question.from_run_id, []).append(closed)

    def _keep(self, question: RunQuestion) -> None:
        self._questions[question.question_id] = question
        if question.auto_pause:
            self._pausing.setdefault(question.from_run_id, {})[question.question_id] = question


REASON = "awaiting_question_answer"
#: What the id of our request to go on has, behind that of the question.
_PAUSE_CLOSED = "-closed"


def pause(server: ServerContext, child: FoundRun, question: RunQuestion) -> None:
    """Ask ``child`` to pause for its question at its next safe point."""
    control.ask(server, child, delegated.PAUSE, question.question_id, REASON)


def settle(
    server: ServerContext, questions: Mapping[str, RunQuestion], closed: Sequence[RunQuestion]
) -> None:
    """Let a child go on, or cancel it, if it pauses for one of its ``questions``.

    It goes on once all are closed. What it was last asked to do tells whether something is left,
    also after a kill. Raises RlmCiError where it cannot go on.
    """
    path = closed[-1].from_manifest_path
    folder, fallbacks = os.path.dirname(path), {question.fallback for question in closed}
    latest = delegated.read(folder)["latest_action"]
    request = str(latest.get("request_id"))
    question_id = request.removesuffix(_PAUSE_CLOSED)
    if latest.get("reason") != REASON or question_id not in questions:
        return  # it was not us, or not the last time
    try:
        run = manifest.read(folder)
    except DamagedError:  # or it was removed
        return
    if FAIL in fallbacks:
        if run.can_be_cancelled:
            child = server.runs().find(path)
            server.owner(child).cancel(child)
        return
    was_asked = not request.endswith(_PAUSE_CLOSED)
    is_over = fallbacks != {PAUSE} and not any(question.is_open for question in questions.values())
    if not is_over or not (was_asked or run.status_detail == manifest.PAUSED):
        return
    child = server.runs().find(path)
    if was_asked:
        control.ask(server, child, delegated.RESUME, f"{question_id}{_PAUSE_CLOSED}", REASON)
    call = Call(server, threading.Event(), lambda *_: None)
    control.go_on(call, server.owner(child), child, was_asked_to_pause=was_asked)


_SHOWN = 5


class AllQuestions:
    """The questions to the runs of ``runs``, or to the run ``word`` alone.

    ``problems`` are the errors of inboxes that cannot be read, and of runs that cannot go on.
    """

    def __init__(self, runs: StoredRuns, word: str | None = None) -> None:
        """Raises RlmCiError where that run, or the store, cannot be read."""
        #: A child goes on as by a server in this repository.
        self._server = ServerContext([runs.root], STATUS_ONLY, runs.settings.environ)
        self.problems: list[RlmCiError] = []
        self._found: list[tuple[RunQuestion, QuestionQueue]] = []
        for entry in runs.entries() if word is None else [runs.find(word)]:
            if os.path.lexists(os.path.join(entry.path, INBOX)):
                self._read(entry)
        self._found.sort(key=lambda pair: (pair[0].queued_at, pair[0].question_id))

    def _read(self, entry: FoundRun) -> None:
        settling = partial(settle, self._server)
        queue = QuestionQueue(entry.path, self._server.redactor, settling)
        try:
            self._found += [(question, queue) for question in queue.read().values()]
        except RlmCiError as error:
            self.problems.append(error)
        self.problems += queue.problems
        queue.problems = self.problems

    def questions(self, *, closed: bool = False) -> list[RunQuestion]:
        """The open questions, or all, the newest last."""
        return [question for question, _ in self._found if closed or question.is_open]

    def close(self, word: str, answer: str | None) -> RunQuestion:
        """Answer the question that ``word`` means, an id or a beginning that no other open one has;
        None dismisses it.

        Raises UsageError where it means none or several, or one that is closed.
        """
        exact = [pair for pair in self._found if pair[0].question_id == word]
        begin = [pair for pair in self._found if pair[0].question_id.startswith(word)]
        matches = exact or [pair for pair in begin if pair[0].is_open] or begin
        if len(matches) == 1 and word:
            question, queue = matches[0]
            if answer is None:
                return queue.dismiss(question.question_id)
            return queue.answer(question.question_id, answer)
        if self.problems and not matches:
            raise self.problems[0]
        if matches:
            some = [
                f"{run_question.question_id} ({run_question.from_run_id})"
                for run_question, _ in matches[:_SHOWN]
            ]
            listed = printable(", ".join(some))
            more = f" and {len(matches) - _SHOWN} more" if len(matches) > _SHOWN else ""
            raise UsageError(
                f"{len(matches)} questions begin with {printable(word)[:80]!r}",
                where="QUESTION",
                hint=f"write more of it: {listed}{more}",
            )
        raise UsageError(
            f"there is no question {printable(word)[:80]!r}",
            where="QUESTION",
            hint="rlm-ci questions lists those that are open",
        )
