"""Maps of a plan: one sub-call for each part of the context, and one result of all their answers.

What a map will cost is told before its first call, and it is refused where the budget has no room
for it and the next plan. If its parts cost more than expected, it stops before the budget is used
up, and the rest counts as not read. All of it is recorded: a resumed run asks no part twice.
"""

from __future__ import annotations

from functools import partial
from math import ceil

from rlm_ci.context.pointers import PointerError, chunk_id
from rlm_ci.environments.symbolic.iteration import FAILED, SUCCEEDED, MapResult, subcall_pointer
from rlm_ci.environments.symbolic.map_reduce import reduce
from rlm_ci.environments.symbolic.map_reduce.reduce import ReduceError
from rlm_ci.environments.symbolic.planner.plan import Subcall
from rlm_ci.environments.symbolic.subcalls import FILES, MOST_PIECES, vouch
from rlm_ci.environments.symbolic.subcalls import NAME as FOLDER
from rlm_ci.runs.journal import spans
from rlm_ci.text.printable import count, encodable
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.context.context import Context
    from rlm_ci.context.scope import Scope
    from rlm_ci.environments.symbolic.iteration import SubcallResult
    from rlm_ci.environments.symbolic.planner.plan import Map
    from rlm_ci.environments.symbolic.subcalls import ModelAccess, Subcalls
    from rlm_ci.environments.symbolic.visible_context import VisibleContext
    from rlm_ci.models.budget import PlannedCall


#: Bytes behind a border that are searched for the end of the line.
_LINE = 8192


class MapPart(Row):
    """``name`` is the chunk's, or the file's number, with a number for a further piece of it."""

    name: str
    start: int
    end: int


def parts(scope: Scope, context: Context, limit: int) -> list[MapPart]:
    """The parts of ``scope``: its chunks or files, in pieces of at most ``limit`` bytes.

    They do not overlap. A line is in the part with its first byte, if it is not too long. Raises
    PointerError.
    """
    if scope.files:
        size = min(limit, context.target_bytes)
        spans = [(f"f{n:06d}", *span) for n, span in enumerate(scope.spans(context), 1)]
    else:
        layout, size = context.layout, limit
        spans = [
            (
                chunk_id(at),
                _line_end(context, layout.start(at), size),
                _line_end(context, layout.start(at + 1), size),
            )
            for at in scope.chunk_range(context)
        ]
    return [part for span in spans for part in _pieces(context, *span, size)]


def number_of_parts(scope: Scope, context: Context) -> int:
    """The least number of parts, without reading the source. Raises PointerError."""
    return len(scope.spans(context)) if scope.files else len(scope.chunk_range(context))


def _pieces(context: Context, name: str, start: int, end: int, limit: int) -> Iterator[MapPart]:
    number = 1
    while start < end:
        stop = end
        if end - start > limit:
            data = context.raw(start, start + limit)
            stop = start + (data.rfind(b"\n") + 1 or limit)
        yield MapPart(name if number == 1 else f"{name}-{number}", start, stop)
        start, number = stop, number + 1


def _line_end(context: Context, byte: int, room: int) -> int:
    """The end of the line that begins before ``byte`` and goes on there."""
    if not 0 < byte < context.byte_length:
        return byte
    limit = min(_LINE, room, context.layout.step)
    distance = context.raw(byte - 1, byte - 1 + limit).find(b"\n")
    return byte if distance < 0 else byte + distance


#: The kind of the fact about what a map will cost.
MAP = "map"
#: Bytes of a prompt around the text, and of a token of an answer, for the forecast.
_LABEL = 300
_TOKEN = 4
#: Tokens of a plan, about.
_PLAN = 1_024
#: Characters of its prompt in the title of a map.
_SHOWN = 100
#: How often the progress of a map is told.
_TOLD = 4


def map_id(number: int) -> str:
    return f"mp{number:04d}"


