"""The place that a fix loop works at: copy, sandbox, validator, agent, and the record of it all.

The engine turns the crank; here each of its steps is done once and journalled, or found in the
journal and taken as it was.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import repeat

from rlm_ci import files
from rlm_ci.errors import UnavailableError
from rlm_ci.loop import collected, disclosure, fresh, tamper
from rlm_ci.loop import validator as validation
from rlm_ci.loop.differences import LIMIT
from rlm_ci.loop.engine import Acted, Judged
from rlm_ci.loop.journalled import ended_of, record_of
from rlm_ci.loop.protection import Protection
from rlm_ci.loop.roles import Brief
from rlm_ci.loop.snapshot import dependency_folders
from rlm_ci.redaction import Redactor
from rlm_ci.texts import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from rlm_ci.findings import Finding
    from rlm_ci.loop.cell import Cell
    from rlm_ci.loop.checkout import Checkout
    from rlm_ci.loop.collected import Collected
    from rlm_ci.loop.command import Command
    from rlm_ci.loop.engine import Terms
    from rlm_ci.loop.roles import Cast, Turn
    from rlm_ci.loop.validator import Validator, Verdict
    from rlm_ci.process import Ended
    from rlm_ci.runs import Fact
    from rlm_ci.runs.clock import Clock
    from rlm_ci.runs.state import State

#: What an agent is told to leave alone; the guard knows more.
PROTECTED = (
    "conftest.py", "pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "package.json scripts",
    ".github/", ".git*", ".pre-commit-config.yaml", "AGENTS.md", "CLAUDE.md", "sitecustomize.py",
)  # fmt: skip
#: Lines of a status in the state file.
_SHOWN = 40
#: Scripts of the validator that an agent is told of.
_NAMED = 20
#: Where a setup says what to install.
_SETUP = "loop.setup"
#: Files that are written at the same time.
_WRITERS = 4


class Plan(Value):
    """What is to be done. ``validator_seconds`` bound one run of it; ``setup`` may be None."""

    goal: str
    terms: Terms
    validator_seconds: float
    setup: Command | None = None
    allow_test_edits: bool = False


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
        redactor: Redactor | None = None,
    ) -> None:
        self._redactor = redactor or Redactor({})
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
        self._began = ""
        self._iteration = 0
        self._tests = 0
        self._verdict: Verdict | None = None
        #: The last run of the validator: its name, and what became of the setup before it.
        self._label = ""
        self._prepared = ""
        self._prepared_badly = False
        #: A file that make makes by itself, and that the last fresh tree was without.
        self._unmade = ""
        #: Protected files that it has as they were, though the agent has edited them.
        self._undone = ""
        #: Folders of dependencies that the fresh tree lacks, where a program was not found in it.
        self._missing: tuple[str, ...] = ()
        #: The tests that ran: of the snapshot, and last.
        self._collected_first: Mapping[str, Collected] = {}
        self._collected: Mapping[str, Collected] = {}
        self._protection = self._protected_by(validator)
        #: What the validator writes into a tree that nobody was at work in.
        self._habits: frozenset[str] = frozenset()
        #: Protected paths that were written while the last verdict was taken.
        self._rewritten: tuple[str, ...] = ()
        #: What the last run of the validator printed, and which protected paths it wrote.
        self._said = ""
        self._written: tuple[str, ...] = ()

    def _protected_by(self, validator: Validator | None) -> Protection:
        """What decides in this snapshot, and with this validator."""
        space = self._cell.workspace
        entries = space.entries(self._base)

        def read(oids: Iterable[str]) -> list[bytes | None]:
            wanted = list(oids)
            sizes = space.sizes(wanted)
            return space.contents(oid for oid in wanted if sizes[oid] <= LIMIT) or [None]

        return Protection.of(entries, read, validator.command.text if validator else "")

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
        tree = self._tree()
        self._rewritten = ()
        verdict = self._validate(label, tree)
        if label == "0":
            self._collected_first, self._habits = self._collected, frozenset(self._written)
            entries = self._cell.workspace.entries(self._base)
            self._protection = self._protection.hearing(self._said, entries)
        return _judged(verdict)

    def confirm(self) -> Judged:
        self._on_step(f"iteration {self._iteration}: last verdict, in a fresh tree")
        tree = self._tree()
        space = self._cell.workspace
        before, after = space.entries(self._base), space.entries(tree)
        made = self._protection.made_in(after, before)
        self._unmade = min(made, default="")
        allowed = self._plan.allow_test_edits
        self._undone = fresh.put_back(before, after, self._protection, allow_test_edits=allowed)
        copy = space.fresh(tree, lambda path: path in made or self._is_protected(path))
        try:
            verdict = self._validate(f"{self._iteration}-final", tree, copy)
        except UnavailableError as error:  # it could be started a moment ago, in the other copy
            raise error if error.where == _SETUP else self._unavailable(error.what) from None
        if self._missing and not self._prepared_badly:
            raise self._unavailable(f"there is no {self._missing[0]}")
        self._rewritten = tuple(path for path in self._written if path not in self._habits)
        return _judged(verdict).replace(manner=self._in_fresh())

    def _unavailable(self, what: str) -> UnavailableError:
        """The fresh tree lacks what the validator is started with: no agent can mend that."""
        command = self._validator.command.text if self._validator else ""
        return UnavailableError(
            f"the validator cannot be started in a fresh copy, without what git ignores: {what}",
            where=printable(self._redactor.text(command)[:200]),
            hint=self._prepared or "set loop.setup to a command that installs it there",
        )

    def _in_fresh(self) -> str:
        """How the validator fails in the fresh tree alone, and what could help."""
        return fresh.manner(self._unmade, self._undone, self._prepared, self._redactor.text)

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
        self._label = label
        log = self._path_of("rlm", f"validator-{label}.log")

        def run(argv: tuple[str, ...]) -> Ended:
            ended = self._ran("validator", f"validator-{label}", argv, tree, copy)
            self._said = ended.output.text()
            self._collected = collected.parse(self._said)
            return ended

        where = (lambda: f"it {self._in_fresh()}") if copy else str
        self._verdict = validator.judge(run, log, where)
        return self._verdict

    def _ran(
        self,
        kind: str,
        place: str,
        argv: tuple[str, ...],
        tree: str,
        copy: Checkout | None = None,
    ) -> Ended:
        """How a command ended on ``tree``; what it changed in the copy is taken back."""
        key: dict[str, Any] = {"argv": list(argv), "tree": tree}
        if copy is not None and self._plan.setup:
            key["setup"] = list(self._plan.setup.argv)

        def produce() -> Mapping[str, Any]:
            if copy is not None:
                return self._ran_fresh(argv, copy)
            settled = self._cell.workspace.settled  # None where an agent asks, who goes on
            if not self._iteration:  # what it leaves is trusted: nobody was at work before it
                self._cell.workspace.caches.begin()
            ended = self._cell.command(argv, self._timeout())
            if not self._iteration:
                self._cell.workspace.caches.keep_first()
            left = self._cell.tree()
            if left == tree:
                self._cell.workspace.settled = settled
            else:
                self._cell.workspace.restore(tree)
            written = () if self._iteration else self._rewrote(tree, left)
            return record_of(ended) | {"written": list(written)}

        told = self._fact(kind, place, key, produce)
        self._written = tuple(map(str, told.get("written", ())))
        self._missing = tuple(map(str, told.get("missing", ())))
        self._tell_setup(told)
        return ended_of(told)

    def _tell_setup(self, told: Mapping[str, Any]) -> None:
        """Keep what the setup of a fresh tree printed, if it had one; say so if it failed."""
        setup, name = self._plan.setup, f"setup-{self._label}.log"
        if setup is None or "setup" not in told:
            return
        ended = ended_of(told["setup"])
        text = validation.log(ended, setup, self._redactor.text)
        files.write(self._path_of("rlm", name), text, 0o600)
        reason = validation.failure(ended, setup)
        self._prepared_badly = bool(reason)
        how = f"failed there: {reason}; see" if reason else "did not help; what it printed is in"
        self._prepared = f"loop.setup {how} rlm/{name}"
        if reason:
            self._on_step(f"iteration {self._iteration}: loop.setup failed: {reason}")

    def _ran_fresh(self, argv: tuple[str, ...], copy: Checkout) -> Mapping[str, Any]:
        """Run a command in the fresh tree, once all that it needs is installed there.

        A failure of the setup is told with the verdict. What it did to protected files is undone;
        what the command does to them is told.
        """
        prepared: dict[str, Any] = {}
        setup = self._plan.setup
        began = copy.tree()
        if setup:
            try:
                ended = self._cell.command(setup.argv, self._timeout(), copy, network=True)
            except UnavailableError as error:
                raise UnavailableError(error.what, where=_SETUP, hint=error.hint) from None
            prepared = {"setup": record_of(ended)}
            wrong = frozenset(self._rewrote(began, copy.tree()))
            self._cell.workspace.put_back(copy, began, wrong.__contains__)
            began = copy.tree()
        try:
            ended = self._cell.command(argv, self._timeout(), copy)
        except UnavailableError:
            self._tell_setup(prepared)
            raise
        if ended.returncode in validation.SHELL_CODES:
            here, there = (set(dependency_folders(one)) for one in (self._cell.root, copy.path))
            prepared["missing"] = sorted(here - there)
        written = self._rewrote(began, copy.tree())
        return record_of(ended) | {"written": list(written)} | prepared

    def _rewrote(self, before: str, after: str) -> tuple[str, ...]:
        """The protected paths that differ from one tree to the other."""
        if before == after:
            return ()
        space = self._cell.workspace
        return tamper.rewritten(
            space.entries(before),
            space.entries(after),
            space,
            self._protection,
            allow_test_edits=self._plan.allow_test_edits,
        )

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
            changes=self._redactor.without_known(self._status(before)),
            findings=self._redactor.text("\n".join(one.message for one in tampering)),
            protected=(*PROTECTED, *sorted(self._protection.scripts)[:_NAMED]),
            allow_test_edits=self._plan.allow_test_edits,
        )
        turns = self._cast.perform(brief)
        self._write_turns(iteration, turns)
        outcome = _edited(turns).outcome
        summary = outcome.summary or outcome.reason or "it said nothing"
        if outcome.exit_code:  # why it failed comes before what it said
            summary = outcome.reason or summary
            self._on_step(f"iteration {iteration}: agent failed: {summary}")
        return Acted(summary, self._tree() != before, outcome.exit_code)

    def difference(self) -> str:
        """What differs from the start while the agents are at work, for one of them to read."""
        _, patch = disclosure.account(self._cell.workspace, self._cell.tree(), (), self._redactor)
        return self._redactor.without_known(patch.decode("utf-8", "replace"))

    def _write_turns(self, iteration: int, turns: tuple[Turn, ...]) -> None:
        texts = {}
        for number, turn in enumerate(turns, 1):
            said = turn.outcome.output or turn.outcome.summary
            reason = f"\n\nended early: {turn.outcome.reason}" if turn.outcome.reason else ""
            texts[f"{number}-{turn.role}-prompt.md"] = turn.prompt
            texts[f"{number}-{turn.role}-answer.md"] = f"{said}{reason}\n"
        self._write(iteration, texts)

    def tampering(self) -> tuple[Finding, ...]:
        # How many tests ran says something of a run that would be believed, and of no other.
        is_green = self._verdict is not None and self._verdict.passed
        found = tamper.findings(
            self._cell.workspace,
            self._tree(),
            self._collected_first if is_green else None,
            self._collected if is_green else None,
            protection=self._protection,
            redactor=self._redactor,
            allow_test_edits=self._plan.allow_test_edits,
        )
        return found + tamper.held_against(self._rewritten)

    def is_unchanged(self) -> bool:
        return self._tree() == self._base

    def _tree(self) -> str:
        """The id of the tree that the copy holds; looked up only if it may be another one."""
        space = self._cell.workspace
        if space.settled is None:
            space.settled = self._cell.tree()
        return space.settled

    def _status(self, tree: str) -> str:
        """What has changed from the base to ``tree``; nearly always the last turn's end."""
        known, status = self._noted
        return status if known == tree else self._cell.status(self._base, tree)

    def _is_protected(self, path: str) -> bool:
        allowed = self._plan.allow_test_edits
        return self._protection.is_protected(path, allow_test_edits=allowed)

    # ── what is kept of it ──

    def note(
        self, iteration: int, acted: Acted, judged: Judged, tampering: tuple[Finding, ...]
    ) -> None:
        tree = self._tree()
        space = self._cell.workspace
        status, patch = disclosure.account(space, tree, tampering, self._redactor)
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
                "validatorLogPath": f"rlm/validator-{self._label}.log" if verdict else None,
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


def _judged(verdict: Verdict) -> Judged:
    return Judged(verdict.passed, verdict.feedback, verdict.findings, verdict.reason)


def _edited(turns: tuple[Turn, ...]) -> Turn:
    """The last turn of a role that edits: what it says is what was done."""
    return next((one for one in reversed(turns) if one.role != "critic"), turns[-1])


def _summary(status: str) -> str:
    """The changed files, the first of them by name."""
    lines = status.strip().splitlines()
    more = len(lines) - _SHOWN
    return "\n".join(lines[:_SHOWN] + ([f"and {count(more, 'more file')}"] if more > 0 else []))
