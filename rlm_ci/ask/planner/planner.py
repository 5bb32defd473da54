"""The planner: a model that is asked for one plan an iteration, and once more where it is none.

Each prompt and each answer is kept, with what stands where in it. An endpoint that takes the
plan's schema as the answer's form is given it, for as long as it does not refuse that; this is
found out with the questions themselves, at no cost, and remembered with the run.
"""

from __future__ import annotations

import json
import re

from rlm_ci.ask.pauses import is_lifted
from rlm_ci.ask.planner.plan import PARSE_ERROR, SCHEMA, PlanError, parse
from rlm_ci.ask.planner.prompt import PromptWriter
from rlm_ci.ask.verify.recorded_answers import FILES, digest, vouch
from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.models import ModelRequest, SpentError
from rlm_ci.resources import loader
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final

    from rlm_ci.agents.builtin.turn_loop import Complete
    from rlm_ci.ask.iteration import Iteration
    from rlm_ci.ask.planner.plan import ParsedPlan, Plan, PlanLimits
    from rlm_ci.ask.planner.prompt import ContextMetadata
    from rlm_ci.ask.planner.prompt_layout import Prompt
    from rlm_ci.ask.subcalls import Write
    from rlm_ci.models import Completion, Message
    from rlm_ci.runs import Fact

VERSION: Final = 1
FOLDER: Final = "rlm/planner"
#: Answers that are asked for before the run stops, and again when it is resumed.
_ATTEMPTS: Final = 2
_CAP: Final = "RLM_CI_MODELS_MAX_COMPLETION_TOKENS"


class PlannerReply(Value):
    """What asking for a plan came to.

    ``errors`` are {"kind", "message"} of each answer that was no plan; ``prompt_bytes``,
    ``truncation``, ``seen`` (ranges of the source's bytes) and ``whole`` (the searches and reads
    that it shows whole, see Prompt) are of the last prompt; ``artifacts`` are the paths of each
    attempt's files, below the run's folder.
    """

    errors: tuple[dict[str, str], ...]
    prompt_bytes: int
    truncation: dict[str, int]
    artifacts: tuple[dict[str, str], ...]
    seen: tuple[tuple[int, int], ...]
    whole: frozenset[tuple[int, int]]


class AcceptedPlan(PlannerReply):
    plan: Plan
    clamped: tuple[dict[str, Any], ...]


class BadPlanError(ConfigError):
    """No plan came, though the planner was told what was wrong; ``asked`` is for the state.

    The run may go on: when it is resumed, the planner is asked again.
    """

    def __init__(self, what: str, asked: PlannerReply, *, where: str, hint: str) -> None:
        super().__init__(what, where=where, hint=hint)
        self.asked = asked


