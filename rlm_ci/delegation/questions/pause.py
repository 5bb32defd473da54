"""A delegated run pauses while its question is open, and goes on, or ends, when it is closed."""

from __future__ import annotations

import os
import threading

from rlm_ci.delegation import control
from rlm_ci.delegation.questions.queue import FAIL, PAUSE
from rlm_ci.delegation.tool import Call
from rlm_ci.errors import DamagedError
from rlm_ci.runs import delegated, manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rlm_ci.delegation.questions.queue import RunQuestion
    from rlm_ci.delegation.tool import ServerContext
    from rlm_ci.runs.find import FoundRun

REASON = "awaiting_question_answer"
#: What the id of our request to go on has, behind that of the question.
_CLOSED = "-closed"


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
    question_id = request.removesuffix(_CLOSED)
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
    was_asked = not request.endswith(_CLOSED)
    is_over = fallbacks != {PAUSE} and not any(question.is_open for question in questions.values())
    if not is_over or not (was_asked or run.status_detail == manifest.PAUSED):
        return
    child = server.runs().find(path)
    if was_asked:
        control.ask(server, child, delegated.RESUME, f"{question_id}{_CLOSED}", REASON)
    call = Call(server, threading.Event(), lambda *_: None)
    control.go_on(call, server.owner(child), child, was_asked_to_pause=was_asked)
