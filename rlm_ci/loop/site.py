"""The place that a fix loop works at: copy, sandbox, validator, agent, and the record of it all.

The engine turns the crank; here each of its steps is done once and journalled, or found in the
journal and taken as it was.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

from rlm_ci import files
from rlm_ci.loop import collected, protected, tamper
from rlm_ci.loop.engine import Acted, Judged
from rlm_ci.loop.journalled import ended_of, record_of
from rlm_ci.loop.roles import Brief
from rlm_ci.texts import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.findings import Finding
    from rlm_ci.loop.cell import Cell
    from rlm_ci.loop.checkout import Checkout
    from rlm_ci.loop.collected import Collected
    from rlm_ci.loop.command import Command
    from rlm_ci.loop.engine import Terms
    from rlm_ci.loop.journalled import Fact
    from rlm_ci.loop.roles import Cast, Turn
    from rlm_ci.loop.state import State
    from rlm_ci.loop.validator import Validator, Verdict
    from rlm_ci.process import Ended

#: What an agent is told to leave alone; the guard knows more.
PROTECTED = (
    "conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "package.json scripts",
    ".github/", ".git*", ".pre-commit-config.yaml", "AGENTS.md", "CLAUDE.md", "sitecustomize.py",
)  # fmt: skip
#: Lines of a status in the state file.
_SHOWN = 40
#: Files that are written at the same time.
_WRITERS = 4


class Plan(Value):
    """What is to be done. ``validator_seconds`` bound one run of it; ``setup`` may be None."""

    goal: str
    terms: Terms
    validator_seconds: float
    setup: Command | None = None
    allow_test_edits: bool = False


class Clock:
    """Time that a run has used, all of its sessions together, as its record tells it.

    What a resumed run finds in its record takes no time; it goes on from the last fact.
    """

    def __init__(
        self,
        fact: Fact,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._fact = fact
        self._clock = clock
        self._now = now
        self._used = 0.0
        self._since = clock()

    def seconds(self) -> float:
        """Seconds used until now."""
        return self._used + self._clock() - self._since

    def deadline(self, minutes: float | None) -> float | None:
        """When so many minutes will be used up, by the clock of this process."""
        return None if minutes is None else self._clock() + minutes * 60 - self.seconds()

    def tick(self, iteration: int) -> tuple[float, str]:
        """Seconds used when this turn began, and when that was (UTC, ISO 8601)."""
        told = self._fact("clock", f"iteration-{iteration}", {}, self._told)
        self._used, self._since = float(told["seconds"]), self._clock()
        return self._used, str(told["at"])

    def _told(self) -> Mapping[str, Any]:
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self._now()))
        return {"seconds": round(self.seconds(), 3), "at": at}


class Site:
    """See ``engine.Site``. ``path_of`` gives the place of a file in the run's folder."""

    def __init__(
        self,
        plan: Plan,
        cell: Cell,
        cast: Cast,
        validator: Validator | None,
        *,
        fact: Fact,
        clock: Clock,
        state: State,
        path_of: Callable[..., str],
        on_step: Callable[[str], None] = lambda _text: None,
    ) -> None:
        self._plan = plan
        self._cell = cell
        self._cast = cast
        self._validator = validator
        self._fact = fact
        self._clock = clock
        self._state = state
        self._path_of = path_of
        self._on_step = on_step
        self._base = cell.workspace.snapshot.tree
        #: A tree, and what has changed from the base to it.
        self._noted = (self._base, "")
        #: The tree of the copy, and nobody was at work in it since; None when we must look.
        self._settled: str | None = None
        self._began = ""
        self._iteration = 0
        self._tests = 0
        self._verdict: Verdict | None = None
        #: The tests that ran: of the snapshot, and last.
        self._collected_first: Collected | None = None
        self._collected: Collected | None = None

    @property
    def verdict(self) -> Verdict | None:
        """The last thing that the validator said."""
        return self._verdict

    def elapsed(self, iteration: int) -> float:
        seconds, self._began = self._clock.tick(iteration)
        return seconds / 60

    # ── the validator ──

    def judge(self, label: str) -> Judged:
        self._on_step(f"iteration {label}: validator" if label != "0" else "validator, as it is")
        verdict = self._validate(label, self._tree())
        if label == "0":
            self._collected_first = self._collected
        return Judged(verdict.passed, verdict.feedback, verdict.findings)

    def confirm(self) -> Judged:
        self._on_step(f"iteration {self._iteration}: last verdict, in a fresh tree")
        tree = self._tree()
        copy = self._cell.workspace.fresh(tree, self._is_protected)
        label = f"{self._iteration}-final"
        if self._plan.setup:
            self._set_up(self._plan.setup, label, tree, copy)
        verdict = self._validate(label, tree, copy)
        return Judged(verdict.passed, verdict.feedback, verdict.findings)

    def tests(self, names: tuple[str, ...]) -> str:
        """What the validator says of some tests, asked for by the agent."""
        validator = self._validator
        if validator is None:
            return "there is no validator"
        if names and validator.command.in_shell:
            return "the validator is a line of shell: it runs whole, or not at all"
        self._tests += 1
        place = f"iteration-{self._iteration}/tests-{self._tests}"
        argv = (*validator.command.argv, *names)
        tree = self._cell.tree()
        ended = self._ran("tests", place, argv, tree)
        verdict = validator.judge(lambda _argv: ended)
        return "it passes" if verdict.passed else verdict.feedback

    def _validate(self, label: str, tree: str, copy: Checkout | None = None) -> Verdict:
        validator = self._validator
        if validator is None:
            raise AssertionError("nothing validates")
        log = self._path_of("rlm", f"validator-{label}.log")

        def run(argv: tuple[str, ...]) -> Ended:
            ended = self._ran("validator", f"validator-{label}", argv, tree, copy)
            self._collected = collected.parse(ended.output.text())
            return ended

        self._verdict = validator.judge(run, log)
        return self._verdict

    def _set_up(self, command: Command, label: str, tree: str, copy: Checkout) -> None:
        """Install what the validator needs into the fresh tree; a failure shows in the verdict."""
        key = {"argv": list(command.argv), "tree": tree}
        timeout = self._timeout()

        def produce() -> Mapping[str, Any]:
            return record_of(self._cell.command(command.argv, timeout, copy, network=True))

        self._fact("setup", f"setup-{label}", key, produce)

    def _ran(
        self,
        kind: str,
        place: str,
        argv: tuple[str, ...],
        tree: str,
        copy: Checkout | None = None,
    ) -> Ended:
        """How a command ended on ``tree``; what it changed in the copy is taken back."""

        def produce() -> Mapping[str, Any]:
            if copy is not None:
                return record_of(self._cell.command(argv, self._timeout(), copy))
            settled, self._settled = self._settled, None
            ended = self._cell.command(argv, self._timeout())
            if self._cell.tree() == tree:
                self._settled = settled
            else:
                self._cell.workspace.restore(tree)
            return record_of(ended)

        return ended_of(self._fact(kind, place, {"argv": list(argv), "tree": tree}, produce))

    def _timeout(self) -> float:
        """Seconds that a command may take, so that the run ends when it has to."""
        limit = self._plan.validator_seconds
        if self._plan.terms.max_minutes is not None:
            left = self._plan.terms.max_minutes * 60 - self._clock.seconds()
            limit = min(limit, max(1.0, left))
        return limit

    # ── the agent ──

    def act(self, iteration: int, last: Judged, tampering: tuple[Finding, ...]) -> Acted:
        self._iteration, self._tests = iteration, 0
        self._on_step(f"iteration {iteration}: agent")
        before = self._tree()
        brief = Brief(
            self._plan.goal,
            iteration,
            validator=self._validator.command.text if self._validator else "",
            feedback=last.feedback,
            changes=self._status(before),
            findings="\n".join(one.message for one in tampering),
            protected=PROTECTED,
            allow_test_edits=self._plan.allow_test_edits,
        )
        self._settled = None
        turns = self._cast.perform(brief)
        self._write_turns(iteration, turns)
        outcome = _edited(turns).outcome
        summary = outcome.summary or outcome.reason or "it said nothing"
        if outcome.exit_code:  # why it failed comes before what it said
            summary = outcome.reason or summary
            self._on_step(f"iteration {iteration}: agent failed: {summary}")
        return Acted(summary, self._tree() != before, outcome.exit_code)

    def _write_turns(self, iteration: int, turns: tuple[Turn, ...]) -> None:
        texts = {}
        for number, turn in enumerate(turns, 1):
            said = turn.outcome.output or turn.outcome.summary
            reason = f"\n\nended early: {turn.outcome.reason}" if turn.outcome.reason else ""
            texts[f"{number}-{turn.role}-prompt.md"] = turn.prompt
            texts[f"{number}-{turn.role}-answer.md"] = f"{said}{reason}\n"
        self._write(iteration, texts)

    def tampering(self) -> tuple[Finding, ...]:
        return tamper.findings(
            self._cell.workspace,
            self._tree(),
            self._collected_first,
            self._collected,
            allow_test_edits=self._plan.allow_test_edits,
        )

    def _tree(self) -> str:
        """The id of the tree that the copy holds; looked up only if it may be another one."""
        if self._settled is None:
            self._settled = self._cell.tree()
        return self._settled

    def _status(self, tree: str) -> str:
        """What has changed from the base to ``tree``; nearly always the last turn's end."""
        known, status = self._noted
        return status if known == tree else self._cell.status(self._base, tree)

    def _is_protected(self, path: str) -> bool:
        return protected.is_protected(path, allow_test_edits=self._plan.allow_test_edits)

    # ── what is kept of it ──

    def note(
        self, iteration: int, acted: Acted, judged: Judged, tampering: tuple[Finding, ...]
    ) -> None:
        tree = self._tree()
        status, patch = self._cell.workspace.account(tree)
        self._noted = (tree, status)
        self._write(iteration, {"status.txt": status, "diff.patch": patch})
        verdict = self._verdict
        self._state.add(
            {
                "n": iteration,
                "startedAt": self._began,
                "summary": acted.summary,
                "agentExitCode": acted.exit_code,
                "changed": acted.changed,
                "validatorExitCode": verdict.exit_code if verdict else None,
                "validatorPassed": judged.passed,
                "validatorReason": verdict.reason if verdict else None,
                "validatorLogPath": f"rlm/validator-{iteration}.log" if verdict else None,
                "diffSummary": _summary(status),
                "tampering": sorted({one.rule for one in tampering}),
            }
        )

    def _write(self, iteration: int, contents: Mapping[str, str | bytes]) -> None:
        """Write files of a turn, side by side: all that they take is time of the disk."""
        paths = [self._path_of("rlm", f"iteration-{iteration}", name) for name in contents]
        found = [
            one.encode("utf-8", "backslashreplace") if isinstance(one, str) else one
            for one in contents.values()
        ]
        with ThreadPoolExecutor(_WRITERS) as pool:
            list(pool.map(files.write, paths, found, repeat(0o600)))


def _edited(turns: tuple[Turn, ...]) -> Turn:
    """The last turn of a role that edits: what it says is what was done."""
    return next((one for one in reversed(turns) if one.role != "critic"), turns[-1])


def _summary(status: str) -> str:
    """The changed files, the first of them by name."""
    lines = status.strip().splitlines()
    more = len(lines) - _SHOWN
    return "\n".join(lines[:_SHOWN] + ([f"and {count(more, 'more file')}"] if more > 0 else []))