class MapRun:
    """One map of a plan, carried out by sub-calls."""

    def __init__(
        self, access: ModelAccess, window: VisibleContext, subcalls: Subcalls, plan: Map
    ) -> None:
        self._access = access
        self._limits = access.limits
        self._window = window
        self._subcalls = subcalls
        self._asked = plan
        self._cap = min(plan.max_output_tokens or access.max_tokens, access.max_tokens)

    def run(self, iteration: int, number: int) -> MapResult:
        """Carry it out, as the map of that ``number``, from 1. Raises as ``Subcalls.ask``."""
        request, ident = self._asked, map_id(number)
        prompt = self._window.redact(encodable(request.prompt))[:_SHOWN]
        with spans.span("map", f"map {ident} to {request.purpose}: {prompt}", key=ident) as step:
            result = self._run(iteration, ident)
            step.outcome = spans.DONE if result.status == SUCCEEDED else spans.FAILED
            step.files = {"Result": result.output_path} if result.output_path else {}
            step.details |= {
                "status": result.status,
                "error": result.error,
                "expected tokens": result.forecast.get("tokens"),
                "reduced by": request.reduce,
                "not asked": ", ".join(result.unasked),
            }
        return result

    def _run(self, iteration: int, ident: str) -> MapResult:
        request = self._asked
        key = request.replace(reason="").to_dict()
        forecast = self._access.fact(MAP, f"{MAP}/{iteration}/{ident}", key, self._forecast)
        result = MapResult(ident, subcall_pointer(iteration, ident), request, forecast)
        if forecast["error"] is not None:
            return result.replace(error=forecast["error"])
        self._access.tell(f"iteration {iteration}: {map_summary(request, forecast)}")
        map_parts = self._parts()
        answers = self._mapped(iteration, ident, map_parts)
        good = [answer for answer in answers if answer.status == SUCCEEDED]
        reductions: tuple[SubcallResult, ...] = ()
        if good and request.reduce == reduce.MODEL:
            reductions = self._by_model(iteration, ident, good)
        output, error = outcome(request.reduce, request.field, answers, reductions)
        path = f"rlm/{FOLDER}/{iteration}/{ident}/{FILES['output']}"
        self._access.write(path, output.encode())
        vouch(self._access.fact, f"subcall/{iteration}/{ident}", {"output": output.encode()})
        self._window.keep(result.pointer, output)
        return result.replace(
            status=FAILED if error else SUCCEEDED,
            error=error,
            parts=answers,
            unasked=tuple(f"{part.start}-{part.end}" for part in map_parts[len(answers) :]),
            reductions=reductions,
            output=output,
            output_path=path,
        )

    def _parts(self) -> list[MapPart]:
        return parts(self._asked.scope, self._window.context, self._limits.subcall_input_bytes)

    # ── what it will cost ──

    def _forecast(self) -> Mapping[str, Any]:
        """Calls, tokens and money; ``error`` is for the planner: why nothing is asked."""
        request, limit = self._asked, self._limits.map_parts
        if request.model and request.model not in (self._access.model, *self._access.models):
            return {"error": f"model not allowed: {request.model[:80]!r}"}
        try:
            number = number_of_parts(request.scope, self._window.context)
            map_parts = self._parts() if number <= limit else []
        except PointerError as flaw:
            return {"error": str(flaw)}
        if max(number, len(map_parts)) > limit:
            many = count(max(number, len(map_parts)), "part")
            return {"error": f"{many} are more than {limit:,}: name fewer chunks or files"}
        if not map_parts:
            return {"error": "there is no text in this part of the context"}
        calls = [*self._tree(len(map_parts)), *self._calls(map_parts)]
        forecast = self._access.foresee(calls)
        usd = {"usd": forecast.usd, "most_usd": forecast.most_usd}
        fitting, error = self._fitting(map_parts), None
        if fitting < len(map_parts):
            error = (
                f"the budget has no room for a map over {count(len(map_parts), 'part')} of about"
                f" {forecast.tokens:,} tokens, and the next plan; it has for {fitting:,} of the"
                " parts: name fewer chunks or files, or a lower max_output_tokens"
            )
        return {
            "error": error,
            "parts": len(map_parts),
            "calls": len(calls),
            "tokens": forecast.tokens,
            "most_tokens": forecast.most_tokens,
            **{name: None if amount is None else str(amount) for name, amount in usd.items()},
        }

    def _fitting(self, map_parts: Sequence[MapPart]) -> int:
        """For how many of the parts there is room beside the rest of the map, and two plans."""
        answer = min(_PLAN, self._access.max_tokens)
        plan = self._access.model, self._limits.prompt_bytes, answer
        first = [plan, plan, *self._tree(len(map_parts))]
        fitting = self._access.foresee([*first, *self._calls(map_parts)]).fitting
        return max(0, fitting - len(first))

    def _calls(self, map_parts: Sequence[MapPart]) -> list[PlannedCall]:
        frame = self._subcalls.frame_bytes(self._part(map_parts[0])) + _LABEL
        return [self._call(frame + part.end - part.start) for part in map_parts]

    def _tree(self, number: int) -> Iterator[PlannedCall]:
        """The calls that reduce so many answers at most."""
        size = self._cap * _TOKEN
        while self._asked.reduce == reduce.MODEL:
            together = max(2, min(MOST_PIECES, self._limits.subcall_input_bytes // size))
            groups = ceil(number / together)
            yield from [self._call(min(number, together) * (size + _LABEL))] * groups
            if groups == 1:
                return
            number = groups

    def _call(self, size: int) -> PlannedCall:
        return self._asked.model or self._access.model, size, self._cap

    # ── the calls ──

    def _part(self, part: MapPart) -> Subcall:
        request = self._asked
        return Subcall(
            request.purpose,
            (f"ctx:{self._window.context.object_id}#bytes:{part.start}-{part.end}",),
            (),
            self._limits.subcall_input_bytes,
            request.model,
            "json" if request.is_json else request.expected_output,
            task=request.prompt,
            schema=request.schema,
            max_tokens=self._cap,
            is_part=True,
        )

    def _mapped(
        self, iteration: int, ident: str, map_parts: Sequence[MapPart]
    ) -> tuple[SubcallResult, ...]:
        """The answers about the parts, as far as the budget has room for them.

        The first ones show what a part costs.
        """
        answers: list[SubcallResult] = []
        total, size = count(len(map_parts), "part"), self._limits.concurrency
        while waiting := map_parts[len(answers) :]:
            if answers:
                key = f"{MAP}/{iteration}/{ident}/{len(answers)}"
                room = partial(self._room, waiting)
                waiting = waiting[: self._access.fact(MAP, key, {}, room)["parts"]]
            if not waiting:
                break
            subcalls = [(f"{ident}-{part.name}", self._part(part)) for part in waiting[:size]]
            answers += self._subcalls.ask(subcalls, iteration)
            size = max(self._limits.concurrency, ceil(len(map_parts) / _TOLD))
            failed = sum(answer.status == FAILED for answer in answers)
            step = f"{len(answers):,} of {total}" + (f", {failed:,} failed" if failed else "")
            self._access.tell(f"iteration {iteration}: {step}")
        return tuple(answers)

    def _room(self, map_parts: Sequence[MapPart]) -> Mapping[str, Any]:
        fitting = self._fitting(map_parts)
        # Where it gets tight, an answer may have to be asked for again.
        return {"error": None, "parts": fitting if fitting >= len(map_parts) else fitting // 2}

    def _by_model(
        self, iteration: int, ident: str, answers: Sequence[SubcallResult]
    ) -> tuple[SubcallResult, ...]:
        """The answers about answers, the last of them about all unless one failed."""
        done: list[SubcallResult] = []
        level = 0
        while True:
            level += 1
            subcalls = [
                (f"{ident}-r{level}-{number:04d}", self._reduction(group))
                for number, group in enumerate(self._groups(answers), 1)
            ]
            answers = self._subcalls.ask(subcalls, iteration)
            done += answers
            if len(answers) == 1 or any(answer.status == FAILED for answer in answers):
                return tuple(done)

    def _groups(self, answers: Sequence[SubcallResult]) -> Iterator[list[SubcallResult]]:
        """As many answers together as a prompt takes, two at least."""
        group: list[SubcallResult] = []
        size = 0
        for answer in answers:
            size += answer.output_bytes
            is_full = size > self._limits.subcall_input_bytes or len(group) == MOST_PIECES
            if is_full and len(group) > 1:
                yield group
                group, size = [], answer.output_bytes
            group.append(answer)
        yield group

    def _reduction(self, group: Sequence[SubcallResult]) -> Subcall:
        request = self._asked
        return Subcall(
            "summarize",
            tuple(result.pointer for result in group),
            (),
            self._limits.subcall_input_bytes,
            request.model,
            request.expected_output,
            task=request.reduce_prompt or request.prompt,
            max_tokens=self._cap,
            is_part=True,
        )


def outcome(
    how: str, field: str, answers: Sequence[SubcallResult], reductions: Sequence[SubcallResult]
) -> tuple[str, str | None]:
    """The result of a map, from the answers about its parts; or why there is none."""
    good = [answer for answer in answers if answer.status == SUCCEEDED]
    if not good:
        return "", "no part was answered"
    if how == reduce.MODEL:
        failed = next((reduction for reduction in reductions if reduction.status == FAILED), None)
        return ("", f"{failed.id}: {failed.error}") if failed else (reductions[-1].output, None)
    try:
        outputs = [(result.id.partition("-")[2], result.output) for result in good]
        return reduce.reduced(how, field, outputs), None
    except ReduceError as flaw:
        return "", str(flaw)


def map_summary(plan: Map, forecast: Mapping[str, Any]) -> str:
    """What a map is going to do, in words for the user."""

    def use(kind: str) -> str:
        usd = forecast[f"{kind}usd"]
        money = "" if usd is None else f" (${float(usd):.2f})"
        return f"{count(forecast[f'{kind}tokens'], 'token')}{money}"

    return (
        f"a map over {count(forecast['parts'], 'part')} to {plan.purpose}, {plan.reduce}: "
        f"{count(forecast['calls'], 'call')}, about {use('')}, at most {use('most_')}"
    )
