"""What decides in a fix loop: the validator in the copy, in a fresh tree, and on changed tests."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from functools import partial
from hashlib import sha256

from rlm_ci.canary.probe import NOT_PROBED
from rlm_ci.environments.coding import workspace_services
from rlm_ci.errors import UnavailableError
from rlm_ci.fix.loop import ValidationResult
from rlm_ci.fix.options import SETUP
from rlm_ci.fix.verdict.blinded_runs import BlindedRuns
from rlm_ci.fix.verdict.planting import raising, unreadable
from rlm_ci.fix.verdict.validator_run import (
    PLUGIN,
    PRINTED,
    ChangedTestRuns,
    PlainRun,
    ValidatorRun,
    ValidatorRuns,
)
from rlm_ci.guard import guard, inline_tests
from rlm_ci.guard.protected import by_name
from rlm_ci.guard.protected.protection import Protection, is_data
from rlm_ci.report.findings import Severity
from rlm_ci.runs.journal import spans
from rlm_ci.system import files
from rlm_ci.system.process import Clipped, StreamResult
from rlm_ci.system.transcript import transcribe
from rlm_ci.text.printable import first_of, printable
from rlm_ci.validators import outcomes, test_file_names, test_reports
from rlm_ci.validators import validator as validation
from rlm_ci.validators.test_selection import narrowed_in
from rlm_ci.workspace.tree_diff import LIMIT, differing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from contextlib import AbstractContextManager

    from rlm_ci.fix.options import FixContext
    from rlm_ci.fix.verdict.blinded_runs import LineVerdict
    from rlm_ci.git.objects import TreeEntry
    from rlm_ci.report.findings import Finding
    from rlm_ci.validators.test_reports import CollectedTests
    from rlm_ci.validators.validator import Verdict

_SAID = 200
_FAILS = "passes in the working copy and fails in a fresh one, which has no files that git ignores"
#: Files that are put back each by itself, where it fails with all of them put back.
_ALONE = 5
#: Files of old tests that are run by themselves, where the validator does not reach them.
_OLD = 200
#: Bytes of the name of a file; file systems allow 255, and a new one is written beside it first.
_LONGEST = 180


class ResultJudge:
    """Each run of the validator is a fact. ``iteration`` is the turn that is judged, 0 at first."""

    def __init__(self, context: FixContext) -> None:
        self._context = context
        self._space = context.commands.workspace
        self._validator = context.validator
        self._allow_test_edits = context.options.allow_test_edits
        self._base = self._space.snapshot.tree
        self.iteration = 0
        #: How often the agent has asked for what, in this iteration.
        self._asked: Counter[str] = Counter()
        self._runs = ValidatorRuns(context, self._protected())
        #: The last verdict, the name of its run, and the tests in its output.
        self.verdict: Verdict | None = None
        self.label = ""
        #: Whether it was said in a fresh tree.
        self.is_last = False
        self._ran = ValidatorRun(StreamResult(0, "", Clipped(b""), 0.0), outcomes.TestOutcomes())
        #: A last verdict without pytest's environment variables, where it fails.
        self._hidden: ValidatorRun | None = None
        self.collected: Mapping[str, CollectedTests] = {}
        #: The same of the first run.
        self._first = self._ran
        self.collected_first: Mapping[str, CollectedTests] = {}
        self._passed_first = False
        #: What the validator writes into a tree without edits.
        self._habits: frozenset[str] = frozenset()
        #: What became of the setup of a fresh tree.
        self._prepared = ""
        #: Files that a fresh tree has as they were, though the agent has edited them.
        self._undone = ""
        #: Protected paths that were written while the last verdict was taken.
        self.rewritten: tuple[str, ...] = ()
        #: Files of tests that the agent has added.
        self._added: frozenset[str] = frozenset()
        #: Whether the last verdict was taken with the new tests: it fails without them.
        self._with_new = False
        #: One line on whether the tests can still fail, and one on the run without our plugin.
        self.canary = self.plain_run = ""
        #: The tree that was asked last, and what was found.
        self._probed: tuple[tuple[str, str], tuple[Finding, ...]] = (("", ""), ())
        #: The result that was tried without suspicious lines, and what hinges on them.
        self._decided: tuple[str, list[LineVerdict]] = ("", [])
        self._plain: tuple[tuple[str, str], tuple[Finding, ...]] = (("", ""), ())

    @property
    def protection(self) -> Protection:
        """What decides in this snapshot, and with this validator."""
        return self._runs.protection

    def _protected(self) -> Protection:
        entries, validator = self._space.entries(self._base), self._validator

        def read(oids: Iterable[str]) -> list[bytes | None]:
            batch = list(oids)
            sizes = self._space.sizes(batch)
            return self._space.contents(oid for oid in batch if sizes[oid] <= LIMIT) or [None]

        commands = self._context.options.gates.commands
        texts = ([validator.command.text] if validator else []) + list(commands)
        allowed = frozenset(self._context.options.allow_edit)
        return Protection.of(entries, read, "\n".join(texts)).replace(allowed=allowed)

    def begin(self, iteration: int) -> None:
        """An agent's turn begins."""
        self.iteration, self._asked = iteration, Counter()

    def judge(self, label: str) -> ValidationResult:
        """Run the validator on the copy; the first time, learn from it what the tests are."""
        is_first = label == "0"
        words = "validator, before any edit" if is_first else f"iteration {label}: validator"
        self.rewritten = ()
        with self._run_of("validator", words) as step:
            verdict = self._validate(label)
            if is_first:
                verdict = self._learned(verdict)
            self._tell(step, verdict)
        if is_first:
            self._runs.try_setup(self._space.settled_tree())
        self._added = self._ran.outcomes.test_files - self._space.entries(self._base).keys()
        return self._judged(verdict)

    def _learned(self, verdict: Verdict) -> Verdict:
        """Keep which files have tests, and how the tests end in the first run.

        Where pytest cannot load our plugin, it runs without; where it is not needed, there is none.
        """
        if test_reports.refused(self._ran.ended.output.text()):
            self._runs.reporter = PRINTED
            verdict = self._validate("0", "0-without-plugin")
        ran = self._ran
        if (
            self._runs.reporter == PLUGIN
            and not ran.reported
            and (ran.outcomes.tests or verdict.passed)
        ):
            self._runs.reporter = ""
        self._first, self.collected_first = ran, self.collected
        self._passed_first = verdict.passed
        self._habits = frozenset(ran.written)
        entries = self._space.entries(self._base)
        self._runs.protection = self.protection.learning(ran.outcomes, entries)
        return verdict

    def learn(self, more: outcomes.TestOutcomes) -> None:
        """Protect the tests of another command, too, which it ran before any edit."""
        first = self._first.outcomes
        both = outcomes.TestOutcomes(
            first.tests + more.tests,
            first.complete and more.complete,
            first.test_files | more.test_files,
        )
        entries = self._space.entries(self._base)
        self._runs.protection = self.protection.learning(both, entries)

    def confirm(self) -> ValidationResult:
        """Run the validator in a fresh tree, with what decides as it was at the start."""
        title = "last verdict, in a fresh tree"
        with self._run_of(title, f"iteration {self.iteration}: {title}") as step:
            verdict, tree = self._last_verdict()
            self._tell(step, verdict)
        if verdict.passed and not self._context.options.isolated:
            self._require_read(tree)
        return self._judged(verdict).replace(manner=self._in_fresh())

    def _last_verdict(self) -> tuple[Verdict, str]:
        """The verdict in a fresh tree, and this tree."""
        self._with_new = False
        result, tree = self._space.entries(self._space.settled_tree()), self.fresh()
        self._undone = _put_back(result, self._space.entries(tree), self.protection)
        try:
            verdict = self._validate(f"{self.iteration}-final", fresh=tree)
            self._with_new = not verdict.passed
            if self._with_new and (with_new := self.fresh()) != tree:
                self._with_new = self._lacks_new_tests(tree)
                if self._with_new:
                    tree = with_new
                    self._context.on_step(f"iteration {self.iteration}: the same with new tests")
                    verdict = self._validate(f"{self.iteration}-final-new", fresh=tree)
        except UnavailableError as error:  # it could be started a moment ago, in the other copy
            raise error if error.where == SETUP else self._unavailable(error.what) from None
        if self._ran.missing:
            raise self._unavailable(f"there is no {self._ran.missing[0]}")
        self.rewritten = tuple(path for path in self._ran.written if path not in self._habits)
        return verdict, tree

    def _run_of(self, title: str, words: str) -> AbstractContextManager[spans.Span]:
        return spans.span("validator", title, words=words)

    def _tell(self, step: spans.Span, verdict: Verdict) -> None:
        """Say in a step what the validator has said."""
        step.outcome = spans.DONE if verdict.passed else spans.FAILED
        step.details |= {"reason": verdict.reason, "it wrote": ", ".join(self._ran.written)}
        step.files["Log"] = f"rlm/validator-{self.label}.log"

    def _lacks_new_tests(self, tree: str) -> bool:
        """Whether the last verdict fails for want of tests alone: no old one has failed, ever."""
        ran = self._ran
        if not (ran.outcomes.tests or ran.reported) and self._validator:
            old = filter(test_file_names.is_file, self._space.entries(self._base))
            names = tuple(sorted(filter(self.protection.is_of_tests, old))[:_OLD])
            argv = narrowed_in(self._validator.command, names, self._context.commands.root)
            if not names or argv is None:
                return False
            ran = self._runs.in_fresh(f"validator-old-tests-{self.iteration}", argv, tree)
        test_outcomes = (*self._first.outcomes.tests, *ran.outcomes.tests)
        is_known = bool(ran.outcomes.tests) or ran.reported
        return is_known and all(outcome.state != outcomes.FAILED for outcome in test_outcomes)

    def _require_read(self, tree: str) -> None:
        """Raise UnavailableError if the validator passes as well with the changed files broken."""
        entries, tests = self._space.entries(tree), self._ran.outcomes
        paths = [
            path
            for path in differing(self._space.entries(self._base), entries)
            if path in entries
            and entries[path].is_file
            and path not in tests.test_files
            and not self.protection.is_of_tests(path)
        ]
        contents = self._space.contents(entries[path].oid for path in paths)
        by_path = {
            path: content
            for path, content in zip(paths, contents, strict=True)
            if content is not None
        }
        # What breaks every reader is seen by a linter, too: where tests ran, one of them must fail.
        runs_tests = bool(tests.tests or self.collected)
        for name, plant in (("raises", raising), ("broken", unreadable)):
            planted = plant(by_path)
            if not planted:
                continue
            title = "does it read the copy?"
            with self._run_of(title, f"iteration {self.iteration}: {title}"):
                passes = self._passes(
                    f"planted-{name}-{self.iteration}", self._space.edited(tree, planted)
                )
            if not passes:
                return
            if runs_tests or name == "broken":
                raise self._unread(sorted(planted))

    def _passes(self, step: str, tree: str) -> bool:
        """Whether the validator passes on ``tree``; where it cannot start, it does not."""
        if self._validator is None:
            raise AssertionError("nothing validates")

        def run(argv: tuple[str, ...]) -> StreamResult:
            return self._runs.in_fresh(f"validator-{step}", argv, tree).ended

        try:
            return self._validator.judge(run).passed
        except UnavailableError:
            return False

    def _unread(self, paths: list[str]) -> UnavailableError:
        return UnavailableError(
            f"the validator does not see the copy: it passes with {first_of(paths, 'file')} broken,"
            " so it tests your work tree, or nothing of the change",
            where=self._shown_command(),
            hint="use a sandbox (rlm-ci doctor), or a validator that loads the copy, such as"
            ' "PYTHONPATH=src python -m pytest"; a change that no test loads needs a test',
        )

    def _judged(self, verdict: Verdict) -> ValidationResult:
        printed = self._ran.ended.output
        return ValidationResult(
            verdict.passed,
            verdict.feedback,
            verdict.findings,
            verdict.reason,
            failures=verdict.feedback if printed.head or printed.tail else "",
        )

    def lost(self) -> tuple[str, ...]:
        """The tests of the first run that are missing in the last one, in words."""
        return (
            ()
            if self._allow_test_edits
            else outcomes.lost(self._first.outcomes, self._ran.outcomes)
        )

    def fresh(self) -> str:
        """The tree of the last verdict: the result, with what decides as it was."""
        allowed = self._allow_test_edits

        def is_old(path: str) -> bool:
            if (
                path not in start
                and self._with_new
                and not self.protection.leaves_out(path, new=True)
            ):
                return False
            is_added = path in self._added and not allowed
            return is_added or self.protection.is_protected(path, allow_test_edits=allowed)

        start = self._space.entries(self._base)
        tree = self._space.restored(self._space.settled_tree(), self._base, is_old)
        return tree if allowed else self._with_old(tree, edited=self._with_new)

    def _with_old(self, tree: str, *, edited: bool) -> str:
        """``tree`` with the old tests that lie beside code; with ``edited`` new ones stay, too."""
        old = inline_tests.old(self._space, self._base, tree, edited=edited)
        allowed = self.protection.allowed
        protected = {path: content for path, content in old.items() if path not in allowed}
        return self._space.edited(tree, protected)

    def result(self, tree: str) -> str:
        """``tree`` without edits of old tests, unless the goal allows these."""
        if self._allow_test_edits:
            return tree
        old = self._space.entries(self._base)

        def is_edit(path: str) -> bool:
            return self.protection.leaves_out(path, new=path not in old)

        return self._with_old(self._space.restored(tree, self._base, is_edit), edited=True)

    def _unavailable(self, what: str) -> UnavailableError:
        """The fresh tree lacks what the validator is started with: no agent can fix that."""
        return UnavailableError(
            f"the validator cannot be started in a fresh copy, without what git ignores: {what}",
            where=self._shown_command(),
            hint=self._prepared or "set loop.setup to a command that installs it there",
        )

    def _shown_command(self) -> str:
        command = self._validator.command.text if self._validator else ""
        return printable(self._context.redactor.text(command)[:_SAID])

    def _in_fresh(self) -> str:
        if self._undone:
            return f"{_FAILS}, and {self._context.redactor.text(self._undone)}"
        return f"{_FAILS} ({self._prepared or 'loop.setup can install what it needs there'})"

    def last_lines(self) -> tuple[str, ...]:
        """The last lines of the last run."""
        lines = transcribe(self._ran.ended.output, self._context.redactor.text).lines
        return validation.last_lines(lines)

    def next_step(self, name: str) -> str:
        """Where in the run the agent asks for something: its own for each time."""
        self._asked[name] += 1
        return f"iteration-{self.iteration}/{name}-{self._asked[name]}"

    def tests(self, names: tuple[str, ...]) -> str:
        """What the validator says of some tests, asked for by the agent."""
        validator = self._validator
        if validator is None:
            return "there is no validator"
        argv: tuple[str, ...] | None = validator.command.argv
        if names:
            argv = narrowed_in(validator.command, names, self._context.commands.root)
        if argv is None:
            return workspace_services.UNKNOWN_RUNNER
        ran = self._runs.in_copy("tests", self.next_step("tests"), argv, self._space.tree())
        return workspace_services.judged(validator, ran.ended, is_selection=bool(names)).text

    def _validate(self, label: str, step: str = "", *, fresh: str = "") -> Verdict:
        """Run the validator, in a fresh copy of the tree ``fresh`` where one is given."""
        validator = self._validator
        if validator is None:
            raise AssertionError("nothing validates")
        self.label, self.is_last = label, bool(fresh)
        log = self._context.path_of("rlm", f"validator-{label}.log")
        step = f"validator-{step or label}"

        def run(argv: tuple[str, ...]) -> StreamResult:
            if fresh:
                self._ran, self._hidden = self._last(step, argv, fresh)
            else:
                first = not self.iteration
                require = {"require": partial(self._require_started, log)} if first else {}
                tree = self._space.settled_tree()
                self._ran = self._runs.in_copy(
                    "validator", step, argv, tree, first=first, **require
                )
            self.collected = test_reports.parse(self._ran.ended.output.text())
            self._tell_setup()
            return self._ran.ended

        where = (lambda: f"it {self._in_fresh()}") if fresh else str
        self.verdict = validator.judge(run, log, where, self._failed)
        return self.verdict

    def _require_started(self, log: str, ended: StreamResult) -> None:
        """Raise NotStartedError where no edit can help, with the place of the log."""
        validator, options = self._validator, self._context.options
        if validator is None:
            return
        text = validation.log(ended, validator.command, self._context.redactor.text)
        files.write(log, text, 0o600)
        try:
            validator.require_started(
                ended, may_edit=options.allow_test_edits or bool(options.allow)
            )
        except validation.NotStartedError as error:
            raise error.logged(self._context.shown("rlm", os.path.basename(log))) from None

    def _last(
        self, step: str, argv: tuple[str, ...], tree: str
    ) -> tuple[ValidatorRun, ValidatorRun | None]:
        """The run that decides, and one without pytest's variables if only that fails.

        If that passes, it decides: the copy has passed with the variables already.
        """
        if not self._first.outcomes.test_files:
            return self._runs.in_fresh(step, argv, tree), None
        hidden = self._runs.in_fresh(step, argv, tree, hide=True)
        failed = any(test.state == outcomes.FAILED for test in hidden.outcomes.tests)
        if not (hidden.ended.returncode or hidden.ended.reason or failed):
            return hidden, None
        return self._runs.in_fresh(f"{step}-with-variables", argv, tree), hidden

    def _failed(self) -> str:
        """A test that our plugin saw fail; "" for none."""
        tests = self._ran.outcomes.tests if self._ran.reported else ()
        failed = (test for test in tests if test.state == outcomes.FAILED)
        return next((f"{outcome.location} {outcome.name}".strip() for outcome in failed), "")

    def _tell_setup(self) -> None:
        """Keep what the setup of a fresh tree printed, if it had one."""
        setup, ended, name = self._runs.setup, self._runs.prepared, f"setup-{self.label}.log"
        if setup is None or ended is None:
            return
        text = validation.log(ended, setup, self._context.redactor.text)
        files.write(self._context.path_of("rlm", name), text, 0o600)
        self._prepared = f"loop.setup did not help; what it printed is in rlm/{name}"

    def probe(self) -> tuple[Finding, ...]:
        """Whether the tests that have just passed can still fail."""
        if self._validator is None:
            return ()
        tree, landed = self.fresh(), self.result(self._space.settled_tree())
        if self._probed[0] == (tree, landed):  # no turn has changed anything since
            return self._probed[1]
        argv, run_name = self._validator.command.argv, f"canary-{self.iteration}"
        probing = ChangedTestRuns(self._context, self._runs, argv, run_name)
        words = f"iteration {self.iteration}: canary, tests that must fail"
        with spans.span("canary", "canary: changed tests, which must fail", words=words) as step:
            findings, self.canary, texts = probing.probe(
                tree, landed, self._first, self._ran, self._hidden
            )
            step.details["found"] = self.canary
            step.outcome = spans.FAILED if findings else spans.DONE
        if not any(finding.severity >= Severity.HIGH for finding in findings):
            run_name = f"iteration-{self.iteration}"
            blind = BlindedRuns(self._context, self._runs, self._validator, run_name, probing.left)
            decisions = blind.decide(tree, self._first, was_green=self._passed_first)
            self._decided = self._space.settled_tree(), decisions
        findings += self._decisive(tree)
        if self.canary.startswith(NOT_PROBED) and not self._allow_test_edits:
            findings += guard.unprobed(self._space, landed, self.protection)
        self._probed = (tree, landed), findings
        for path, text in texts.items():  # worth a look
            file = self._context.path_of("rlm", run_name, _flat(path))
            files.write(file, text.encode("utf-8", "surrogateescape"), 0o600)
        return findings

    def decided(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """The findings for the result, with what runs have said of them."""
        tree, decisions = self._decided
        verdicts = decisions if tree == self._space.settled_tree() else []

        def judged(finding: Finding) -> Finding:
            for verdict in verdicts:
                if verdict.is_of(finding):
                    return guard.decided(finding, verdict.severity, verdict.message)
            return finding

        return tuple(map(judged, findings))

    def _decisive(self, tree: str) -> tuple[Finding, ...]:
        """Findings for edits of what is no source, with which put back the validator fails."""
        start = self._space.entries(self._base)
        edits = differing(start, self._space.entries(tree))
        if self._with_new:
            new = [
                path for path in edits if path not in start and self.protection.is_of_tests(path)
            ]
            return (guard.decisive(self._space, tree, new or sorted(edits)),)
        paths = [
            path
            for path in sorted(edits)
            if is_data(path)
            and path not in self.protection.allowed
            and not self.protection.is_of_tests(path)
        ]
        if not paths or self._passes_without(paths, tree, "all"):
            return ()
        alone = [
            path
            for number, path in enumerate(paths[:_ALONE])
            if len(paths) > 1 and not self._passes_without([path], tree, str(number))
        ]
        groups = [[path] for path in alone] or [paths]
        return tuple(guard.decisive(self._space, tree, group) for group in groups)

    def _passes_without(self, paths: list[str], tree: str, name: str) -> bool:
        """Whether the validator passes with these files as they were at the start."""
        tree = self._space.restored(tree, self._base, set(paths).__contains__)
        if tree == self._base and not self._passed_first:
            return False
        title = f"without {first_of(paths, 'file')}"
        with self._run_of(title, f"iteration {self.iteration}: {title}"):
            return self._passes(f"without-{name}-{self.iteration}", tree)

    def plain(self) -> tuple[Finding, ...]:
        """Whether the result holds as the user runs the validator."""
        if self._validator is None:
            return ()
        tree, landed = self.fresh(), self.result(self._space.settled_tree())
        if self._plain[0] != (tree, landed):
            run = PlainRun(self._context, self._runs, self._validator, self.iteration)
            findings = run.judged(landed, tree, self._base, self._first.outcomes)
            self._plain, self.plain_run = ((tree, landed), findings), run.line
        return self._plain[1]


def _put_back(
    result: Mapping[str, TreeEntry], fresh: Mapping[str, TreeEntry], protection: Protection
) -> str:
    """Which edits of the agent the fresh tree lacks, in words; a new test does not count."""
    paths = [
        path
        for path in differing(result, fresh)
        if path in fresh or protection.is_protected(path, allow_test_edits=False)
    ]
    if not paths:
        return ""
    kind = protection.kind_of(paths[0])
    option = shlex.join(["--allow-edit", printable(paths[0])])
    way = f"{option} keeps the edit" if len(paths) == 1 else "--allow-edit PATH keeps one"
    if not kind:
        return f"the tests in {first_of(paths, 'file')} as before ({way})"
    return f"{first_of(paths, 'file')} as before ({by_name.NAMES[kind]}; {way})"


def _flat(path: str) -> str:
    """A path as the name of one file."""
    name = path.replace("/", "__")
    raw = os.fsencode(name)
    if len(raw) <= _LONGEST:
        return name
    return f"{sha256(raw).hexdigest()[:12]}-{os.fsdecode(raw[-_LONGEST:])}"
