"""``llm_query`` and ``rlm_query``, one by one and in batches, for the code of one block.

Each question has a place in the record that follows from its words, and from how often the block
has asked the same: so threads may ask in any order, and a run that was killed within a block asks
nothing twice. A failed slot of a batch is ``{"error": …}``: never a text, which could be taken
for an answer.
"""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from functools import partial
from hashlib import sha256

from rlm_ci.environments.delegation import ChildResult, ChildTask
from rlm_ci.environments.repl.host.options import LIMIT, write_all
from rlm_ci.environments.symbolic.iteration import NOT_ALLOWED
from rlm_ci.environments.symbolic.subcalls import answer_meta, digest
from rlm_ci.errors import ConfigError, LimitError, RemoteError, RlmCiError
from rlm_ci.models import ModelRequest, prices
from rlm_ci.system import files
from rlm_ci.system.ordered_threads import in_order
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Closing, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, Final

    from rlm_ci.environments.delegation import Delegation
    from rlm_ci.environments.repl.host.options import ReplOptions, ReplServices, RunFiles
    from rlm_ci.models import Completion


#: Its name in the folder of a block.
NAME: Final = "queries.jsonl"
_encode = json.JSONEncoder(ensure_ascii=False).encode


class QueryLog(Closing):
    """Adds questions from any thread to the file in ``folder``, made with the first of them.

    A file for each question would take longer than all else that is done with its answer.
    """

    def __init__(self, run: RunFiles, folder: str) -> None:
        self._run = run
        self._path = f"{folder}/{NAME}"
        self._hash = sha256()
        self._descriptor = -1
        self._is_closed = False
        self._lock = threading.Lock()

    def add(self, question: Mapping[str, Any]) -> None:
        """Write a question, unless its block has ended. Raises StorageError."""
        line = f"{_encode(question)}\n".encode()
        with self._lock:
            if self._is_closed:
                return
            if self._descriptor < 0:
                self._descriptor = self._run.open(self._path)
            write_all(self._descriptor, line, self._path)
            self._hash.update(line)

    def close(self) -> None:
        with self._lock:
            if self._descriptor >= 0 and not self._is_closed:
                os.close(self._descriptor)
                self._run.note(self._path, self._hash.hexdigest())
            self._is_closed = True


def is_log(path: str) -> bool:
    return path.rpartition("/")[2] == NAME


def place_of(path: str, question: Mapping[str, Any]) -> str:
    """The place in the record of a question in the file at ``path``."""
    return f"{path.rpartition('/')[0]}/{question['id']}"


def questions(data: bytes) -> Iterator[dict[str, Any]]:
    """The questions in a file. Raises ValueError, RecursionError for one that no block wrote."""
    for line in data.splitlines():
        question = json.loads(line)
        if not isinstance(question, dict):
            raise ValueError("a question is not an object")
        yield question


def read(folder: str, path: str) -> bytes:
    """The content of a file of the run in ``folder``. Raises UnreadableError."""
    return files.read_inside(folder, path, LIMIT)


#: Prompts of one batch, and characters of an error.
MOST_PROMPTS = 2000
_ERROR = 500
_NAME = 80
VERSION = 1


class ReplTask(ChildTask):
    """A child's question; without a context, the question is its context."""

    #: The folder of its files, and all files of the block that asks.
    folder: str = ""
    files: RunFiles | None = None

    def fingerprint(self) -> str:
        context = sha256(self.context.encode("utf-8", "surrogatepass")).hexdigest()
        return fingerprint(self.task, f"sha256:{context}")


class ReplResult(ChildResult):
    """``limit`` is the budget that ended it, and so ends its parents."""

    limit: LimitError | None = None


def fingerprint(task: str, object_id: str) -> str:
    """What makes a question the same as another: its words, and the context's hash."""
    text = json.dumps([task.split(), "repl", object_id])
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class QueryReply(Value):
    """The answer to one question; ``error`` says why there is none."""

    text: str = ""
    error: str | None = None
    completion: Completion | None = None

    @property
    def slot(self) -> str | dict[str, str]:
        """As a batch has it."""
        return self.text if self.error is None else {"error": self.error}


class _Question(Value):
    """A prompt for a model, or a child's question with its context."""

    prompt: str
    model: str
    position: str
    context: str | None = None


