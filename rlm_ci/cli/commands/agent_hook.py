"""``rlm-ci agent-hook``: what the hooks of coding agents run."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, nullcontext
from time import monotonic

from rlm_ci import errors
from rlm_ci.agent_hooks import dialects
from rlm_ci.agent_hooks import session as sessions
from rlm_ci.agent_hooks.changed_work import WorkSite
from rlm_ci.config.core_options import COMMON
from rlm_ci.config.settings import Setting, Settings, environment, nearest
from rlm_ci.console.messages import complain, say, write
from rlm_ci.errors import ConfigError, LockedError, RlmCiError, UnavailableError
from rlm_ci.git.hardening import without_hook
from rlm_ci.git.repository import Repository, discover
from rlm_ci.system import files
from rlm_ci.text.neutralise import clip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Any

    from rlm_ci.agent_hooks.dialects import Event
    from rlm_ci.agent_hooks.session import AgentSession
    from rlm_ci.config.arguments import Arguments

SUMMARY = "answer a hook of a coding agent, on standard input and output"
USAGE = "EVENT --agent NAME"
TAKES = ("one event", 1, 1)
EXAMPLES = (
    "rlm-ci agent-hook session-start --agent claude",
    "rlm-ci agent-hook stop --agent codex",
)
EXITS = {
    errors.OK: "always, also where nothing could be judged: the answer says what counts",
    errors.USAGE: "in Copilot CLI, to tell a person something: it shows no other answer",
}
_AGENT = Setting(
    "agent_hook.agent", f"the program that runs this hook: {', '.join(dialects.AGENTS)}",
    flag="--agent", metavar="NAME", file=False, own_env=False,
)  # fmt: skip
ROWS = (*COMMON, _AGENT)
#: Copilot may send both at once; the first of them begins the session.
_BEGINNINGS = ("session-start", "prompt")
#: Seconds until the record says another limit.
_TIMEOUT = 50.0
#: Several of these may come at once.
_SUBAGENTS = ("subagent-start", "subagent-stop")
#: What Copilot CLI sets for its hooks; VS Code, which reads the same files, does not.
_COPILOT_CLI = "COPILOT_CLI"
_NO_RECORD = "rlm-ci has no record of how this session began: it judges what changes from now on"
#: Where a program says which folder its session is for, whatever folder the agent is in.
_PROJECTS = {
    "claude": "CLAUDE_PROJECT_DIR", "copilot": "COPILOT_PROJECT_DIR", "gemini": "GEMINI_PROJECT_DIR"
}  # fmt: skip


class _TimeIsUp(BaseException):
    """The hook has used its time; no error, so that no check takes it for one of its own."""


def run(arguments: Arguments) -> int:
    options = Settings(ROWS, arguments.flags)
    name, agent = arguments.positionals[0], options.agent_hook.agent or ""
    flags = {key: value for key, value in arguments.flags.items() if key != _AGENT.key}
    for word, names in ((name, dialects.EVENTS), (agent, dialects.AGENTS)):
        if word not in names:  # a file of hooks may be newer than this program
            hint = nearest(word, names)
            complain(ConfigError(f"unknown {word[:80]!r}", where="rlm-ci agent-hook", hint=hint))
            return errors.OK
    try:
        with _limit(_TIMEOUT):
            message = _answer(agent, name, options, flags)
    except _TimeIsUp:
        message = "rlm-ci judged nothing: the time of the hook was up (agent_hooks.timeout)"
    return _tell(agent, message, options.environ) if message else errors.OK


def agent_of(words: Sequence[str]) -> str:
    """The agent whose hook has these words; "" for none that is known."""
    return next((name for name in dialects.AGENTS if {name, f"--agent={name}"} & {*words}), "")


def tell_failure(agent: str, error: RlmCiError) -> int:
    """Tell the person why nothing was judged; the exit code, which holds nobody."""
    hint = f" ({error.hint})" if error.hint else ""
    return _tell(agent, f"rlm-ci judged nothing: {error}{hint}", environment())


def _answer(agent: str, name: str, options: Settings, flags: Mapping[str, Any]) -> str:
    """Answer the program; what the person is told, "" for nothing. Raises RlmCiError."""
    event = dialects.parse(agent, name, _read_stdin())
    if event.subagent_id and name in ("session-start", "prompt", "stop"):
        return ""  # Copilot says so of subagents, too; these are judged with their session
    repository = _repository(event, options)
    folder = sessions.folder_of(repository, event)
    if name in ("stop", "after-edit") and "Task:" not in event.prompt:
        session = sessions.load(folder)
        if session is not None:
            with _limit(session.configuration["timeout"]):
                environ = options.environ
                if sessions.has_nothing_to_do(session, repository, name, folder, environ):
                    return ""  # before what costs time
    turn = _turn(folder, name)
    if turn is None:
        return ""
    with turn:
        return _answer_alone(event, repository, folder, options, flags)


def _turn(folder: str, name: str) -> AbstractContextManager[object] | None:
    """The turn of a hook; None while the same one runs, as where a plugin brings it too."""
    if name in _SUBAGENTS:
        return nullcontext()
    from rlm_ci.system.lock import Lock

    files.make_folder(folder, 0o700)
    try:
        if name in _BEGINNINGS:
            return Lock.wait(os.path.join(folder, "start.lock"), _TIMEOUT, signs=False)
        return Lock.take(os.path.join(folder, f"{name}.lock"), signs=False)
    except LockedError:
        return None
    except UnavailableError:  # no such locks on Windows
        return nullcontext()


def _answer_alone(
    event: Event, repository: Repository, folder: str, options: Settings, flags: Mapping[str, Any]
) -> str:
    session = sessions.load(folder)
    name, task = event.name, ""
    if "Task:" in event.prompt and not event.subagent_id:
        from rlm_ci.agent_hooks import subagents

        task = subagents.of_prompt(event.prompt, repository)
    if session and task not in ("", session.task):
        session = session.replace(task=task, unchanged="")  # the new task is judged
        sessions.save(folder, session)
    if name in _SUBAGENTS:
        if session is None or session.configuration["enabled"]:
            from rlm_ci.agent_hooks import subagents

            recording = subagents.RecordOptions(options.task, options.runs_dir, options.environ)
            return subagents.record(event, repository, recording)
        return ""
    site = WorkSite(event, repository, folder, options.environ, flags)
    if session is None:
        if (name, event.agent) == ("prompt", "copilot"):
            return ""  # it says so while the hook of the session's start still runs
        return _begin(site, task)
    if name == "session-start" and event.source == "resume":
        # The program was started anew, by a person, who may have set an override.
        variables = sessions.variables(options.environ)
        if variables != session.environment:
            sessions.save(folder, session.replace(environment=variables))
    if name not in ("stop", "after-edit") or not session.configuration["enabled"]:
        return ""
    seconds = session.configuration["timeout"]
    with _limit(seconds):
        return _judge(session, site.replace(ends=monotonic() + seconds))


def _judge(session: AgentSession, site: WorkSite) -> str:
    """Hold the agent, advise it, or neither; what the person is told. Raises RlmCiError."""
    event = site.event
    if event.name == "stop":
        from rlm_ci.agent_hooks.stop import stop

        outcome = stop(event, session, site)
        if outcome.hold:
            write(dialects.hold(event.agent, outcome.hold))
        return outcome.message
    from rlm_ci.agent_hooks.after_edit import after_edit

    advice = after_edit(session, site)
    if advice:
        write(dialects.advise(event.agent, advice))
    return ""


def _begin(site: WorkSite, task: str) -> str:
    """Record that a session begins; what the person is told, "" for nothing."""
    from rlm_ci.change.change_set import from_local
    from rlm_ci.config.core_options import CORE
    from rlm_ci.config.options import AGENT_HOOKS, LOOP
    from rlm_ci.judge import config_file

    folder, repository, environ = site.folder, site.repository, site.environ
    rows = (*CORE, *AGENT_HOOKS, *(row for row in LOOP if row.key in ("loop.validator", "sandbox")))
    settings, policy, doubt = Settings(rows, site.flags), "", ""
    try:
        config_file.apply(settings, from_local(repository, "worktree"))
    except RlmCiError as error:
        settings, policy = Settings(rows, site.flags), str(error)
    configuration = {
        row.key.partition(".")[2]: settings.values[row.key] for row in AGENT_HOOKS if row.file
    }
    if configuration["enabled"] and configuration["validator"]:
        commands, doubt = _validators(settings, repository)
        configuration |= {"commands": commands, "sandbox": settings.sandbox}
    sessions.begin(
        folder, repository, environ, task=task,
        policy=policy, configuration=configuration, environment=sessions.variables(environ),
    )  # fmt: skip
    sessions.sweep(folder)
    if policy:
        return f"rlm-ci judges nothing in this session: {policy}; mend it, and start anew"
    event = site.event
    is_start = event.name == "session-start" or (
        event.name in _BEGINNINGS and event.agent == "copilot"
    )
    return doubt if is_start or not configuration["enabled"] else _NO_RECORD


def _validators(settings: Settings, repository: Repository) -> tuple[tuple[str, ...], str]:
    """The commands of which the first that can run is the validator, or why there is none."""
    from rlm_ci.fix import choose_validator

    validator = settings.loop.validator
    try:
        selection = choose_validator.select(validator, repository.root, settings.environ, None)
    except RlmCiError as error:
        return (), f"rlm-ci runs no validator in this session: {error}; set loop.validator"
    if selection.command is None:
        return (), ""
    return (selection.command.text, *selection.others), ""


def _repository(event: Event, options: Settings) -> Repository:
    if not event.session_id:
        raise ConfigError(
            "the event names no session",
            where="standard input",
            hint="see docs/agent-hooks.md for the versions that work",
        )
    environ = without_hook(options.environ)
    project = environ.get(_PROJECTS.get(event.agent, ""), "")
    folders = (options.repo, project, event.cwd)
    start = next((path for path in folders if path and os.path.isdir(path)), os.curdir)
    root, git_dir = discover(start)
    if git_dir is None:
        raise ConfigError(
            "this is no git repository", where=root, hint="run git init, or remove the hook"
        )
    return Repository(root, git_dir, environ)


def _read_stdin() -> bytes:
    """The event. Raises ConfigError for one without end."""
    if sys.stdin is None or sys.stdin.isatty():
        return b""
    data = sys.stdin.buffer.read(dialects.LIMIT + 1)
    if len(data) > dialects.LIMIT:
        raise ConfigError(
            f"the event has more than {dialects.LIMIT:,} bytes", where="standard input"
        )
    return data


def _tell(agent: str, message: str, environ: Mapping[str, str]) -> int:
    """Tell the person, by the program, else on standard error; the exit code."""
    answer = dialects.tell(agent, clip(message, dialects.LONGEST))
    # Copilot CLI shows a person what a hook says that ends with 2, and is not held by it.
    is_copilot_cli = agent == "copilot" and _COPILOT_CLI in environ
    if answer and not is_copilot_cli:
        write(answer)
        return errors.OK
    for line in message.split("\n"):
        say(line)
    return errors.USAGE if is_copilot_cli else errors.OK


@contextmanager
def _limit(seconds: float) -> Iterator[None]:
    """Raise _TimeIsUp within after ``seconds``, where the system has a timer."""
    if not hasattr(signal, "setitimer"):
        yield  # the program itself ends a hook that takes too long
        return

    def give_up(*_: object) -> None:
        raise _TimeIsUp

    signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
