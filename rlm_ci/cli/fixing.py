"""A fix loop, put together from its systems: what ``rlm``, ``resume`` and ``replay`` share."""

from __future__ import annotations

import os
import secrets

from rlm_ci import files, publishing, sandbox
from rlm_ci.cli import output
from rlm_ci.cli.crew import Agreed, Crew, Sealed
from rlm_ci.cli.progress import duration
from rlm_ci.errors import ConfigError, RlmCiError
from rlm_ci.findings import Part, Report, Severity, Subject, Usage
from rlm_ci.loop import agent as agents
from rlm_ci.loop import detection, engine, report
from rlm_ci.loop.cell import Cell, search_path
from rlm_ci.loop.command import Command, finder
from rlm_ci.loop.engine import Terms
from rlm_ci.loop.landing import Landed
from rlm_ci.loop.roles import Cast
from rlm_ci.loop.site import Clock, Plan, Site
from rlm_ci.loop.state import Final, State
from rlm_ci.loop.workspace import Workspace
from rlm_ci.models.recorded import Record
from rlm_ci.texts import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.cli.progress import Progress
    from rlm_ci.git import Repository
    from rlm_ci.loop.engine import Ended
    from rlm_ci.runs.run import Run
    from rlm_ci.sandbox.job import Sandbox
    from rlm_ci.settings import Settings

CALLS = "calls.jsonl"
PATCH = "result.patch"
#: More than any tree has files.
_ALL = 1 << 30


class Fix:
    """Carries out a fix loop in a run that is held; ``report`` is there once it has ended.

    ``skipped`` are folders that are no part of the work tree; ``ask`` puts a question to a
    person, None where nobody is there. With ``replay``, the record of another run, no command
    is run and no model asked.
    """

    def __init__(
        self,
        settings: Settings,
        repository: Repository,
        progress: Progress,
        *,
        skipped: tuple[str, ...],
        ask: Callable[[str], str] | None = None,
        replay: str | None = None,
    ) -> None:
        self.settings = settings
        self.repository = repository
        self.progress = progress
        self.skipped = skipped
        self.ask = ask
        self.replay = replay
        self.report: Report | None = None

    def __call__(self, run: Run, goal: str | None) -> tuple[int, str]:
        """The exit code, and a line about the end. Raises RlmCiError, after it is written down."""
        if not goal or not goal.strip():
            raise ConfigError("there is no goal", where="GOAL", hint='say it: rlm-ci rlm "GOAL"')
        clean = run.redactor.text
        path = self.replay or run.path_of(CALLS)
        with Record.open(path, redact=clean, replay_only=bool(self.replay)) as record:
            attempt = _Attempt(self, run, clean(goal), record)
            final, self.report = attempt.carry_out()
        for name, renderer in output.FILES:
            options = output.rendering(self.settings).replace(colour=False)
            text = publishing.render(self.report, renderer, options)
            files.write(run.path_of(name), text.encode("utf-8", "backslashreplace"), 0o600)
        if attempt.error:
            raise attempt.error
        return final.exit_code, f"{final.status}: {final.reason}"


