"""Sub-calls: one question each to a model about texts that a plan names, without tools.

A failed sub-call is a result, too: the planner may act on it. Results are in the journal, so a
run that is resumed or replayed gets the same.

A question to a model leaves files in the run, and their digests in its record.
"""

from __future__ import annotations

import json
from functools import lru_cache, partial
from hashlib import sha256
from itertools import islice

from rlm_ci.environments.symbolic import iteration as ask_iteration
from rlm_ci.environments.symbolic.iteration import SUBCALL, SubcallResult
from rlm_ci.environments.symbolic.planner.progress_notes import quote
from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.models import ModelRequest, prices
from rlm_ci.models.budget import Forecast
from rlm_ci.models.record import errors
from rlm_ci.models.strict_json import unfenced
from rlm_ci.resources import loader
from rlm_ci.runs.journal import spans
from rlm_ci.system.ordered_threads import in_order
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.context.context import Excerpt
    from rlm_ci.environments.symbolic.planner.plan import PlanLimits, Subcall
    from rlm_ci.environments.symbolic.visible_context import VisibleContext
    from rlm_ci.environments.turn_loop import Complete
    from rlm_ci.models import Completion
    from rlm_ci.models.budget import PlannedCall
    from rlm_ci.runs import Fact

    Foresee = Callable[[Sequence[PlannedCall]], Forecast]


#: The kind of the fact that holds the digests.
ARTIFACTS = "artifacts"
#: The files, by their names in the record.
FILES: Mapping[str, str] = {
    "input": "input.json", "prompt": "prompt.txt", "output": "output.txt", "meta": "meta.json",
}  # fmt: skip


def vouch(fact: Fact, step: str, written: Mapping[str, bytes]) -> None:
    """Record the digests of the files of the question at ``step``, by name."""
    digests = {name: digest(data) for name, data in written.items()}
    fact(ARTIFACTS, step, digests, lambda: digests)


def answer_meta(completion: Completion | None) -> dict[str, Any]:
    """What a meta.json has of an answer; None for none."""
    return {
        "model": completion and completion.model,
        "finish_reason": completion and completion.finish_reason,
        "usage": completion and completion.usage and completion.usage.to_dict(),
    }


def as_json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=2, sort_keys=True) + "\n").encode()


def digest(data: bytes) -> dict[str, Any]:
    """The size and SHA-256 of a file, as a meta.json has them."""
    return {"bytes": len(data), "sha256": sha256(data).hexdigest()}


#: Excerpts at most: each has a label, which does not count as bytes.
MOST_PIECES = 64
_MARK = 16
#: Bytes of a text for a byte that is no UTF-8.
_GROWTH = 3


class ShownExcerpt(Value):
    """One excerpt in a sub-call's prompt; ``size`` is the UTF-8 bytes of ``text`` there."""

    pointer: str
    label: str
    start: int
    end: int
    text: str
    size: int

    @property
    def of_subcall(self) -> bool:
        return self.pointer.startswith(SUBCALL)

    @property
    def mark(self) -> str:
        """The end mark of the excerpt, which depends on its text, so no text can have it."""
        return mark_of(self.text)

    def to_dict(self) -> dict[str, Any]:
        return {
            "pointer": self.pointer,
            "label": self.label,
            "start_byte": self.start,
            "end_byte": self.end,
            "bytes": self.size,
            "mark": self.mark,
        }


class SubcallInput(Value):
    """``clamped`` is what was cut or left out, as {"what", "asked", "given"} in bytes."""

    pieces: tuple[ShownExcerpt, ...]
    clamped: tuple[dict[str, Any], ...]

    @property
    def size(self) -> int:
        return sum(piece.size for piece in self.pieces)

    @property
    def spans(self) -> tuple[tuple[int, int], ...]:
        return tuple((piece.start, piece.end) for piece in self.pieces if not piece.of_subcall)


def mark_of(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:_MARK]


def gather(subcall: Subcall, limit: int, window: VisibleContext) -> SubcallInput:
    """The texts that ``subcall`` names, of at most ``limit`` bytes together.

    Raises PointerError, DamagedError, StorageError.
    """
    pieces: list[ShownExcerpt] = []
    clamped: list[dict[str, Any]] = []
    total = len(subcall.pointers) + len(subcall.snippets)
    if total > MOST_PIECES:
        clamped.append({"what": "pieces", "asked": total, "given": MOST_PIECES})
    left = limit
    for what, pointer, offset, length in islice(_requested_texts(subcall, window), MOST_PIECES):
        if subcall.is_part:
            excerpt, is_cut = _full_excerpt(window, pointer, length, left)
        else:
            excerpt, is_cut = _fitting(window, pointer, offset, length, left)
        shown = excerpt.end - excerpt.start
        if is_cut:
            clamped.append({"what": what, "asked": length, "given": shown})
        if shown:
            size = len(excerpt.text.encode())
            label = window.label(pointer, excerpt)
            pieces.append(
                ShownExcerpt(pointer, label, excerpt.start, excerpt.end, excerpt.text, size)
            )
            left -= size
    return SubcallInput(tuple(pieces), tuple(clamped))


