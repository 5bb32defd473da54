"""What models were shown of a text where code decided it: found by comparing their prompts."""

from __future__ import annotations

import json
import os

from rlm_ci.environments.repl.host import model_functions
from rlm_ci.environments.repl.host.model_functions import is_log
from rlm_ci.environments.symbolic.subcalls import FILES
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from rlm_ci.context.context import Context

META = FILES["meta"]
#: Bytes of a prompt that are read, of a citation that is looked up, and of one that is looked up
#: line by line within other text.
_LIMIT = 64 << 20
_MOST = 1 << 20
_NEAR = 64 << 10
#: A shorter line is in too many texts by chance.
_SHORTEST = 4


class ShownText:
    """The files ``prompts`` in ``folder``; they are read once something is looked up."""

    def __init__(self, context: Context, folder: str, prompts: Iterable[str]) -> None:
        self._context = context
        self._folder = folder
        self._prompts = prompts
        self._texts: list[bytes] = []
        self._lines: frozenset[bytes] = frozenset()
        self._is_read = False

    def parts(self, start: int, end: int) -> list[tuple[int, int]]:
        """The bytes from ``start`` to ``end`` that are in a prompt: all of them, or whole lines."""
        self._read()
        end = min(end, start + _MOST)
        data = self._context.raw(start, end)
        is_near = len(data) <= _NEAR
        if is_near and len(data.strip()) >= _SHORTEST and self._has(data.strip()):
            return [(start, end)]
        spans: list[tuple[int, int]] = []
        at = start
        for line in data.splitlines(keepends=True):
            bare = line.strip()
            if len(bare) >= _SHORTEST and (bare in self._lines or (is_near and self._has(bare))):
                first = spans.pop()[0] if spans and spans[-1][1] == at else at
                spans.append((first, at + len(line)))
            at += len(line)
        return spans

    def _has(self, data: bytes) -> bool:
        """Whether a prompt has ``data``, perhaps as Python writes it."""
        text = data.decode("utf-8", "replace")
        forms = {data, repr(text)[1:-1].encode()}
        return any(form in text for form in forms for text in self._texts)

    def _read(self) -> None:
        if self._is_read:
            return
        for path in self._prompts:
            self._texts += _of_log(self._folder, path) if is_log(path) else self._alone(path)
        self._lines = frozenset(line.strip() for text in self._texts for line in text.split(b"\n"))
        self._is_read = True

    def _alone(self, path: str) -> list[bytes]:
        """The prompt in a file of its own, such as that of a turn."""
        full_path = os.path.join(self._folder, *path.split("/"))
        data = files.read_or_none(full_path, _LIMIT)
        is_shown = _is_answered(os.path.join(os.path.dirname(full_path), META))
        return [data] if data is not None and is_shown else []


def _of_log(folder: str, path: str) -> list[bytes]:
    """The prompts that models have answered, of those in a block's log."""
    try:
        questions = list(model_functions.questions(model_functions.read(folder, path)))
        return [
            question["prompt"].encode()
            for question in questions
            if question["finish_reason"] is not None
        ]
    except (files.UnreadableError, ValueError, KeyError, AttributeError, RecursionError):
        return []


def _is_answered(path: str) -> bool:
    """Whether a model has answered: a prompt without an answer counts as not shown."""
    try:
        return json.loads(files.read(path, _LIMIT))["finish_reason"] is not None
    except (files.UnreadableError, ValueError, KeyError, TypeError, RecursionError):
        return False
