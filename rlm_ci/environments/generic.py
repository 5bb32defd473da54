"""The generic environment: Python, questions to a model, tasks for children, an answer.

The environment for code has these actions too.
"""

from __future__ import annotations

from functools import partial

from rlm_ci.environments import delegation, rewards
from rlm_ci.environments.coding.file_references import SCHEMA as REFERENCES
from rlm_ci.environments.delegation import ChildTask
from rlm_ci.environments.names import CODING, ENVIRONMENTS, environment_of
from rlm_ci.environments.quoting import OUTPUT_LIMIT, SUMMARY_LIMIT, quoted, visible
from rlm_ci.environments.rewards import RLMRewardProfile
from rlm_ci.environments.tool_calls import function
from rlm_ci.environments.turn_loop import Observation
from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.system.ordered_threads import in_order
from rlm_ci.system.safe_tree import Refused
from rlm_ci.text.printable import clip, count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.environments.coding.file_references import LazyFileContext
    from rlm_ci.environments.delegation import ChildResult, Delegation

#: Questions of one action; of these, so many at once.
QUESTIONS, _AT_ONCE = 20, 4
_CODE_LIMIT = 200_000
_STRING = {"type": "string"}
_INTEGER = {"type": "integer", "minimum": 1}
_CHILD = {
    "context_refs": REFERENCES,
    "environment": {"type": "string", "description": "default: yours"},
    "role": {"type": "string", "description": "what the child is, in a few words"},
    "steps": {**_INTEGER, "description": "steps that a child may take"},
}
#: name: what it does, arguments, how many of them (from the first) must be there.
_ACTIONS: Mapping[str, tuple[str, Mapping[str, Any], int]] = {
    "run_python": (
        "Run Python in a sandbox without network. Print what you want to see; no variable lasts.",
        {"code": _STRING},
        1,
    ),
    "llm_query": (
        "Ask a model one question. It sees nothing but the prompt.",
        {"prompt": _STRING},
        1,
    ),
    "llm_query_batched": (
        "Ask a model several questions at once.",
        {"prompts": {"type": "array", "items": _STRING, "minItems": 1, "maxItems": QUESTIONS}},
        1,
    ),
    "delegate": (
        "Give a part of the task to a child, which works as you do and sees only what you tell it.",
        {"task": _STRING, **_CHILD},
        1,
    ),
    "delegate_batch": (
        "Give several independent parts to children, which work side by side.",
        {
            "tasks": {"type": "array", "items": _STRING, "minItems": 1},
            **_CHILD,
            "parallel": {**_INTEGER, "description": "children at work at once"},
        },
        1,
    ),
    "final": ("End your work with the answer.", {"final_response": _STRING}, 1),
}


class Execution(Value):
    """What came of code: its output, what it wrote as errors, whether it ran to its end."""

    output: str
    error: str = ""
    succeeded: bool = True


class GenericServices(Value):
    """What the actions need of a run. There is no action for a service of None.

    ``execute(code, seconds)`` runs Python. ``query(prompt, place)`` asks a model, under the run's
    budget; ``place`` is unique in the episode. ``files`` holds what references name.
    """

    execute: Callable[[str, float], Execution] | None = None
    query: Callable[[str, str], str] | None = None
    delegation: Delegation | None = None
    files: LazyFileContext | None = None
    seconds: float = 30
    profile: RLMRewardProfile = RLMRewardProfile()


