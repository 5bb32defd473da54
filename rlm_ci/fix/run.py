"""A run of the fix loop, from its options to its report; and the built-in agent's services."""

from __future__ import annotations

import os
import secrets
from functools import partial

from rlm_ci import sandbox
from rlm_ci.agents import agent as agents
from rlm_ci.agents.external import PROGRAMS, granted
from rlm_ci.console.messages import warn
from rlm_ci.environments.coding.tools import Services
from rlm_ci.environments.coding.workspace_services import WorkspaceServices, difference
from rlm_ci.errors import ConfigError, RemoteError, RlmCiError, StorageError, UnavailableError
from rlm_ci.fix import choose_validator, loop, report
from rlm_ci.fix.gates import stuck
from rlm_ci.fix.gates.gates import gates_of
from rlm_ci.fix.gates.options import agreed_gates
from rlm_ci.fix.loop import FixEnd, ValidationResult
from rlm_ci.fix.options import FixContext, FixOptions
from rlm_ci.fix.participants import AgentOptions, RecordedAgent, agent_of, validator_of
from rlm_ci.fix.rlms.before_turn import AnalysisFailedError, agreed, analyses_of
from rlm_ci.fix.roles import Handover, Roles
from rlm_ci.fix.steps import NOTHING_SAID, FixSteps
from rlm_ci.fix.verdict.verdict import ResultJudge
from rlm_ci.guard import rules, secret_in_diff
from rlm_ci.judge.options import models_of
from rlm_ci.models.gateway import provider_of, require_endpoint
from rlm_ci.pipelines import attempt
from rlm_ci.pipelines.agreed_context import agreed_context
from rlm_ci.pipelines.attempt import Attempt
from rlm_ci.pipelines.stored_runs import resume_with
from rlm_ci.report.findings import Report, Subject, Usage
from rlm_ci.runs.journal import spans
from rlm_ci.runs.manifest import BUDGETS
from rlm_ci.runs.state import BLOCKED, FAILED, NO_CHANGE, PAUSED, FinalState
from rlm_ci.system import files
from rlm_ci.text.printable import count, first_of, printable
from rlm_ci.validators import detect
from rlm_ci.validators.validator import NotStartedError
from rlm_ci.workspace import apply, git_filters
from rlm_ci.workspace.dependencies.beside import doubts
from rlm_ci.workspace.sandboxed_commands import ReplaySandbox, SandboxedCommands, withheld
from rlm_ci.workspace.stored_trees import PATCH
from rlm_ci.workspace.tree_diff import differing
from rlm_ci.workspace.workspace import Workspace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.config.settings import Settings
    from rlm_ci.fix.gates.gates import MakeGate
    from rlm_ci.fix.rlms.before_turn import Analyses
    from rlm_ci.git.repository import Repository
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.attempt import Mode, PipelineJob
    from rlm_ci.runs.run import Run
    from rlm_ci.sandbox.job import Sandbox
    from rlm_ci.workspace.tree_diff import Sides


def services_of(context: FixContext, judge: ResultJudge, repository: Repository) -> Services:
    """The services that the options of the run allow."""
    seconds = context.options.command_seconds
    copy = WorkspaceServices(
        context.commands,
        context.fact,
        context.redactor,
        path_of=judge.next_step,
        seconds=lambda: context.seconds_left(seconds),
    )
    has_commits = context.commands.workspace.snapshot.head
    return Services(
        tests=judge.tests if context.validator else None,
        run=copy.run if seconds else None,
        diff=copy.diff,
        restore=copy.restore,
        variables=tuple(sorted(context.commands.env)),
        history=partial(copy.history, repository) if has_commits else None,
    )


#: What ends a run that goes on once its cause is fixed: with 4, 8 and 9.
_STOPS = (UnavailableError, RemoteError, StorageError)
#: Edits of tests, which are no part of the result.
TESTS = "tests.patch"
#: Tests that a summary names, and characters of each.
_NAMED, _NAME = 3, 200


