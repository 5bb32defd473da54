"""The validator at work in a fix loop: in the copy, in a fresh tree, and what its runs tell."""

from __future__ import annotations

from rlm_ci import files
from rlm_ci.errors import UnavailableError
from rlm_ci.loop import collected, fresh, tamper
from rlm_ci.loop import validator as validation
from rlm_ci.loop.differences import LIMIT
from rlm_ci.loop.engine import Judged
from rlm_ci.loop.journalled import ended_of, record_of
from rlm_ci.loop.protection import Protection
from rlm_ci.loop.snapshot import dependency_folders
from rlm_ci.texts import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    from rlm_ci.loop.cell import Cell
    from rlm_ci.loop.checkout import Checkout
    from rlm_ci.loop.collected import Collected
    from rlm_ci.loop.command import Command
    from rlm_ci.loop.engine import Terms
    from rlm_ci.loop.validator import Validator, Verdict
    from rlm_ci.process import Ended
    from rlm_ci.redaction import Redactor
    from rlm_ci.runs import Fact
    from rlm_ci.runs.clock import Clock

#: Where a setup says what to install.
_SETUP = "loop.setup"


class Plan(Value):
    """What is to be done. ``validator_seconds`` bound one run of it; ``setup`` may be None."""

    goal: str
    terms: Terms
    validator_seconds: float
    setup: Command | None = None
    allow_test_edits: bool = False


class Judge:
    """Runs the validator; each run is a fact. ``path_of`` gives the place of a file of the run.

    ``iteration`` is the turn that is being judged, 0 before the first one.
    """

    def __init__(
        self,
        plan: Plan,
        cell: Cell,
        validator: Validator | None,
        *,
        fact: Fact,
        clock: Clock,
        path_of: Callable[..., str],
        on_step: Callable[[str], None],
        redactor: Redactor,
    ) -> None:
        self._plan = plan
        self._cell = cell
        self._validator = validator
        self._fact = fact
        self._clock = clock
        self._path_of = path_of
        self._on_step = on_step
        self._redactor = redactor
        self._base = cell.workspace.snapshot.tree
        self.iteration = 0
        self._tests = 0
        #: The last thing that the validator said; the name of that run.
        self.verdict: Verdict | None = None
        self.label = ""
        #: What became of the setup before it.
        self._prepared = ""
        self._prepared_badly = False
        #: Protected files that it has as they were, though the agent has edited them.
        self._undone = ""
        #: Folders of dependencies that the fresh tree lacks, where a program was not found in it.
        self._missing: tuple[str, ...] = ()
        #: The tests that ran: of the snapshot, and last.
        self.collected_first: Mapping[str, Collected] = {}
        self.collected: Mapping[str, Collected] = {}
        self.protection = self._protected_by(validator)
        #: What the validator writes into a tree that nobody was at work in.
        self._habits: frozenset[str] = frozenset()
        #: Protected paths that were written while the last verdict was taken.
        self.rewritten: tuple[str, ...] = ()
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

    def tree(self) -> str:
        """The id of the tree that the copy holds; looked up only if it may be another one."""
        space = self._cell.workspace
        if space.settled is None:
            space.settled = self._cell.tree()
        return space.settled

    def begin(self, iteration: int) -> None:
        """An agent's turn begins."""
        self.iteration, self._tests = iteration, 0

    def judge(self, label: str) -> Judged:
        self._on_step(f"iteration {label}: validator" if label != "0" else "validator, as it is")
        tree = self.tree()
        self.rewritten = ()
        verdict = self._validate(label, tree)
        if label == "0":
            self.collected_first, self._habits = self.collected, frozenset(self._written)
            entries = self._cell.workspace.entries(self._base)
            self.protection = self.protection.hearing(self._said, entries)
        return _judged(verdict)

    def confirm(self) -> Judged:
        self._on_step(f"iteration {self.iteration}: last verdict, in a fresh tree")
        tree = self.tree()
        space = self._cell.workspace
        before, after = space.entries(self._base), space.entries(tree)
        allowed = self._plan.allow_test_edits
        self._undone = fresh.put_back(before, after, self.protection, allow_test_edits=allowed)
        copy = space.fresh(tree, self._is_protected)
        try:
            verdict = self._validate(f"{self.iteration}-final", tree, copy)
        except UnavailableError as error:  # it could be started a moment ago, in the other copy
            raise error if error.where == _SETUP else self._unavailable(error.what) from None
        if self._missing and not self._prepared_badly:
            raise self._unavailable(f"there is no {self._missing[0]}")
        self.rewritten = tuple(path for path in self._written if path not in self._habits)
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
        return fresh.manner(self._undone, self._prepared, self._redactor.text)

    def tests(self, names: tuple[str, ...]) -> str:
        """What the validator says of some tests, asked for by the agent."""
        validator = self._validator
        if validator is None:
            return "there is no validator"
        if names and validator.command.in_shell:
            return "the validator is a line of shell: it runs whole, or not at all"
        self._tests += 1
        place = f"iteration-{self.iteration}/tests-{self._tests}"
        argv = (*validator.command.argv, *names)
        tree = self._cell.tree()
        ended = self._ran("tests", place, argv, tree)
        verdict = validator.judge(lambda _argv: ended)
        return "it passes" if verdict.passed else verdict.feedback

    def _validate(self, label: str, tree: str, copy: Checkout | None = None) -> Verdict:
        validator = self._validator
        if validator is None:
            raise AssertionError("nothing validates")
        self.label = label
        log = self._path_of("rlm", f"validator-{label}.log")

        def run(argv: tuple[str, ...]) -> Ended:
            ended = self._ran("validator", f"validator-{label}", argv, tree, copy)
            self._said = ended.output.text()
            self.collected = collected.parse(self._said)
            return ended

        where = (lambda: f"it {self._in_fresh()}") if copy else str
        self.verdict = validator.judge(run, log, where)
        return self.verdict

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
            if not self.iteration:  # what it leaves is trusted: nobody was at work before it
                self._cell.workspace.caches.begin()
            ended = self._cell.command(argv, self._timeout())
            if not self.iteration:
                self._cell.workspace.caches.keep_first()
            left = self._cell.tree()
            if left == tree:
                self._cell.workspace.settled = settled
            else:
                self._cell.workspace.restore(tree)
            written = () if self.iteration else self._rewrote(tree, left)
            return record_of(ended) | {"written": list(written)}

        told = self._fact(kind, place, key, produce)
        self._written = tuple(map(str, told.get("written", ())))
        self._missing = tuple(map(str, told.get("missing", ())))
        self._tell_setup(told)
        return ended_of(told)

    def _tell_setup(self, told: Mapping[str, Any]) -> None:
        """Keep what the setup of a fresh tree printed, if it had one; say so if it failed."""
        setup, name = self._plan.setup, f"setup-{self.label}.log"
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
            self._on_step(f"iteration {self.iteration}: loop.setup failed: {reason}")

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
            self.protection,
            allow_test_edits=self._plan.allow_test_edits,
        )

    def _timeout(self) -> float:
        """Seconds that a command may take, so that the run ends when it has to."""
        limit = self._plan.validator_seconds
        if self._plan.terms.max_minutes is not None:
            left = self._plan.terms.max_minutes * 60 - self._clock.seconds()
            limit = min(limit, max(1.0, left))
        return limit

    def _is_protected(self, path: str) -> bool:
        allowed = self._plan.allow_test_edits
        return self.protection.is_protected(path, allow_test_edits=allowed)


def _judged(verdict: Verdict) -> Judged:
    return Judged(verdict.passed, verdict.feedback, verdict.findings, verdict.reason)
