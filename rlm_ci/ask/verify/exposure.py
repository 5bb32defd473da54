"""Verifies the prompts of a symbolic run's planner.

A planner sees metadata and bounded excerpts, never the text. Each prompt is stored with its parts:
an excerpt must be the bytes that it names, within its cap, and no other part may hold a piece of
the source.
"""

from __future__ import annotations

from hashlib import sha256

from rlm_ci.ask.verify import recorded_answers, source_leaks
from rlm_ci.ask.verify.artifacts import PLANNER, STATE, RunArtifacts, WrongError
from rlm_ci.ask.verify.maps import MapCheck
from rlm_ci.ask.verify.recorded_answers import MisshapenError, RecordedAnswers
from rlm_ci.environments.symbolic.iteration import REFUSED, all_calls, merged
from rlm_ci.environments.symbolic.planner.progress_notes import OUTPUT_LIMIT, shortened
from rlm_ci.environments.symbolic.planner.prompt_layout import spans_of
from rlm_ci.errors import DamagedError, StorageError
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.context.context import Context

#: Problems that are reported at most.
_MOST = 100
#: The budgets that bound what a planner is shown.
_LIMITS = ("prompt_bytes", "read_bytes", "preview_bytes")
_KINDS = ("frame", "goal", "search", "read", "count", "subcall")


class Exposure(Value):
    """The text of the source that a run showed to its planner.

    ``prompts`` is their number, ``largest`` the bytes of the longest, which ``limit`` bounds;
    ``excerpt_bytes`` are the bytes of the source in them, each counted once. ``counts`` were
    counted again, ``maps`` reduced again. ``problems`` name the file and what is wrong.
    """

    prompts: int
    largest: int
    limit: int
    excerpt_bytes: int
    problems: tuple[str, ...]
    counts: int = 0
    maps: int = 0


def examine(folder: str, context: Context) -> Exposure:
    """Check the files in ``folder``, the ``rlm/`` of a run, with the journal beside it.

    The limits and the goal are those in the journal. The source is read twice. Raises
    StorageError if it cannot be read, DamagedError for a file that no run has written.
    """
    return _Examination(folder, context).run()


