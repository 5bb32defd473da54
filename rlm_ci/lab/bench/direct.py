"""The baseline: a case as one prompt, with as much of its context as the model can read."""

from __future__ import annotations

import os
import re

from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.models import ModelRequest
from rlm_ci.models.context_length import ContextFit
from rlm_ci.system import files
from rlm_ci.text.printable import fenced
from rlm_ci.text.unpacking import DecodedText, UnpackLimit, UnreadableTextError
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.lab.bench.prepare import PreparedCase
    from rlm_ci.lab.bench.scoring.score import Reply

_FILE_BYTES = 1 << 20
_BLOCK = re.compile(r"^```[^\n`]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


class DirectAnswer(Value):
    """The answer to the one prompt; ``left_out`` are bytes of the context that did not fit."""

    reply: Reply
    left_out: int = 0


def answer(
    prepared: PreparedCase, ask: Callable[[str], Reply], context_tokens: int, answer_tokens: int
) -> DirectAnswer:
    """Ask once, or once more with less of the context where an endpoint refuses its length.

    ``context_tokens`` is what the model reads, ``answer_tokens`` what its answer may have. A
    corrected file in the answer is written into the work tree of the case. Raises what ``ask``
    raises, and ConfigError for a context that is no text.
    """
    task = prepared.case.task
    if prepared.workdir is not None:
        return DirectAnswer(_mended(prepared, ask, prepared.workdir))
    if prepared.context is None:
        return DirectAnswer(ask(task))
    fit = ContextFit(context_tokens)
    while True:
        room = fit.room(answer_tokens)
        request, left_out = _request(prepared.context, task, answer_tokens, room)
        excess = request.prompt_bytes() - room
        if excess > 0:
            request, left_out = _request(prepared.context, task, answer_tokens, room - excess)
        try:
            return DirectAnswer(ask(request.messages[0]["content"]), left_out)
        except RemoteError as error:
            if excess >= room or not fit.shrinks(request, error):
                raise


def _request(path: str, task: str, answer_tokens: int, room: int) -> tuple[ModelRequest, int]:
    """The question with ``room`` bytes of the context, and how many bytes are left out."""
    text, left_out = _beginning(path, max(0, room))
    if left_out:
        text += f"\n[The context goes on for {left_out:,} bytes that do not fit here.]"
    # The question last, where models heed it most.
    prompt = f"{fenced('Context', text)}\n\n{task}"
    return ModelRequest("", ({"role": "user", "content": prompt},), answer_tokens), left_out


def _beginning(path: str, room: int) -> tuple[str, int]:
    """The first ``room`` bytes of the text in a file, as UTF-8, and how many more it has."""
    beginning, size = b"", 0
    with open(path, "rb") as file:
        try:
            for block in DecodedText(file, UnpackLimit()).blocks():
                beginning += block[: room - len(beginning)]
                size += len(block)
        except UnreadableTextError as error:
            raise ConfigError(
                f"the context of a case is no text: {error}", where=path, hint=error.hint
            ) from None
    return beginning.decode("utf-8", "ignore"), size - len(beginning)


def _mended(prepared: PreparedCase, ask: Callable[[str], Reply], folder: str) -> Reply:
    shown = []
    for name in sorted(os.listdir(folder)):
        data = files.read_or_none(os.path.join(folder, name), _FILE_BYTES)
        if data is not None:
            shown.append(fenced(name, data.decode("utf-8", "replace")))
    name = f"{prepared.module}.py"
    form = f"Answer with the whole of the new {name} in one fenced block."
    reply = ask("\n\n".join((prepared.case.task, *shown, form)))
    blocks = _BLOCK.findall(reply.text)
    if blocks:
        files.write(os.path.join(folder, name), blocks[-1].encode("utf-8", "replace"))
    return reply
