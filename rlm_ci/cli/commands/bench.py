"""``rlm-ci bench``: benchmarks of models and environments, and their comparison."""

from __future__ import annotations

import os
from contextlib import contextmanager
from decimal import Decimal

from rlm_ci import errors
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.options import BUDGET, EPISODE, MODEL, PROGRAM
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.console.progress import Progress
from rlm_ci.errors import UsageError
from rlm_ci.judge.judge import open_repository, repository_name, subject_of
from rlm_ci.judge.options import models_of, output_of
from rlm_ci.lab.bench import compare, generators, summary, text
from rlm_ci.lab.bench import run as benchmarks
from rlm_ci.lab.bench.benchmark import MODES, STRATEGIES, BenchOptions
from rlm_ci.lab.bench.compare import Gates
from rlm_ci.lab.bench.packs import pack
from rlm_ci.lab.planted_bugs import benchmark, generate, recording
from rlm_ci.lab.planted_bugs.recording import SHIPPED, Recording
from rlm_ci.models.gateway import Gateway, require_endpoint
from rlm_ci.models.providers import Endpoint
from rlm_ci.models.record.clock import RunClock
from rlm_ci.models.record.record import Record
from rlm_ci.pipelines import load
from rlm_ci.pipelines.stored_runs import OUT_DIR, SANDBOX, StoredRuns
from rlm_ci.report.findings import Subject
from rlm_ci.system import files
from rlm_ci.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.lab.planted_bugs.generate import ReviewCase

SUMMARY = "run benchmarks of models and environments, and compare them"
USAGE = (
    "list [--pack PATH] | run PACK [OPTION...] | review [OPTION...] | "
    "compare [CANDIDATE [BASELINE]] [OPTION...]"
)
TAKES = ("list, run PACK, review, or compare CANDIDATE BASELINE", 1, 3)
EXAMPLES = (
    "rlm-ci bench list",
    "rlm-ci bench run needle --mode direct-llm --model gpt-5-mini --budget-usd 1",
    "rlm-ci bench review",
    "rlm-ci bench review --model gpt-5-mini --budget-usd 5",
    "rlm-ci bench compare latest previous --format markdown",
)
EXITS = {
    errors.OK: "all cases were run, whatever their score; compare: every gate passed",
    errors.FINDINGS: "compare: a gate failed",
    errors.LIMIT: "a budget ended it; what was run is kept",
    errors.CONFIG: "an unknown preset, a pack with an error, or two suites that differ",
    errors.REMOTE: "the model did not answer a case",
}


def _row(key: str, help_text: str, default: Any = None, kind: str = "text", **more: Any) -> Setting:
    flag = f"--{key.replace('_', '-')}"
    row = {"flag": flag, "file": False, "own_env": False, **more}
    return Setting(f"bench.{key}", help_text, default, kind, **row)