class ModelFunctions:
    """The model functions of one block, whose files are in ``folder``.

    ``failure`` is what ends the block's episode, or the whole run. ``files`` are those of the
    block and of its children, ``log`` has its questions. ``reward`` is that of refused children.
    """

    def __init__(
        self, options: ReplOptions, services: ReplServices, delegation: Delegation, folder: str
    ) -> None:
        self._options = options
        self._services = services
        self._delegation = delegation
        self._folder = folder
        self._lock = threading.Lock()
        self._numbers: Counter[str] = Counter()
        self.failure: RlmCiError | None = None
        self.files = services.files.tracked()
        self.log = QueryLog(self.files, folder)
        self.sent = self.failed = self.cut = self.not_allowed = 0
        self.reward = 0.0

    def llm_query(self, prompt: object, model: object = None) -> str:
        return self._single(self._ask_models([self._question(prompt, model)]))

    def llm_query_batched(
        self, prompts: object, model: object = None
    ) -> list[str | dict[str, str]]:
        questions = [self._question(prompt, model) for prompt in _batch(prompts)]
        return [ask_model.slot for ask_model in self._ask_models(questions)]

    def rlm_query(self, prompt: object, context: object = None) -> str:
        return self._single(self._ask_children([(prompt, context)]))

    def rlm_query_batched(
        self, prompts: object, contexts: object = None
    ) -> list[str | dict[str, str]]:
        tasks = _batch(prompts)
        texts = [None] * len(tasks) if contexts is None else contexts
        if not isinstance(texts, list) or len(texts) != len(tasks):
            raise ValueError("contexts must be a list with an entry for each prompt")
        replies = self._ask_children(list(zip(tasks, texts, strict=True)))
        return [reply.slot for reply in replies]

    @staticmethod
    def _single(replies: Sequence[QueryReply]) -> str:
        (reply,) = replies
        if reply.error is not None:
            raise RemoteError(reply.error)
        return reply.text

    # ── models ──

    def _question(self, prompt: object, model: object = None) -> _Question:
        """A question that may be asked. Raises ValueError."""
        text = self._clean(prompt, "a prompt")
        size, limit = len(text.encode()), self._options.subcall_bytes
        if size > limit:
            raise ValueError(f"a prompt may have {limit:,} bytes, and this one has {size:,}")
        name = model or self._options.sub_model
        if not isinstance(name, str) or name not in self._options.allowed:
            self.not_allowed += 1
            allowed = ", ".join(self._options.allowed)
            raise ValueError(f"{NOT_ALLOWED}: {printable(str(name))[:_NAME]}; allowed: {allowed}")
        return _Question(text, name, self._question_folder("llm", name, text))

    def _ask_models(self, questions: Sequence[_Question]) -> list[QueryReply]:
        """The replies, in order. Raises what ends the episode, once all calls under way have."""
        self._require_open()
        if len(questions) > 1:
            self._services.on_step(f"asking {count(len(questions), 'question')} of a block")
        tasks = [partial(self._ask, question) for question in questions]
        with self._services.batch():
            replies, error = in_order(tasks, self._options.concurrency)
        if error is not None:
            self._end(error)
        return [reply for reply in replies if reply is not None]

    def _ask(self, question: _Question) -> QueryReply:
        services, max_tokens = self._services, self._options.max_tokens
        messages = ({"role": "user", "content": question.prompt},)
        request = ModelRequest(question.model, messages, max_tokens)
        try:
            completion = services.complete(request, question.position)
        except (RemoteError, ConfigError) as error:
            if prices.ends_run(error, question.model, self._options.model):
                raise
            reply = QueryReply(error=services.redact(printable(str(error)))[:_ERROR])
        else:
            is_empty = not completion.text.strip()
            error_text = "the model answered nothing" if is_empty else None
            reply = QueryReply(completion.text, error_text, completion)
        self._keep(question, reply)
        return reply

    # ── children ──

    def _ask_children(self, pairs: Sequence[tuple[object, object]]) -> list[QueryReply]:
        self._require_open()
        delegation = self._delegation
        if delegation.depth >= delegation.max_depth:  # a model alone does it
            questions = [
                self._question(prompt if context is None else f"{prompt}\n\n{_as_text(context)}")
                for prompt, context in pairs
            ]
            return self._ask_models(questions)
        tasks = [self._task(prompt, context) for prompt, context in pairs]
        self._services.on_step(f"asking {count(len(tasks), 'question')} of a block, by code")
        try:
            results = delegation.run(tasks)
        except BaseException as error:
            self._end(error)
            raise
        return [self._reply(task, result) for task, result in zip(tasks, results, strict=True)]

    def _task(self, prompt: object, context: object) -> ReplTask:
        text = self._clean(prompt, "a question")
        content = text if context is None else self._services.redact(encodable(_as_text(context)))
        return ReplTask(
            text, content, folder=self._question_folder("rlm", text, content), files=self.files
        )

    def _reply(self, task: ReplTask, result: ChildResult) -> QueryReply:
        limit = getattr(result, "limit", None)
        if limit is not None:
            self._end(limit)
        error = None if result.completed else printable(result.reason or "it found no answer")
        if result.skipped:
            self.reward += result.reward
        reply = QueryReply(result.answer, error and self._services.redact(error)[:_ERROR])
        self._keep(_Question(task.task, "", task.folder, task.context), reply)
        return reply

    # ── both ──

    def _clean(self, text: object, what: str) -> str:
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"{what} must be a text, not {text!r:.60}")
        return self._services.redact(encodable(text))

    def _question_folder(self, *words: str) -> str:
        """The folder of a question, and its place in the record."""
        name = f"{words[0]}-{sha256(json.dumps(words).encode()).hexdigest()[:12]}"
        with self._lock:
            self._numbers[name] += 1
            return f"{self._folder}/{name}-{self._numbers[name]}"

    def _require_open(self) -> None:
        if self.failure is not None:
            raise self.failure

    def _end(self, error: BaseException) -> None:
        """Keep what ends the episode or the run, and raise it in the code."""
        if isinstance(error, RlmCiError):
            self.failure = self.failure or error
        raise error

    def _keep(self, question: _Question, reply: QueryReply) -> None:
        completion = reply.completion
        entry = {
            "version": VERSION,
            "id": question.position.rpartition("/")[2],
            "status": "succeeded" if reply.error is None else "failed",
            "error": reply.error,
            "asked": question.model,
            **answer_meta(completion),
            "prompt": question.prompt,
            "output": encodable(reply.text),
        }
        if question.context is not None:
            entry["context"] = digest(question.context.encode())
        self.log.add(entry)
        with self._lock:
            self.sent += 1
            self.failed += reply.error is not None
            self.cut += completion is not None and completion.finish_reason == "length"


def _batch(prompts: object) -> list[object]:
    if not isinstance(prompts, list) or len(prompts) > MOST_PROMPTS:
        raise ValueError(f"prompts must be a list of at most {MOST_PROMPTS:,} texts")
    return prompts


def _as_text(context: object) -> str:
    """A context as a text: all but a text is written as JSON."""
    return context if isinstance(context, str) else json.dumps(context, ensure_ascii=False)
