"""A run of the validator as a fact: in the agent's copy, in a fresh tree, or as the user has it.

It is also run on changed tests alone: on which files, where, and for how long.
"""

from __future__ import annotations

import secrets

from rlm_ci.canary import readers
from rlm_ci.canary.answers import ValidatorAnswer
from rlm_ci.canary.probe import COPIES, NOT_PROBED, Canary
from rlm_ci.errors import UnavailableError
from rlm_ci.fix.options import SETUP
from rlm_ci.guard import guard, inline_tests
from rlm_ci.report.findings import Finding, Severity
from rlm_ci.runs.journal import spans
from rlm_ci.system import files
from rlm_ci.system.transcript import transcribe
from rlm_ci.text.printable import first_of
from rlm_ci.validators import test_reports, test_selection, validator
from rlm_ci.validators.outcomes import FAILED, OutcomeIndex
from rlm_ci.values import Value
from rlm_ci.workspace.dependencies.ignored import dependency_folders
from rlm_ci.workspace.recorded_change import ended_of, record_of
from rlm_ci.workspace.sandboxed_commands import KEEP, Launch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from rlm_ci.fix.options import FixContext
    from rlm_ci.guard.protected.protection import Protection
    from rlm_ci.sandbox import Mount
    from rlm_ci.system.command_line import Command
    from rlm_ci.system.process import Clipped, StreamResult
    from rlm_ci.validators.outcomes import TestOutcome, TestOutcomes
    from rlm_ci.validators.validator import Validator, Verdict
    from rlm_ci.workspace.checkout import Checkout


#: How pytest reports its tests: by a plugin of ours, or by what it prints.
PLUGIN, PRINTED = "plugin", "printed"


class ValidatorRun(Value):
    """How a command ended, the tests it reported, and the protected paths it wrote.

    ``missing`` are folders of dependencies that a fresh tree lacks; ``reported``: by our plugin.
    ``left_out`` is what git ignores and a plain run did not see.
    """

    ended: StreamResult
    outcomes: TestOutcomes
    written: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    reported: bool = False
    left_out: tuple[str, ...] = ()


