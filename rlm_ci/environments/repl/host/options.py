"""What an episode in the REPL may do, and what it works with."""

from __future__ import annotations

from contextlib import nullcontext

from rlm_ci.environments.quoting import OUTPUT_LIMIT
from rlm_ci.models import context_length
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from rlm_ci.environments.repl.host.run_files import RunFiles
    from rlm_ci.environments.repl.session import ReplSession
    from rlm_ci.environments.turn_loop import Complete
    from rlm_ci.runs import Fact

#: Blocks in a row that may fail, answers that may be refused, and the turns of a child.
ERRORS = 5
REFUSALS = 3
CHILD_TURNS = 30


class ReplOptions(Value):
    """``model`` writes the code, ``sub_model`` answers ``llm_query`` that names no other one.

    Code may name one of ``models``, too. A prompt of ``llm_query`` has at most ``subcall_bytes``,
    an answer ``max_tokens``; ``concurrency`` prompts of one batch are asked at once. A block of
    code may run for ``block_seconds``, besides the time in which models answer it, and search and
    read the context for as long again.
    """

    model: str
    sub_model: str
    max_tokens: int
    models: tuple[str, ...] = ()
    subcall_bytes: int = 120_000
    concurrency: int = 4
    block_seconds: float = 120.0
    max_turns: int = 30
    #: Characters of the question that are shown: it may be the context itself.
    question_limit: int = 4000
    sandbox: str = "bubblewrap"
    #: Characters of what a block prints that are shown, and the tokens that the models read.
    output_limit: int = OUTPUT_LIMIT
    context_tokens: int | None = None

    def fitted(self) -> ReplOptions:
        """These options, with shorter texts where the models read little."""
        fit = context_length.ContextFit.of(self.context_tokens)
        if fit is None:
            return self
        sizes = {"subcall_bytes": fit.room(self.max_tokens), "question_limit": fit.output,
                 "output_limit": fit.output}  # fmt: skip
        return self.replace(**{name: min(getattr(self, name), sizes[name]) for name in sizes})

    @property
    def subset(self) -> bool:
        """Whether the interpreter knows only a part of Python."""
        return self.sandbox == "monty"

    @property
    def allowed(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.sub_model, self.model, *self.models)))


class ReplServices(Value):
    """What an episode uses of its run.

    ``complete`` asks models within the budgets, ``fact`` records, ``redact`` takes out secrets of
    at most ``longest`` bytes. ``open`` opens a session, as ``SessionPool.open``; ``left`` are the
    calls that the budgets have left, None for many. ``scratch`` is a folder for files that only
    this process needs; ``on_step`` reports what takes long. ``batch`` is entered for questions that
    are asked together. ``flaw`` says what is wrong with the answer of the root, for the model,
    which goes on then; "" for nothing.
    """

    complete: Complete
    fact: Fact
    redact: Callable[[str], str]
    files: RunFiles
    open: Callable[..., ReplSession]
    left: Callable[[], int | None]
    scratch: str
    longest: int = 0
    on_step: Callable[[str], object] = str
    batch: Callable[[], AbstractContextManager[object]] = nullcontext
    flaw: Callable[[str], str] | None = None
