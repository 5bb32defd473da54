"""One model's REPL: blocks of code on a text that is a variable, never in the prompt.

Each block is a fact with what came of it, recorded before it is used. A run that is resumed finds
its variables as they were, random values and times included; a replay runs no code.
"""

from __future__ import annotations

import ast
import os
import re
from contextlib import suppress
from hashlib import sha256
from time import monotonic

from rlm_ci.environments.answer_formats import CodeBlocks
from rlm_ci.environments.quoting import quoted
from rlm_ci.environments.repl.host.context_functions import ContextFunctions, masked_source
from rlm_ci.environments.repl.host.model_functions import NAME as LOG
from rlm_ci.environments.repl.host.model_functions import ModelFunctions, is_log
from rlm_ci.environments.repl.host.options import ERRORS, REFUSALS
from rlm_ci.environments.rewards import FINAL, RLMRewardProfile
from rlm_ci.environments.symbolic.subcalls import FILES
from rlm_ci.environments.turn_loop import Observation
from rlm_ci.errors import DamagedError, LimitError
from rlm_ci.models import thoughts
from rlm_ci.models.record import errors
from rlm_ci.runs.journal import spans
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.environments.delegation import Delegation
    from rlm_ci.environments.repl.host.options import ReplOptions, ReplServices
    from rlm_ci.environments.repl.session import BlockResult, HostFunction, ReplSession
    from rlm_ci.environments.symbolic.visible_context import VisibleContext
    from rlm_ci.environments.tool_calls import ToolCall
    from rlm_ci.models import Completion


#: The one tool: it runs a block.
TOOL = "repl"
_CALL = re.compile(r"\s*(FINAL_VAR|FINAL|SUBMIT)\s*\(")
#: Characters of a final text that are looked at as Python.
_PYTHON = 10_000
#: Nodes that only code has; a text may look like the others.
_CODE = (ast.JoinedStr, ast.Call, ast.Subscript)


class ReplAnswers(CodeBlocks):
    """Blocks run in their order; a final call after them only if none of them failed."""

    def __init__(self) -> None:
        super().__init__(TOOL)

    def calls(self, completion: Completion, turn: int) -> list[ToolCall]:
        calls = super().calls(completion, turn)
        code = "" if completion.finish_reason == "length" else final_code(completion.text)
        if code:
            last = self.call(turn, len(calls), code)
            calls.append(last.replace(if_all_well=bool(calls)))
        return calls

    def missing(self, names: Sequence[str]) -> tuple[str, str]:
        wrong, remedy = super().missing(names)
        return f"{wrong[:-1]}, and no FINAL(...).", f"{remedy} If you are done, call FINAL(answer)."


def final_code(text: str) -> str:
    """The code of the first final call that stands as text outside of all fences, or ""."""
    _, text = thoughts.split(text)
    fence, at = "", 0
    for line in text.split("\n"):
        bare = line.strip()
        if fence:
            if bare.startswith(fence) and not bare.strip(fence[0]):
                fence = ""
        elif bare.startswith(("```", "~~~")):
            fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
        elif match := _CALL.match(line):
            content = _content(text[at + match.end() :])
            return "" if content is None else _as_code(match[1], content.strip())
        at += len(line) + 1
    return ""


def _content(text: str) -> str | None:
    """What stands before the parenthesis that closes the call, preferably at the end of a line."""
    depth = 1
    for match in re.finditer(r"\(|\)([ \t`.;]*(?:\n|\Z))?", text):
        depth += 1 if match[0] == "(" else -1
        if depth <= 0 and match[1] is not None:
            return text[: match.start()]
    last = text.rfind(")")
    return None if last < 0 else text[:last]