class Planner:
    """Asks for plans, in the order of iterations.

    ``complete`` answers requests and keeps the ledger, ``fact`` records what a resumed run must
    not decide again, ``write`` writes files of the run; ``flaw`` says why a pointer cannot be
    read. ``max_tokens`` caps each answer; ``models`` are those that a plan may name for a
    sub-call. ``left`` tells how many calls the budgets have left,
    None where that is many; it is asked once an iteration, and what it said is a fact.
    """

    def __init__(
        self,
        complete: Complete,
        fact: Fact,
        *,
        model: str,
        limits: PlanLimits,
        max_tokens: int,
        flaw: Callable[[str], str | None],
        write: Write,
        redact: Callable[[str], str],
        left: Callable[[], int | None] = lambda: None,
        models: Sequence[str] = (),
    ) -> None:
        self._complete = complete
        self._fact = fact
        self._model = model
        self._limits = limits
        self._max_tokens = max_tokens
        self._flaw = flaw
        self._write = write
        self._redact = redact
        self._left = left
        self._scribe = PromptWriter(limits, redact, models)
        #: Does the endpoint take a schema? Known after the first question; no, once it was refused.
        self._takes_schema: bool | None = None

    def plan(
        self, iteration: int, goal: str, context: ContextMetadata, steps: Sequence[Iteration]
    ) -> AcceptedPlan:
        """The plan for ``iteration``, which follows ``steps``.

        Raises BadPlanError, an error of configuration, when the second answer is no plan
        either, unless the run was resumed after it; ConfigError when the limit has no room
        for a prompt; and what ``complete`` and ``write`` raise.
        """
        errors: list[dict[str, str]] = []
        artifacts: list[dict[str, str]] = []
        calls = self._calls_left(iteration)
        while True:
            wrong = errors[-1]["message"] if errors else ""
            left = None if calls is None else max(1, calls - len(errors))
            prompt = self._scribe.prompt(iteration, goal, context, steps, wrong, calls=left)
            attempt = _Attempt(iteration, len(errors) + 1, prompt)
            artifacts.append(attempt.paths)
            parsed, error, hint = self._tried(attempt, context)
            if error is not None:
                errors.append({"kind": error.kind, "message": error.message})
            asked: dict[str, Any] = {
                "errors": tuple(errors),
                "prompt_bytes": len(prompt.data),
                "truncation": prompt.truncation,
                "artifacts": tuple(artifacts),
                "seen": prompt.seen,
                "whole": prompt.whole,
            }
            if parsed is not None:
                return AcceptedPlan(**asked, plan=parsed.plan, clamped=parsed.clamped)
            if len(errors) % _ATTEMPTS == 0 and not is_lifted(self._fact, attempt.place):
                raise BadPlanError(
                    "the planner's answer is not a plan, and neither is its second one: "
                    + errors[-1]["message"],
                    PlannerReply(**asked),
                    where=f"{FOLDER}/{iteration}",
                    hint=f"its answers are kept there; {hint}",
                )

    def _calls_left(self, iteration: int) -> int | None:
        """What the budgets had left when this was first asked: a resumed run says it again."""
        place = f"plan/{iteration}"
        left = self._fact("left", place, {}, lambda: {"calls": self._left()})["calls"]
        return None if left is None else int(left)

    def _tried(
        self, attempt: _Attempt, context: ContextMetadata
    ) -> tuple[ParsedPlan | None, PlanError | None, str]:
        """A plan, or what is wrong with the answer and a way out; all of it is written down."""
        self._write(attempt.paths["prompt"], attempt.prompt.data)
        self._write(attempt.paths["meta"], _json(attempt.to_dict()))
        completion = self._ask(attempt.prompt, attempt.place)
        output = self._redact(encodable(completion.text))
        self._write(attempt.paths["output"], output.encode())
        parsed, error = None, None
        try:
            _require_text(output, completion)
            size = context.byte_length
            parsed = parse(output, self._limits, self._flaw, context.object_id, size)
        except PlanError as problem:
            error = self._told(problem, completion)
        answer = {
            "model": completion.model,
            "structured": self._takes_schema,
            "finish_reason": completion.finish_reason,
            "usage": completion.usage and completion.usage.to_dict(),
            "output": digest(output.encode()),
            "error": error and {"kind": error.kind, "message": error.message},
        }
        meta = _json({**attempt.to_dict(), **answer})
        self._write(attempt.paths["meta"], meta)
        written = {"prompt": attempt.prompt.data, "output": output.encode(), "meta": meta}
        vouch(self._fact, attempt.place, written)
        return parsed, error, _way_out(completion)

    def _told(self, error: PlanError, completion: Completion) -> PlanError:
        """The error as the state and the planner are told of it."""
        message = error.message
        if completion.finish_reason == "length":
            cap = count(self._max_tokens, "token")
            message = f"the answer was cut off at {cap}, be shorter: {message}"
        return PlanError(error.kind, self._redact(printable(message)))

    # ── the question ──

    def _ask(self, prompt: Prompt, place: str) -> Completion:
        """The answer, to the schema or, once the endpoint has refused it, without one."""
        if self._takes_schema is False:
            return self._complete(self._request(prompt, schema=False), place)
        fresh: list[Completion] = []

        def find_out() -> Mapping[str, Any]:
            try:
                fresh.append(self._complete(self._request(prompt, schema=True), place))
            except RemoteError as error:
                if not _may_refuse_schema(error, self._model):
                    raise
                said = printable(error.what[:500])
            else:
                return {"takes_schema": True}
            # It was refused for something else if this is refused as well.
            fresh.append(self._complete(self._request(prompt, schema=False), place))
            return {"takes_schema": False, "said": said}

        # One that took it may refuse it later: another server may stand behind the address now.
        at = "start" if self._takes_schema is None else place
        known = self._fact("structured", at, {"model": self._model}, find_out)
        self._takes_schema = known["takes_schema"]
        if fresh:
            return fresh[0]
        return self._complete(self._request(prompt, schema=known["takes_schema"]), place)

    def _request(self, prompt: Prompt, *, schema: bool) -> ModelRequest:
        return ModelRequest(
            model=self._model,
            messages=prompt.messages,
            max_tokens=self._max_tokens,
            response_format=_response_format() if schema else None,
        )


