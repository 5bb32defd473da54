"""One attempt at a recursion over a repository, and the job that review and wiki share."""

from __future__ import annotations

import os
from contextlib import ExitStack
from functools import partial
from itertools import count as numbers

from rlm_ci.console.messages import warn
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.judge.options import endpoint_of, models_of
from rlm_ci.models.gateway import GatewayAsk, provider_of, require_endpoint
from rlm_ci.pipelines.agreed_context import agreed_context
from rlm_ci.pipelines.attempt import RunAttempt, without_runs
from rlm_ci.pipelines.repository import plan
from rlm_ci.pipelines.repository.plan import RecursionResult, RepositoryOptions, RepositoryVerb
from rlm_ci.pipelines.repository.tree_progress import TreeWatcher
from rlm_ci.recursion import coverage
from rlm_ci.recursion.journal import run_json
from rlm_ci.recursion.journal.journal import Journals
from rlm_ci.recursion.journal.run_json import in_words
from rlm_ci.recursion.scheduler import BFS, ORDERS, Budget, Constraints
from rlm_ci.recursion.solver import RLM
from rlm_ci.recursion.tree_split import TreeShape
from rlm_ci.report.findings import NOT_RUN, Part, Report, Severity
from rlm_ci.runs.journal import spans
from rlm_ci.runs.manifest import PAUSED
from rlm_ci.system import files, installation, process
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from concurrent.futures import Executor
    from typing import Any, TypeVar

    from rlm_ci.config.settings import Settings
    from rlm_ci.console.progress import Progress
    from rlm_ci.errors import RlmCiError
    from rlm_ci.git.repository import Repository
    from rlm_ci.models import Completion, Message
    from rlm_ci.models.gateway import Gateway
    from rlm_ci.models.record.record import Record
    from rlm_ci.pipelines.repository.plan import RecursionPlan, RepositoryScope
    from rlm_ci.pipelines.stored_runs import StoredRuns
    from rlm_ci.recursion.nodes import Node, NodeResult
    from rlm_ci.runs.run import Run

    Kind = TypeVar("Kind", bound="RepositoryJob")


_PROMPT = "recursion.prompt_bytes"
#: How often a node is tried before it counts as failed, and the largest leaf: a few files that a
#: model reads in one to three prompts.
_ATTEMPTS, _LEAF = 2, TreeShape()