class ValidatorRuns:
    """Runs commands, each as a fact. ``protection`` decides which paths count as written.

    ``reporter`` is how pytest reports its tests: see ``test_reports``; "" where it is not run.
    """

    def __init__(self, context: FixContext, protection: Protection) -> None:
        self._context = context
        self._options = context.options
        self._commands = context.commands
        self._fact = context.fact
        self.protection = protection
        self.reporter = PLUGIN
        #: Makes a fresh tree ready, and how that ended the last time.
        self.setup = context.options.setup_command()
        self.prepared: StreamResult | None = None

    def in_copy(
        self,
        kind: str,
        step: str,
        argv: tuple[str, ...],
        tree: str,
        *,
        first: bool = False,
        require: Callable[[StreamResult], None] = lambda _ended: None,
    ) -> ValidatorRun:
        """How a command ends in the copy, which holds ``tree``; what it changes is taken back.

        Caches that the ``first`` one leaves are trusted. What ``require`` raises an error for is no
        fact: a resumed run runs it again.
        """
        space = self._commands.workspace

        def produce() -> Mapping[str, Any]:
            settled = space.settled  # None while an agent is at work
            if first:
                space.caches.begin()
            record = self._reported(argv, self._timeout())
            if first:
                space.caches.keep_first()
            left = self._commands.tree()
            if left == tree:
                space.settled = settled
            else:
                space.restore(tree)
            require(ended_of(record))
            return record | {"written": list(self._rewrote(tree, left)) if first else []}

        return self._ran(kind, step, argv, tree, produce)

    def in_fresh(
        self,
        step: str,
        argv: tuple[str, ...],
        tree: str,
        *,
        seconds: float = float("inf"),
        hide: bool = False,
        plain: bool = False,
        keep: int = KEEP,
    ) -> ValidatorRun:
        """How a command ends in a fresh copy of ``tree``, once it has all that it needs.

        It spends little where most tests fail. ``hide`` runs pytest's tests without its environment
        variables, ``plain`` as the user runs it. ``keep`` bytes of its output are kept.
        """

        def produce() -> Mapping[str, Any]:
            space = self._commands.workspace
            copy, left_out = space.image(tree) if plain else (space.fresh(tree), [])
            prepared: dict[str, Any] = {"left_out": left_out} if left_out else {}
            began = tree
            if self.setup:
                ended, began = self._prepare(self.setup, step, copy)
                prepared["setup"] = record_of(ended)
                self.prepared = ended
            timeout = min(self._timeout(), seconds)
            record = self._reported(
                argv, timeout, copy=copy, short=not plain, hide=hide, plain=plain, keep=keep
            )
            if record["returncode"] in validator.SHELL_CODES:
                folders, copied = (
                    set(dependency_folders(root)) for root in (self._commands.root, copy.path)
                )
                prepared["missing"] = sorted(folders - copied)
            return record | {"written": list(self._rewrote(began, copy.tree()))} | prepared

        return self._ran("validator", step, argv, tree, produce)

    def try_setup(self, tree: str) -> None:
        """Make a fresh copy of ``tree`` ready once, before an agent is paid for it."""
        if self.setup is None:
            return
        setup = self.setup

        def produce() -> Mapping[str, Any]:
            copy = self._commands.workspace.fresh(tree)
            return record_of(self._prepare(setup, "0", copy)[0])

        self._fact("setup", "setup-0", {"argv": list(setup.argv), "tree": tree}, produce)

    def _prepare(self, setup: Command, step: str, copy: Checkout) -> tuple[StreamResult, str]:
        """Run the setup in a fresh copy: how it ended, and the tree without edits of its own.

        Raises NotStartedError where it fails, UnavailableError where it cannot be started.
        """
        before, workspace = copy.tree(), self._commands.workspace
        try:
            ended = self._commands.run(Launch(setup.argv, self._timeout(), network=True), copy)
        except UnavailableError as error:
            raise UnavailableError(error.what, where=SETUP, hint=error.hint) from None
        if reason := validator.failure(ended, setup):
            redact = self._context.redactor.text
            log = f"setup-{step.removeprefix('validator-').replace('/', '-')}.log"
            text = validator.log(ended, setup, redact)
            files.write(self._context.path_of("rlm", log), text, 0o600)
            failed = validator.NotStartedError(
                UnavailableError(f"it failed: {reason}", where=SETUP, hint="mend what it runs"),
                transcribe(ended.output, redact).lines,
            )
            raise failed.logged(self._context.shown("rlm", log))
        after = copy.tree()
        wrong = frozenset(self._rewrote(before, after))
        copy.restore(workspace.restored(after, before, wrong.__contains__))
        return ended, copy.tree()

    def _ran(
        self,
        kind: str,
        step: str,
        argv: tuple[str, ...],
        tree: str,
        produce: Callable[[], Mapping[str, Any]],
    ) -> ValidatorRun:
        key: dict[str, Any] = {"argv": list(argv), "tree": tree}
        if self.setup:
            key["setup"] = list(self.setup.argv)
        fact = self._fact(kind, step, key, produce)
        ended = ended_of(fact)
        self.prepared = ended_of(fact["setup"]) if "setup" in fact else None
        lines = [line for line in fact.get("reported", ()) if isinstance(line, str)]
        return ValidatorRun(
            ended,
            test_reports.read(printed(ended.output), lines, str(fact.get("root", ""))),
            tuple(map(str, fact.get("written", ()))),
            tuple(map(str, fact.get("missing", ()))),
            bool(lines),
            tuple(map(str, fact.get("left_out", ()))),
        )

    def _reported(
        self,
        argv: tuple[str, ...],
        timeout: float,
        *,
        copy: Checkout | None = None,
        short: bool = False,
        hide: bool = False,
        plain: bool = False,
        keep: int = KEEP,
    ) -> dict[str, Any]:
        """The record of a command, with the outcomes from our pytest plugin.

        ``short`` runs all tests, and spends little on those that fail.
        """
        commands = self._commands
        # Without a sandbox a command works where the copy lies.
        root = (
            commands.visible_root
            if commands.sandbox.isolated
            else copy.path
            if copy
            else commands.root
        )
        env: dict[str, str] = {}
        extra: tuple[Mount, ...] = ()
        with files.scratch("rlm-ci-") as folder:
            if self.reporter and not plain:
                plugin = self.reporter == PLUGIN
                env = test_reports.environment(
                    folder, root, commands.env, plugin=plugin, short=short, hide=hide
                )
                extra = test_reports.mounts(folder) if commands.sandbox.isolated and plugin else ()
            argv = test_selection.unstopped(argv) if short else argv
            launch = Launch(argv, timeout, env=env, plain=plain)
            ended = commands.run(launch, copy, extra=extra, keep=keep)
            return record_of(ended) | {"reported": test_reports.collect(folder), "root": root}

    def _rewrote(self, before: str, after: str) -> tuple[str, ...]:
        """The protected paths that differ from one tree to the other."""
        if before == after:
            return ()
        space = self._commands.workspace
        return guard.rewritten(
            space.entries(before),
            space.entries(after),
            space,
            self.protection,
            allow_test_edits=self._options.allow_test_edits,
        )

    def _timeout(self) -> float:
        """Seconds that a command may take, so that the run ends when it has to."""
        return self._context.seconds_left(self._options.validator_seconds)


