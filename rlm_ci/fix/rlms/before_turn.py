"""The analyses of a run. Before a role's turn: decide on one, carry it out, offer its answer.

``rlm-ci rlm --dry-run``: the decisions of the first iteration, with what was measured.
"""

from __future__ import annotations

import json
import os
from contextlib import closing
from hashlib import sha256
from tempfile import TemporaryDirectory

from rlm_ci.console.messages import warn
from rlm_ci.environments.repl.host.options import RunFiles
from rlm_ci.environments.repl.pool import Sessions
from rlm_ci.errors import ConfigError, DamagedError, RlmCiError
from rlm_ci.fix.rlms import results
from rlm_ci.fix.rlms.analysis import Analysis, AnalysisContext, AnalysisTask
from rlm_ci.fix.rlms.results import FOLDER, ResultFiles, RoleContext, figures_of
from rlm_ci.fix.rlms.trigger import (
    ALL,
    CHANGED,
    RELEVANT,
    SWITCHES,
    Decision,
    Requests,
    RlmsOptions,
    context_files,
    decide,
    measure,
)
from rlm_ci.fix.roles import AnalysisNote, RoleBrief, spoken
from rlm_ci.judge.options import models_of
from rlm_ci.models.gateway import require_endpoint
from rlm_ci.pipelines import load
from rlm_ci.resources import loader
from rlm_ci.runs import archive
from rlm_ci.runs.journal import spans
from rlm_ci.system import files
from rlm_ci.text.printable import count
from rlm_ci.values import Value
from rlm_ci.workspace import snapshot
from rlm_ci.workspace.snapshot import PrivateGit
from rlm_ci.workspace.tree_diff import differing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from typing import Any

    from rlm_ci.fix.options import FixContext, FixOptions
    from rlm_ci.fix.rlms.trigger import ContextFigures
    from rlm_ci.models.gateway import Gateway
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.attempt import PipelineJob
    from rlm_ci.runs.run import Run


#: The kinds of the facts.
DECISION, ANALYSIS = "decision", "analysis"
_EMPTY = "empty_context"
_INSTEAD = "to end the run instead, set loop.rlms.policy.fail_mode to fail_role"
_TEMPLATE = "prompts/analysis.md.j2"
#: Bytes of a file that an analysis leaves.
_LIMIT = 1 << 30
#: What each role needs, by its switch.
_NEEDS = {
    "planner": "It writes a plan. Find the causes, every place that has to change, and what else "
    "depends on these places.",
    "implementer": "It edits. Find the code that has to change, the code that calls it, and the "
    "conventions that an edit must keep.",
    "tester": "It runs tests and commands, and changes nothing. Find the tests of the code that "
    "matters, cases that no test has, and how the behaviour can be observed.",
    "reviewer": "It reads the change. Find what the change can break, callers that it forgot, and "
    "cases that it handles wrongly.",
}


def question(role: str, switch: str, brief: RoleBrief, options: RlmsOptions) -> str:
    """What an analysis is asked for the role with this ``switch``."""
    return loader.load_template(_TEMPLATE)(
        {
            "role": spoken(role),
            "needs": _NEEDS[switch],
            "brief": brief.to_dict(),
            "limits": options,
            "must_cite": options.require_citations,
        }
    )


class AnalysisFailedError(RlmCiError):
    """An analysis failed whose role must not go on without it: the run ends as ``failed``."""


