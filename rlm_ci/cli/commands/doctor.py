"""``rlm-ci doctor``: what this machine can run, and what it lacks for the rest."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from rlm_ci import __version__, checks, errors
from rlm_ci.config.core_options import COMMON, CORE
from rlm_ci.config.options import BUDGET, LOOP, MODEL, PROGRAM, PUBLISH, RECURSION
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.console.messages import say
from rlm_ci.errors import ConfigError, RlmCiError
from rlm_ci.judge import config_file
from rlm_ci.judge.judge import open_repository
from rlm_ci.judge.options import endpoint_of, models_of, output_of
from rlm_ci.pipelines import load
from rlm_ci.system import installation, process, process_stream
from rlm_ci.text import neutralise
from rlm_ci.text.printable import count, first_of, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.models.gateway import ModelContext
    from rlm_ci.sandbox import Probe

SUMMARY = "show what this machine can run, and what is missing"
USAGE = "[OPTION...] [MODEL]"
TAKES = ("at most one model", 0, 1)
EXAMPLES = (
    "rlm-ci doctor",
    "rlm-ci doctor --model gpt-5-mini",
    "rlm-ci doctor --environment coding",
    "rlm-ci doctor --rlms",
)
FORMS = ("text", "json")
EXITS = {errors.OK: "no problem found", errors.UNAVAILABLE: "a problem found"}
_OWN = (
    *(row for row in LOOP if row.key in ("sandbox", "loop.agent", "loop.validator")),
    *(row for row in RECURSION if row.key == "recursion.prompt_bytes"),
    Setting("doctor.environment", "also check what episodes in this environment need: generic, "
            "coding or pure_rlm", flag="--environment", metavar="NAME", file=False,
            own_env=False),
    Setting("doctor.model", "ask MODEL, or the model that is set, three small questions",
            default=False, kind="boolean", flag="--model", file=False, own_env=False),
    Setting("doctor.rlms", "also carry out a small analysis, with the model that is set up, or a "
            "scripted one", default=False, kind="boolean",
            flag="--rlms", file=False, own_env=False),
    Setting("doctor.fix", "make the folder of the runs ready, for you alone", default=False,
            kind="boolean", flag="--fix", file=False, own_env=False),
)  # fmt: skip
#: Agents that are external programs.
_AGENTS = ("aider", "claude", "codex", "gemini")
#: ✓ works, ✗ does not work, · is missing, but optional.
_GOOD, _BAD, _ABSENT = "✓", "✗", "·"
_COLOURS = {_GOOD: "32", _BAD: "31", _ABSENT: "2"}
_MOST_SAID = 400


class DoctorLine(Value):
    """A sign, a name and a text, with ``probes`` below; ``problem`` is the error that stops it."""

    sign: str
    name: str
    detail: str
    probes: tuple[Probe, ...] = ()
    problem: RlmCiError | None = None


ROWS = (*COMMON, *_OWN)


def run(arguments: Arguments) -> int:
    settings = _settings(arguments)
    output = output_of(settings).require_text_or_json("doctor")
    sections = {
        "machine": tuple(_machine(settings.environ)),
        "sandbox": tuple(_sandboxes(settings)),
        "dependencies": tuple(_dependencies(settings)),
        "validator": tuple(_validator(settings)),
        "extras": tuple(_extras(settings)),
        "model": (*_model(settings), *(_trial(settings) if settings.doctor.model else ())),
        "agents": tuple(_agents(settings)),
        "agent hooks": tuple(_agent_hooks(settings)),
        "GitHub": (_set(settings, "token", "github.token"),),
    }
    if settings.doctor.environment or settings.doctor.fix:
        sections["episodes"] = tuple(_episodes(settings))
    is_dead = any(fact.problem for fact in sections["model"])
    if settings.doctor.rlms and not is_dead:  # it would only meet the same
        sections["analysis"] = tuple(_analysis(settings))
    problems = [fact for facts in sections.values() for fact in facts if fact.problem]
    if settings.format == "json":
        output.emit(_json(sections, problems, settings))
    else:
        colour = output.options().colour
        lines = _text(sections, problems, settings)
        output.emit("".join(f"{_painted(line, colour)}\n" for line in lines))
    return errors.UNAVAILABLE if problems else errors.OK


def _settings(arguments: Arguments) -> Settings:
    """The settings, with those of a config file. Raises RlmCiError."""
    table = {row.key: row for row in (*CORE, *LOOP, *MODEL, *BUDGET, *PUBLISH, *_OWN)}
    for model in arguments.words:
        if not arguments.flags.get("doctor.model"):
            raise errors.UsageError(
                f"unexpected argument {model[:80]!r}",
                where="rlm-ci doctor",
                hint="to ask a model: rlm-ci doctor --model NAME",
            )
        arguments = arguments.replace(flags={**arguments.flags, "model": model})
    settings = Settings(table.values(), arguments.flags)
    with suppress(ConfigError):  # no repository
        for change in load.changes_of(settings, open_repository(settings))[:1]:
            record, source = config_file.read(settings, change)
            settings.apply(record, source, (*PROGRAM, *checks.rows(checks.names())))
    return settings


# ── what is installed ──


def _machine(environ: Mapping[str, str]) -> Iterator[DoctorLine]:
    import platform

    system = f"{platform.system()} {platform.release()} {platform.machine()}"
    yield DoctorLine(_GOOD, "rlm-ci", f"{__version__} on {system}")
    yield DoctorLine(_GOOD, "python", f"{platform.python_version()}, {sys.executable}")
    try:
        ended = process.run(["git", "--version"], env=_path(environ), timeout=20)
        version = ended.stdout.decode("utf-8", "replace").strip().removeprefix("git version ")
        yield DoctorLine(_GOOD, "git", version)
    except RlmCiError as error:
        yield DoctorLine(_BAD, "git", "no program of that name on PATH", problem=error)


def _path(environ: Mapping[str, str]) -> dict[str, str]:
    return {"PATH": environ.get("PATH", os.defpath)}


def _sandboxes(settings: Settings) -> Iterator[DoctorLine]:
    from rlm_ci.sandbox import monty, probe

    is_wanted = settings.sandbox != "none"
    probes = probe(settings.environ)
    if all(result.passed for result in probes):
        yield DoctorLine(_GOOD, "bubblewrap", _bubblewrap(settings.environ), probes)
    else:
        problem = _complaint(settings) if is_wanted else None
        sign = _BAD if is_wanted else _ABSENT
        yield DoctorLine(sign, "bubblewrap", "does not work on this machine", probes, problem)
    probes = monty.probe()
    if all(result.passed for result in probes):
        yield DoctorLine(_GOOD, "monty", f"for Python that a model wrote: {monty.LEVEL}", probes)
    elif len(probes) == 1:  # it could not be probed
        yield DoctorLine(_ABSENT, "monty", probes[0].detail)
    else:
        yield DoctorLine(_BAD, "monty", "does not work on this machine", probes)
    rights = "chosen: commands have all your rights" if not is_wanted else "only if asked for"
    yield DoctorLine(_ABSENT, "none", f"limits, but no isolation; {rights}")


def _bubblewrap(environ: Mapping[str, str]) -> str:
    program = process_stream.find("bwrap", environ.get("PATH", os.defpath), "/")
    ended = process.run([program, "--version"], env=_path(environ), timeout=20)
    return ended.stdout.decode("utf-8", "replace").strip().removeprefix("bubblewrap ")


def _complaint(settings: Settings) -> RlmCiError | None:
    from rlm_ci import sandbox

    try:
        sandbox.choose(settings.sandbox, settings.environ)
    except RlmCiError as error:
        return error
    return None


def _dependencies(settings: Settings) -> Iterator[DoctorLine]:
    """What a validator of this repository would be given beside its files, and what it lacks."""
    from rlm_ci.workspace.dependencies import beside

    try:
        repository = open_repository(settings)
        if repository.git_dir is None:
            return
        files = beside.of(repository, settings.environ, isolated=settings.sandbox != "none")
    except RlmCiError as error:
        yield DoctorLine(_ABSENT, "repository", str(error))
        return
    if files.environment:
        yield DoctorLine(_GOOD, "Python", files.environment)
    if files.dependencies:
        yield DoctorLine(_GOOD, "seen", first_of(files.dependencies, "path"))
    if files.ignored:
        yield DoctorLine(_ABSENT, "left out", f"{first_of(files.ignored, 'path')}: git ignores it")
    for doubt in files.doubts:
        yield DoctorLine(_BAD, "not seen", f"{doubt.where}: {doubt.what}", problem=doubt)


def _validator(settings: Settings) -> Iterator[DoctorLine]:
    """How the validator of this repository starts, in the sandbox alone."""
    from rlm_ci import sandbox
    from rlm_ci.fix import choose_validator
    from rlm_ci.validators.detect import NoValidatorError

    try:
        repository = open_repository(settings)
        chosen_sandbox = sandbox.choose(settings.sandbox, settings.environ)
    except RlmCiError:  # there is no repository, or it was told above
        return
    if repository.git_dir is None or not chosen_sandbox.isolated:
        return
    try:
        tried = choose_validator.try_out(
            settings.loop.validator,
            repository,
            chosen_sandbox,
            settings.environ,
            (lambda _line: None) if settings.quiet else say,
        )
    except NoValidatorError as error:
        yield DoctorLine(_ABSENT, "none", error.what)
    except RlmCiError as error:
        yield DoctorLine(_BAD, "start", error.what, problem=error)
    else:
        yield DoctorLine(_GOOD, "command", f"{tried.command} ({tried.reason})")
        yield DoctorLine(_GOOD, "start", tried.end)


def _agents(settings: Settings) -> Iterator[DoctorLine]:
    """How the programs start that can be agents, and where GitHub's own is."""
    from rlm_ci import sandbox
    from rlm_ci.agents import external

    environ, root, inside = settings.environ, None, None
    with suppress(RlmCiError):
        repository = open_repository(settings)
        root = repository.root if repository.git_dir else None
    with suppress(RlmCiError):  # told above
        inside = sandbox.choose(settings.sandbox, environ)
    missing = []
    for name in (*_AGENTS, "gh"):
        try:
            path = process_stream.find(name, environ.get("PATH", ""), os.getcwd())
        except RlmCiError:
            missing.append(name)
            continue
        version = why = ""
        if inside is not None and name != "gh":
            version, why = external.try_out(name, path, inside, environ, root)
        if not why:
            yield DoctorLine(_GOOD, name, f"{path}, {version}" if version else path)
        else:
            is_wanted = settings.loop.agent == name
            problem = errors.UnavailableError(
                f"{name} does not start in the sandbox: {why}",
                where=path,
                hint="install it outside of your private folders, with its packages beside it",
            )
            yield DoctorLine(_BAD, name, why, problem=problem if is_wanted else None)
    if missing:
        yield DoctorLine(_ABSENT, "not on PATH", ", ".join(missing))