class _NotAppliedError(StorageError):
    """A result that cannot be put into the work tree."""


class FixRun(Attempt):
    """Fix until green; see ``loop``. ``review`` makes the gate that asks a model."""

    detailed_ends = (*BUDGETS, NO_CHANGE, BLOCKED, PAUSED)
    paused_ends = (FAILED,)
    review: MakeGate | None = None

    def __init__(self, work: PipelineJob, run: Run, goal: str, record: Record, mode: Mode) -> None:
        super().__init__(work, run, goal, record, mode, head=_requested_options(work.settings))
        #: What the agent used of what rlm-ci does not see.
        self._used: Mapping[str, float | None] = {}
        self._analyses: Analyses | None = None

    def _solve(self) -> tuple[FinalState, Report]:
        settings, run = self._all.settings, self._run
        root = self._all.repository.root
        chosen: Sandbox = ReplaySandbox()
        if not self._all.replay:
            chosen = sandbox.choose(settings.sandbox, settings.environ)
        options = self._raised(self._agree(chosen))
        run.set_sandbox(options.sandbox, options.allowed)
        if not self._all.replay:
            _tell_undone(apply.undo_killed(root))
        workspace = Workspace(
            run.path_of("rlm"),
            self._all.repository,
            settings.environ,
            isolated=chosen.isolated,
            skipped=(*self._all.skipped, *options.gates.of_people(root)),
        )
        _tell_omitted(workspace.snapshot.omitted)
        _tell_withheld(settings)
        heard = self._all.progress.heard
        commands = SandboxedCommands(chosen, workspace, root, settings.environ, heard)
        if not self._all.replay:
            _tell_dependencies(commands, self._all.progress.say)
        try:
            options = choose_validator.tried(
                self._all, self._record, options, commands, run.redactor.text
            )
            watched = choose_validator.require_no_watch(
                options.validator or "", commands, options.reason
            )
            if watched:
                self._all.progress.say(watched)
            self._describe(options)
            steps = self._steps(options, commands)
            attempt.keep(self._record, self._all.more)
            try:
                ended = loop.run(steps, options.limits)
            except AnalysisFailedError as error:
                failed = FinalState.of(FAILED, str(error))
                ended = FixEnd(failed, ValidationResult(passed=False), steps.tampering())
            except _STOPS as error:
                return self._stopped(steps, error)
            return self._conclude(steps, ended)
        finally:
            if (doubt := workspace.discard()) is not None:
                warn(doubt)

    # ── the options ──

    def _agree(self, sandbox: Sandbox) -> FixOptions:
        """The options of the run: those of its record, else what the settings say now."""

        def produce() -> Mapping[str, Any]:
            loop = self._all.settings.loop
            allow = rules.canonical_names(loop.allow, self._all.settings.sources["loop.allow"])
            root = self._all.repository.root
            selection = choose_validator.select(
                loop.validator, self._all.repository.root, self._all.settings.environ, self._all.ask
            )
            options = self._all.settings.filled(
                FixOptions,
                "loop",
                "models",
                goal=self._goal,
                validator=selection.command.text if selection.command else None,
                reason=selection.reason,
                others=selection.others,
                agent=self._agent_name(),
                model=self._all.settings.model,
                canary_minutes=loop.canary_minutes,
                allow_no_change=loop.allow_no_change,
                forms=True,
                provider=provider_of(models_of(self._all.settings)),
                command_seconds=loop.command_seconds
                if sandbox.isolated or loop.run_without_sandbox
                else 0,
                allow=allow,
                allow_edit=tuple(_inside(root, path) for path in loop.allow_edit),
                sandbox=sandbox.name,
                isolated=sandbox.isolated,
                mark=secrets.token_hex(8),
                **agreed(self._all, sandbox.name),
            )
            who = options.agent, options.validator
            options = options.replace(
                gates=agreed_gates(self._all, *who, isolated=sandbox.isolated)
            )
            options = options.replace(agent_model=self._agent_model(options))
            choose_validator.require_an_end(options, self._all.settings.sources["loop.validator"])
            if options.asks_model and options.model:
                options = options.replace(**agreed_context(self._all, options.model).terms())
            return options.to_dict()

        return self._record.shaped("terms", "start", {}, produce, FixOptions.from_dict)

    def _raised(self, options: FixOptions) -> FixOptions:
        """The options, with the budgets that the run was given since."""
        more = self._increased()
        return options.replace(**{name: more[name] for name in options.budgets if name in more})

    def _agent_name(self) -> str:
        """The agent that was asked for; else the built-in one, if there is a model to ask."""
        settings = self._all.settings
        if settings.loop.agent:
            agents.command_of(settings.loop.agent, settings.sources["loop.agent"])
            return str(settings.loop.agent)
        way_out = "set one of them, or use the linters' own fixes: --agent autofix"
        require_endpoint(models_of(settings), way_out)
        return "openai"

    def _agent_model(self, options: FixOptions) -> str:
        """The model that an external agent is to ask: that of the command line, if only it asks.

        One that is set elsewhere is rlm-ci's own. Raises ConfigError for a command.
        """
        settings = self._all.settings
        is_ours = options.agent in ("openai", "autofix") or options.rlms or options.gates.review
        if is_ours or settings.sources["model"] != settings.rows["model"].flag:
            return ""
        if options.agent not in PROGRAMS:
            raise ConfigError(
                "nothing would ask this model: the agent is a command",
                where="--model",
                hint="name the model in the command",
            )
        return str(settings.model or "")

    def _describe(self, options: FixOptions) -> None:
        self._state.describe(
            validator=options.validator or detect.NONE,
            validatorReason=options.reason,
            roles=options.roles,
            agent=options.agent,
            model=options.model,
            sandbox=options.sandbox,
            maxIterations=options.max_iterations or 0,
            maxMinutes=options.max_minutes or 0,
        )

    # ── the loop, and its end ──

    def _steps(self, options: FixOptions, commands: SandboxedCommands) -> FixSteps:
        redactor, progress, replay = self._run.redactor, self._all.progress, self._all.replay
        find = (lambda program: program) if replay else commands.find
        context = FixContext(
            options,
            commands,
            validator_of(options, commands, redactor.text, find),
            self._record.fact,
            self._clock,
            self._run.path_of,
            self._step,
            redactor,
            self._run.shown,
        )
        judge = ResultJudge(context)
        gateway = None
        if options.asks_model:
            gateway = self._gateway_to(options.model or "", options.provider, options.max_minutes)
        self._analyses = analyses_of(self._all, self._run, self._record, context, gateway)
        handover = Handover(self._run.path_of)
        agent = agent_of(
            context,
            self._agent_options(options),
            self._record,
            find,
            services_of(context, judge, self._all.repository),
            gateway=gateway,
        )
        self._used = agent.used if isinstance(agent, RecordedAgent) else {}
        roles = Roles(
            agent,
            commands,
            mode=options.roles,
            subagents=options.subagents,
            diff=partial(difference, commands.workspace, redactor),
            handover=handover,
            redact=redactor.without_known,
            deadline=self._clock.deadline(options.max_minutes),
            on_progress=lambda line: progress.heard(f"{line}\n".encode()),
            on_failure=lambda why, answer: progress.say(
                f"{why}; its answer: {self._run.shown(answer)}"
            ),
            analyses=self._analyses,
        )
        progress.left = lambda: self._left(options.max_minutes, metered=gateway is not None)
        gates = tuple(gates_of(context, judge, find, gateway, self.review))
        return FixSteps(context, judge, roles, handover, self._state, gates=gates)

    def _agent_options(self, options: FixOptions) -> AgentOptions:
        """Raises ConfigError for a variable that the agent needs and that is not set."""
        settings = self._all.settings
        sources = settings.sources
        budgets = ("max_calls", "max_tokens", "budget_usd")
        is_external = options.agent not in ("openai", "autofix") and not self._all.replay
        is_same = settings.loop.roles == options.roles
        env: dict[str, str] = {}
        if is_external:
            names, where = settings.loop.agent_env, sources["loop.agent_env"]
            env, unset = granted(options.agent, settings.environ, names, where)
            if unset:
                note = f"{', '.join(unset)}: not set, so {options.agent} does not get it"
                self._all.progress.say(note)
        return AgentOptions(
            env,
            {name: getattr(settings, name) for name in budgets if sources[name] != "default"},
            sources["loop.roles"] if is_same else "loop.roles, when the run began",
        )

    def _usage(self) -> Usage:
        """What rlm-ci's own calls cost, and what the agent says that its own did."""
        usage, used = super()._usage(), self._used
        if not used:
            return usage
        numbers = {name: int(used[name] or 0) for name in ("prompt_tokens", "completion_tokens")}
        cost, agents_cost = usage.cost_usd, used["cost_usd"]
        total = (cost or 0) + agents_cost if agents_cost is not None else None
        more = usage.uncached_cost_usd
        return usage.replace(
            **{name: getattr(usage, name) + number for name, number in numbers.items()},
            cost_usd=None if usage.calls and cost is None else total,
            uncached_cost_usd=more and more + (agents_cost or 0),
            unknown=("calls", *(name for name in numbers if used[name] is None)),
        )

    def _stopped(self, steps: FixSteps, error: RlmCiError) -> tuple[FinalState, Report]:
        """The end by an error. Raises ``error`` if nothing was done, or it cannot be found out."""
        ended = FixEnd(FinalState.from_error(error), ValidationResult(passed=False))
        workspace = steps.context.commands.workspace
        if isinstance(error, NotStartedError):
            self._all.progress.say("The last lines that it printed:")
            for line in error.lines:
                self._all.progress.say(f"  {line}")
        try:
            if workspace.tree() == workspace.snapshot.tree and not self._state.entries:
                workspace.forget()  # what was missing may be there when the run goes on
                raise error
            return self._conclude(steps, ended.replace(tampering=steps.tampering()), error)
        except RlmCiError:
            raise error from None

    def _conclude(
        self, steps: FixSteps, ended: FixEnd, error: RlmCiError | None = None
    ) -> tuple[FinalState, Report]:
        """The end and its report; the patch is written before it is applied."""
        options, redactor = steps.context.options, self._run.redactor
        workspace = steps.context.commands.workspace
        left = workspace.tree()
        tree = steps.result(left)
        if edits := secret_in_diff.edits(workspace, tree, left, redactor):
            files.write(self._run.path_of("rlm", TESTS), edits, 0o600)
        status, patch = secret_in_diff.account(workspace, tree, ended.tampering, redactor)
        patch = secret_in_diff.headed(patch, options.allowed)
        files.write(self._run.path_of("rlm", PATCH), patch, 0o600)
        workspace.keep(tree)
        ended = report.anchored(ended, workspace.entries(tree))
        home = report.ApplyResult()
        stuck.keep(self._run.path_of, ended.final, self._state.entries, ended.judged.failures)
        # A run that goes on later has not decided yet what becomes of its result.
        goes_on = ended.final.status in (PAUSED, FAILED)
        if tree != workspace.snapshot.tree and error is None and not goes_on:
            try:
                home = self._land(workspace, ended, tree)
            except _NotAppliedError as failed:
                reason = f"{ended.final.reason}; not applied: {failed}"
                ended = ended.replace(final=FinalState.from_error(failed).replace(reason=reason))
                error = failed
        account = report.FixDetails(
            iterations=len(self._state.entries),
            files=len(_differing(workspace, workspace.snapshot.tree, tree)),
            home=home,
            patch=f"rlm/{PATCH}" if patch else None,
            canary=steps.verdicts.canary,
            plain_run=steps.verdicts.plain_run,
            tests=_edits(steps, tree, left),
            omitted=workspace.snapshot.omitted,
            last_message=_last_words(self._state.entries),
            status=redactor.without_known(status),
            turns=tuple(
                (entry["n"], turn) for entry in self._state.entries for turn in entry["turns"]
            ),
            failed=tuple(self._analyses.failed) if self._analyses else (),
            log=f"rlm/validator-{steps.verdicts.label}.log",
            printed=steps.verdicts.last_lines(),
        )
        head = workspace.snapshot.head  # old lines are read at this commit
        subject = Subject(base=head, head=head, merge_base=head, worktree=True)
        run_report = report.build(ended, options, account, subject, self._usage(), error=error)
        judged = ended.judged
        is_shown = judged.passed or error or any(finding.evidence for finding in judged.findings)
        if steps.verdicts.label and not is_shown:
            self._all.places.append(f"Output of the validator: {self._run.shown(account.log)}")
        self.error = error
        return ended.final, run_report

    def _land(self, workspace: Workspace, ended: FixEnd, tree: str) -> report.ApplyResult:
        """Apply a green result to the user's work tree, if that is wanted; once.

        Raises _NotAppliedError if the disk fails, and StorageError for the record.
        """
        settings = self._all.settings
        is_wanted = not settings.ci if settings.loop.apply is None else settings.loop.apply

        def left(reason: str, *, is_applied: bool = True) -> Mapping[str, Any]:
            return {"wanted": is_applied, "reason": reason, **self._by_hand(workspace, tree)}

        def produce() -> Mapping[str, Any]:
            if not is_wanted or ended.final.exit_code:
                return left("", is_applied=False)
            if findings := loop.blocking(ended.tampering):  # nothing validated it
                return left(f"the guard refuses it: {count(len(findings), 'finding')}")
            try:
                with spans.span("result", "apply the result", words="applying the result") as step:
                    landed = workspace.apply_to(self._all.repository, tree)
                    step.outcome = spans.DONE if landed.done else spans.FAILED
                    step.details["not applied"] = "" if landed.done else landed.reason
            except StorageError as error:
                by_hand = self._by_hand(workspace, tree)["by_hand"]
                hint = f"fix that, then {resume_with(self._run.id)}; or by hand: {by_hand}"
                raise _NotAppliedError(error.what, where=error.where, hint=hint) from None
            _tell_undone(landed.undone)
            return {"wanted": True, "reason": ""} if landed.done else left(landed.reason)

        # Once for each time that the run has ended.
        step = f"end-{self._increases + 1}" if self._increases else "end"
        try:
            landing = self._record.fact("landed", step, {"tree": tree}, produce)
        except StorageError as error:
            if not self._all.replay:
                raise
            # A replay writes no record: it is what the run itself has ended in.
            raise _NotAppliedError(error.what, where=error.where, hint=error.hint) from None
        texts = {name: str(landing.get(name, "")) for name in ("reason", "converted", "by_hand")}
        return report.ApplyResult(is_requested=bool(landing["wanted"]), **texts)

    def _by_hand(self, workspace: Workspace, tree: str) -> dict[str, str]:
        """The command that applies the patch, and the files for which git refuses it."""
        before, after = workspace.entries(workspace.snapshot.tree), workspace.entries(tree)
        filters = git_filters.filter_summary(self._all.repository, before, after)
        program = "patch -p1 <" if filters else "git apply"
        return {
            "converted": self._run.redactor.text(filters),
            "by_hand": f"{program} {self._run.shown('rlm', PATCH)}",
        }