class Analyses:
    """The analyses of a run. ``before_turn`` is for ``Roles``; ``failed`` are those that failed."""

    def __init__(
        self,
        shared: AnalysisContext,
        run: Run,
        requests: Requests,
        *,
        options: FixOptions,
        original: str | None,
    ) -> None:
        """``original`` is the folder of the run that is replayed."""
        self._all = shared
        self._run = run
        self._requests = requests
        self._goal = options.goal
        self._mark = options.mark
        self._switches = SWITCHES[options.roles]
        self._original = original
        self._files = ResultFiles(self._write, run.id)
        #: The figures of blobs, by their ids.
        self._measured: dict[str, tuple[int, int, int]] = {}
        self.failed: list[str] = []

    def before_turn(self, role: str, brief: RoleBrief, text: str) -> AnalysisNote | None:
        """The analysis for a role's turn, if there is one.

        Raises AnalysisFailedError, if a failure is to end the run; StorageError, DamagedError.
        """
        whose = RoleContext(self._run.id, role, brief.iteration)
        tree = self._all.workspace.tree()
        paths = self._paths(tree, brief)
        requested = self._requests.is_requested(text)
        decision = self._decide(whose, tree, paths, requested=requested)
        if not decision.run or not decision.figures.files:
            reason = decision.reason if not decision.run else _EMPTY
            self._files.skip(whose, decision, reason)
            return None
        folder = f"{FOLDER}/{whose.name}"
        task = AnalysisTask(folder, self._analysis_goal(role, brief), tree, tuple(paths))
        title = f"analysis for the {spoken(whose.role)}"
        words = f"iteration {whose.iteration}: {title}"
        with spans.span("analysis", title, words=words) as step:
            result = self._result(whose, decision, task, requested=requested)
            name = self._files.add(whose, decision, result)
            step.outcome = spans.DONE if result["ok"] else spans.FAILED
            step.files["Summary"] = f"{FOLDER}/{whose.name}.md"
        if not result["ok"]:
            self._fail(whose, result)
        return AnalysisNote(name, results.as_markdown(result)) if result["ok"] else None

    def keyword(self, role: str) -> str:
        """The word by which a role asks for an analysis before its next turn; "" if it cannot."""
        options = self._all.options
        decides = options.mode != "auto" and not (options.force_on or options.force_off)
        return options.request_keyword if decides and self._switches[role] in options.roles else ""

    # ── the decision ──

    def _paths(self, tree: str, brief: RoleBrief) -> list[str]:
        copy = self._all.workspace
        entries = copy.entries(tree)
        changed = differing(copy.entries(copy.snapshot.tree), entries)
        return context_files(entries, changed, brief, self._all.options.context)

    def _decide(
        self, whose: RoleContext, tree: str, paths: list[str], *, requested: bool
    ) -> Decision:
        """The decision, which is a fact so that its events come once."""
        copy, options = self._all.workspace, self._all.options

        def sizes(oids: list[str]) -> list[int]:
            sizes = copy.sizes(oids)
            return [sizes[oid] for oid in oids]

        figures = measure(paths, copy.entries(tree), sizes, copy.contents, self._measured)
        switch = self._switches[whose.role]
        decided = decide(options, switch, figures, requested=requested)

        def produce() -> Mapping[str, Any]:
            run, reason = decided.run, decided.reason
            details = {"decision": "run" if run else "skip", "reason": reason, "mode": options.mode}
            more = {"request_detected": requested, "figures": results.figures_of(figures)}
            self._event(whose, "rlms_decision", **details, **more)
            if not run or not figures.files:
                self._event(whose, "rlms_skipped", reason=reason if not run else _EMPTY)
            return {"run": run, "reason": reason}

        key = {"figures": results.figures_of(figures), "requested": requested}
        self._all.record.fact(DECISION, f"{FOLDER}/{whose.name}", key, produce)
        return decided

    def _event(self, whose: RoleContext, name: str, **more: Any) -> None:
        self._run.event(name, {"role": whose.role, "iteration": whose.iteration, **more})

    # ── the analysis ──

    def _analysis_goal(self, role: str, brief: RoleBrief) -> str:
        text = question(role, self._switches[role], brief, self._all.options)
        return text.replace(f" {self._mark}", "").replace(self._mark, "")  # it is in a fence here

    def _result(
        self, whose: RoleContext, decision: Decision, task: AnalysisTask, *, requested: bool
    ) -> Mapping[str, Any]:
        """The result: a fact. Raises DamagedError for a record with something else."""
        key = {"question": task.question, "tree": task.tree}
        task = self._attempt(task, key)
        is_fresh = False

        def produce() -> Mapping[str, Any]:
            nonlocal is_fresh
            is_fresh = True
            self._event(whose, "rlms_start", reason=decision.reason)
            result = results.result(
                whose, decision, self._all.options, task, Analysis(self._all, task).run(),
                requested=requested, goal=self._goal, model=self._all.gateway.model,
                sandbox=self._all.sandbox,
            )  # fmt: skip
            self._tell_end(whose, result)
            return {"result": result, "files": self._file_digests(task.folder)}

        fact = self._all.record.fact(ANALYSIS, task.folder, key, produce)
        result: Mapping[str, Any] = fact["result"]
        if not is_fresh:
            self._restore(task.folder, fact)
            if wrong := loader.misfit(result, results.SCHEMA):
                raise _damaged(task.folder, wrong)
        return result

    def _attempt(self, task: AnalysisTask, key: Mapping[str, Any]) -> AnalysisTask:
        """The task in a new folder, if it ended the run before, which goes on now."""
        analysis_task, number = task, 1
        while self._all.options.fails_role:
            earlier = self._all.record.find(ANALYSIS, analysis_task.folder, key)
            number += 1
            following = task.replace(folder=f"{task.folder}-attempt-{number}")
            if earlier is None or earlier["result"]["ok"]:
                break
            is_last = self._all.record.find(ANALYSIS, following.folder, key) is None
            if self._original and is_last:
                break
            analysis_task = following
        return analysis_task

    def _tell_end(self, whose: RoleContext, row: Mapping[str, Any]) -> None:
        if row["ok"]:
            self._event(whose, "rlms_end", metrics=row["metrics"], citations=len(row["citations"]))
            return
        error = self._all.redactor.text(row["error"])
        self._event(whose, "rlms_failed", error_code=row["error_code"], error=error)
        if not self._all.options.fails_role:
            warn(
                ConfigError(
                    f"the {spoken(whose.role)} goes on without an analysis: {error}",
                    where=f"iteration {whose.iteration}, {row['error_code']}",
                    hint="" if self.failed else _INSTEAD,
                )
            )

    def _fail(self, whose: RoleContext, row: Mapping[str, Any]) -> None:
        where = f"{spoken(whose.role)} in iteration {whose.iteration}"
        self.failed.append(f"{where}: {row['error_code']}")
        if self._all.options.fails_role:
            raise AnalysisFailedError(
                f"the analysis for the {where} failed: {row['error']}",
                where=str(row["error_code"]),
                hint="rlm-ci resume tries it again",
            )

    # ── its files ──

    def _write(self, name: str, data: bytes) -> None:
        files.write(self._run.path_of(*name.split("/")), data, 0o600)

    def _file_digests(self, folder: str) -> dict[str, str]:
        """The files that an analysis leaves, with their digests; its variables are removed."""
        run = RunFiles(self._run.path)
        digests = {}
        is_there = os.path.isdir(os.path.join(self._run.path, *folder.split("/")))
        for name in list(archive.names(self._run.path, f"{folder}/")) if is_there else ():
            if name.endswith("/state"):  # of an analysis that an error ended
                run.remove(name)
                continue
            data = files.read_inside(self._run.path, name, _LIMIT)
            digests[name] = sha256(data).hexdigest()
        return digests

    def _restore(self, folder: str, record: Mapping[str, Any]) -> None:
        """Copy the files of an analysis that a replay does not carry out."""
        run = RunFiles(self._run.path, self._original)
        for name, digest in record["files"].items():
            if not str(name).startswith(f"{folder}/"):
                raise _damaged(folder, "it names a file that is not of the analysis")
            run.restore(name, digest)