def _requested_texts(
    subcall: Subcall, window: VisibleContext
) -> Iterator[tuple[str, str, int, int]]:
    """The named texts: what, pointer, offset and number of bytes."""
    for index, pointer in enumerate(subcall.pointers):
        start, end = window.span(pointer)
        yield f"pointers[{index}]", pointer, 0, end - start
    for index, snippet in enumerate(subcall.snippets):
        start, end = window.span(snippet.pointer)
        offset = min(snippet.offset, end - start)
        yield f"snippets[{index}]", snippet.pointer, offset, min(snippet.size, end - start - offset)


def _full_excerpt(
    window: VisibleContext, pointer: str, length_limit: int, left: int
) -> tuple[Excerpt, bool]:
    """As ``_fitting``, of all that ``pointer`` names: bytes that are no UTF-8 need more room."""
    excerpt, _ = _fitting(window, pointer, 0, length_limit * _GROWTH, left)
    return excerpt, excerpt.truncated


def _fitting(
    window: VisibleContext, pointer: str, offset: int, length_limit: int, left: int
) -> tuple[Excerpt, bool]:
    """The excerpt, cut so that its text has at most ``left`` bytes, and whether it was cut.

    A text is longer than its bytes if they are not UTF-8, or a short secret was redacted.
    """
    length = min(length_limit, left)
    while True:
        excerpt = window.read(pointer, length, offset)
        size = len(excerpt.text.encode())
        if size <= left:
            return excerpt, length < length_limit
        length = length * left // size


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
        self.input = subcall_input
        self.id = ident
        self.pointer = ask_iteration.subcall_pointer(iteration, self.id)
        self.position = f"subcall/{iteration}/{self.id}"
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
            "pieces": [piece.to_dict() for piece in call.input.pieces],
            "clamped": list(call.input.clamped),
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
                "pieces": call.input.pieces,
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
                "input": f"{call.input.size:,} bytes",
                "clamped": ", ".join(map(_clamped, call.input.clamped)),
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
        first = self._answered(call, prompt, call.position)
        if first.completion is None and call.subcall.is_part:
            return [first, self._answered(call, prompt, f"{call.position}/again")]
        flaw = call.misfit(first.output) if first.completion else None
        if flaw is None:
            return [first]
        shown = first.output[:_SHOWN]
        what, why = flaw
        again = {"what": what, "error": why, "text": shown, "mark": mark_of(shown)}
        second = self._answered(call, self._prompt(call, again), f"{call.position}/again")
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
            "clamped": list(call.input.clamped),
            "attempts": [reply.to_dict() for reply in replies],
        }
        written = {"prompt": last.prompt.encode(), "output": output, "meta": as_json(meta)}
        for name, data in written.items():
            self._access.write(call.paths[name], data)
        vouch(self._access.fact, call.position, {"input": self._input(call), **written})
        return SubcallResult(
            id=call.id,
            purpose=call.subcall.purpose,
            pointer=call.pointer,
            status=meta["status"],
            output=last.output,
            error=error,
            input_bytes=call.input.size,
            output_bytes=len(output),
            clamped=call.input.clamped,
            artifact_paths=call.paths,
            pointers=call.pointers,
            # A prompt without an answer counts as not shown.
            spans=call.input.spans if any(reply.completion for reply in replies) else (),
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


def no_limit(calls: Sequence[PlannedCall]) -> Forecast:
    return Forecast(0, 0, None, None, len(calls))


def nothing(_step: str) -> None:
    """Report no progress."""


class ModelAccess(Value):
    """``complete`` answers requests within the budgets; ``max_tokens`` caps each answer.

    ``model`` plans, and answers sub-calls that name none; a plan may also name one of ``models``.
    ``fact`` records decisions, which a resumed run keeps. ``write`` writes a file whole, by
    its path below the run's folder. ``redact`` takes secrets out of a text. ``foresee`` says what
    calls may use, ``tell`` reports progress. ``context_tokens`` is what ``model`` reads.
    """

    complete: Complete
    fact: Fact
    write: Callable[[str, bytes], None]
    redact: Callable[[str], str]
    limits: PlanLimits
    model: str
    max_tokens: int
    foresee: Foresee = no_limit
    tell: Callable[[str], None] = nothing
    models: tuple[str, ...] = ()
    context_tokens: int | None = None
