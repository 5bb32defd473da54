"""An episode in the REPL: a question about a text, until there is an answer, and its children."""

from __future__ import annotations

import io
import os
from contextlib import suppress

from rlm_ci.context.builder.build import build
from rlm_ci.environments.conversation import Conversation
from rlm_ci.environments.repl.environment import ReplEnvironment
from rlm_ci.environments.repl.host.model_functions import ReplResult, ReplTask
from rlm_ci.environments.repl.host.options import CHILD_TURNS, ERRORS
from rlm_ci.environments.symbolic.planner.file_map import FileMap
from rlm_ci.environments.symbolic.planner.progress_notes import quote
from rlm_ci.environments.symbolic.subcalls import FILES, answer_meta, as_json, digest
from rlm_ci.environments.symbolic.visible_context import VisibleContext
from rlm_ci.environments.turn_loop import LoopWatcher, TurnLimits, TurnLoop
from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.context_length import ContextFit
from rlm_ci.resources import loader
from rlm_ci.runs.journal import spans
from rlm_ci.system import files
from rlm_ci.text.encodings import BYTES
from rlm_ci.text.printable import encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.context.context import Context
    from rlm_ci.environments.delegation import ChildTask, Delegation
    from rlm_ci.environments.repl.host.options import ReplOptions, ReplServices
    from rlm_ci.models import Completion, ModelRequest

_RULES = "prompts/repl.md.j2"
_QUESTION = "prompts/repl-question.md.j2"
#: Files and folders of the context that are listed.
_LISTED = 12
VERSION = 1


class ReplEnd(Value):
    """The end: ``answer`` is final if ``reason`` is empty, else what the code had by then.

    ``limit`` is the budget that ended it; ``exhausted``: its turns were over.
    """

    answer: str
    turns: int
    reason: str = ""
    limit: LimitError | None = None
    exhausted: bool = False
    #: The paths of the prompts that models have answered, of all children too.
    prompts: tuple[str, ...] = ()


class ReplEpisodes:
    """Runs episodes with the same ``options`` and ``services``."""

    def __init__(self, options: ReplOptions, services: ReplServices) -> None:
        self._options = options.fitted()
        self._services = services
        self._rules = loader.load_template(_RULES)
        self._question = loader.load_template(_QUESTION)

    def environment(
        self,
        context: Context,
        delegation: Delegation,
        folder: str,
        services: ReplServices | None = None,
    ) -> ReplEnvironment:
        """The REPL over ``context``, whose files are in ``folder``."""
        repl_services = services or self._services
        window = VisibleContext(context, repl_services.redact, repl_services.longest)
        return ReplEnvironment(self._options, repl_services, window, delegation, folder)

    def opening(self, question: str, context: Context, delegation: Delegation) -> Conversation:
        """A conversation that begins with the rules, the question, and the measures of its text."""
        history = Conversation()
        options, redact = self._options, self._services.redact
        is_last = delegation.depth >= delegation.max_depth
        others = [model for model in options.allowed if model != options.sub_model]
        rules = {
            "options": options,
            "is_last": is_last,
            "errors": ERRORS,
            "output_limit": options.output_limit,
            "others": ", ".join(others),
        }
        history.prompt(self._rules(rules), "system")
        text = redact(encodable(question))
        atlas = FileMap.of(context)
        shown = {
            "question": text[: options.question_limit],
            "left_out": max(0, len(text) - options.question_limit),
            "context": context,
            "files": [
                {"path": quote(redact(encodable(row.path)), 120), "size": row.size}
                for row in (*atlas.folders[:_LISTED], *atlas.largest[:_LISTED])
                if len(context.files) > 1 or row.files == 0
            ],
            "count": len(context.files),
        }
        history.prompt(self._question(shown))
        return history

    def run(
        self,
        question: str,
        context: Context,
        delegation: Delegation,
        folder: str,
        *,
        services: ReplServices | None = None,
        watcher: LoopWatcher | None = None,
    ) -> ReplEnd:
        """Ask until there is an answer, or an end without one. Raises what ends a run."""
        repl_services = services or self._services
        bounds = TurnLimits(turns=self._options.max_turns, max_tokens=self._options.max_tokens)
        if delegation.depth:
            bounds = bounds.replace(turns=min(bounds.turns, CHILD_TURNS))
        history = self.opening(question, context, delegation)
        recorder = _Turns(repl_services)
        with self.environment(context, delegation, folder, repl_services) as environment:
            loop = TurnLoop(
                recorder.complete,
                environment,
                model=self._options.model,
                bounds=bounds,
                answers=environment.answers,
                watcher=watcher,
                fit=ContextFit.of(self._options.context_tokens),
            )
            try:
                end = loop.run(history, folder)
            except RemoteError:
                if delegation.depth:  # no answer for its parent, which goes on
                    environment.forget()
                raise
            except LimitError as error:
                ended = ReplEnd("", len(recorder.prompts), error.what, limit=error)
            else:
                reason = end.text if end.blocked else end.reason
                answer = "" if reason else end.text
                ended = ReplEnd(answer, end.turns, reason, exhausted=end.exhausted)
            if ended.reason:
                ended = ended.replace(answer=environment.partial())
            environment.forget()
            return ended.replace(prompts=(*recorder.prompts, *environment.prompts))

    def run_child(self, task: ChildTask, delegation: Delegation) -> ReplResult:
        """The result of a question that code has asked."""
        if not isinstance(task, ReplTask) or task.files is None:
            raise TypeError("only the code of a REPL asks for such a child")
        services = self._services.replace(files=task.files)
        text = io.BytesIO(encodable(task.context).encode())
        scratch = os.path.join(self._services.scratch, *task.folder.split("/"))
        name = task.folder.rpartition("/")[2]
        try:
            with (
                build(text, scratch, encoding=BYTES) as context,
                spans.span("episode", f"child: {self._services.redact(task.task)}", key=name),
            ):
                ended = self.run(task.task, context, delegation, task.folder, services=services)
        finally:
            with suppress(OSError):
                files.clear(scratch)
        completed = not ended.reason
        answer = ended.answer if completed else ""
        return ReplResult(answer, completed, ended.turns, reason=ended.reason, limit=ended.limit)


class _Turns:
    """Asks for each turn, and keeps what is new in its prompt, and the answer."""

    def __init__(self, services: ReplServices) -> None:
        self._services = services
        self.prompts: list[str] = []

    def complete(self, request: ModelRequest, step: str) -> Completion:
        completion = self._services.complete(request, step)
        self.prompts.append(f"{step}/{FILES['prompt']}")
        messages = request.messages
        last = max(
            (at for at, message in enumerate(messages) if message["role"] == "assistant"),
            default=-1,
        )
        new = "\n\n".join(message["content"] for message in messages[last + 1 :]).encode()
        output = encodable(completion.text).encode()
        meta: dict[str, Any] = {
            "version": VERSION,
            "prompt_bytes": request.prompt_bytes(),
            **answer_meta(completion),
            "prompt": digest(new),
            "output": digest(output),
        }
        for name, data in (("prompt", new), ("output", output), ("meta", as_json(meta))):
            self._services.files.write(f"{step}/{FILES[name]}", data)
        return completion
