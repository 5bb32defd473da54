"""Run the cases of a preset, each beside one direct prompt, and keep the results as JSON."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from rlm_ci.config.settings import nearest
from rlm_ci.errors import ConfigError, LimitError, RemoteError, RlmCiError
from rlm_ci.lab.bench import prepare, summary
from rlm_ci.lab.bench.scoring import hidden_tests, scorers
from rlm_ci.lab.bench.scoring.scorers import CaseAnswer, Score
from rlm_ci.lab.results import RLMBenchmarkResult
from rlm_ci.models import ModelRequest, context_length
from rlm_ci.models.context_length import ContextFit
from rlm_ci.runs.manifest import timestamp
from rlm_ci.system import files
from rlm_ci.text.printable import clip, fenced
from rlm_ci.text.unpacking import DecodedText, UnpackLimit, UnreadableTextError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.lab.bench.packs.pack import Preset
    from rlm_ci.lab.bench.prepare import PreparedCase
    from rlm_ci.lab.bench.scoring.scorers import Reply
    from rlm_ci.lab.results import BenchmarkCase, RLMRunResult
    from rlm_ci.sandbox.job import Sandbox

    RunCase = Callable[[PreparedCase, "BenchOptions"], "CaseRun"]
    Entry = Mapping[str, Any]


_FILE_BYTES = 1 << 20
_BLOCK = re.compile(r"^```[^\n`]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


class DirectAnswer(Value):
    """The answer to the one prompt; ``left_out`` are bytes of the context that did not fit."""

    reply: Reply
    left_out: int = 0


def answer(
    prepared: PreparedCase, ask: Callable[[str], Reply], context_tokens: int, answer_tokens: int
) -> DirectAnswer:
    """Ask once, or once more with less of the context where an endpoint refuses its length.

    ``context_tokens`` is what the model reads, ``answer_tokens`` what its answer may have. A
    corrected file in the answer is written into the work tree of the case. Raises what ``ask``
    raises, and ConfigError for a context that is no text.
    """
    task = prepared.case.task
    if prepared.workdir is not None:
        return DirectAnswer(_mended(prepared, ask, prepared.workdir))
    if prepared.context is None:
        return DirectAnswer(ask(task))
    fit = ContextFit(context_tokens)
    while True:
        room = fit.room(answer_tokens)
        request, left_out = _request(prepared.context, task, answer_tokens, room)
        excess = request.prompt_bytes() - room
        if excess > 0:
            request, left_out = _request(prepared.context, task, answer_tokens, room - excess)
        try:
            return DirectAnswer(ask(request.messages[0]["content"]), left_out)
        except RemoteError as error:
            if excess >= room or not fit.shrinks(request, error):
                raise


def _request(path: str, task: str, answer_tokens: int, room: int) -> tuple[ModelRequest, int]:
    """The question with ``room`` bytes of the context, and how many bytes are left out."""
    text, left_out = _beginning(path, max(0, room))
    if left_out:
        text += f"\n[The context goes on for {left_out:,} bytes that do not fit here.]"
    # The question last, where models heed it most.
    prompt = f"{fenced('Context', text)}\n\n{task}"
    return ModelRequest("", ({"role": "user", "content": prompt},), answer_tokens), left_out


def _beginning(path: str, room: int) -> tuple[str, int]:
    """The first ``room`` bytes of the text in a file, as UTF-8, and how many more it has."""
    beginning, size = b"", 0
    with open(path, "rb") as file:
        try:
            for block in DecodedText(file, UnpackLimit()).blocks():
                beginning += block[: room - len(beginning)]
                size += len(block)
        except UnreadableTextError as error:
            raise ConfigError(
                f"the context of a case is no text: {error}", where=path, hint=error.hint
            ) from None
    return beginning.decode("utf-8", "ignore"), size - len(beginning)


def _mended(prepared: PreparedCase, ask: Callable[[str], Reply], folder: str) -> Reply:
    shown = []
    for name in sorted(os.listdir(folder)):
        data = files.read_or_none(os.path.join(folder, name), _FILE_BYTES)
        if data is not None:
            shown.append(fenced(name, data.decode("utf-8", "replace")))
    name = f"{prepared.module}.py"
    form = f"Answer with the whole of the new {name} in one fenced block."
    reply = ask("\n\n".join((prepared.case.task, *shown, form)))
    blocks = _BLOCK.findall(reply.text)
    if blocks:
        files.write(os.path.join(folder, name), blocks[-1].encode("utf-8", "replace"))
    return reply


DIRECT = "direct-llm"
MODES = ("native", "harness", DIRECT)
STRATEGIES = ("tool_call", "codemode")
#: Characters of an answer that are kept.
_RESPONSE = 20_000
#: Attempts in a row without an answer of the model, after which no other is made.
_PATIENCE = 3


class BenchOptions(Value):
    """How cases are run; None leaves to a case what it says itself.

    ``context_tokens`` is what the model can read, with its answer. ``seed`` and
    ``tokens`` change what is generated, and so the suite. ``judge_model`` scores by rubrics.
    """

    mode: str = "native"
    repeats: int = 1
    limit: int | None = None
    environment: str | None = None
    framework: str | None = None
    max_steps: int | None = None
    exec_timeout: int | None = None
    branch_width: int = 1
    sub_model: str | None = None
    sub_provider: str | None = None
    include_mcp: bool = False
    mcp_server: str | None = None
    harness_strategy: str = "tool_call"
    context_tokens: int | None = None
    judge_model: str | None = None
    seed: int | None = None
    tokens: int | None = None

    def require(self) -> None:
        """Raise ConfigError for a mode or a strategy that there is not, and for too few cases."""
        for field in ("limit", "repeats"):
            value = getattr(self, field)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise ConfigError(f"{field} is {value!r}", where=field, hint="give at least 1")
        for field, choices in (("mode", MODES), ("harness_strategy", STRATEGIES)):
            if getattr(self, field) not in choices:
                raise ConfigError(
                    f"there is no {field} {str(getattr(self, field))[:80]!r}",
                    where=field,
                    hint=nearest(str(getattr(self, field)), choices),
                )


class CaseRun(Value):
    """What one attempt returned. ``limit`` is why a budget ended it, and the benchmark with it.

    ``budget`` is that one, ``harness`` are the counters of the mode harness.
    """

    result: RLMRunResult
    cost_usd: float | None = None
    limit: str = ""
    budget: str = ""
    harness: Mapping[str, Any] = {}


class BenchServices(Value):
    """What a benchmark needs of its caller.

    ``run_case`` makes one attempt (not needed for ``direct-llm``), ``ask`` puts one prompt to the
    model, ``judge`` to the one that scores by rubrics. ``recorded`` returns the result of the
    attempt at a place, made once. ``clean`` redacts, ``step`` shows progress. An answer to ``ask``
    may have ``answer_tokens``.
    """

    model: str
    ask: Callable[[str], Reply]
    run_case: RunCase | None = None
    judge: Callable[[str], Reply] | None = None
    sandbox: Callable[[], Sandbox] | None = None
    recorded: Callable[[str, Callable[[], Entry]], Entry] | None = None
    clean: Callable[[str], str] = str
    step: Callable[[str], None] | None = None
    now: Callable[[], float] = time.time
    answer_tokens: int = 16_384


class _StoppedError(Exception):
    """A ``budget`` is used up: what there is counts, and nothing more is run."""

    def __init__(self, reason: str, budget: str) -> None:
        super().__init__(reason)
        self.budget = budget


def run(
    preset: Preset,
    options: BenchOptions,
    services: BenchServices,
    benchmark_id: str,
    path: str,
    *,
    started_at: str = "",
) -> RLMBenchmarkResult:
    """Run a preset, and write its summary to ``path`` after each case.

    ``started_at`` is when it began, if that was before.

    A budget that is used up ends it early, with ``cancelled`` set. So does an error or a signal,
    which is raised once what there is has been written.
    """
    options.require()
    preset = prepare.with_options(preset, seed=options.seed, tokens=options.tokens)
    started_at = started_at or timestamp(services.now())
    return _Benchmark(preset, options, services, benchmark_id, path, started_at).run()


class _Benchmark:
    def __init__(  # noqa: PLR0917 - as ``run`` has them
        self,
        preset: Preset,
        options: BenchOptions,
        services: BenchServices,
        benchmark_id: str,
        path: str,
        started_at: str,
    ) -> None:
        self._options = options
        self._services = services
        self._path = path
        self._preset = preset
        self._cases = preset.cases[: options.limit]
        self._results: list[Entry] = []
        self._baseline: list[Entry] = []
        self._failures = 0
        suite = prepare.suite(preset)
        self._head = {
            "benchmark_id": benchmark_id,
            "preset": preset.name,
            "mode": options.mode,
            "model": services.model,
            "started_at": started_at,
            "suite_hash": prepare.suite_hash(suite),
            "suite": suite,
            "options": options.to_dict(),
            "total_cases": len(self._cases) * options.repeats,
        }

    def run(self) -> RLMBenchmarkResult:
        reason, budget = "it was interrupted", ""
        try:
            with files.scratch("rlm-ci-bench-") as scratch:
                for number, case in enumerate(self._cases):
                    self._case(case, os.path.join(scratch, str(number)), number + 1)
                    self._write("it goes on, or its process was killed")
            reason = ""
        except _StoppedError as error:
            reason, budget = str(error), error.budget
        except RlmCiError as error:
            reason = str(error)
            raise
        finally:
            record = self._write(reason, budget)
        return RLMBenchmarkResult(
            summary_path=Path(self._path),
            **{
                name: record[name]
                for name in RLMBenchmarkResult.__slots__
                if name != "summary_path"
            },
        )

    def _write(self, reason: str, budget: str = "") -> dict[str, Any]:
        record = summary.record(
            self._head,
            timestamp(self._services.now()),
            self._results,
            self._baseline if self._options.mode != DIRECT else None,
            cancelled=reason,
            budget=budget,
        )
        summary.write(self._path, record)
        return record

    def _case(self, case: BenchmarkCase, folder: str, number: int) -> None:
        @cache
        def prepared() -> PreparedCase:
            """Made for the first attempt that was not made before: it may be large."""
            prepared_case = prepare.prepare(case, self._preset.folder, folder)
            changes = {
                name: value
                for name in ("environment", "max_steps", "exec_timeout")
                if (value := getattr(self._options, name)) is not None
            }
            return prepared_case.replace(case=replace(prepared_case.case, **changes))

        def make(mode: str, repeat: int) -> Entry:
            if self._services.step is not None:
                title = f"{prepared().case.case_id} ({number} of {len(self._cases)}"
                title += f", repeat {repeat})" if self._options.repeats > 1 else ")"
                is_baseline = mode == DIRECT != self._options.mode
                self._services.step(f"{title}, one prompt" if is_baseline else title)
            with files.scratch("rlm-ci-bench-work-") as work:
                attempt = prepared().attempt(os.path.join(work, "files"))
                return self._attempt(attempt, mode, repeat)

        for repeat in range(1, self._options.repeats + 1):
            for mode, results in self._modes():
                attempt, record = partial(make, mode, repeat), self._services.recorded
                place = f"case-{number}/{mode}-{repeat}"
                results.append(attempt() if record is None else record(place, attempt))
        if os.path.isdir(folder):  # it may be large
            files.clear(folder)

    def _modes(self) -> Iterator[tuple[str, list[Entry]]]:
        if self._options.mode != DIRECT:
            yield self._options.mode, self._results
            yield DIRECT, self._baseline
        else:
            yield DIRECT, self._results

    def _attempt(self, prepared: PreparedCase, mode: str, repeat: int) -> dict[str, Any]:
        case = prepared.case
        entry: dict[str, Any] = {
            "case_id": case.case_id,
            "repeat": repeat,
            "description": case.description,
            "task": case.task,
            "mode": mode,
            "environment": case.environment if mode != DIRECT else "",
            "scorer": case.scorer,
            "expected_answer": case.expected_answer,
            "run_id": "",
            "completed": False,
            "steps": 0,
            "total_reward": 0.0,
            "usage": {},
            "final_response": "",
            "score": 0.0,
            "score_note": "",
            "cost_usd": None,
            "error": "",
        }
        began = time.monotonic()
        try:
            is_done = (
                self._direct(prepared, entry) if mode == DIRECT else self._run(prepared, entry)
            )
            entry["seconds"] = time.monotonic() - began
            scored = self._score(prepared, entry["final_response"])
            entry |= {"score": scored.value, "score_note": scored.note}
            entry["completed"] = is_done and scored.value >= case.pass_score
            if mode == DIRECT:
                entry["total_reward"] = scored.value
            self._failures = 0
        except LimitError as error:
            raise _StoppedError(str(error), error.budget) from None
        except RemoteError as error:
            self._failures += 1
            if self._failures >= _PATIENCE:
                raise
            entry |= {"error": str(error), "seconds": time.monotonic() - began}
        for name in ("final_response", "score_note", "error"):
            entry[name] = self._services.clean(clip(str(entry[name]), _RESPONSE))
        return entry

    def _direct(self, prepared: PreparedCase, entry: dict[str, Any]) -> bool:
        services = self._services
        window = self._options.context_tokens or context_length.DEFAULT
        max_tokens = context_length.answer_tokens(window, services.answer_tokens)
        answered = answer(prepared, services.ask, window, max_tokens)
        reply = answered.reply
        entry |= {
            "steps": 1,
            "final_response": reply.text,
            "usage": {
                "total_calls": 1,
                "prompt_tokens": reply.prompt_tokens,
                "completion_tokens": reply.completion_tokens,
            },
            "cost_usd": reply.cost_usd,
            "context_bytes_left_out": answered.left_out,
        }
        return True

    def _run(self, prepared: PreparedCase, entry: dict[str, Any]) -> bool:
        if self._services.run_case is None:
            raise ConfigError(
                f"nothing runs the mode {self._options.mode} here",
                where="mode",
                hint=f"use --mode {DIRECT}",
            )
        ended = self._services.run_case(prepared, self._options)
        if ended.limit:
            raise _StoppedError(ended.limit, ended.budget)
        result = ended.result
        entry |= {
            **ended.harness,
            "run_id": result.run_id,
            "environment": result.environment,
            "steps": result.steps,
            "total_reward": result.total_reward,
            "usage": result.usage_summary or {},
            "final_response": result.final_response,
            "cost_usd": ended.cost_usd,
        }
        return result.completed

    def _score(self, prepared: PreparedCase, text: str) -> Score:
        case, services = prepared.case, self._services

        def verify() -> Sequence[bool]:
            if services.sandbox is None or prepared.workdir is None:
                raise ConfigError(
                    "hidden tests need a sandbox and files", where=case.case_id, hint="see doctor"
                )
            return hidden_tests.verify(
                services.sandbox(),
                prepared.workdir,
                prepared.module,
                prepared.calls,
                seconds=float(case.exec_timeout),
            )

        judge = services.judge or services.ask
        return scorers.SCORERS[case.scorer](
            CaseAnswer(case, text, judge, verify if prepared.calls else None)
        )
