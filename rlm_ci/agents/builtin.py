"""The built-in coding agent: a model, the turn loop, and the tools of a work tree."""

from __future__ import annotations

from collections import Counter

from rlm_ci.agents.agent import AgentOutcome
from rlm_ci.environments.answer_formats import JsonCalls, NativeCalls
from rlm_ci.environments.coding.tools import CodeTools
from rlm_ci.environments.conversation import Conversation
from rlm_ci.environments.quoting import OUTPUT_LIMIT, SUMMARY_LIMIT
from rlm_ci.environments.turn_loop import LoopWatcher, TurnLoop
from rlm_ci.models.context_length import ContextFit
from rlm_ci.resources import loader
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlm_ci.agents.agent import Assignment
    from rlm_ci.environments.coding.tools import Services
    from rlm_ci.environments.turn_loop import Complete, LoopAction, LoopEnd, TurnLimits
    from rlm_ci.runs import Fact


class BuiltinAgent:
    """An agent that is a model behind an OpenAI-compatible endpoint.

    ``complete`` answers requests and keeps the ledger; ``context_tokens`` is what the model reads.
    """

    name = "openai"
    metered = True

    def __init__(
        self,
        complete: Complete,
        fact: Fact,
        *,
        model: str,
        services: Services,
        bounds: TurnLimits,
        context_tokens: int | None = None,
    ) -> None:
        self._fit = ContextFit.of(context_tokens)
        self._complete = complete
        self._fact = fact
        self._model = model
        self._services = services
        self._bounds = bounds
        #: Does the endpoint take tools? Known after the first question.
        self._takes_tools: bool | None = None
        self._acts: Counter[str] = Counter()

    def act(self, task: Assignment) -> AgentOutcome:
        """Work on it until the model is done. Raises LimitError, RemoteError, StorageError."""
        environment = CodeTools(
            task.workspace.root,
            self._services,
            read_only=task.read_only,
            may_run=task.may_run,
            files=task.files,
            room=OUTPUT_LIMIT if self._fit is None else self._fit.output,
            few=self._fit is not None and self._fit.is_small,
        )
        step = self._step(task)
        loop = self._loop(environment, task.on_progress)
        if self._takes_tools is None:
            first = self._history()
            first.prompt(task.prompt)
            self._takes_tools = loop.takes_tools(self._fact, "agent", first, step)
            if not self._takes_tools:
                loop = self._loop(environment, task.on_progress)
        conversation: list[Any] = task.conversation
        if not conversation:
            conversation += [self._history(), task.iteration]
        history: Conversation = conversation[0]
        if conversation[1] != task.iteration:
            history.fold()
            conversation[1] = task.iteration
        history.prompt(self._prompt(environment, task))
        return _outcome(loop.run(history, step))

    def _history(self) -> Conversation:
        history = Conversation()
        render = loader.load_template("prompts/coder.md.j2")
        has_run = self._services.run is not None
        history.prompt(render({"has_run": has_run, "variables": self._variables()}), "system")
        return history

    def _variables(self) -> list[str]:
        """Of the environment of commands: a fact, as a resumed run may have another."""
        names = self._services.variables
        fact = self._fact("environment", "environment", {}, lambda: {"variables": list(names)})
        return [printable(name) for name in fact["variables"]]

    def _step(self, task: Assignment) -> str:
        """Where in the run this is; a role may act more than once in an iteration."""
        step = f"iteration-{task.iteration}/{task.role}"
        self._acts[step] += 1
        return step if self._acts[step] == 1 else f"{step}-{self._acts[step]}"

    def _prompt(self, environment: CodeTools, task: Assignment) -> str:
        if self._takes_tools:
            return task.prompt
        return f"{task.prompt.rstrip()}\n\n{JsonCalls.prompt(environment.tools())}"

    def _loop(self, environment: CodeTools, on_progress: Callable[[str], None]) -> TurnLoop:
        return TurnLoop(
            self._complete,
            environment,
            model=self._model,
            bounds=self._bounds,
            answers=JsonCalls() if self._takes_tools is False else NativeCalls(),
            watcher=_Progress(on_progress),
            fit=self._fit,
        )


class _Progress(LoopWatcher):
    """Tells people what the agent does."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell

    def before(self, action: LoopAction) -> None:
        arguments = action.arguments or {}
        about = str(arguments.get("path") or arguments.get("command", ""))[:200]
        self._tell(printable(f"turn {action.turn}: {action.name} {about}".rstrip()))


def _outcome(ending: LoopEnd) -> AgentOutcome:
    text = ending.text.strip()
    code = 1 if ending.reason else 0
    return AgentOutcome(code, text[:SUMMARY_LIMIT], text, ending.reason, ending.blocked)