def _agent_hooks(settings: Settings) -> Iterator[DoctorLine]:
    """The hooks of coding agents in this repository, and whether they run."""
    from rlm_ci.agent_hooks import trial

    try:
        repository = open_repository(settings)
    except RlmCiError:
        return
    if repository.git_dir is None:
        return
    is_any = False
    for state in trial.states(repository, settings.environ):
        is_any = True
        sign = {True: _GOOD, False: _BAD, None: _ABSENT}[state.works]
        problem = None
        if state.hint:
            problem = errors.UnavailableError(state.detail, where=state.name, hint=state.hint)
        yield DoctorLine(sign, state.name, state.detail, problem=problem)
    if not is_any:
        yield DoctorLine(_ABSENT, "none", "to add some: rlm-ci init --agents claude,codex")


def _extras(settings: Settings) -> Iterator[DoctorLine]:
    needed = {
        "models": not endpoint_of(settings).lack,
        "github": settings.github.token,
    }
    lacking = []
    ready = {"models": "a model is set up", "github": "a token is set"}
    for extra, packages in _required().items():
        versions = {name: _version(name) for name in packages}
        missing = [name for name, version in versions.items() if version is None]
        if not missing:
            yield DoctorLine(
                _GOOD, extra, ", ".join(f"{name} {versions[name]}" for name in packages)
            )
        elif needed.get(extra):
            are = "are" if missing[1:] else "is"
            problem = errors.UnavailableError(
                f"{ready[extra]}, and {', '.join(missing)} {are} not installed",
                where=f"extra {extra}",
                hint=installation.command(extra),
            )
            yield DoctorLine(_BAD, extra, f"without {', '.join(missing)}", problem=problem)
        else:
            yield DoctorLine(_ABSENT, extra, f"without {', '.join(missing)}")
            lacking.append(extra)
    if lacking:
        yield DoctorLine(_ABSENT, "to add one", installation.command(lacking[0]))