def _damaged(step: str, what: str) -> DamagedError:
    hint = "restore calls.jsonl from a copy, or start a new run"
    return DamagedError(f"the record of an analysis is damaged: {what}", where=step, hint=hint)


def agreed(job: PipelineJob, sandbox: str) -> dict[str, Any]:
    """What the options of a new run say of analyses; they need a model and ``sandbox``.

    Raises ConfigError, UnavailableError.
    """
    settings, repository = job.settings, job.repository
    options = RlmsOptions.of(settings.values, settings.sources)
    if not options.enabled or job.settings.loop.agent == "autofix":  # which reads no prompt
        return {}
    require_endpoint(models_of(settings), "set one of them, or leave out loop.rlms.enabled")
    with closing(Sessions(sandbox, settings.environ, replay=False)) as sessions:
        sessions.pool()  # it is found out before anything is paid
    changes = load.changes_of(settings, repository)
    labels = [
        name for change in changes if change.pull_request for name in change.pull_request.labels
    ]
    requests = Requests.of(options.request_keyword, repository, labels).standing
    return {"rlms": {**options.to_dict(), "roles": list(options.roles)}, "asked": requests}


def analyses_of(
    job: PipelineJob,
    run: Run,
    record: Record,
    context: FixContext,
    gateway: Gateway | None,
) -> Analyses | None:
    """What carries out the analyses of a run; None if it has none."""
    fix_options, options = context.options, context.options.analyses
    if options is None or gateway is None:
        return None
    shared = AnalysisContext(
        options,
        gateway,
        fix_options.max_completion_tokens,
        fix_options.max_minutes,
        record,
        context.clock,
        context.redactor,
        context.commands.workspace,
        fix_options.sandbox,
        job.settings.environ,
        run.path,
        context.on_step,
        fix_options.context_tokens,
    )
    return Analyses(
        shared,
        run,
        Requests(options.request_keyword, standing=fix_options.asked),
        options=fix_options,
        original=os.path.dirname(job.replay) if job.replay else None,
    )