def printed(output: Clipped) -> tuple[str, ...]:
    """All lines that were kept of an output: any may name a test."""
    return transcribe(output, str, limit=len(output.head) + len(output.tail)).lines


#: What holds only where rlm-ci runs it.
ONLY_IN_COPY = "tamper/only-in-copy"


class PlainRun:
    """The run for one result. ``line`` says what came of it, once it is ``judged``."""

    def __init__(
        self, context: FixContext, runs: ValidatorRuns, validator: Validator, iteration: int
    ) -> None:
        self._context = context
        self._runs = runs
        self._validator = validator
        self._iteration = iteration
        self._ran: ValidatorRun | None = None
        self.line = ""

    def judged(
        self, result: str, tree: str, start: str, first: TestOutcomes
    ) -> tuple[Finding, ...]:
        """What speaks against ``result``, the tree to be applied.

        One that fails is tried once more on ``tree``, which the last verdict was taken on. What
        fails at the ``start`` of the run, too, but not in the ``first`` run, is not its fault.
        """
        if not self._context.options.isolated:
            self.line = "no plain run: there is no sandbox for it"
            return ()
        verdict = self._verdict("plain", result)
        if not verdict.passed and not self._is_cut:
            verdict = self._verdict("plain-again", tree)
        if verdict.passed:
            self.line = f"a plain run passes, too{self._without}"
            return ()
        if self._is_cut:
            self.line = f"a plain run did not end: {verdict.reason}"
            return (self._finding(Severity.MEDIUM, self.line),)
        failed = self._failed()
        self._verdict("plain-start", start)
        before, index = OutcomeIndex(self._failed()), OutcomeIndex(first.tests)
        if failed and all(
            any(before.of(outcome.location, outcome.name))
            and all(was.state != FAILED for was in index.of(outcome.location, outcome.name))
            for outcome in failed
        ):
            self.line = f"a plain run fails as before: {first_of(_names(failed), 'test')}"
            return (self._finding(Severity.MEDIUM, self.line),)
        example = f": {first_of(_names(failed), 'test')}" if failed else f": {verdict.reason}"
        self.line = f"a plain run fails{self._without}"
        what = f"the validator passes in the sandbox's copy, and fails as you run it{example}"
        return (self._finding(Severity.HIGH, what),)

    @property
    def _is_cut(self) -> bool:
        """Whether the last run did not end by itself."""
        return self._ran is not None and bool(self._ran.ended.reason)

    @property
    def _without(self) -> str:
        """What of the user's work tree it did not see, in words."""
        paths = self._ran.left_out if self._ran else ()
        names = self._context.redactor.text(first_of(paths, "path")) if paths else ""
        return f", without {names} (too large, or not to be read)" if names else ""

    def _verdict(self, name: str, tree: str) -> Verdict:
        run_name = f"validator-{self._iteration}-{name}"

        def run(argv: tuple[str, ...]) -> StreamResult:
            self._ran = self._runs.in_fresh(run_name, argv, tree, plain=True)
            return self._ran.ended

        title = "validator, as you run it"
        words = f"iteration {self._iteration}: {title}"
        files = {"Log": f"rlm/{run_name}.log"}
        with spans.span("validator", title, words=words, files=files) as step:
            verdict = self._validator.judge(run, self._context.path_of("rlm", f"{run_name}.log"))
            step.outcome = spans.DONE if verdict.passed else spans.FAILED
        return verdict

    def _failed(self) -> list[TestOutcome]:
        tests = self._ran.outcomes.tests if self._ran else ()
        return [test for test in tests if test.state == FAILED]

    def _finding(self, severity: Severity, what: str) -> Finding:
        log = f"rlm/validator-{self._iteration}-plain.log"
        hint = (
            f"look for code that asks where it runs, and for what git ignores; {log} in the run's"
            f" folder has the output; --allow {ONLY_IN_COPY} accepts it"
        )
        return Finding(ONLY_IN_COPY, severity, what, hint=hint, domain="tamper")