class RepositoryAttempt(RunAttempt):
    """One process's attempt at a recursion over a repository."""

    _all: RepositoryVerb

    def __init__(self, work: RepositoryVerb, run: Run, record: Record) -> None:
        super().__init__(work, run, record)
        #: Whether another attempt may cover what this one left out.
        self._goes_on = False

    def _failed(self, error: RlmCiError) -> Report:
        part = Part.from_error(self._all.name, error)
        level = Severity.from_label(self._all.settings.fail_level)
        return Report(plan.RepositoryScope().subject(), level, (part,), usage=self._usage())

    def ending(self) -> tuple[int, str]:
        code, summary = super().ending()
        return code, f"{self.report.verdict().replace('_', ' ')}: {summary}"

    def _work(self) -> Report:
        report = self._solve()
        if report.exit_code() and self._goes_on:
            self.detail = PAUSED
        return report

    def _solve(self) -> Report:
        work, run = self._all, self._run
        options = self._options()
        with spans.span("phase", "reading the repository", words="reading the repository"):
            corpus = work.corpus(options)
        if not corpus.files and options.scope.base is None:
            raise ConfigError(
                "there are no files to read",
                where=options.scope.under or work.repository.root,
                hint="name another folder; --worktree takes files that are not committed; "
                "recursion.exclude may be too wide",
            )
        is_empty = not corpus.files and options.model is None
        plan = None if is_empty else work.plan(run, self._record, options, corpus)
        if plan is None or not (corpus.files or plan.prompts):
            state = NOT_RUN if corpus.omitted else None
            part = Part(work.name, "the change has no file to review", state=state)
            level = Severity.from_label(work.settings.fail_level)
            done = RecursionResult(run, options, corpus, None, self._usage(), _refuse)
            return done.report(work.without(part, done), level)
        folder = os.path.dirname(run.path_of("rlm", run_json.NAME))
        outputs: list[tuple[str, str]] = []
        with ExitStack() as stack:
            store = result = None
            if plan.corpus.files or plan.prompts:
                store = stack.enter_context(Journals.open(folder, redactor=run.redactor))
                looked = f"looking at {count(len(plan.corpus.files), 'file')}"
                with spans.span("phase", looked, words=looked):
                    result = self._result(options, plan, store)
                self._goes_on = any(
                    why.partition(":")[0] in coverage.AGAIN for _, why in result.uncovered
                )
            write = self._writer(outputs)
            done = RecursionResult(run, options, corpus, result, self._usage(), write)
            with spans.span("phase", "writing the results", words="writing the results"):
                report = work.conclude(done)
                if store is not None and result is not None:
                    store.add_artifacts(result.node_id, [path for _, path in outputs])
                run_json.index(folder, outputs)
        return report

    def _writer(self, outputs: list[tuple[str, str]]) -> Callable[[str, str | Iterable[str]], str]:
        """What writes an artifact by its name, and adds its kind and path to ``outputs``."""
        work, run = self._all, self._run

        def write(name: str, text: str | Iterable[str]) -> str:
            pieces = map(run.redactor.text, (text,) if isinstance(text, str) else text)
            data = (piece.encode("utf-8", "backslashreplace") for piece in pieces)
            path = run.path_of("rlm", "artifacts", work.name, *name.split("/"))
            files.write(path, data, 0o600)
            outputs.append((work.name, f"artifacts/{work.name}/{name}"))
            return path

        return write

    def _result(
        self, options: RepositoryOptions, plan: RecursionPlan, store: Journals
    ) -> NodeResult:
        gateway = self._gateway(options)
        executor = self._executor()
        ask = None
        if gateway is not None:
            ask = partial(_NodeModel, gateway, options, self._tell)
        budget, constraints = self._budget(options, gateway), self._constraints(options)
        try:
            rlm = RLM(
                plan.corpus, store, executor=executor, ask=ask, name=self._run.id,
                prompts=plan.prompts,
            )  # fmt: skip
            return rlm.solve(rlm.root, plan.objective, budget, constraints)
        finally:
            if executor is not None:
                executor.shutdown(wait=False, cancel_futures=True)

    # ── the options ──

    def _options(self) -> RepositoryOptions:
        def produce() -> Mapping[str, Any]:
            return fitted(self._all, options_of(self._all)).to_dict()

        return self._record.shaped("terms", "start", {}, produce, RepositoryOptions.from_dict)

    def _gateway(self, options: RepositoryOptions) -> Gateway | None:
        if options.model is None:
            return None
        return self._gateway_to(options.model, options.provider, self._minutes())

    def _minutes(self) -> float | None:
        minutes = self._all.settings.recursion.max_minutes
        return self._all.more.get("max_minutes", minutes)

    def _budget(self, options: RepositoryOptions, gateway: Gateway | None) -> Budget:
        left = None if gateway is None else partial(self._calls_left, gateway)
        return Budget(
            max_depth=options.max_depth,
            minutes=None if self._all.replay else self._minutes(),
            reserve=0 if gateway is None else 1,
            calls_left=left,
        )

    def _calls_left(self, gateway: Gateway) -> int | None:
        """Asked before each node that needs a model. Raises Paused."""
        self._run.heed()
        return gateway.calls_left()

    def _constraints(self, options: RepositoryOptions) -> Constraints:
        return Constraints(
            order=options.order,
            concurrency=self._all.settings.recursion.concurrency,
            attempts=options.attempts,
            shape=TreeShape(leaf_bytes=options.leaf_bytes, leaf_files=options.leaf_files),
        )

    def _executor(self) -> Executor | None:
        cluster = address(self._all.settings).cluster
        if cluster is None or self._all.replay:
            return None
        try:
            from rlm_ci.recursion.dask_pool import DaskPool
        except ModuleNotFoundError as error:
            raise UnavailableError(
                f"a cluster needs the library {error.name}, which is not installed",
                where="recursion.scheduler",
                hint=installation.command("dask"),
            ) from None
        return DaskPool(cluster)


def options_of(work: RepositoryVerb) -> RepositoryOptions:
    """The options of a run of ``work`` that begins now."""
    settings = work.settings
    scope = work.scope()
    return settings.filled(
        RepositoryOptions,
        "recursion",
        "models",
        scope=scope,
        options=work.options(scope),
        model=_model(work, scope),
        provider=provider_of(models_of(settings)),
        order=address(settings).order,
        attempts=_ATTEMPTS,
        leaf_bytes=_LEAF.leaf_bytes,
        leaf_files=_LEAF.leaf_files,
        forms=True,
        shares=True,
    )


def fitted(work: RepositoryVerb, options: RepositoryOptions) -> RepositoryOptions:
    """``options`` with requests that the model can read; a number that is set stays."""
    if options.model is None:
        return options
    agreed = agreed_context(work, options.model)
    if work.settings.sources[_PROMPT] == "default":
        size = agreed.prompt_bytes(options.prompt_bytes)
        options = options.replace(prompt_bytes=size, largest_prompt=options.prompt_bytes)
    is_assumed = not agreed.context.is_known
    return work.fitted(options.replace(**agreed.terms(), is_assumed=is_assumed))


def _model(work: RepositoryVerb, scope: RepositoryScope) -> str | None:
    """The name of the model to ask; None without one, or if it may not read the code."""
    settings = work.settings
    if not work.wants_model():
        return None
    lack = endpoint_of(settings).lack
    if lack or not settings.model:
        if settings.model:
            work.progress.say(f"no model is used: {lack}")
        return None
    if scope.from_outside:
        work.progress.say(f"no model is used: {scope.from_outside}")
        return None
    return str(settings.model)


