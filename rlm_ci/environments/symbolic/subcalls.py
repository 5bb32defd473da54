"""Sub-calls: one question each to a model about texts that a plan names, without tools.

A failed sub-call is a result, too: the planner may act on it. Results are in the journal, so a
run that is resumed or replayed gets the same.
"""

from __future__ import annotations

import json
from functools import lru_cache, partial

from rlm_ci.environments.symbolic import iteration as ask_iteration
from rlm_ci.environments.symbolic.artifacts import FILES, answer_meta, as_json, digest, vouch
from rlm_ci.environments.symbolic.iteration import SubcallResult
from rlm_ci.environments.symbolic.planner.progress_notes import quote
from rlm_ci.environments.symbolic.subcall_inputs import SubcallInput, gather, mark_of
from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.models import ModelRequest, prices
from rlm_ci.models.record import errors
from rlm_ci.models.strict_json import unfenced
from rlm_ci.resources import loader
from rlm_ci.runs.journal import spans
from rlm_ci.system.ordered_threads import in_order
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.environments.symbolic.model_access import ModelAccess
    from rlm_ci.environments.symbolic.planner.plan import Subcall
    from rlm_ci.environments.symbolic.visible_context import VisibleContext
    from rlm_ci.models import Completion

VERSION = 1
#: The folder of all sub-calls, in the run's ``rlm/``.
NAME = "subcalls"
_TEMPLATE = "prompts/subcall.md.j2"
#: Characters that a repair shows of a wrong answer, of an error, and of a name in it.
_SHOWN = 2000
_ERROR = 500
_NAME = 80


class SubcallReply(Value):
    """A prompt and its answer; ``error`` says why there is no ``completion``."""

    prompt: str
    completion: Completion | None = None
    error: str | None = None

    @property
    def output(self) -> str:
        return self.completion.text if self.completion else ""

    @property
    def is_cut(self) -> bool:
        return self.completion is not None and self.completion.finish_reason == "length"

    def to_dict(self) -> dict[str, Any]:
        return {
            **answer_meta(self.completion),
            "error": self.error,
            "prompt": digest(self.prompt.encode()),
            "output": digest(self.output.encode()),
        }


class RunningSubcall:
    """One sub-call: its question, its input, and the paths of its files."""

    def __init__(
        self, subcall: Subcall, subcall_input: SubcallInput, iteration: int, ident: str, model: str
    ) -> None:
        self.subcall = subcall
        self.given = subcall_input
        self.id = ident
        self.pointer = ask_iteration.subcall_pointer(iteration, self.id)
        self.place = f"subcall/{iteration}/{self.id}"
        self.model = encodable(subcall.model) or model
        self.pointers = (*subcall.pointers, *(snippet.pointer for snippet in subcall.snippets))
        folder = f"rlm/{NAME}/{iteration}/{self.id}"
        self.paths = {name: f"{folder}/{file}" for name, file in FILES.items()}

    @property
    def is_json(self) -> bool:
        return self.subcall.expected_output.strip().casefold().startswith("json")

    def misfit(self, text: str) -> tuple[str, str] | None:
        """What ``text`` is not, and why; None if it is the JSON that was asked for, or need not."""
        flaw, schema = _json_flaw(text) if self.is_json else None, self.subcall.schema
        if flaw is not None or not schema:
            return None if flaw is None else ("not JSON", flaw)
        wrong = _misfits(schema)(json.loads(unfenced(text.strip())))
        return ("not of the JSON Schema", wrong[:_ERROR]) if wrong else None