def _edits(steps: FixSteps, result: str, left: str) -> str:
    """What became of edits to tests, in a few words; "" where there are none."""
    workspace = steps.context.commands.workspace
    if not steps.context.options.allow_test_edits:
        edited = count(len(edits := _differing(workspace, result, left)), "test file")
        return f"edits to {edited} left out, see rlm/{TESTS}" if edits else ""
    names = [
        printable(path)[:_NAME]
        for path, (old, _) in _differing(workspace, workspace.snapshot.tree, left).items()
        if old and steps.verdicts.protection.is_of_tests(path)
    ]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return f"edited tests: {', '.join(names[:_NAMED])}{more}" if names else ""


def _inside(root: str, path: str) -> str:
    """A file of the repository by its path from the top. Raises ConfigError where there is none."""
    relative = os.path.relpath(os.path.join(root, path), root)
    if relative.startswith("..") or not os.path.isfile(os.path.join(root, relative)):
        raise ConfigError(
            f"the repository has no file '{printable(path[:100])}'",
            where="--allow-edit",
            hint="name one file by its path from the top, once for each file",
        )
    return relative


def _differing(workspace: Workspace, base: str, tree: str) -> Sides:
    return differing(workspace.entries(base), workspace.entries(tree))


def _last_words(turns: Sequence[Mapping[str, Any]]) -> str:
    """What the agent said in its last turn; "" where it said nothing, or failed."""
    summary = str(turns[-1]["summary"]) if turns and not turns[-1]["agentExitCode"] else ""
    return "" if summary == NOTHING_SAID else summary


