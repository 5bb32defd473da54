"""The baseline: a case as one prompt, with as much of its context as the model can read."""

from __future__ import annotations

import os
import re

from rlm_ci.system import files
from rlm_ci.text.printable import fenced
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.evaluation.bench.prepare import PreparedCase
    from rlm_ci.evaluation.bench.scoring.score import Reply

#: Tokens of a prompt that are left for the answer, and bytes of context for each of the others: few
#: enough for records with many digits.
_ANSWER = 8_192
_BYTES_PER_TOKEN = 3
_FILE_BYTES = 1 << 20
_BLOCK = re.compile(r"^```[^\n`]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


class DirectAnswer(Value):
    """The answer to the one prompt; ``left_out`` are bytes of the context that did not fit."""

    reply: Reply
    left_out: int = 0


def answer(
    prepared: PreparedCase, ask: Callable[[str], Reply], context_tokens: int
) -> DirectAnswer:
    """Ask once. A corrected file in the answer is written into the work tree of the case.

    Raises what ``ask`` raises.
    """
    task = prepared.case.task
    if prepared.workdir is not None:
        return DirectAnswer(_mended(prepared, ask, prepared.workdir))
    if prepared.context is None:
        return DirectAnswer(ask(task))
    room = max(0, context_tokens - _ANSWER) * _BYTES_PER_TOKEN - len(task.encode())
    size = os.path.getsize(prepared.context)
    with open(prepared.context, "rb") as file:
        text = file.read(max(0, room)).decode("utf-8", "ignore")
    left_out = max(0, size - room)
    if left_out:
        text += f"\n[The context goes on for {left_out:,} bytes that do not fit here.]"
    # The question last, where models heed it most.
    return DirectAnswer(ask(f"{fenced('Context', text)}\n\n{task}"), left_out)


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
