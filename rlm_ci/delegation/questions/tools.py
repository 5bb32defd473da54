"""``delegate.question.enqueue`` and ``delegate.question.poll``: a delegated run asks a person.

The server is that of the run that asks. Which run this is, and who its parent is, its environment
says; the token in the folder of the run proves it to the parent. No argument can change that.
"""

from __future__ import annotations

import os
import time
from functools import partial

from rlm_ci.delegation import tokens
from rlm_ci.delegation.questions.queue import Asker, QuestionQueue, pause, settle
from rlm_ci.delegation.tool import ToolError
from rlm_ci.errors import DamagedError, RlmCiError, StorageError
from rlm_ci.runs import manifest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.delegation.questions.queue import RunQuestion
    from rlm_ci.delegation.tool import Call, ServerContext
    from rlm_ci.runs.find import FoundRun

#: Where the variables of a delegated run name its own manifest, and that of its parent.
OWN = "CODEX_ORCHESTRATOR_MANIFEST_PATH"
PARENT = "CODEX_DELEGATION_PARENT_MANIFEST_PATH"
#: Milliseconds that a poll waits at most, and seconds between two looks.
_LONGEST = 10_000
_LOOK = 0.25


def enqueue(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """Ask; the run pauses at its next safe point, unless ``auto_pause`` is false."""
    server = call.server
    if not arguments["prompt"].strip():
        raise ToolError("invalid_arguments", "the prompt is empty", hint="ask a question")
    child, parent = _family(server, arguments)
    asker = Asker(child.run_id, os.path.join(os.path.abspath(child.path), manifest.NAME))
    options = {
        name: arguments[name]
        for name in ("urgency", "expires_in_ms", "auto_pause")
        if name in arguments
    }
    fallback = server.runs().settings.delegate.question_expiry_fallback
    queue = _queue(server, parent)
    try:
        question = queue.enqueue(asker, arguments["prompt"], fallback=fallback, **options)
        if question.auto_pause:
            pause(server, child, question)
            question = queue.paused(question.question_id)
    except (DamagedError, StorageError):
        _forget(server, parent)
        raise
    return question.to_record()


def poll(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """The question, and its answer once it has one; waits for that for ``wait_ms``."""
    server = call.server
    child, parent = _family(server, arguments)
    until = time.monotonic() + min(arguments.get("wait_ms", 0), _LONGEST) / 1000
    try:
        queue = _queue(server, parent)
        while True:
            question = _find(queue, arguments.get("question_id"), child.run_id)
            left = until - time.monotonic()
            if not question.is_open or left <= 0 or call.cancelled.wait(min(_LOOK, left)):
                return question.to_record()
    except (DamagedError, StorageError):
        _forget(server, parent)
        raise


def _find(queue: QuestionQueue, question_id: str | None, child: str) -> RunQuestion:
    """The question ``question_id`` of the run ``child``, or its latest. Raises ToolError."""
    question = queue.latest(child) if question_id is None else queue.read().get(question_id)
    if question is None:
        what = f"there is no question {question_id!r}" if question_id else "it has asked none"
        raise ToolError("question_not_found", what)
    if question.from_run_id != child:
        raise ToolError("question_forbidden", "that question is of another run")
    return question


def _queue(server: ServerContext, parent: FoundRun) -> QuestionQueue:
    path = os.path.realpath(parent.path)
    if path not in server.queues:  # one for each parent goes on reading where it was
        queue = QuestionQueue(path, server.redactor, partial(settle, server))
        server.queues.setdefault(path, queue)
    question_queue: QuestionQueue = server.queues[path]
    return question_queue


def _forget(server: ServerContext, parent: FoundRun) -> None:
    """Read everything anew the next time: the file may be whole again."""
    server.queues.pop(os.path.realpath(parent.path), None)


def _family(server: ServerContext, arguments: dict[str, Any]) -> tuple[FoundRun, FoundRun]:
    """The run of this server, and its parent, which knows it by its token. Raises ToolError."""
    child = _run(server, server.environ.get(OWN))
    if child is None:
        raise ToolError(
            "not_delegated",
            "this server is not that of a delegated run, so there is no one to ask",
            hint=f"delegate.spawn starts such runs; the client of the server must pass {OWN} on",
        )
    _require_same(server, arguments, "from_manifest_path", child)
    parent = _run(server, server.environ.get(PARENT))
    if parent is None:  # a person has resumed the child, or there is none
        word = arguments.get("parent_manifest_path") or child.run.parent_run_id
        if not word:
            raise ToolError(
                "parent_unknown",
                "no run has delegated this one, so none can be asked",
                hint="delegate.spawn gives a run a parent if it is called in a run, or names one",
            )
        parent = server.find(word)
    else:
        _require_same(server, arguments, "parent_manifest_path", parent)
    token = tokens.token_of(child.path)
    if token is None or not tokens.is_child(parent.path, child.run_id, token):
        raise ToolError(
            "question_forbidden",
            f"the run {parent.run_id} has not delegated this one",
            hint="only the run that delegated this one can be asked",
        )
    return child, parent


def _run(server: ServerContext, path: str | None) -> FoundRun | None:
    """The run at a path that the environment names, also outside of the roots."""
    if not path:
        return None
    run = server.runs().find(path)
    run.run  # noqa: B018 - raises for a damaged one
    return run


def _require_same(
    server: ServerContext, arguments: dict[str, Any], name: str, run: FoundRun
) -> None:
    """Raise ToolError where an argument names another run than the environment."""
    word = arguments.get(name)
    if word is None:
        return
    try:
        path = server.find(word).path
    except RlmCiError:
        path = ""
    if not path or os.path.realpath(path) != os.path.realpath(run.path):
        raise ToolError(
            "question_forbidden",
            f"{name} names another run than {run.run_id}",
            hint="leave it out",
        )