class GenericEnvironment:
    """Carries the actions out. ``name`` is the environment that children get by default."""

    def __init__(
        self,
        services: GenericServices,
        *,
        name: str = "generic",
        patterns: Callable[[str], int] = lambda _code: 0,
    ) -> None:
        """``patterns`` counts what a reward profile has a bonus for in code."""
        self._name = name
        self._services = services
        self._patterns = patterns
        self._queries = 0
        delegates = services.delegation
        delegate = None if delegates is None else partial(self._delegate, delegates)
        actions: dict[str, Callable[[Mapping[str, Any]], Observation] | None] = {
            "run_python": services.execute and partial(self._run_python, services.execute),
            "llm_query": services.query and partial(self._query, services.query),
            "llm_query_batched": services.query and partial(self._query_batch, services.query),
            "delegate": delegate,
            "delegate_batch": delegate,
            "final": _final,
        }
        self._actions = {name: action for name, action in actions.items() if action is not None}

    def tools(self) -> tuple[dict[str, Any], ...]:
        """The actions as OpenAI describes functions; no references where there are no files."""
        hidden = () if self._services.files else ("context_refs",)
        return tuple(
            function(
                name,
                summary,
                {key: value for key, value in arguments.items() if key not in hidden},
                required,
            )
            for name, (summary, arguments, required) in _ACTIONS.items()
            if name in self._actions
        )

    def act(self, name: str, arguments: Mapping[str, Any]) -> Observation:
        """Carry out one action. Raises LimitError when a budget ends, StorageError."""
        try:
            return self._actions[name](arguments)
        except Refused as error:
            reward = rewards.UNSUPPORTED_ACTION
            return Observation(f"Refused: {error}", reward=reward, failed=True)

    def _run_python(
        self, execute: Callable[[str, float], Execution], arguments: Mapping[str, Any]
    ) -> Observation:
        code: str = arguments["code"]
        if not code.strip() or len(code) > _CODE_LIMIT:
            raise Refused(f"code has 1 to {_CODE_LIMIT:,} characters")
        done = execute(code, self._services.seconds)
        parts = [quoted("Output", _shown(done.output))]
        if done.error.strip():
            parts.append(quoted("Errors", _shown(done.error)))
        if not done.succeeded:
            parts.insert(0, "The code failed.")
        reward = self._services.profile.python(
            succeeded=done.succeeded,
            has_stderr=bool(done.error.strip()),
            patterns=self._patterns(code),
        )
        return Observation("\n".join(parts), reward=reward, failed=not done.succeeded)

    def _query(self, ask: Callable[[str, str], str], arguments: Mapping[str, Any]) -> Observation:
        self._queries += 1
        try:
            answer = ask(arguments["prompt"], f"query-{self._queries}")
        except RemoteError as error:
            message = f"The model did not answer: {printable(str(error)[:500])}"
            return Observation(message, reward=rewards.FAILED_QUERY, failed=True)
        reward = rewards.QUERY if answer.strip() else rewards.NO_ANSWER
        return Observation(quoted("The model's answer", _shown(answer)), reward=reward)

    def _query_batch(
        self, ask: Callable[[str, str], str], arguments: Mapping[str, Any]
    ) -> Observation:
        self._queries += 1
        prompts: list[str] = arguments["prompts"]
        errors: dict[int, str] = {}

        def answer_to(index: int) -> str:
            try:
                return ask(prompts[index], f"query-{self._queries}.{index + 1}")
            except RemoteError as error:
                errors[index] = printable(str(error)[:500])
                return ""

        tasks = [partial(answer_to, index) for index in range(len(prompts))]
        answers, error = in_order(tasks, _AT_ONCE)
        if error is not None:
            raise error
        room = OUTPUT_LIMIT // len(prompts)
        parts = [
            f"Question {index + 1} was not answered: {errors[index]}"
            if index in errors
            else quoted(f"Answer {index + 1} of {len(prompts)}", _shown(str(answer), room))
            for index, answer in enumerate(answers)
        ]
        reward = max(-0.4, 0.2 - 0.15 * len(errors)) if errors else rewards.QUERY_BATCH
        return Observation("\n".join(parts), reward=reward, failed=bool(errors))

    def _delegate(self, delegates: Delegation, arguments: Mapping[str, Any]) -> Observation:
        words: Sequence[str] = arguments.get("tasks") or [arguments["task"]]
        if len(words) > delegates.max_children:
            raise Refused(
                f"{count(len(words), 'task')}; one action may give {delegates.max_children}"
            )
        if not all(word.strip() for word in words):
            raise Refused("a task is a text that is not empty")
        try:
            name = environment_of(arguments.get("environment") or self._name)
        except ConfigError:
            raise Refused(f"environments are: {', '.join(ENVIRONMENTS)}") from None
        if name == CODING and environment_of(self._name) != CODING:
            raise Refused("only who works on code itself can give such a task")
        context, references = self._context(arguments.get("context_refs") or ())
        tasks = [
            ChildTask(
                word.strip(),
                context,
                name,
                printable(str(arguments.get("role", ""))[:200]),
                references,
                arguments.get("steps"),
            )
            for word in words
        ]
        # There is one copy of the code: who works on it does so alone.
        parallel = 1 if name == CODING else arguments.get("parallel")
        results = delegates.run(tasks, parallel)
        shown = _shown_results(results)
        failed = not any(result.completed for result in results)
        details = {"children": [result.to_dict() for result in results]}
        return Observation(shown, reward=delegation.reward(results), failed=failed, details=details)

    def _context(self, values: Sequence[object]) -> tuple[str, tuple[dict[str, Any], ...]]:
        """The lines that references name, and the references."""
        files = self._services.files
        if files is None or not values:
            return "", ()
        references = files.resolve_many(values)
        return files.render(references), tuple(reference.to_dict() for reference in references)


def _final(arguments: Mapping[str, Any]) -> Observation:
    answer = arguments["final_response"].strip()
    if not answer:
        raise Refused("final_response is empty: give the answer")
    return Observation(answer, final=True, reward=rewards.FINAL)


def _shown(text: str, room: int = OUTPUT_LIMIT) -> str:
    lines = "\n".join(map(visible, text.rstrip("\n").split("\n")))
    return clip(lines, room)


def _shown_results(results: Sequence[ChildResult]) -> str:
    room = max(SUMMARY_LIMIT, OUTPUT_LIMIT // max(1, len(results)))
    parts = []
    for number, result in enumerate(results, 1):
        if result.completed:
            parts.append(quoted(f"Child {number} is done", _shown(result.answer, room)))
            continue
        did = "was not started" if result.skipped else "did not get done"
        parts.append(f"Child {number} {did}: {result.reason or 'it gave no reason'}")
        if result.answer.strip():
            parts.append(quoted("It said", _shown(result.answer, room)))
    return "\n".join(parts)