#: What a question is for, by the beginning of its place; others are about their node's files.
_PURPOSES = {
    "reproduce": "for a reproduction of a claim",
    "mend": "for a repair",
    "judge": "what a failing reproduction shows",
    "refute": "to refute a claim",
}


class _NodeModel(GatewayAsk):
    """One node's access to the model: its calls are recorded under its id."""

    def __init__(
        self,
        gateway: Gateway,
        options: RepositoryOptions,
        tell: Callable[[str], None],
        node: Node,
    ) -> None:
        super().__init__(
            gateway,
            node.id,
            prompt_bytes=options.prompt_bytes,
            max_tokens=options.max_completion_tokens,
            context_tokens=options.context_tokens,
            largest=options.largest_prompt,
            has_forms=options.forms,
            shares=options.shares,
            is_assumed=options.is_assumed,
        )
        self._tell = tell
        scope = node.scope
        every = count(scope.last - scope.first, "file")
        self._where = (
            in_words(dict(zip(scope._fields, scope, strict=True))) if scope.path else every
        )
        #: The numbers of the questions, those of its forks among them.
        self._numbers = numbers(1)

    def __call__(
        self,
        step: str,
        messages: Sequence[Message],
        *,
        response_format: Message | None = None,
        tools: Sequence[Message] = (),
    ) -> Completion:
        number = next(self._numbers)
        again = f", question {number:,}" if number > 1 else ""
        about = _PURPOSES.get(step.partition("-")[0], f"about {self._where}")
        self._tell(f"asking the model {about}{again}")
        return super().__call__(step, messages, response_format=response_format, tools=tools)


def _refuse(name: str, _text: str | Iterable[str]) -> str:
    raise AssertionError(f"there is no artifact {name} where nothing was done")


class SchedulerAddress(Value):
    """The value of ``--scheduler``: the order of the work, and HOST:PORT of a cluster, if any."""

    order: str
    cluster: str | None = None


def address(settings: Settings) -> SchedulerAddress:
    """Read ``--scheduler``. Raises ConfigError if it is neither an order nor a cluster."""
    text: str = settings.recursion.scheduler
    if text in ORDERS:
        return SchedulerAddress(text)
    scheme = "dask://"
    authority, _, query = text.removeprefix(scheme).partition("?")
    host, _, port = authority.rstrip("/").rpartition(":")
    order = query.removeprefix("order=") if query else BFS
    is_place = text.startswith(scheme) and host and port.isascii() and port.isdigit()
    if not is_place or order not in ORDERS or not 0 < int(port) < 1 << 16:
        raise ConfigError(
            f"there is no scheduler {text[:80]!r}",
            where=settings.sources["recursion.scheduler"],
            hint=f"one of {', '.join(ORDERS)}; or dask://HOST:PORT, also with ?order=dfs",
        )
    return SchedulerAddress(order, f"{host}:{port}")


#: The budgets in GitHub Actions if the user sets none.
_IN_ACTIONS = (("recursion.max_minutes", 50.0), ("max_calls", 300))


class RepositoryJob(RepositoryVerb):
    """Carries out a review or a wiki in a run that this process holds; sets ``report`` at the end.

    ``skipped`` are folders in which rlm-ci itself writes. With ``replay``, the record of another
    run, no model is asked.
    """

    def prepare(self, run: Run, goal: str | None) -> None:  # noqa: ARG002 - it has no goal
        for key, value in _IN_ACTIONS if self.settings.github.actions else ():
            if self.settings.sources[key] == "default":
                self.settings.values[key] = value
        self.progress.watch(TreeWatcher(run.path, self.name).facts)

    def attempt(self, run: Run, goal: str, record: Record) -> RunAttempt:  # noqa: ARG002
        return RepositoryAttempt(self, run, record).carry_out()

    def deliver(self, run: Run) -> None:
        run.event("progress", {"summary": "all is in the folder of the run"})
        page = ("rlm", "artifacts", self.name, "report.md")
        if os.path.isfile(run.path_of(*page)):
            self.places.append(f"report: {files.shown_path(run.path_of(*page))}")


def _prepare(settings: Settings, repository: Repository) -> None:
    """Apply the configuration of the repository. Raises ConfigError."""
    from rlm_ci.judge import config_file
    from rlm_ci.pipelines import load

    process.harden()
    plan.require_tree(repository)
    for change in load.changes_of(settings, repository):
        for doubt in config_file.apply(settings, change):
            warn(doubt)
    address(settings)


def making(kind: type[Kind]) -> Callable[..., Kind]:
    """A function for ``registry.make`` that makes a job of this kind; it raises ConfigError."""

    def make(
        settings: Settings,
        repository: Repository,
        runs: StoredRuns,
        progress: Progress,
        replay: str | None = None,
    ) -> Kind:
        _prepare(settings, repository)
        if replay is None and settings.sources["model"] == "--model":
            require_endpoint(models_of(settings), "set its key, or leave --model out")
        skipped = without_runs(runs.root, settings.runs_dir, settings.out_dir)
        return kind(settings, repository, progress, skipped=skipped, replay=replay)

    return make
