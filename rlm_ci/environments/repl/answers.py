"""What an answer in the REPL asks for: blocks of code, or ``FINAL(…)`` as text outside of them."""

from __future__ import annotations

import ast
import re
from contextlib import suppress

from rlm_ci.environments.answer_formats import CodeBlocks
from rlm_ci.models import thoughts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

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