def _required() -> dict[str, tuple[str, ...]]:
    import re
    from importlib import metadata

    try:
        lines = metadata.requires("rlm-ci") or []
    except metadata.PackageNotFoundError:  # run from a checkout, without an installation
        return {}
    names_by_extra: dict[str, list[str]] = {}
    for line in lines:
        name = re.match(r"[A-Za-z0-9._-]+", line)
        extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)", line)
        if name and extra and extra[1] != "all":
            names_by_extra.setdefault(extra[1], []).append(name[0])
    return {extra: tuple(names) for extra, names in names_by_extra.items()}


def _version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _model(settings: Settings) -> Iterator[DoctorLine]:
    endpoint = endpoint_of(settings)
    if endpoint.provider:
        detail = f"{endpoint.provider}, {endpoint.base_url or 'no address'}"
        yield DoctorLine(_ABSENT if endpoint.lack else _GOOD, "provider", endpoint.lack or detail)
    else:
        yield _set(settings, "key", "openai.api_key")
        yield _set(settings, "base URL", "openai.base_url")
    agent = settings.loop.agent
    if agent in _AGENTS:
        try:
            path = process_stream.find(agent, settings.environ.get("PATH", ""), os.getcwd())
            yield DoctorLine(_GOOD, "agent", f"{agent}, {path}")
        except RlmCiError as error:
            yield DoctorLine(_BAD, "agent", f"{agent} is not on PATH", problem=error)


