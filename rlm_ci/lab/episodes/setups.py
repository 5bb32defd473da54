"""How the environment of an episode is made, and what its model is told first.

In ``pure_rlm`` the context is a variable of a REPL. Other Python that a model wrote runs in the
sandbox in an empty folder, or by the caller's engine.
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import contextmanager
from functools import partial
from itertools import count

from rlm_ci.context.builder.build import build
from rlm_ci.environments.answer_formats import JsonActions
from rlm_ci.environments.conversation import size_of
from rlm_ci.environments.generic import Execution, GenericEnvironment, GenericServices
from rlm_ci.environments.names import CODING, GENERIC, environment_of
from rlm_ci.environments.quoting import quoted
from rlm_ci.environments.repl.episode import ReplEpisodes
from rlm_ci.environments.repl.host.model_functions import ReplTask
from rlm_ci.environments.repl.host.options import ReplOptions, ReplServices
from rlm_ci.environments.rewards import RLMRewardProfile
from rlm_ci.environments.turn_loop import ask_shortened
from rlm_ci.errors import ConfigError, LimitError
from rlm_ci.lab import chat
from rlm_ci.lab.connectors import CodeResult
from rlm_ci.lab.episodes.episode import EpisodeSetup
from rlm_ci.lab.mcp.tools import McpEnvironment
from rlm_ci.models import ModelRequest
from rlm_ci.models.context_length import ContextFit
from rlm_ci.resources import loader
from rlm_ci.sandbox import JobLimits, SandboxJob, toolchain_mounts, toolchain_variables
from rlm_ci.system import files
from rlm_ci.text.encodings import BYTES
from rlm_ci.text.printable import clip, encodable
from rlm_ci.workspace.tree import ShownTree, redirected

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from contextlib import AbstractContextManager
    from typing import Any, Protocol

    from rlm_ci.context.context import Context
    from rlm_ci.environments.turn_loop import Complete, Environment
    from rlm_ci.lab.episodes.episode import EpisodeNode, EpisodeOptions
    from rlm_ci.lab.episodes.work_tree import WorkTree
    from rlm_ci.lab.mcp.tools import CallTool, McpServers
    from rlm_ci.runs import Fact
    from rlm_ci.sandbox.job import Sandbox

    class Interpreter(Protocol):
        """Runs a piece of Python, each in an interpreter of its own."""

        def run(self, code: str, seconds: float) -> CodeResult:
            """Run it, for so many seconds at most."""


#: The kind of the fact of a piece of code.
CODE = "code"
_SHORTENED = "[The model reads less than this prompt: its middle was left out.]"
#: Bytes of a context that fits into a prompt.
CONTEXT_LIMIT = 150_000


class Setups:
    """Makes the environments of a run. Without an ``interpreter``, code is only replayed.

    ``context`` is the text that the root is given; ``seconds()`` those that code may take.
    """

    def __init__(
        self,
        options: EpisodeOptions,
        complete: Complete,
        fact: Fact,
        *,
        interpreter: Interpreter | None,
        seconds: Callable[[], float],
        work_tree: WorkTree | None = None,
        repl: ReplSetups | None = None,
        context: str = "",
        servers: McpServers | None = None,
    ) -> None:
        self._options = options
        self._complete = complete
        self._fact = fact
        self._profile = RLMRewardProfile.from_mapping(options.rewards)
        self._interpreter = interpreter
        self._seconds = seconds
        self._work_tree = work_tree
        self._repl = repl
        self._context = context
        self._servers = servers

    def of(self, node: EpisodeNode) -> EpisodeSetup:
        """The environment of ``node``. Raises ConfigError for one that is not there."""
        kind = environment_of(node.environment)
        if kind == GENERIC:
            return self._generic(node)
        if kind == CODING:
            return self._coding(node)
        if self._repl is None:
            raise ConfigError(
                "there is no REPL for a child",
                where=node.environment,
                hint="only the code of a REPL asks such children",
            )
        return self._repl.of(node)

    # ── generic ──

    def _generic(self, node: EpisodeNode) -> EpisodeSetup:
        services = self._services_of(node, self._executing(node.position))
        environment = self._with_servers(
            GenericEnvironment(services, name=node.environment), node.position
        )

        @contextmanager
        def scratch(step: str) -> Iterator[Environment]:
            execute = self._executing(step)
            # Nothing is asked or delegated for an answer that may not be taken.
            tried = services.replace(execute=execute, query=None, delegation=None)
            yield GenericEnvironment(tried, name=node.environment)

        prompts = (("system", self._rules(environment, node)), ("user", self._task(node)))
        return EpisodeSetup(environment, JsonActions(), prompts, scratch)

    # ── coding ──

    def _coding(self, node: EpisodeNode) -> EpisodeSetup:
        tree = self._work_tree
        if tree is None:
            raise ConfigError(
                "there is no copy of the code for a child",
                where=node.environment,
                hint="only the children of an episode that works on code can work on it",
            )
        # The caller's own interpreter; without one, Python runs in the copy.
        execute = self._executing(node.position) if self._options.engine else None
        services = self._services_of(node, execute)
        environment = tree.environment(services, node.environment, node.position)

        @contextmanager
        def scratch(step: str) -> Iterator[Environment]:
            run_code = self._executing(step) if self._options.engine else None
            tried = services.replace(execute=run_code, query=None, delegation=None)
            with tree.scratch(tried, node.environment, step) as copy:
                yield copy

        own_and_more = self._with_servers(environment, node.position)
        prompts = (("system", self._rules(own_and_more, node)), ("user", self._task(node)))
        return EpisodeSetup(own_and_more, JsonActions(), prompts, scratch, environment.translate)

    def _with_servers(self, environment: Environment, step: str) -> Environment:
        """The same with the tools of MCP servers; no branch tries them, as they act outside."""
        if not self._options.mcp:
            return environment
        return McpEnvironment(environment, self._options.mcp, self._calling(step))

    def _calling(self, step: str) -> CallTool:
        """Calls tools of MCP servers, each call a fact."""
        numbers = count(1)

        def call(server: str, tool: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
            def produce() -> Mapping[str, Any]:
                if self._servers is None:
                    raise ConfigError(
                        "the run began with MCP servers, which are not named now",
                        where="--mcp-config",
                        hint="repeat --mcp-config FILE",
                    )
                limit, seconds = self._seconds(), self._options.exec_timeout
                ended = self._servers.call(server, tool, arguments, min(seconds, limit))
                if ended["timed_out"] and limit < seconds:
                    raise out_of_time()
                return ended

            key = {"server": server, "tool": tool, "arguments": dict(arguments)}
            result = self._fact("mcp", f"{step}/mcp-{next(numbers)}", key, produce)
            return result["text"], result["failed"]

        return call

    def _services_of(
        self, node: EpisodeNode, execute: Callable[[str, float], Execution] | None
    ) -> GenericServices:
        return GenericServices(
            execute=execute,
            query=partial(self._query, node),
            delegation=node.delegation,
            seconds=self._options.exec_timeout,
            profile=self._profile,
        )

    def _executing(self, step: str) -> Callable[[str, float], Execution]:
        """Runs pieces of code, each a fact."""
        number = 0

        def execute(code: str, seconds: float) -> Execution:
            nonlocal number
            number += 1

            def produce() -> Mapping[str, Any]:
                if self._interpreter is None:
                    raise RuntimeError("a replay runs no code")
                limit = self._seconds()
                ended = self._interpreter.run(code, min(seconds, limit)).to_dict()
                if ended["timed_out"] and limit < seconds:
                    raise out_of_time()
                return ended

            at = f"{step}/{CODE}-{number}"
            result = self._fact(CODE, at, {"code": code}, produce)
            return Execution(result["stdout"], result["stderr"], succeeded=not result["failed"])

        return execute

    def _task(self, node: EpisodeNode) -> str:
        """The task, with its context, and what was said in the session before."""
        task = node.task
        context = self._context if node.parent is None else task.context
        if len(context.encode("utf-8", "replace")) > CONTEXT_LIMIT:
            raise ConfigError(
                f"the context has more than {CONTEXT_LIMIT:,} bytes, too many for a prompt",
                where="context",
                hint="use --environment pure_rlm, which keeps it in a variable",
            )
        role = f"You are {task.role}." if task.role else ""
        session = self._options.session if node.parent is None else None
        dialogue = chat.told_so_far(session) if session else ""
        fit = ContextFit.of(self._options.context_tokens)
        if fit is not None and fit.is_small:  # the task is to be whole
            dialogue, context = fit.clip(dialogue), fit.clip(context)
        data = quoted("Context", context) if context else ""
        return "\n\n".join(filter(None, (role, dialogue, task.task, data)))

    def _rules(self, environment: Environment, node: EpisodeNode) -> str:
        tools = [
            {**tool["function"], "arguments": json.dumps(tool["function"]["parameters"])}
            for tool in environment.tools()
        ]
        render = loader.load_template("prompts/episode.md.j2")
        # The number of the beginning: a request must not change when the run is given more.
        steps = self._options.max_steps if node.parent is None else node.max_steps
        has_files = environment_of(node.environment) == CODING
        return render(
            {
                "tools": tools,
                "steps": steps,
                "has_files": has_files,
                "framework": self._options.framework,
            }
        )

    def _query(self, node: EpisodeNode, prompt: str, step: str) -> str:
        """Ask the sub-model one question."""
        request = ModelRequest(
            model=self._options.sub_model or self._options.model,
            messages=({"role": "user", "content": prompt},),
            max_tokens=self._options.max_completion_tokens,
        )
        fit = ContextFit.of(self._options.context_tokens)
        reply = ask_shortened(self._complete, request, f"{node.position}/{step}", fit).text
        is_whole = fit is None or size_of(request.messages) <= fit.room(request.max_tokens)
        return reply if is_whole else f"{_SHORTENED}\n{reply}"


def out_of_time() -> LimitError:
    return LimitError(
        "the time budget is used up",
        budget="max_minutes",
        where="time_budget_seconds",
        hint="raise --time-budget-seconds, and start again",
    )


#: The folder of its files in a run, and the beginning of its places in the record.
FOLDER = "rlm/repl"


class ReplSetups:
    """Makes the REPL of an episode; the root's is over ``context``, a child's over its own."""

    def __init__(
        self, options: EpisodeOptions, services: ReplServices, context: Context | None
    ) -> None:
        self._options = options
        self._services = services
        self._context = context
        self._episodes = ReplEpisodes(
            ReplOptions(
                model=options.model,
                sub_model=options.sub_model or options.model,
                max_tokens=options.max_completion_tokens,
                concurrency=options.parallelism,
                block_seconds=options.exec_timeout,
                max_turns=options.max_steps,
                sandbox=options.sandbox,
                context_tokens=options.context_tokens,
            ),
            services,
        )

    def of(self, node: EpisodeNode) -> EpisodeSetup:
        """The REPL of ``node``. Raises StorageError."""
        task, services = node.task, self._services
        folder = FOLDER if node.parent is None else f"{FOLDER}/{node.position.replace('/', '-')}"
        if isinstance(task, ReplTask) and task.files is not None:
            folder, services = task.folder, services.replace(files=task.files)
        built = None
        context = self._context if node.parent is None else None
        if context is None:
            text = io.BytesIO(encodable(task.context or task.task).encode())
            path = os.path.join(services.scratch, *folder.split("/"))
            built = context = build(text, path, encoding=BYTES)
        environment = self._episodes.environment(context, node.delegation, folder, services)
        opening = self._episodes.opening(task.task, context, node.delegation).messages()
        prompts = [(str(message["role"]), str(message["content"])) for message in opening]
        session = self._options.session if node.parent is None else None
        if session and (dialogue := chat.told_so_far(session)):
            prompts.insert(1, ("user", dialogue))

        def close(*, completed: bool) -> None:
            if completed:  # else the run may be given more, and needs its variables
                environment.forget()
            environment.close()
            if built is not None:
                built.close()

        return EpisodeSetup(
            environment, environment.answers, tuple(prompts), _no_scratch, None, close,
            environment.partial,
        )  # fmt: skip


def _no_scratch(_path: str) -> AbstractContextManager[Environment]:
    raise RuntimeError("a REPL tries no branches")


#: Bytes of one stream that are recorded.
_KEEP = 64 << 10
_OUT = "/tmp/rlm-ci-out"  # noqa: S108 - in the sandbox's own file system
#: What one piece of code may use.
_MEMORY = 2 << 30
_WRITTEN = 16 << 20
_PROCESSES = 128


class SandboxedPython:
    """Runs code by this Python, in ``sandbox``; nothing of the machine's own files is there."""

    def __init__(self, sandbox: Sandbox, environ: Mapping[str, str]) -> None:
        self._sandbox = sandbox
        prefix = os.path.dirname(os.path.dirname(sys.executable))
        programs = os.path.join(prefix, "bin")
        variables = {**environ, "PATH": programs}
        if os.path.isfile(os.path.join(prefix, "pyvenv.cfg")):
            variables["VIRTUAL_ENV"] = prefix
        self._mounts = toolchain_mounts(variables, "/dev")
        self._env = {**toolchain_variables(variables), "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self, code: str, seconds: float) -> CodeResult:
        """See ``Interpreter``. Raises UnavailableError, ConfigError for the sandbox."""
        with files.scratch("rlm-ci-code-") as folder:
            out = os.path.realpath(folder)
            job = SandboxJob(
                redirected((sys.executable, "-I", "-"), "stdout"),
                env=self._env,
                stdin=code.encode("utf-8", "surrogateescape"),
                limits=JobLimits(
                    wall=seconds, memory=_MEMORY, file_size=_WRITTEN, processes=_PROCESSES
                ),
                keep=_KEEP,
            )
            ended = ShownTree(out, _OUT, self._mounts, writable=True).run(self._sandbox, job)
            data = files.read_or_none(os.path.join(out, "stdout"), _WRITTEN) or b""
        stdout = clip(data[: 4 * _KEEP].decode("utf-8", "replace"), _KEEP)
        stderr = ended.output.text()
        timed_out = ended.reason == "timeout"
        if ended.reason:
            what = f"after {seconds:g} seconds" if timed_out else f": {ended.reason}"
            stderr = f"{stderr}\n[stopped {what}]".lstrip()
        return CodeResult(
            stdout,
            stderr,
            failed=bool(ended.returncode or ended.reason),
            timed_out=timed_out,
            seconds=round(ended.seconds, 3),
        )