def _names(tests: list[TestOutcome]) -> list[str]:
    return [test.name for test in tests]


#: What fails only where pytest's tests do not see its environment variables.
ENVIRONMENT = "tamper/environment"
#: Bytes of an output that are kept: nearly every test fails, and each has to be named.
_KEEP = 16 << 20


class ChangedTestRuns:
    """The canary of one result; ``step`` names its facts in the record of the run.

    ``left`` are the seconds that runs on changed files may still take.
    """

    def __init__(
        self, context: FixContext, runs: ValidatorRuns, argv: tuple[str, ...], step: str
    ) -> None:
        self.left = self._most = context.options.canary_seconds
        self._runs = runs
        self._space = context.commands.workspace
        self._argv = argv
        self._fact = context.fact
        self._place = step
        self._known: dict[str, bytes] = {}
        self._tree = self._landed = ""
        #: Seconds of the first run, and of the slowest.
        self._first = self._slowest = 0.0

    def probe(
        self,
        tree: str,
        landed: str,
        first: ValidatorRun,
        verdict: ValidatorRun,
        hidden: ValidatorRun | None = None,
    ) -> tuple[tuple[Finding, ...], str, Mapping[str, str]]:
        """Findings, a line for people, and changed texts to look at by path.

        ``tree`` is what the ``verdict`` was taken on, ``landed`` the result with new tests;
        ``first`` and ``hidden`` are the runs at the start and without pytest's variables.
        """
        self._tree, self._landed = tree, landed
        self._first, self._slowest = first.ended.seconds, verdict.ended.seconds
        entries = self._space.entries(tree)
        paths = sorted(
            path
            for path, entry in entries.items()
            if entry.is_file and self._may_hold(path, verdict.outcomes.test_files)
        )
        answer = _answer(verdict)
        if not (first.outcomes.tests or answer.outcomes.tests or answer.judged):
            return (), f"{NOT_PROBED}, the validator reports no test", {}
        if not any(map(readers.is_known, paths)):
            return (), f"{NOT_PROBED}, no test that ran can be changed", {}
        contents = self._space.contents(entries[path].oid for path in paths)
        self._known = {
            path: data for path, data in zip(paths, contents, strict=True) if data is not None
        }
        drawn = self._fact(
            "canary", self._place, {"tree": tree}, lambda: {"secret": secrets.token_hex(16)}
        )
        estimate = len(COPIES) * verdict.ended.seconds
        probed = Canary(
            self._known,
            first.outcomes,
            answer,
            self._run,
            secret=str(drawn["secret"]),
            share=min(1.0, self._most / estimate) if estimate else 1.0,
            has_new=landed != tree,
            slowness=self._slowness,
        ).probe()
        return probed.findings + _hidden(first.outcomes, hidden), probed.line, probed.texts

    def _may_hold(self, path: str, names: Collection[str]) -> bool:
        """Whether a file may have tests; those that did not run stay as they are."""
        if path in names or path.endswith(inline_tests.ENDING):
            return True
        return readers.is_known(path) and self._runs.protection.is_of_tests(path)

    def _run(
        self,
        label: str,
        texts: Mapping[str, str],
        *,
        at_start: bool = False,
        with_new: bool = False,
    ) -> ValidatorAnswer | None:
        """Run the validator with these texts; None where no time is left."""
        changed = {
            path: text.encode(readers.encoding(path, self._known[path]), "surrogateescape")
            for path, text in texts.items()
        }
        base = self._landed if with_new else self._tree
        if at_start:
            base = self._space.snapshot.tree
            changed = inline_tests.moved(self._space, base, changed)
        return self._ran(label, self._space.edited(base, changed))

    def _ran(self, label: str, tree: str) -> ValidatorAnswer | None:
        if self.left <= 0:
            return None
        step = f"{self._place}-{label}"
        ran = self._runs.in_fresh(step, self._argv, tree, seconds=self.left, keep=_KEEP)
        self.left -= ran.ended.seconds
        self._slowest = max(self._slowest, ran.ended.seconds)
        return _answer(ran)

    def _slowness(self) -> str:
        """How slow the tests became, if there was time enough for them as they were; else ""."""
        if self._first * len(COPIES) > self._most:
            return ""
        return (
            f"a run of the validator takes {self._slowest:.1f} s, and took {self._first:.1f} s "
            f"before any edit; loop.canary_minutes allows {self._most:.0f} s"
        )