def _as_code(name: str, content: str) -> str:
    if name == "FINAL_VAR" or (content.isidentifier() and "_" in content):
        return f"FINAL_VAR({content!r})"
    if content.isidentifier():  # a variable, or one word
        return f"FINAL(globals().get({content!r}, {content!r}))"
    value = repr(content)
    if len(content) <= _PYTHON:
        with suppress(ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
            tree = ast.parse(content, mode="eval")
            if isinstance(tree.body, _CODE):
                return f"FINAL({content})"
            if not isinstance(tree.body, ast.Tuple):  # a text with a comma looks like one
                value = repr(ast.literal_eval(tree))
    return f"FINAL({value})"


#: The kind of the fact of a block.
EXECUTION = "execution"
#: Rewards a question to a model in a block, up to so many.
_QUERY, _QUERIES = 0.1, 5
_VARIABLES = 30
#: The label of the log of its questions, among the files of a block's step.
QUESTIONS = "Questions"
_FAILED = f"{ERRORS} blocks in a row failed"
#: The calls that are left are named if they are no more than these.
FEW_CALLS = 200
_PARTIAL = 'FINAL(answer["content"])'
_TOOLS = (
    {
        "type": "function",
        "function": {
            "name": TOOL,
            "description": "Run a block of Python; variables stay.",
            "parameters": {
                "type": "object",
                "properties": {"code": {"type": "string"}},
                "required": ["code"],
                "additionalProperties": False,
            },
        },
    },
)


class ReplEnvironment(Closing):
    """The REPL over the context of ``window``, which code gets as a text without secrets.

    Its files, and its places in the record, begin with ``folder``. Children go through
    ``delegation``.
    """

    answers = ReplAnswers()

    def __init__(
        self,
        options: ReplOptions,
        services: ReplServices,
        window: VisibleContext,
        delegation: Delegation,
        folder: str,
        *,
        rewards: RLMRewardProfile | None = None,
    ) -> None:
        self._options = options
        self._services = services
        self._window = window
        self._reads = ContextFunctions(window)
        self._delegation = delegation
        self._folder = folder
        self._rewards = rewards or RLMRewardProfile()
        self._session: ReplSession | None = None
        self._models: ModelFunctions | None = None
        #: The states of the blocks so far: path and SHA-256.
        self._states: list[tuple[str, str]] = []
        self._blocks = 0
        #: Seconds that the block has left for functions of the context: they take the host's time.
        self._reading = 0.0
        self._errors = self._refusals = 0
        self._answer: str | None = None
        #: The files with the prompts of all questions so far.
        self.prompts: list[str] = []

    def tools(self) -> tuple[dict[str, Any], ...]:
        return _TOOLS

    def act(self, name: str, arguments: Mapping[str, Any]) -> Observation:  # noqa: ARG002 - there is one
        """Run a block. Raises LimitError if a budget ended in it, and what ends a run."""
        block = self._block(arguments["code"])
        if block["limit"] is not None:
            raise errors.from_dict(block["limit"])
        answer, error = block["answer"], block["error"]
        if answer is not None and not answer.strip():
            error, answer = error or "The answer is empty.", None
        judge = None if self._delegation.depth else self._services.flaw
        if answer is not None and judge and (flaw := judge(answer)):
            error, answer = f"The answer is not accepted: {flaw}", None
            self._refusals += 1
        reward = block["reward"] + self._rewards.python(succeeded=not error, has_stderr=False)
        reward += _QUERY * min(block["asked"], _QUERIES)
        if answer is not None:
            return Observation(answer, final=True, reward=FINAL, details=self._details(block))
        self._errors = self._errors + 1 if error else 0
        if self._errors == ERRORS or self._refusals == REFUSALS:
            last = printable(error.strip().rsplit("\n", 1)[-1])[:300]
            is_refused = self._refusals == REFUSALS
            what = f"{REFUSALS} answers were refused" if is_refused else _FAILED
            text = f"{what}; the last: {last}"
            return Observation(
                text, final=True, blocked=True, reward=reward, failed=True,
                details=self._details(block),
            )  # fmt: skip
        text = self._services.redact(self._observation(block, error))
        details = self._details(block)
        return Observation(text, reward=reward, failed=bool(error), details=details)

    def partial(self) -> str:
        """What the code has put into ``answer`` so far, for an episode that ends without one."""
        if self._blocks and self._answer is None:
            self._block(_PARTIAL)
        return self._answer or ""

    def forget(self) -> None:
        """Remove the states: the episode has ended."""
        for path, _ in self._states:
            self._services.files.remove(path)

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    # ── a block ──

    def _block(self, code: str) -> Mapping[str, Any]:
        """What came of the next block."""
        self._blocks += 1
        folder = f"{self._folder}/block-{self._blocks}"
        fresh = False

        def produce() -> Mapping[str, Any]:
            nonlocal fresh
            fresh = True
            return self._run(code, folder)

        spans.current().files[QUESTIONS] = f"{folder}/{LOG}"
        fact = self._services.fact(EXECUTION, folder, {"code": code}, produce)
        if not fresh:
            for path, digest in fact["files"].items():
                if not path.startswith(f"{folder}/"):
                    raise DamagedError(
                        "the record names a file that is not of its block",
                        where=printable(path),
                        hint="restore calls.jsonl from a copy",
                    )
                self._services.files.restore(path, digest)
        if fact["state"] is not None:
            self._states.append((f"{folder}/state", fact["state"]))
        self._answer = fact["answer"]
        self.prompts += filter(is_prompt, fact["files"])
        return fact

    def _run(self, code: str, folder: str) -> Mapping[str, Any]:
        session = self._open()
        models = ModelFunctions(self._options, self._services, self._delegation, folder)
        self._models = models
        self._reading = seconds = self._seconds()
        with models.log:
            ended = session.execute(code, seconds=seconds)
        self._models = None
        failure = models.failure
        if failure is not None and not isinstance(failure, LimitError):
            raise failure
        return {
            **self._block_record(ended, folder),
            "asked": models.sent,
            "failed": models.failed,
            "cut": models.cut,
            "not_allowed": models.not_allowed,
            "reward": models.reward,
            "limit": None if failure is None else errors.to_dict(failure, self._services.redact),
            "left": self._services.left(),
            "files": dict(sorted(models.files.written.items())),
        }

    def _block_record(self, ended: BlockResult, folder: str) -> dict[str, Any]:
        state = None
        if ended.state:
            state = sha256(ended.state).hexdigest()
            self._services.files.save(f"{folder}/state", ended.state)
        redact = self._services.redact
        return {
            "output": _middle_out(redact(ended.output), self._options.output_limit),
            "error": _middle_out(redact(ended.error), self._options.output_limit // 4),
            "answer": ended.answer,
            "seconds": round(ended.seconds, 3),
            "variables": [list(variable) for variable in ended.variables],
            "state": state,
            "state_error": redact(ended.state_error)[:300],
        }

    def _seconds(self) -> float:
        deadline = self._delegation.deadline
        left = self._options.block_seconds
        return left if deadline is None else max(0.1, min(left, deadline - monotonic()))

    def _open(self) -> ReplSession:
        """The session, with the variables of the blocks so far."""
        if self._session is None:
            names = ("llm_query", "llm_query_batched", "rlm_query", "rlm_query_batched")
            functions = {name: self._on_models(name) for name in names}
            for name in ("read", "search", "peek"):
                functions[name] = self._on_context(name)
            copy = os.path.join(self._services.scratch, *self._folder.split("/"), "masked.txt")
            source = masked_source(self._window.context, copy, self._services.redact)
            states = [self._services.files.saved(*state) for state in self._states]
            self._session = self._services.open(context=source, functions=functions, states=states)
        return self._session

    def _on_context(self, name: str) -> HostFunction:
        function = _host(getattr(self._reads, name))

        def call(args: list[Any], kwargs: dict[str, Any]) -> Any:
            if self._reading <= 0:
                raise ValueError("the block has used up its time for read, search and peek")
            begun = monotonic()
            try:
                return function(args, kwargs)
            finally:
                self._reading -= monotonic() - begun

        return call

    def _on_models(self, name: str) -> HostFunction:
        def call(args: list[Any], kwargs: dict[str, Any]) -> Any:
            models = self._models
            if models is None:  # a thread that its block has left behind
                raise ValueError(f"{name} can only be called while a block runs")
            return _host(getattr(models, name))(args, kwargs)

        return call

    # ── what the model is told ──

    def _observation(self, row: Mapping[str, Any], error: str) -> str:
        parts = [quoted("Output", row["output"])] if row["output"].strip() else []
        if error:
            parts.append(quoted("Error", error))
        if not parts:
            parts.append("It printed nothing.")
        if row["state_error"]:
            parts.append(f"Not kept if the interpreter restarts: {printable(row['state_error'])}")
        if row["variables"]:
            shown = [f"{name} ({kind}, {size:,})" for name, kind, size in row["variables"]]
            more = f" and {len(shown) - _VARIABLES} more" if len(shown) > _VARIABLES else ""
            parts.append(f"Variables: {', '.join(map(printable, shown[:_VARIABLES]))}{more}")
        if row["asked"]:
            failed = f", {row['failed']:,} without an answer" if row["failed"] else ""
            cut = f", {row['cut']:,} with an answer that was cut off" if row["cut"] else ""
            parts.append(f"Asked {count(row['asked'], 'question')}{failed}{cut}.")
        if row["left"] is not None and row["left"] <= FEW_CALLS:
            parts.append(f"The budget has room for about {count(row['left'], 'more call')}.")
        return "\n\n".join(parts)

    def _details(self, row: Mapping[str, Any]) -> dict[str, Any]:
        names = ("output", "error", "answer", "seconds", "asked", "failed", "not_allowed")
        return {"block": self._blocks, **{name: row[name] for name in names}}


def is_prompt(path: str) -> bool:
    """Whether a file has a prompt, or several."""
    return is_log(path) or path.rpartition("/")[2] == FILES["prompt"]


def _host(function: Any) -> HostFunction:
    """``function`` as the session calls it; wrong arguments are a ValueError.

    So are those that are nested as deeply as JSON could just be read.
    """

    def call(args: list[Any], kwargs: dict[str, Any]) -> Any:
        try:
            return function(*args, **kwargs)
        except (TypeError, RecursionError) as error:
            raise ValueError(str(error)) from None

    return call


def _middle_out(text: str, limit: int) -> str:
    """``text`` with at most ``limit`` characters: its beginning and its end."""
    if len(text) <= limit:
        return text
    head = limit // 2
    left_out = len(text) - limit
    return f"{text[:head]}\n[... {left_out:,} characters left out ...]\n{text[head - limit :]}"
