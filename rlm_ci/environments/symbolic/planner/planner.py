"""The planner: a model that is asked for one plan per iteration, and again if it gives none.

Each prompt and each answer is kept, with the parts of the prompt. Requests have the plan's schema
until the endpoint refuses it; the run records that.
"""

from __future__ import annotations

import re
import sys
from functools import partial

from rlm_ci.environments.answer_formats import ValueAnswer
from rlm_ci.environments.conversation import Memory
from rlm_ci.environments.symbolic.planner.plan import PARSE_ERROR, SCHEMA, PlanError, PlanReader
from rlm_ci.environments.symbolic.planner.prompt import PromptWriter
from rlm_ci.environments.symbolic.subcalls import FILES, answer_meta, as_json, digest, vouch
from rlm_ci.environments.turn_loop import Limits, NoTools, TurnLimits, TurnLoop
from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.models import SpentError
from rlm_ci.models.context_length import ContextFit, is_too_long
from rlm_ci.resources import loader
from rlm_ci.runs.journal import spans
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any, Final

    from rlm_ci.environments.symbolic.iteration import Iteration
    from rlm_ci.environments.symbolic.planner.plan import ParsedPlan, Plan, PlanLimits
    from rlm_ci.environments.symbolic.planner.prompt import ContextMetadata, Prompt
    from rlm_ci.environments.symbolic.subcalls import ModelAccess
    from rlm_ci.models import Completion, Message, ModelRequest
    from rlm_ci.runs import Fact

VERSION: Final = 1
FOLDER: Final = "rlm/planner"
#: Answers without a plan before the run stops, each time that it is resumed.
_ATTEMPTS: Final = 2
#: Tokens of a plan from a model that reads less than the run was made for.
_SHORT_ANSWER: Final = 1_024
_CAP: Final = "RLM_CI_MODELS_MAX_COMPLETION_TOKENS"


class PlannerReply(Value):
    """``errors`` are {"kind", "message"} of each answer that was no plan.

    ``prompt_bytes``, ``truncation``, ``seen`` and ``complete_spans`` are those of the last Prompt;
    ``artifacts`` are the paths of each attempt's files, below the run's folder.
    """

    errors: tuple[dict[str, str], ...]
    prompt_bytes: int
    truncation: dict[str, int]
    artifacts: tuple[dict[str, str], ...]
    seen: tuple[tuple[int, int], ...]
    complete_spans: frozenset[tuple[int, int]]


class AcceptedPlan(PlannerReply):
    plan: Plan
    clamped: tuple[dict[str, Any], ...]


class BadPlanError(ConfigError):
    """No attempt gave a plan; ``reply`` is for the state. A resumed run asks again."""

    def __init__(self, what: str, reply: PlannerReply, *, where: str, hint: str) -> None:
        super().__init__(what, where=where, hint=hint)
        self.reply = reply