class _Attempt:
    """One process's work on a run: its record is open, its terms are agreed on here."""

    def __init__(self, fix: Fix, run: Run, goal: str, record: Record) -> None:
        self._fix = fix
        self._run = run
        self._goal = goal
        self._record = record
        self._clock = Clock(record.fact)
        state = run.path_of("rlm", "state.json")
        self._state = State(state, _wanted(goal, fix.settings), run.redactor.text)
        self.error: RlmCiError | None = None

    def carry_out(self) -> tuple[Final, Report]:
        """How it ended, and the report of it; an error is kept in ``error``."""
        try:
            final, told = self._work()
        except RlmCiError as error:
            self.error = error
            final = Final.from_error(error)
            part = Part.from_error(report.PART, error)
            told = Report(Subject(), Severity.HIGH, (part,), usage=self._usage())
        self._state.end(final)
        return final, self._run.redactor.report(told.replace(run_id=self._run.id))

    def _usage(self) -> Usage:
        return Usage(**self._record.usage())

    def _work(self) -> tuple[Final, Report]:
        settings, run = self._fix.settings, self._run
        place: Sandbox = (
            Sealed() if self._fix.replay else sandbox.choose(settings.sandbox, settings.environ)
        )
        agreed = self._agree(place)
        self._describe(agreed)
        run.set_sandbox(agreed.sandbox)
        workspace = Workspace.create(
            run.path_of("rlm"),
            self._fix.repository,
            settings.environ,
            isolated=place.isolated,
            skipped=self._fix.skipped,
        )
        heard = self._fix.progress.heard
        cell = Cell(place, workspace, self._fix.repository.root, settings.environ, heard)
        try:
            ended = self._turn(agreed, cell)
            return ended.final, self._conclude(agreed, workspace, ended)
        finally:
            workspace.discard()

    # ── the terms ──

    def _agree(self, place: Sandbox) -> Agreed:
        """The terms of the run: those of its record, else what the settings say now."""

        def produce() -> Mapping[str, Any]:
            loop = self._fix.settings.loop
            selection = self._select(loop.validator)
            terms = Agreed(
                goal=self._goal,
                validator=selection.command.text if selection.command else None,
                reason=selection.reason,
                max_iterations=loop.max_iterations,
                max_minutes=loop.max_minutes,
                validator_minutes=loop.validator_minutes,
                setup=loop.setup,
                roles=loop.roles,
                subagents=loop.subagents,
                agent=self._agent_name(),
                model=self._fix.settings.model,
                allow_test_edits=loop.allow_test_edits,
                trust_exit_code=loop.trust_exit_code,
                sandbox=place.name,
                isolated=place.isolated,
                mark=secrets.token_hex(8),
            )
            _require_an_end(terms)
            return terms.to_dict()

        return Agreed(**self._record.fact("terms", "start", {}, produce))

    def _select(self, wanted: str) -> detection.Selection:
        """The validator; a person who is there picks another where its program is not."""
        root, ask = self._fix.repository.root, self._fix.ask
        found = detection.detect(detection.Folder(root))
        selection = detection.select(wanted, found, ask)
        find = finder(search_path(self._fix.settings.environ, root), root, root)
        while ask is not None and selection.command is not None:
            missing = [name for name in selection.command.programs if find(name) is None]
            if not missing:
                break
            picked = detection.choose(found, ask, f"{missing[0]} was not found")
            if picked is None:
                break
            selection = picked
        return selection

    def _agent_name(self) -> str:
        """The agent that was asked for; else the built-in one, if there is a model to ask."""
        settings = self._fix.settings
        if settings.loop.agent:
            agents.command_of(settings.loop.agent)
            return str(settings.loop.agent)
        if settings.openai.api_key or settings.openai.base_url:
            return "openai"
        raise ConfigError(
            "there is no model to ask: neither a key nor an address is set",
            where="OPENAI_API_KEY, OPENAI_BASE_URL",
            hint="set one of them, or use the linters' own fixes: --agent autofix",
        )

    def _describe(self, agreed: Agreed) -> None:
        self._state.describe(
            validator=agreed.validator or detection.NONE,
            validatorReason=agreed.reason,
            roles=agreed.roles,
            agent=agreed.agent,
            model=agreed.model,
            sandbox=agreed.sandbox,
            maxIterations=agreed.max_iterations or 0,
            maxMinutes=agreed.max_minutes or 0,
        )

    # ── the loop, and its end ──

    def _turn(self, agreed: Agreed, cell: Cell) -> Ended:
        terms = Terms(agreed.max_iterations, agreed.max_minutes, agreed.validator is not None)
        setup = Command.parse(agreed.setup, where="loop.setup") if agreed.setup else None
        seconds = agreed.validator_minutes * 60 or float("inf")
        redact, progress = self._run.redactor.text, self._fix.progress
        crew = Crew(
            self._fix.settings, agreed, cell, self._record, redact, replay=bool(self._fix.replay)
        )
        validator = crew.validator()

        def run_tests(names: tuple[str, ...]) -> str:
            return site.tests(names)

        cast = Cast(
            crew.agent(self._clock, run_tests if validator else None),
            cell,
            mode=agreed.roles,
            subagents=agreed.subagents,
            diff=lambda: cell.workspace.patch().decode("utf-8", "replace"),
            deadline=self._clock.deadline(terms.max_minutes),
            on_progress=lambda line: progress.heard(line.encode()),
        )
        site = Site(
            Plan(agreed.goal, terms, seconds, setup, agreed.allow_test_edits),
            cell,
            cast,
            validator,
            fact=self._record.fact,
            clock=self._clock,
            state=self._state,
            path_of=self._run.path_of,
            on_step=self._step,
        )
        progress.left = lambda: self._left(agreed)
        return engine.run(site, terms)

    def _left(self, agreed: Agreed) -> str:
        """What remains of the budgets, in words; others' calls are not ours to count."""
        settings, spent = self._fix.settings, self._record.spent
        told = []
        if agreed.max_minutes is not None:
            told.append(duration(max(0.0, agreed.max_minutes * 60 - self._clock.seconds())))
        if agreed.agent != "openai":
            return f"{told[0]} left" if told else ""
        if settings.max_calls is not None:
            told.append(count(max(0, settings.max_calls - spent.calls), "call"))
        if settings.max_tokens is not None:
            told.append(count(max(0, settings.max_tokens - spent.tokens), "token"))
        if settings.budget_usd is not None:
            told.append(f"${max(0.0, settings.budget_usd - float(spent.usd)):.2f}")
        return f"{', '.join(told)} left" if told else ""

    def _step(self, text: str) -> None:
        """Tell what begins now to whoever looks on, here or at the run's events."""
        self._fix.progress.step(text)
        self._run.event("progress", {"summary": text})

    def _conclude(self, agreed: Agreed, workspace: Workspace, ended: Ended) -> Report:
        tree = workspace.tree()
        patch = workspace.patch(tree)
        files.write(self._run.path_of("rlm", PATCH), patch, 0o600)
        status = workspace.status(workspace.snapshot.tree, tree, limit=_ALL) if patch else ""
        account = report.Account(
            agent=agreed.agent,
            roles=agreed.roles,
            sandbox=agreed.sandbox,
            isolated=agreed.isolated,
            validator=agreed.validator or "",
            iterations=self._state.iterations,
            files=len(status.splitlines()),
            landed=self._land(workspace, ended, tree) if patch else None,
            patch=f"rlm/{PATCH}" if patch else None,
        )
        head = workspace.snapshot.head  # what stood there before the loop is looked up in it
        subject = Subject(base=head, head=head, merge_base=head, worktree=True)
        return report.build(ended, account, subject, self._usage())

    def _land(self, workspace: Workspace, ended: Ended, tree: str) -> Landed | None:
        """Bring what is green into the user's own tree, if that is wanted; once."""
        settings = self._fix.settings
        wanted = not settings.ci if settings.loop.apply is None else settings.loop.apply

        def produce() -> Mapping[str, Any]:
            if not wanted or ended.final.exit_code:
                return {"wanted": False, "reason": ""}
            self._step("applying the result")
            landed = workspace.apply_to(self._fix.repository, tree)
            return {"wanted": True, "reason": landed.reason}

        told = self._record.fact("landed", "end", {"tree": tree}, produce)
        return Landed(told["reason"]) if told["wanted"] else None


def _wanted(goal: str, settings: Settings) -> dict[str, Any]:
    """The head of the state file as long as nothing is agreed on: what was asked for."""
    return {
        "goal": goal,
        "validator": settings.loop.validator,
        "validatorReason": None,
        "roles": settings.loop.roles,
        "agent": settings.loop.agent,
        "model": settings.model,
        "sandbox": settings.sandbox,
        "maxIterations": settings.loop.max_iterations or 0,
        "maxMinutes": settings.loop.max_minutes or 0,
    }


def _require_an_end(agreed: Agreed) -> None:
    """Raise ConfigError where neither a validator nor a budget would ever end the run."""
    unlimited = agreed.max_iterations is None and agreed.max_minutes is None
    if agreed.validator is None and unlimited:
        raise ConfigError(
            "without a validator, and with no limit, the run would never end",
            where="--validator none",
            hint="set --max-iterations or --max-minutes, or name a validator",
        )


def without_runs(root: str, runs: str, out: str) -> tuple[str, ...]:
    """The folders that a run itself writes to: never part of what it works on."""
    return tuple(os.path.join(root, folder) for folder in (runs, out))