class _Examination:
    def __init__(self, folder: str, context: Context) -> None:
        self._folder = folder
        self._context = context
        self._files = RunArtifacts(folder, context)
        self._problems: list[str] = []
        self._sizes: list[int] = []
        self._shown: list[tuple[int, int]] = []
        self._frames = source_leaks.PromptFrames(context)
        self._limits: Mapping[str, Any] = {}
        self._goal = ""
        self._answers = RecordedAnswers()
        self._maps = MapCheck(self._files, context, self._answers)
        self._reduced = 0
        self._counts: dict[str, Mapping[str, Any]] = {}

    def run(self) -> Exposure:
        try:
            self._context.verify()
        except DamagedError as error:
            self._problem("context", str(error))
        try:
            self._answers = RecordedAnswers.read(self._folder)
            self._maps = MapCheck(self._files, self._context, self._answers)
        except MisshapenError:
            raise
        except (DamagedError, StorageError) as error:
            self._problem(recorded_answers.NAME, str(error))
        for number, turn in enumerate(self._state()):
            self._check(f"{STATE}, iteration {number}", self._turn, turn)
        attempts = [
            f"{PLANNER}/{iteration}/{attempt}"
            for iteration in self._files.names(PLANNER)
            for attempt in self._files.names(f"{PLANNER}/{iteration}")
        ]
        for path in attempts:
            self._check(path, self._attempt, path)
        for iteration, attempt in sorted(self._answers.plans):
            path = f"{PLANNER}/{iteration}/attempt-{attempt}"
            if path not in attempts:
                self._problem(path, "it is missing, and the journal has its answer")
        try:
            for place in self._frames.found():
                self._problem(place, "text of the source is outside of all excerpts")
        except DamagedError as error:
            self._problem("context", str(error))
        return Exposure(
            len(self._sizes),
            max(self._sizes, default=0),
            self._limits.get("prompt_bytes", 0),
            sum(end - start for start, end in merged(self._shown)),
            tuple(self._problems[:_MOST]),
            sum(one["found"]["error"] is None for one in self._counts.values()),
            self._reduced,
        )

    # ── files ──

    def _problem(self, where: str, what: str) -> None:
        self._problems.append(printable(f"{where}: {what}"))

    def _check(self, where: str, look: Any, *arguments: Any) -> None:
        """Report a problem, or a record that has another shape than we write."""
        try:
            look(*arguments)
        except WrongError as error:
            self._problem(where, str(error))
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            self._problem(where, f"it is not as it was written ({type(error).__name__})")

    # ── the state ──

    def _state(self) -> list[dict[str, Any]]:
        """The run's iterations; sets its limits and its goal."""
        turns: list[dict[str, Any]] = []

        def look() -> None:
            state = self._files.record(STATE)
            terms = self._answers.terms
            if terms is None:
                raise WrongError("the journal does not have the terms of the run")
            limits, goal = terms["limits"], terms["goal"]
            self._limits, self._goal = limits, goal
            if any(state["budgets"][name] != limits[name] for name in _LIMITS):
                self._problem(STATE, "its budgets are not those that the run began with")
            if encodable(state["goal"]) != goal:
                self._problem(STATE, "its goal is not the one that the run began with")
            if state["context"]["object_id"] != self._context.object_id:
                raise WrongError("the run was about another context object")
            turns.extend(state["symbolic_iterations"])
            self._frames.know_state(limits, turns, terms.get("subcall_models", ()))

        self._check(STATE, look)
        return turns

    def _turn(self, turn: Mapping[str, Any]) -> None:
        number = turn["iteration"]
        for at, entry in enumerate(turn.get("counts", ()), 1):
            where = f"{STATE}, {entry.get('pointer')}"
            self._check(where, self._files.require_count, number, at, entry, self._answers)
            self._counts[entry["pointer"]] = entry
        for entry in all_calls(turn):
            where = f"{STATE}, {entry.get('pointer')}"
            self._check(where, self._files.require_subcall, number, entry, self._answers)
        for at, entry in enumerate(turn.get("maps", ()), 1):
            where = f"{STATE}, {entry.get('pointer')}"
            most = self._limits["subcall_input_bytes"]
            self._check(where, self._maps.require, number, at, entry, most)
            self._reduced += entry["status"] != REFUSED
        attempts = self._files.names(f"{PLANNER}/{int(number)}")
        if not attempts:
            raise WrongError("its prompt is missing")
        path = f"{PLANNER}/{int(number)}/{attempts[-1]}/prompt.txt"
        size = len(self._files.bytes_of(path))
        if size != turn["planner_prompt_bytes"]:
            expected = turn["planner_prompt_bytes"]
            raise WrongError(f"{path} has {size:,} bytes, and the state says {expected}")

    # ── planner prompts ──

    def _attempt(self, folder: str) -> None:
        _, iteration, attempt = folder.split("/")
        number = attempt.removeprefix("attempt-")
        moment = int(iteration), int(number)
        place = f"plan/{iteration}/{number}"
        self._check(folder, self._files.require_vouched, folder, place, self._answers)
        meta = self._files.record(f"{folder}/meta.json")
        prompt = self._files.as_told(f"{folder}/prompt.txt", meta["prompt"])
        self._sizes.append(len(prompt))
        limit = self._limits.get("prompt_bytes")
        if limit is not None and len(prompt) > limit:
            raise WrongError(f"{len(prompt):,} bytes are more than the limit of {limit:,}")
        if (str(meta["iteration"]), str(meta["attempt"])) != (iteration, number):
            raise WrongError("meta.json is another attempt's")
        if "output" in meta:
            output = self._files.as_told(f"{folder}/output.txt", meta["output"])
            self._frames.know_answer(output, moment)
            if not self._answers.has(place, meta):
                raise WrongError("meta.json names an answer that is not in the journal")
        at = 0
        for section in meta["sections"]:
            kind, start, end = section["kind"], section["start"], section["end"]
            if start != at or end <= start or kind not in _KINDS:
                raise WrongError("the parts of the prompt do not follow each other")
            at = end
            where = f"{folder}/prompt.txt, bytes {start}-{end}"
            self._check(where, self._section, where, section, prompt[start:end], moment)
        if at != len(prompt):
            raise WrongError("the parts of the prompt end before it does")

    def _section(
        self, where: str, section: Mapping[str, Any], data: bytes, moment: tuple[int, int]
    ) -> None:
        kind = section["kind"]
        if kind == "frame" or (kind == "goal" and not self._goal.encode().startswith(data)):
            self._frames.add(where, data, moment)
        elif kind == "goal":
            self._goal_shown(section, len(data))
        elif kind == "count":
            entry = self._counts[section["pointer"]]
            self._files.require_rows(data.decode(), section, entry, self._limits["top_k"])
            self._shown += spans_of(section)
        elif kind == "subcall":
            self._excerpt_of_subcall(section, data)
        elif kind in ("search", "read"):
            cap = self._limits["preview_bytes" if kind == "search" else "read_bytes"]
            start, end = section["start_byte"], section["end_byte"]
            self._files.require_excerpt(data.decode(), start, end, cap)
            self._shown.append((start, end))

    def _goal_shown(self, section: Mapping[str, Any], size: int) -> None:
        """If the goal is the context itself, the section must say what it shows of the source."""
        digest = sha256(self._goal.encode()).hexdigest()
        expected = (0, size) if self._context.object_id == f"sha256:{digest}" else None
        span = (section["start_byte"], section["end_byte"]) if "start_byte" in section else None
        if span != expected:
            raise WrongError("it does not say what of the source it shows")
        if span:
            self._shown.append(span)

    def _excerpt_of_subcall(self, section: Mapping[str, Any], data: bytes) -> None:
        path, output = self._files.output(section["pointer"])
        if "start_byte" in section:
            start, end = section["start_byte"], section["end_byte"]
            expected, cap = output[start:end], self._limits["read_bytes"]
        else:
            expected, cap = shortened(output.decode()).encode(), OUTPUT_LIMIT
        if data != expected:
            raise WrongError(f"it is not what {path} says")
        if len(data) > cap:
            raise WrongError(f"{len(data):,} bytes of {path} are more than {cap:,}")