class Planner:
    """Asks for plans, in the order of iterations.

    ``flaw`` says why a pointer cannot be read. ``left`` gives the calls that the budgets have
    left, None if these are many; it is called once per iteration, and its result recorded.
    """

    def __init__(
        self,
        access: ModelAccess,
        flaw: Callable[[str], str | None],
        left: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._access = access
        self._flaw = flaw
        self._left = left
        self._fit = ContextFit.of(access.context_tokens)
        self._limits = access.limits
        #: Whether the endpoint takes a schema: unknown before the first question.
        self._takes_schema: bool | None = None

    def plan(
        self, iteration: int, goal: str, context: ContextMetadata, steps: Sequence[Iteration]
    ) -> AcceptedPlan:
        """The plan for ``iteration``, which follows ``steps``.

        Raises BadPlanError if the second answer is no plan either, unless the run was resumed
        after it; ConfigError if the limit has no room for a prompt; and what ``complete`` and
        ``write`` raise.
        """
        calls = self._calls_left(iteration)

        def compose(errors: Sequence[Mapping[str, str]], refusal: RemoteError | None) -> Prompt:
            wrong = errors[-1]["message"] if errors else ""
            left = None if calls is None else max(1, calls - len(errors))
            if refusal is not None:
                self._fit_in()
            prompts = PromptWriter(self._limits, self._access.redact, self._access.models)
            try:
                return prompts.prompt(iteration, goal, context, steps, wrong, calls=left)
            except ConfigError:
                if refusal is None:
                    raise
                raise refusal from None

        question = _PlanQuestion(self._access, iteration, compose, self._cap)
        terms = self._access.limits, self._flaw, context.object_id, context.byte_length
        loop = TurnLoop(
            partial(self._complete, question),
            NoTools(),
            model=self._access.model,
            bounds=question,
            answers=ValueAnswer(partial(self._read, question, terms)),
            fit=self._fit,
            place_of=lambda key, attempt: f"{key}/{attempt}",
        )
        parsed: ParsedPlan | None = loop.run(question, f"plan/{iteration}").value
        reply = question.to_dict()
        if parsed is not None:
            return AcceptedPlan(**reply, plan=parsed.plan, clamped=parsed.clamped)
        raise BadPlanError(
            "the planner's answer is not a plan, and neither is its second one: "
            + question.errors[-1]["message"],
            PlannerReply(**reply),
            where=f"{FOLDER}/{iteration}",
            hint=f"its answers are kept there; {question.hint}",
        )

    def _calls_left(self, iteration: int) -> int | None:
        """The calls that the budgets had left when this was first asked, in any session."""
        key = f"plan/{iteration}"
        left = self._access.fact("left", key, {}, lambda: {"calls": self._left()})["calls"]
        return None if left is None else int(left)

    def _complete(self, question: _PlanQuestion, request: ModelRequest, step: str) -> Completion:
        """The answer to a prompt, which is written before it is sent."""
        attempt = question.attempt
        self._access.write(attempt.paths["prompt"], attempt.prompt.data)
        self._access.write(attempt.paths["meta"], as_json(attempt.to_dict()))
        spans.current().files["Prompt"] = attempt.paths["prompt"]
        try:
            return self._ask(request, step)
        except RemoteError as error:
            question.refused = error
            raise

    def _read(
        self, question: _PlanQuestion, terms: tuple[Any, ...], completion: Completion
    ) -> tuple[ParsedPlan | None, str]:
        """The plan of an answer, or what is wrong with it; answer and error are written."""
        self._fit_in()
        attempt = question.attempt
        output = self._access.redact(encodable(completion.text))
        self._access.write(attempt.paths["output"], output.encode())
        parsed, error = None, None
        try:
            if completion.tool_calls and not output.strip():
                message = "the answer calls a tool: answer in text, there are no tools"
                raise PlanError(PARSE_ERROR, message)
            parsed = PlanReader(*terms).read(output)
        except PlanError as problem:
            error = self._for_planner(problem, completion)
        answer = {
            **answer_meta(completion),
            "structured": self._takes_schema,
            "output": digest(output.encode()),
            "error": error and {"kind": error.kind, "message": error.message},
        }
        meta = as_json({**attempt.to_dict(), **answer})
        self._access.write(attempt.paths["meta"], meta)
        written = {"prompt": attempt.prompt.data, "output": output.encode(), "meta": meta}
        vouch(self._access.fact, attempt.position, written)
        question.add(completion, error)
        step = spans.current()
        step.files["Answer"] = attempt.paths["output"]
        if error is not None:
            step.outcome = spans.FAILED
            step.details["error"] = error.message
        return parsed, "" if error is None else error.message

    def _fit_in(self) -> None:
        """Make the next prompts shorter, if the model turned out to read less."""
        if self._fit is not None:
            limit = min(self._limits.prompt_bytes, self._fit.room(self._cap()))
            self._limits = self._limits.replace(prompt_bytes=limit)

    def _for_planner(self, error: PlanError, completion: Completion) -> PlanError:
        message = error.message
        if completion.finish_reason == "length":
            cap = count(self._access.max_tokens, "token")
            message = f"the answer was cut off at {cap}, be shorter: {message}"
        return PlanError(error.kind, self._access.redact(printable(message)))

    # ── the question ──

    def _ask(self, request: ModelRequest, step: str) -> Completion:
        """The answer, with the schema until the endpoint has refused it."""
        if self._takes_schema is False:
            return self._access.complete(request, step)
        formed = request.replace(response_format=_response_format(self._access.limits))
        fresh: list[Completion] = []

        def find_out() -> Mapping[str, Any]:
            try:
                fresh.append(self._access.complete(formed, step))
            except RemoteError as error:
                if not _may_refuse_schema(error, self._access.model):
                    raise
                message = printable(error.what[:500])
            else:
                return {"takes_schema": True}
            # If this is refused as well, the schema was not the reason.
            fresh.append(self._access.complete(request, step))
            return {"takes_schema": False, "said": message}

        # An endpoint may refuse it later: its address may lead to another server by then.
        at = "start" if self._takes_schema is None else step
        fact = self._access.fact("structured", at, {"model": self._access.model}, find_out)
        self._takes_schema = fact["takes_schema"]
        if fresh:
            return fresh[0]
        return self._access.complete(formed if fact["takes_schema"] else request, step)

    def _cap(self) -> int:
        """The tokens of an answer: fewer where the model turned out to read less."""
        access, fit = self._access, self._fit
        is_less = fit is not None and fit.tokens != access.context_tokens
        if fit is None or not is_less:
            return access.max_tokens
        return fit.answer(min(access.max_tokens, _SHORT_ANSWER))


class _PlanQuestion(Memory, Limits):
    """The question of one iteration: its prompt is made anew after an answer that is no plan."""

    #: The last prompt, and what can be done about its answer.
    attempt: _Attempt
    hint = ""
    #: Why the model did not read a prompt of it.
    refused: RemoteError | None = None

    def __init__(
        self,
        access: ModelAccess,
        iteration: int,
        compose: Callable[[Sequence[Mapping[str, str]], RemoteError | None], Prompt],
        cap: Callable[[], int],
    ) -> None:
        super().__init__(TurnLimits(turns=sys.maxsize, repairs=_ATTEMPTS - 1))
        self._access = access
        self._iteration = iteration
        self._compose = compose
        self._cap = cap
        self._paths: list[dict[str, str]] = []
        self.errors: list[dict[str, str]] = []

    def messages(self, room: int | None = None) -> tuple[Message, ...]:  # noqa: ARG002
        number = len(self.errors) + 1
        prompt = self._compose(self.errors, self.refused)
        self.attempt = _Attempt(self._iteration, number, prompt)
        return prompt.messages

    def span(self, turn: int, name: str, *, has_tools: bool) -> AbstractContextManager[object]:  # noqa: ARG002
        again = f", attempt {turn}" if turn > 1 else ""
        return spans.span("plan", f"plan{again}", key=f"plan-{name}")

    def cap(self, fit: ContextFit | None, *, is_cut_off: bool) -> int:  # noqa: ARG002
        return self._cap()

    def is_shorter(self, request: ModelRequest, refused: ModelRequest) -> bool:
        return request.max_tokens < refused.max_tokens or super().is_shorter(request, refused)

    def may_repair(self, number: int) -> bool:
        is_last = number % _ATTEMPTS == 0
        return not is_last or is_lifted(self._access.fact, self.attempt.position)

    def add(self, completion: Completion, error: PlanError | None) -> None:
        """Take what came of the last attempt."""
        self._paths.append(self.attempt.paths)
        self.hint = _hint(completion)
        if error is not None:
            self.errors.append({"kind": error.kind, "message": error.message})

    def to_dict(self) -> dict[str, Any]:
        """The fields of a PlannerReply."""
        prompt = self.attempt.prompt
        return {
            "errors": tuple(self.errors),
            "prompt_bytes": len(prompt.data),
            "truncation": prompt.truncation,
            "artifacts": tuple(self._paths),
            "seen": prompt.seen,
            "complete_spans": prompt.complete_spans,
        }


class _Attempt:
    def __init__(self, iteration: int, number: int, prompt: Prompt) -> None:
        self.iteration = iteration
        self.number = number
        self.prompt = prompt
        self.position = f"plan/{iteration}/{number}"
        folder = f"{FOLDER}/{iteration}/attempt-{number}"
        self.paths = {name: f"{folder}/{FILES[name]}" for name in ("prompt", "output", "meta")}

    def to_dict(self) -> dict[str, Any]:
        """The fields of meta.json about the prompt; offsets are bytes in prompt.txt."""
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


def _hint(completion: Completion) -> str:
    if completion.finish_reason == "length":
        return f"start a new run with a larger budget, or with a higher {_CAP}"
    return "rlm-ci resume asks again; or take a model that keeps to JSON"


#: Words of refusals for the form of the answer.
_ABOUT_FORM: Final = (
    "response_format", "response format", "json mode", "schema", "structured", "grammar", "guided",
    "parameter", "not supported", "unsupported",
)  # fmt: skip


def _may_refuse_schema(error: RemoteError, model: str) -> bool:
    """Whether the endpoint refused the request, and the schema may be why."""
    if isinstance(error, SpentError) or is_too_long(error):  # it would be with another form, too
        return False
    # A model's name, such as grammar-7b, does not count.
    message = re.sub(rf"(?<!\w){re.escape(model)}(?!\w)", "", error.what, flags=re.IGNORECASE)
    message = message.casefold()
    # Some endpoints give no reason.
    return "the request was refused" in message or any(word in message for word in _ABOUT_FORM)


def _response_format(limits: PlanLimits) -> Message:
    schema = loader.read_schema(SCHEMA)
    del schema["$schema"], schema["title"]
    for name in ("counts", "maps"):
        if not getattr(limits, name):
            del schema["properties"][name]
    return {"type": "json_schema", "json_schema": {"name": "plan", "schema": schema}}


def is_lifted(fact: Fact, step: str) -> bool:
    """Whether a pause at ``step`` is over: the run was resumed after it.

    A replay has only the pauses that are in its record.
    """
    is_new = False

    def begin() -> Mapping[str, Any]:
        nonlocal is_new
        is_new = True
        return {}

    fact("paused", f"pause/{step}", {}, begin)
    if is_new:
        return False
    try:
        fact("resumed", f"resume/{step}", {}, dict)
    except ConfigError:
        return False
    return True