def _trial(settings: Settings) -> Iterator[DoctorLine]:
    """What the model answers; this costs a few tokens."""
    from rlm_ci.models import gateway, trial

    if not settings.model:
        problem = errors.ConfigError(
            "no model is named", where="--model", hint="say which one: rlm-ci doctor --model NAME"
        )
        yield DoctorLine(_BAD, "answer", "none", problem=problem)
        return
    options = models_of(settings)
    try:
        gateway.require_endpoint(options, "set it, or choose another provider")
        with gateway.opened(options) as model:
            for result in trial.results(model, settings.model, gateway.price_of(options)):
                lacks = _BAD if result.error else _ABSENT
                sign = _GOOD if result.works else lacks
                yield DoctorLine(sign, result.name, result.detail, problem=result.error)
                if result.error:
                    return
        yield _context(settings, gateway.context_of(options, settings.model))
    except RlmCiError as error:
        yield DoctorLine(_BAD, "answer", "none", problem=error)


def _context(settings: Settings, context: ModelContext) -> DoctorLine:
    """How much the model reads, and what works with that."""
    from rlm_ci.models.context_length import answer_tokens, prompt_bytes
    from rlm_ci.models.gateway import SETTING
    from rlm_ci.models.json_question import repair_bytes
    from rlm_ci.review.exploration.depth import with_room
    from rlm_ci.review.exploration.explorer import NORMAL

    answer = answer_tokens(context.tokens, settings.models.max_completion_tokens)
    size = prompt_bytes(context.tokens, answer, settings.recursion.prompt_bytes)
    depth = with_room(NORMAL, size, repair_bytes(size))
    detail = f"{context.tokens:,} tokens, {context.source}"
    more = f"give the server a longer context, and say it by {SETTING} if it does not"
    if not depth:
        problem = errors.ConfigError(
            f"a context of {context.tokens:,} tokens has no room for a review", where=SETTING,
            hint=more,
        )  # fmt: skip
        return DoctorLine(_BAD, "context", f"{detail}: too small", problem=problem)
    if depth != NORMAL:
        detail += f": reviews are {depth}, fixes and questions read little at a time; {more}"
    elif not context.is_known:
        detail += f": say it by {SETTING}"
    is_good = depth == NORMAL and context.is_known
    return DoctorLine(_GOOD if is_good else _ABSENT, "context", detail)