def _tell_undone(paths: Sequence[str]) -> None:
    if paths:
        warn(
            StorageError(
                "a run was killed while its result was applied: "
                f"{count(len(paths), 'file')} restored",
                where=printable(paths[0]),
                hint="to apply that result: rlm-ci resume RUN",
            )
        )


def _tell_omitted(omitted: tuple[tuple[str, str], ...]) -> None:
    """Warn of what the copy lacks: a validator that fails for want of it cannot tell."""
    alike: dict[str, list[str]] = {}
    for path, reason in omitted:
        alike.setdefault(reason, []).append(path)
    for reason, paths in alike.items():
        warn(
            ConfigError(
                f"not part of the copy: {reason}",
                where=first_of(paths, "path"),
                hint="where the validator needs it: git submodule add, then "
                "git submodule absorbgitdirs",
            )
        )


def _tell_dependencies(commands: SandboxedCommands, say: Callable[[str], None]) -> None:
    """Say what the copy lacks, or what it would take from elsewhere, before an agent is paid."""
    snapshot = commands.workspace.snapshot
    if snapshot.ignored:
        say(
            f"not part of the copy, because git ignores it: {first_of(snapshot.ignored, 'path')};"
            " loop.setup can make what the validator needs of it"
        )
    root, isolated = commands.visible_root, commands.sandbox.isolated
    for doubt in doubts(
        root, snapshot.dependencies, commands.environment, commands.reach, isolated=isolated
    ):
        warn(doubt)


def _tell_withheld(settings: Settings) -> None:
    """Warn of variables that decide what a run of the caller's own tests does, and not ours."""
    if names := withheld(settings.environ):
        warn(
            ConfigError(
                f"the validator does not get {', '.join(names)}: its result must not depend on the"
                " shell that rlm-ci is started from",
                where="environment",
                hint=f'where your tests need it, use the validator "{names[0]}=VALUE COMMAND"',
            )
        )


def _requested_options(settings: Settings) -> dict[str, Any]:
    """The first keys of the state file until the options are known: what was asked for."""
    return {
        "validator": settings.loop.validator,
        "validatorReason": None,
        "roles": settings.loop.roles,
        "agent": settings.loop.agent,
        "model": settings.model,
        "sandbox": settings.sandbox,
        "maxIterations": settings.loop.max_iterations or 0,
        "maxMinutes": settings.loop.max_minutes or 0,
    }