class Subcalls:
    """Runs the sub-calls of plans and keeps their artifacts.

    ``question`` is the user's question, cut for the prompts. A plan may name only allowed models:
    a text that the planner read may ask for a more expensive one.
    """

    def __init__(self, access: ModelAccess, window: VisibleContext, question: str) -> None:
        self._access = access
        self._window = window
        self._allowed = tuple(dict.fromkeys((access.model, *access.models)))
        self._question = window.redact(encodable(question))
        self._render = loader.load_template(_TEMPLATE)

    def run(self, subcalls: Sequence[Subcall], iteration: int) -> tuple[SubcallResult, ...]:
        """The results, in order. Raises as ``ask``."""
        return self.ask(
            [(f"sc{n:04d}", subcall) for n, subcall in enumerate(subcalls, 1)], iteration
        )

    def frame_bytes(self, subcall: Subcall) -> int:
        """The bytes of a prompt without the texts."""
        call = RunningSubcall(subcall, SubcallInput((), ()), 0, "", self._access.model)
        return len(self._prompt(call).encode())

    def ask(
        self, subcalls: Sequence[tuple[str, Subcall]], iteration: int
    ) -> tuple[SubcallResult, ...]:
        """The results of sub-calls with ids, in order; reads find the outputs by their pointers.

        A model that refuses or does not answer fails only its own sub-call. Raises LimitError,
        ConfigError, DamagedError, StorageError, UnavailableError once the calls in progress have
        ended and are recorded; PointerError for a pointer that has a flaw.
        """
        limits, model = self._access.limits, self._access.model
        calls = []
        for ident, subcall in subcalls:
            limit = min(subcall.max_input_bytes, limits.subcall_input_bytes)
            subcall_input = gather(subcall, limit, self._window)
            calls.append(RunningSubcall(subcall, subcall_input, iteration, ident, model))
        for call in calls:
            self._access.write(call.paths["input"], self._input(call))
            self._access.write(call.paths["prompt"], self._prompt(call).encode())
        tasks = [partial(self._ask, call) for call in calls]
        answers, error = in_order(tasks, limits.concurrency)
        results = [
            self._result(call, replies)
            for call, replies in zip(calls, answers, strict=True)
            if replies is not None
        ]
        if error is not None:
            raise error
        for result in results:
            self._window.keep(result.pointer, result.output)
        return tuple(results)

    def _input(self, call: RunningSubcall) -> bytes:
        subcall = call.subcall
        record = {
            "version": VERSION,
            "id": call.id,
            "purpose": subcall.purpose,
            "pointers": list(subcall.pointers),
            "snippets": [
                {"pointer": snippet.pointer, "offset": snippet.offset, "bytes": snippet.size}
                for snippet in subcall.snippets
            ],
            "max_input_bytes": subcall.max_input_bytes,
            "model": subcall.model or None,
            "expected_output": subcall.expected_output or None,
            **({"task": subcall.task, "schema": subcall.schema or None} if subcall.task else {}),
            "pieces": [piece.to_dict() for piece in call.given.pieces],
            "clamped": list(call.given.clamped),
        }
        return as_json(record)

    def _prompt(self, call: RunningSubcall, again: Mapping[str, str] | None = None) -> str:
        def quoted(text: str) -> str:
            shown = self._window.redact(encodable(text))
            return shown and quote(shown, len(shown))

        return self._render(
            {
                "purpose": call.subcall.purpose,
                "question": self._question,
                "task": quoted(call.subcall.task),
                "expected_output": quoted(call.subcall.expected_output),
                "schema": self._window.redact(encodable(call.subcall.schema)),
                "is_json": call.is_json,
                "pieces": call.given.pieces,
                "again": again,
            }
        )

    def _ask(self, call: RunningSubcall) -> list[SubcallReply]:
        """The replies, as a step of the run."""
        title = f"sub-call {call.id}: {call.subcall.purpose}"
        files = {"Prompt": call.paths["prompt"], "Answer": call.paths["output"]}
        with spans.span("subcall", title, key=call.id, files=files) as step:
            replies = self._replies(call)
            step.details |= {
                "error": replies[-1].error or self._flaw(call, replies[-1]),
                "read": ", ".join(pointer.rpartition("#")[2] for pointer in call.pointers),
                "input": f"{call.given.size:,} bytes",
                "clamped": ", ".join(map(_clamped, call.given.clamped)),
            }
            if step.details["error"]:
                step.outcome = spans.FAILED
        return replies

    def _replies(self, call: RunningSubcall) -> list[SubcallReply]:
        """One reply; two if the first is not the JSON that was asked for, or a part has none."""
        prompt = self._prompt(call)
        if call.model not in self._allowed:
            allowed = ", ".join(self._allowed)
            error = f"{ask_iteration.NOT_ALLOWED}: {call.model[:_NAME]!r}; allowed: {allowed}"
            return [SubcallReply(prompt, error=self._window.redact(printable(error))[:_ERROR])]
        first = self._answered(call, prompt, call.place)
        if first.completion is None and call.subcall.is_part:
            return [first, self._answered(call, prompt, f"{call.place}/again")]
        flaw = call.misfit(first.output) if first.completion else None
        if flaw is None:
            return [first]
        shown = first.output[:_SHOWN]
        what, why = flaw
        again = {"what": what, "error": why, "text": shown, "mark": mark_of(shown)}
        second = self._answered(call, self._prompt(call, again), f"{call.place}/again")
        return [first, second]

    def _answered(self, call: RunningSubcall, prompt: str, step: str) -> SubcallReply:
        """One answer, or why there is none, from the journal if it has it."""
        messages = ({"role": "user", "content": prompt},)
        complete = self._access.complete
        cap = call.subcall.max_tokens or self._access.max_tokens
        request = ModelRequest(call.model, messages, cap)
        fresh: list[Completion] = []

        def ask() -> Mapping[str, Any]:
            try:
                fresh.append(complete(request, step))
            except (RemoteError, ConfigError) as error:
                if prices.ends_run(error, call.model, self._access.model):
                    raise
                return {"error": errors.to_dict(error, self._window.redact)}
            return {"error": None}

        fact = self._access.fact("subcall", step, {"request": request.to_dict()}, ask)
        if fact["error"] is not None:
            return SubcallReply(prompt, error=errors.from_dict(fact["error"]).what[:_ERROR])
        return SubcallReply(prompt, fresh[0] if fresh else complete(request, step))

    def _result(self, call: RunningSubcall, replies: Sequence[SubcallReply]) -> SubcallResult:
        last = replies[-1]
        error = last.error or self._flaw(call, last)
        output = last.output.encode()
        meta = {
            "version": VERSION,
            "id": call.id,
            "status": ask_iteration.FAILED if error else ask_iteration.SUCCEEDED,
            **last.to_dict(),
            "error": error,
            "cut": last.is_cut,
            "clamped": list(call.given.clamped),
            "attempts": [reply.to_dict() for reply in replies],
        }
        written = {"prompt": last.prompt.encode(), "output": output, "meta": as_json(meta)}
        for name, data in written.items():
            self._access.write(call.paths[name], data)
        vouch(self._access.fact, call.place, {"input": self._input(call), **written})
        return SubcallResult(
            id=call.id,
            purpose=call.subcall.purpose,
            pointer=call.pointer,
            status=meta["status"],
            output=last.output,
            error=error,
            input_bytes=call.given.size,
            output_bytes=len(output),
            clamped=call.given.clamped,
            artifact_paths=call.paths,
            pointers=call.pointers,
            # A prompt without an answer counts as not shown.
            spans=call.given.spans if any(reply.completion for reply in replies) else (),
            model=last.completion.model if last.completion else call.model,
            cut=last.is_cut,
        )

    def _flaw(self, call: RunningSubcall, reply: SubcallReply) -> str | None:
        if not reply.output.strip():
            return "the model answered nothing"
        flaw = call.misfit(reply.output)
        if flaw is None:
            return None
        cap = count(call.subcall.max_tokens or self._access.max_tokens, "token")
        return ": ".join(flaw) + (f" (it was cut off at {cap})" if reply.is_cut else "")


def _clamped(cut: Mapping[str, Any]) -> str:
    return f"{cut['what']}: {cut['asked']} to {cut['given']} bytes"


def _json_flaw(text: str) -> str | None:
    """Why ``text``, or the content of its one fence, is not JSON."""

    def refuse(name: str) -> None:
        raise ValueError(f"{name} is not a JSON number")

    try:
        json.loads(unfenced(text.strip()), parse_constant=refuse)
    except json.JSONDecodeError as error:
        return f"{error.msg} in line {error.lineno}, column {error.colno}"
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return printable(str(error))[:_ERROR]
    return None


@lru_cache(8)
def _misfits(schema: str) -> Callable[[object], str]:
    return loader.misfits(json.loads(schema))