class Decisions(Value):
    """The decision for each role; ``setting`` is what differs from the settings of the run."""

    roles: Mapping[str, Decision]
    setting: str = ""

    @property
    def figures(self) -> ContextFigures:
        """Those of the context, which are the same for all."""
        return next(iter(self.roles.values())).figures


def decisions(job: PipelineJob, goal: str, labels: Collection[str]) -> list[Decisions]:
    """The decisions of ``job``, whose settings are complete, then those of other settings.

    Of other settings, those are told that change something. Raises ConfigError for settings that
    cannot work, or a work tree that cannot be read.
    """
    options = RlmsOptions.of(job.settings.values, job.settings.sources)
    requested = Requests.of(options.request_keyword, job.repository, labels).is_requested("")
    figures = _measured(job, goal)

    def decided(options: RlmsOptions, setting: str = "") -> Decisions:
        roles = {
            role: decide(options, switch, figures[options.context], requested=requested)
            for role, switch in SWITCHES[job.settings.loop.roles].items()
        }
        return Decisions(roles, setting)

    others: list[tuple[str, Any, str]] = [
        ("enabled", True, "true"),
        ("policy.force_on", True, "true"),
    ]
    others += [("context", figure, f'"{figure}"') for figure in figures]
    variants = [decided(options)]
    needed = ""
    for name, value, written in others:
        other = options.replace(**{"enabled": True, name.rpartition(".")[2]: value})
        variant = decided(other, f"{needed}loop.rlms.{name} = {written}")
        if all(variant.roles != other.roles for other in variants):
            variants.append(variant)
        needed = "" if options.enabled else "loop.rlms.enabled = true and "
    return variants


def _measured(job: PipelineJob, goal: str) -> dict[str, ContextFigures]:
    """The figures of the snapshot that a run would take, by the setting: nothing has changed."""
    with TemporaryDirectory(prefix="rlm-ci-") as folder:
        private = PrivateGit(os.path.join(folder, "git"), job.settings.environ)
        taken = snapshot.take(private, job.repository, snapshot.SnapshotLimits(), job.skipped)
        git = private.objects
        entries = git.tree(taken.tree)
        figures: dict[str, tuple[int, int, int]] = {}
        brief = RoleBrief(goal, 1)
        return {
            mode: measure(
                context_files(entries, (), brief, mode), entries, git.sizes,
                lambda oids: git.read(*oids), figures,
            )
            for mode in (RELEVANT, CHANGED, ALL)
        }  # fmt: skip


def as_json(decisions: Sequence[Decisions]) -> str:
    base, *others = decisions
    more = [{"setting": other.setting, "decisions": _rows(other)} for other in others]
    return json.dumps({"decisions": _rows(base), "with": more}, indent=2) + "\n"


def _rows(decisions: Decisions) -> list[dict[str, Any]]:
    return [
        {
            "role": role,
            "iteration": 1,
            "decision": "run" if decision.run else "skip",
            "reason": decision.reason,
            "figures": figures_of(decision.figures),
        }
        for role, decision in decisions.roles.items()
    ]


def as_text(decisions: Sequence[Decisions]) -> str:
    """A line for the context and for each role, then one for each other setting."""
    base, *others = decisions
    rows = [f"Context: {_size(base.figures)}"]
    rows += [f"{role}: {_as_words(decision)}" for role, decision in base.roles.items()]
    for other in others:
        changed: dict[str, list[str]] = {}
        for role, decision in other.roles.items():
            if decision.run != base.roles[role].run:
                changed.setdefault(_as_words(decision), []).append(role)
        clauses = [f"{', '.join(roles)}: {how}" for how, roles in changed.items()]
        clauses = clauses or ["the same roles"]
        if other.figures != base.figures:
            clauses.insert(0, _size(other.figures))
        rows.append(f"With {other.setting}: {'; '.join(clauses)}")
    return "\n".join(rows) + "\n"


def _as_words(decision: Decision) -> str:
    return f"{'run' if decision.run else 'skip'} ({decision.reason})"


def _size(figures: ContextFigures) -> str:
    return (
        f"{count(figures.files, 'file')}, {count(figures.lines, 'line')}, about"
        f" {count(figures.estimated_tokens, 'token')}"
    )