def _hidden(first: TestOutcomes, ran: ValidatorRun | None) -> tuple[Finding, ...]:
    """What fails where pytest's tests do not see its environment variables."""
    if ran is None or ran.ended.reason or ran.ended.returncode < 0:
        return ()
    index = OutcomeIndex(first.tests)

    def was_red(outcome: TestOutcome) -> bool:
        return any(was.state == FAILED for was in index.of(outcome.location, outcome.name))

    failed = [test for test in ran.outcomes.tests if test.state == FAILED]
    failed.sort(key=was_red, reverse=True)
    if not failed:
        return ()
    names = first_of([outcome.name for outcome in failed], "test")
    return (
        Finding(
            ENVIRONMENT,
            Severity.MEDIUM if was_red(failed[0]) else Severity.INFO,
            f"{names} fails without PYTEST_CURRENT_TEST and PYTEST_VERSION",
            hint="check whether the code behaves differently under pytest",
            domain="tamper",
        ),
    )


def _answer(ran: ValidatorRun) -> ValidatorAnswer:
    ended, output = ran.ended, ran.ended.output.text()
    counted = test_reports.parse(output)
    return ValidatorAnswer(
        ran.outcomes,
        output,
        ended.returncode,
        stopped="a run was cut short" if ended.reason else "",
        clipped=bool(ended.output.omitted),
        judged=sum(tests.judged for tests in counted.values()) if counted else None,
        rewritten=frozenset(ran.written),
    )