def _episodes(settings: Settings) -> Iterator[DoctorLine]:
    from rlm_ci.lab import readiness
    from rlm_ci.pipelines.stored_runs import StoredRuns

    runs = StoredRuns(settings)
    is_ready = not endpoint_of(settings).lack
    needs = readiness.EpisodeNeeds(
        settings.doctor.environment or "generic",
        runs.root,
        runs.store.root,
        (settings.model or "") if is_ready else "",
        settings.sandbox,
        settings.environ,
    )
    signs = {readiness.PASS: _GOOD, readiness.WARN: _ABSENT, readiness.FAIL: _BAD}
    for check in readiness.checks(needs, fix=settings.doctor.fix):
        advice = check.recommendation
        problem = None
        if check.status == readiness.FAIL:
            problem = errors.UnavailableError(check.detail, where=check.name, hint=advice or "")
        more = f" ({advice})" if advice and problem is None else ""
        yield DoctorLine(signs[check.status], check.name, f"{check.detail}{more}", problem=problem)


def _analysis(settings: Settings) -> Iterator[DoctorLine]:
    from rlm_ci.fix.rlms import canary
    from rlm_ci.fix.rlms.trigger import RlmsOptions

    options = RlmsOptions.of(settings.values, settings.sources)
    model = None if endpoint_of(settings).lack else settings.model
    trial = canary.try_out(options, models_of(settings), model=model, sandbox=settings.sandbox,
                           environ=settings.environ)  # fmt: skip
    for name, detail in trial.lines:
        yield DoctorLine(_GOOD, name, detail)
    if trial.problem is not None:
        yield DoctorLine(_BAD, "result", str(trial.problem), problem=trial.problem)


def _set(settings: Settings, name: str, key: str) -> DoctorLine:
    """Whether a setting has a value, and its source, but never the value."""
    if settings.values[key]:
        return DoctorLine(_GOOD, name, f"set by {settings.sources[key]}")
    return DoctorLine(_ABSENT, name, f"not set ({settings.rows[key].variables[-1]})")


# ── output ──


def _text(
    sections: Mapping[str, Sequence[DoctorLine]], problems: Sequence[DoctorLine], settings: Settings
) -> Iterator[str]:
    for title, facts in sections.items():
        if not facts:
            continue
        yield f"{title}: {settings.sandbox}" if title == "sandbox" else title
        width = max(12, *(len(fact.name) + 2 for fact in facts))
        for fact in facts:
            yield f"  {fact.sign} {fact.name:<{width}}{_shortened(fact.detail)}"
            for probe in fact.probes:
                sign = _GOOD if probe.passed else _BAD
                if not settings.quiet or not probe.passed:
                    yield f"      {sign} {probe.title:<58}{_shortened(probe.detail)}"
        yield ""
    if not problems:
        yield f"{_GOOD} everything that is configured can run"
        return
    verb = "is" if len(problems) == 1 else "are"
    yield f"{_BAD} {count(len(problems), 'thing')} that {verb} configured cannot run"
    for fact in problems:
        yield f"  {_BAD} {printable(str(fact.problem))}"
        if fact.problem is not None and fact.problem.hint:
            yield f"    hint: {printable(fact.problem.hint)}"


def _shortened(detail: str) -> str:
    return printable(detail)[:_MOST_SAID]


def _painted(line: str, colour: bool) -> str:  # noqa: FBT001 - it is passed through
    line = neutralise.log(line)
    sign = line.lstrip()[:1]
    if not colour or sign not in _COLOURS:
        return line
    return line.replace(sign, f"\x1b[{_COLOURS[sign]}m{sign}\x1b[0m", 1)


def _json(
    sections: Mapping[str, Sequence[DoctorLine]], problems: Sequence[DoctorLine], settings: Settings
) -> str:
    states = {_GOOD: "ok", _BAD: "failed", _ABSENT: "absent"}

    def shown(fact: DoctorLine) -> dict[str, object]:
        record: dict[str, object] = {"state": states[fact.sign], "detail": _shortened(fact.detail)}
        if fact.probes:
            record["probes"] = [probe.to_dict() for probe in fact.probes]
        return record

    return neutralise.record(
        {
            "ready": not problems,
            "sandbox": settings.sandbox,
            "problems": [
                {"what": str(fact.problem), "hint": fact.problem.hint}
                for fact in problems
                if fact.problem is not None
            ],
            "sections": {
                title.lower(): {fact.name: shown(fact) for fact in facts}
                for title, facts in sections.items()
            },
        },
        4,
    )