class _Attempt:
    """One question for a plan, and where its files lie."""

    def __init__(self, iteration: int, number: int, prompt: Prompt) -> None:
        self.iteration = iteration
        self.number = number
        self.prompt = prompt
        self.place = f"plan/{iteration}/{number}"
        folder = f"{FOLDER}/{iteration}/attempt-{number}"
        self.paths = {name: f"{folder}/{FILES[name]}" for name in ("prompt", "output", "meta")}

    def to_dict(self) -> dict[str, Any]:
        """What meta.json says of the prompt; offsets are bytes in prompt.txt."""
        prompt = self.prompt
        messages, start = [], 0
        for message in prompt.messages:
            end = start + len(message["content"].encode())
            messages.append({"role": message["role"], "start": start, "end": end})
            start = end
        return {
            "version": VERSION,
            "iteration": self.iteration,
            "attempt": self.number,
            "prompt": digest(prompt.data),
            "messages": messages,
            "sections": list(prompt.sections),
            "truncation": prompt.truncation,
        }


def _require_text(output: str, completion: Completion) -> None:
    """Raise PlanError for an answer that is a call of a tool, and says nothing."""
    if completion.tool_calls and not output.strip():
        said = "the answer calls a tool: answer in text, there are no tools"
        raise PlanError(PARSE_ERROR, said)


def _way_out(completion: Completion) -> str:
    """What to do about a model whose answers are no plans."""
    if completion.finish_reason == "length":
        return f"start a new run with a higher {_CAP}"
    return "rlm-ci resume asks again; or take a model that keeps to JSON"


#: Words of refusals that are about the form of the answer.
_ABOUT_FORM: Final = (
    "response_format", "response format", "json mode", "schema", "structured", "grammar", "guided",
    "parameter", "not supported", "unsupported",
)  # fmt: skip


def _may_refuse_schema(error: RemoteError, model: str) -> bool:
    """Whether the endpoint refused the request, and the schema may be why."""
    if isinstance(error, SpentError):  # it was at work: that is no refusal
        return False
    # The name of a model is no word about forms, be it grammar-7b or m.
    said = re.sub(rf"(?<!\w){re.escape(model)}(?!\w)", "", error.what, flags=re.IGNORECASE)
    said = said.casefold()
    # Some say no more than that they refuse.
    return "the request was refused" in said or any(word in said for word in _ABOUT_FORM)


def _response_format() -> Message:
    schema = loader.read_schema(SCHEMA)
    del schema["$schema"], schema["title"]
    return {"type": "json_schema", "json_schema": {"name": "plan", "schema": schema}}


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()