_PACKS = (_row("pack", "a further pack: a file of cases; repeatable", (), "list", metavar="PATH"),)
_RUN = (
    _row("mode", "how cases are run; direct-llm is one prompt, and also runs beside the others",
         "native", "choice", choices=MODES, metavar="NAME"),
    _row("repeats", "how often each case is run", 1, "integer", minimum=1, metavar="N"),
    _row("limit", "only the first cases of the preset", kind="integer", minimum=1, metavar="N"),
    _row("seed", "another seed for all cases that are generated; makes another suite",
         kind="integer", minimum=0, metavar="N"),
    _row("tokens", "another length of the generated contexts; makes another suite",
         kind="integer", minimum=generators.SHORTEST, metavar="N"),
    _row("context_tokens", "tokens that the model reads, with its answer (default: "
         "models.context_tokens, or what its endpoint says)", kind="integer",
         minimum=1024, metavar="N"),
    _row("environment", "environment for all cases, instead of their own", metavar="NAME"),
    _row("framework", "adapter of a framework", metavar="NAME"),
    _row("max_steps", "steps of a case, instead of its own", kind="integer", minimum=1,
         metavar="N"),
    _row("exec_timeout", "seconds of one execution, instead of the case's own", kind="integer",
         minimum=1, metavar="N"),
    _row("branch_width", "candidates of each step; the best is taken", 1, "integer", minimum=1,
         metavar="N"),
    _row("sub_model", "model for sub-calls", metavar="NAME"),
    _row("sub_provider", "provider of the model for sub-calls", metavar="NAME"),
    _row("judge_model", "model that scores by rubrics (default: the same)", metavar="NAME"),
    _row("include_mcp", "give the harness the tools of MCP servers; see --mcp-config",
         default=False, kind="boolean"),
    _row("mcp_server", "only this one of them (default: all)", metavar="NAME"),
    _row("harness_strategy", "how the harness plans", "tool_call", "choice", choices=STRATEGIES,
         metavar="NAME"),
)  # fmt: skip
_REVIEW = (
    _row("seed", "seed of the changes", 1, "integer", minimum=0, metavar="N"),
    _row("bugs", "number of planted bugs", 40, "integer", minimum=1, metavar="N"),
    _row("honest", "number of changes without a bug", 10, "integer", minimum=0, metavar="N"),
    _row("folder", "folder of the changes and of what is done; a second run in it goes on "
         "(default: bench-review in the folder of the runs; none for recorded answers)",
         metavar="DIR"),
    _row("answers", "play the recorded answers in FILE (default: `shipped`, if neither a model nor "
         "an endpoint is set)", metavar="FILE"),
    _row("record", "write all answers to FILE, to be played by --answers", metavar="FILE"),
    _row("dry_run", "make the changes, and ask no model", default=False, kind="boolean"),
)  # fmt: skip
#: What decides which changes there are.
_CHANGES = ("seed", "bugs", "honest")
_MCP = tuple(row for row in EPISODE if row.key == "episode.mcp_config")
_COMPARE = (
    _row("min_score_delta", "least change of the score that passes", 0.0, "number", metavar="X"),
    _row("min_reward_delta", "least change of the reward that passes", 0.0, "number", metavar="X"),
    _row("min_completion_delta", "least change of the completion rate that passes", 0.0, "number",
         metavar="X"),
    _row("max_steps_increase", "how many more steps a case may take", 0.0, "number", metavar="X"),
    _row("max_cost_increase", "share by which the cost of a case may rise, such as 0.2 (default: "
         "any)", kind="number", minimum=0, metavar="X"),
    _row("max_latency_increase", "share by which the seconds of a case may rise (default: any)",
         kind="number", minimum=0, metavar="X"),
    _row("fail_on_completion_regression", "fail when a case is not completed any more, or one side "
         "lacks it, or a repeat of it", default=True,
         kind="boolean", off="let single cases regress"),
)  # fmt: skip
_ROWS = {
    "list": (*_PACKS, *COMMON, *OUT_DIR),
    "run": (*_RUN, *_MCP, *_PACKS, *COMMON, *OUT_DIR, *SANDBOX, *MODEL, *BUDGET),
    "review": (*_REVIEW, *COMMON, *OUT_DIR, *SANDBOX, *MODEL, *BUDGET),
    "compare": (*_COMPARE, *COMMON, *OUT_DIR),
}


def rows(argv: Sequence[str]) -> tuple[Setting, ...]:
    """The options of the action that ``argv`` names; without one, of all."""
    word = next((word for word in argv if word in _ROWS), None)
    if word:
        return _ROWS[word]
    return tuple({row.key: row for group in _ROWS.values() for row in group}.values())


def run(arguments: Arguments) -> int:
    action, *words = arguments.words
    actions = {
        "list": (_list, 0, 0),
        "run": (_run, 1, 1),
        "review": (_review, 0, 0),
        "compare": (_compare, 0, 2),
    }
    carry_out, fewest, limit = actions.get(action, (None, 0, 0))
    if carry_out is None or not fewest <= len(words) <= limit:
        is_known = action in actions
        what = (
            f"bench {action} takes other words" if is_known else f"bench does not know {action!r}"
        )
        raise UsageError(what[:120], where="rlm-ci bench", hint=f"rlm-ci bench {USAGE}")
    table = {row.key: row for row in (*PROGRAM, *rows([action]))}
    return carry_out(words, Settings(table.values(), arguments.flags), arguments.flags)


def _list(_words: Sequence[str], settings: Settings, _flags: Mapping[str, Any]) -> int:
    output = output_of(settings).require_text_or_json("bench list")
    presets = pack.presets(settings.bench.pack)
    stored = summary.of_store(StoredRuns(settings).store)
    if settings.format == "json":
        listing = {
            "presets": presets,
            "packs": pack.aliases(),
            "benchmarks": [stored_benchmark.outline() for stored_benchmark in stored],
        }
        output.emit(neutralise.record(listing))
    else:
        output.emit(_lines(text.presets(presets, stored)))
    return errors.OK


def _compare(words: Sequence[str], settings: Settings, _flags: Mapping[str, Any]) -> int:
    output = output_of(settings)
    output.require_place()
    bench = settings.bench
    gates = Gates(**{name: getattr(bench, name) for name in Gates._fields})
    stored_benchmarks = summary.of_store(StoredRuns(settings).store)
    names = [*words, *(summary.LATEST, summary.PREVIOUS)[len(words) :]]
    comparison = compare.compare(stored_benchmarks, names[0], names[1], gates)
    report = compare.build(comparison).replace(subject=_subject(settings))
    output.show(report)
    return report.exit_code()


def _subject(settings: Settings) -> Subject:
    """The pull request of the event, so that the report can be published there; else HEAD."""
    repository = open_repository(settings)
    if settings.github.actions and settings.github.event_path:
        changes = load.changes_of(settings, repository)
        return subject_of(changes, repository_name(changes, settings, repository, look=False))
    return Subject(head=repository.head_commit() if repository.git_dir else None)


def _run(words: Sequence[str], settings: Settings, flags: Mapping[str, Any]) -> int:
    output = output_of(settings).require_text_or_json("bench run")
    output.require_place()
    bench = settings.bench
    preset = pack.choose(words[0], bench.pack)
    options = BenchOptions(**{name: getattr(bench, name) for name in BenchOptions._fields})
    runs = StoredRuns(settings)
    if settings.episode.mcp_config:  # a resumed benchmark may be in another folder
        flags = {**flags, "episode.mcp_config": os.path.abspath(settings.episode.mcp_config)}
    with Progress(settings.environ, quiet=settings.quiet, colour=settings.color) as progress:
        result, failure = benchmarks.carry_out(
            preset, options, settings, runs, progress=progress, flags=flags
        )
    results = summary.read(str(result.summary_path)).record
    if settings.format == "json":
        output.emit(neutralise.record(dict(results), depth=4))
    else:
        shown = text.answers(results) if settings.verbose else ""
        output.emit(_lines(shown + text.result(results)))
    if failure:
        raise failure
    return errors.OK


def _review(_words: Sequence[str], settings: Settings, flags: Mapping[str, Any]) -> int:
    output = output_of(settings).require_text_or_json("bench review")
    output.require_place()
    bench = settings.bench
    played = None if bench.dry_run else _recording(settings, flags)
    case_options = {name: getattr(played or bench, name) for name in _CHANGES}
    cases = generate.cases(**case_options)
    if bench.dry_run:
        report = benchmark.outline(cases)
        shown = benchmark.changes(report)
    else:
        report = _measured(settings, flags, cases, case_options, played)
        shown = benchmark.table(report)
    is_json = settings.format == "json"
    output.emit(neutralise.record(report, depth=4) if is_json else _lines(shown))
    return errors.OK


def _recording(settings: Settings, flags: Mapping[str, Any]) -> Recording | None:
    """The recording that answers instead of a model, if one does. Raises ConfigError."""
    bench = settings.bench
    options = models_of(settings)
    if bench.answers is None:
        if settings.model or not options.endpoint.lack:
            require_endpoint(options, "or play recorded answers: --answers shipped")
            return None
    elif bench.record:
        raise UsageError(
            "--record writes what a model answers, and --answers asks none",
            where="rlm-ci bench review",
            hint="give one of them",
        )
    played = Recording.load(bench.answers or SHIPPED)
    played.require({name: getattr(bench, name) for name in _CHANGES if f"bench.{name}" in flags})
    played.require_projects()
    return played


def _measured(
    settings: Settings,
    flags: Mapping[str, Any],
    cases: Iterable[ReviewCase],
    parameters: Mapping[str, int],
    played: Recording | None,
) -> dict[str, Any]:
    """The figures of a model, or of the recorded answers. Raises ConfigError."""
    runs = StoredRuns(settings)
    bench = settings.bench
    options, model, environ = models_of(settings), settings.model, dict(settings.environ)
    passed = [row for row in (*MODEL, *SANDBOX) if row.key in flags and row.flag]
    words = tuple(word for row in passed for word in (str(row.flag), str(flags[row.key])))
    if played:
        model, environ = played.model, played.environ(environ)
        endpoint = Endpoint(environ["OPENAI_BASE_URL"], "", "")
        options = options.replace(endpoint=endpoint)
        words = (*words, "--model", model)
    budget = settings.budget_usd
    with (
        Progress(settings.environ, quiet=settings.quiet, colour=settings.color) as progress,
        _folder(bench.folder, runs.store.root, parameters, played=bool(played)) as folder,
        Record.open(os.path.join(folder, "calls.jsonl"), redact=runs.redactor.text) as record,
    ):

        def gateway(spent: float, recording: str) -> Gateway:
            left = None if budget is None else Decimal(str(max(0.0, budget - spent)))
            limited = options.replace(budget_usd=left, recording="" if played else recording)
            clock = RunClock(record.fact)
            return Gateway(limited, record, clock, model=model, max_minutes=None)

        reviewer = benchmark.Reviewer(words, environ, gateway, budget, played=bool(played))
        figures = benchmark.carry_out(cases, folder, reviewer, progress.step)
        if bench.record:
            recording.write(bench.record, folder, str(model), parameters, environ)
    note = played.notice() if played else ""
    return {**figures, "answers": {"recorded": bool(played), "model": model, "note": note}}


@contextmanager
def _folder(
    folder_argument: str | None, store: str, parameters: Mapping[str, int], *, played: bool
) -> Iterator[str]:
    """The folder of a benchmark. What recorded answers gave is not kept, but for who asks for it:
    another version might make other changes.
    """
    if played and not folder_argument:
        with files.scratch("rlm-ci-") as folder:
            yield folder
        return
    name = "-".join(str(number) for number in parameters.values())
    folder = os.path.abspath(folder_argument or os.path.join(store, "bench-review", name))
    files.make_folder(folder)
    yield folder


def _lines(shown: str) -> str:
    return "".join(f"{neutralise.log(line)}\n" for line in shown.splitlines())
