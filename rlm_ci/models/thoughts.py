"""Reasoning that a model writes into the text of its answer, and the answer without it.

Where an endpoint has no reader for its model's reasoning, this arrives between marks in the text.
Nothing in it is meant for whoever asked: a call, a block of code or an answer in it is a draft.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from contextlib import suppress
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

#: Names of marks in angle brackets, in any case and with attributes: of DeepSeek, Qwen and many
#: others; of Anthropic's and Gemini's prompts; of Seed-OSS.
_NAMES: Final = "think|thinking|antthinking|thoughts?|reasoning|seed:think"
#: Other marks, and what ends them: of Magistral, Kimi, Gemma 4, SkyWork.
_PAIRS: Final = {
    "[THINK]": "[/THINK]", "◁think▷": "◁/think▷", "<|channel>thought": "<channel|>",
    "<|begin_of_thought|>": "<|end_of_thought|>",
}  # fmt: skip
_ANY: Final = re.compile(
    rf"<(?P<end>/?)(?P<name>(?i:{_NAMES}))(?:\s[^<>]{{0,200}})?>|"
    + "|".join(re.escape(mark) for pair in _PAIRS.items() for mark in pair)
)
#: What may stand before the first mark: blanks, a mark of the order of bytes, widths of zero.
_BLANKS: Final = " \t\r\n\f\v\xa0\u200b\u2060\ufeff"
#: A message of OpenAI's harmony format; its last one may lack an end.
_HARMONY: Final = re.compile(
    r"<\|channel\|>(?P<channel>[^<]*)(?:<\|constrain\|>[^<]*)?<\|message\|>(?P<text>.*?)"
    r"(?:<\|(?:end|return|call)\|>|(?=<\|start\|>)|(?=<\|channel\|>)|\Z)",
    re.DOTALL,
)
_CALLED: Final = re.compile(r"\bto=")
#: A channel without the mark of its message, and what stands between messages.
_UNMARKED: Final = re.compile(
    r"<\|channel\|>\s*(analysis|commentary|final)\b(?! *to=)"
    r"(?![^<]*<\|(?:message|constrain)\|>)[ :]*"
)
_BETWEEN: Final = re.compile(r"<\|start\|>\w*|<\|(?:end|return|call|message)\|>|\A\s*analysis\b")
#: The same where a server has removed all marks.
_MARKLESS: Final = re.compile(r"\A\s*analysis(?=\S)(.*?)\s*assistantfinal(.*)\Z", re.DOTALL)
#: Around the answer of GLM.
_BOX: Final = ("<|begin_of_box|>", "<|end_of_box|>")
_QUOTES: Final = ("`", '"', "'", "\\")
_FENCE: Final = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)
#: Objects of a text that are read to see whether a mark is data, and how they begin.
_MOST: Final = 16
_DATA: Final = re.compile(r"[{\[]")
_DECODER: Final = json.JSONDecoder(strict=False)


def split(text: str) -> tuple[str, str]:
    """The reasoning in ``text``, and the answer without it.

    A mark counts where a line begins or ends, and neither inside a block of code nor in a text of
    JSON: an answer may be about these marks. A lone end has all before it as reasoning, a lone
    beginning all after.
    """
    if match := _MARKLESS.match(text):
        return match[1].strip(), match[2].strip()
    channel = text.find("<|channel|>")
    if channel >= 0 and not _Shown(text)(0, channel):
        return _of_harmony(_UNMARKED.sub(r"<|channel|>\1<|message|>", text))
    spans = list(_spans(text)) if _ANY.search(text) else []
    if spans:
        bounds = pairwise(((0, 0), *spans, (len(text), len(text))))
        answer = "".join(text[end:begin] for (_, end), (begin, _) in bounds)
        thoughts = "\n\n".join(_bare(text[begin:end]) for begin, end in spans)
    else:
        answer, thoughts = text, ""
    for mark in _BOX:
        answer = answer.replace(mark, "") if mark in text else answer
    return (thoughts.strip(), answer.strip(_BLANKS) if answer != text else text)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where reasoning begins and ends, marks included."""
    at, begun, is_shown = 0, -1, _Shown(text)
    for match in _ANY.finditer(text):
        begins = _end_of(match) is not None
        takes = _begins_reasoning if begins else _ends_reasoning
        if match.start() < at:
            continue
        if not takes(text, match) or is_shown(at, match.start()):
            begun = match.start() if begins and at else begun
            continue
        start = match.start()
        if begins:
            end = _close(text, match)
        else:
            # Behind an answer an end is left over, or that of reasoning in the middle of a line.
            end = match.end()
            is_left_over = at > 0 and not text[end:].strip()
            start = begun if begun >= at > 0 else start if is_left_over else at
        yield start, end
        at = end


def _end_of(mark: re.Match[str]) -> str | None:
    """What ends the reasoning that ``mark`` begins; None for a mark that is an end."""
    if mark["name"]:
        return None if mark["end"] else f"</{mark['name'].casefold()}>"
    return _PAIRS.get(mark[0])


def _close(text: str, mark: re.Match[str]) -> int:
    """Where the reasoning that ``mark`` begins is over, also with some inside it."""
    end, depth, last = _end_of(mark), 1, len(text)
    for other in _ANY.finditer(text, mark.end()):
        if _end_of(other) == end:
            depth += 1
        elif other[0].casefold().replace(" ", "") == (end or "").casefold():
            depth, last = depth - 1, other.end()
            if not depth:
                break
    return last


def _begins_reasoning(text: str, mark: re.Match[str]) -> bool:
    before = text[: mark.start()].rstrip(" \t")
    ended = list(_ANY.finditer(before[-300:]))
    is_behind_end = bool(ended) and before.endswith(ended[-1][0]) and _end_of(ended[-1]) is None
    return not before.strip(_BLANKS) or before.endswith("\n") or is_behind_end


def _ends_reasoning(text: str, mark: re.Match[str]) -> bool:
    """Whether a mark without its beginning ends reasoning; the prompt may have held that.

    It does so wherever it stands, but in quotes, and in data that the answer begins with.
    """
    before, after = text[: mark.start()], text[mark.end() :]
    is_alone = before.rstrip(" \t").endswith("\n") or not after.lstrip(" \t").strip("\r\n")
    is_quoted = bool(before[-1:] in _QUOTES and before) or bool(after[:1] in _QUOTES and after)
    return is_alone or not (is_quoted or before.lstrip()[:1] in ("{", "["))


class _Shown:
    """Where a text shows code in closed blocks, and texts in JSON data."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._fences = [match.start() for match in _FENCE.finditer(text)]
        self._data = 0, 0  # the last that was read
        self._left = _MOST

    def __call__(self, start: int, at: int) -> bool:
        """Whether what stands ``at`` a place is shown; ``start``: where reasoning has ended."""
        before = bisect_left(self._fences, at)
        since = before - bisect_left(self._fences, start)
        if since % 2 == 1 and (len(self._fences) - before) % 2 == 1:
            return True
        begin, end = self._data
        start = max(start, end if end <= at else begin)
        while not (begin <= at < end) and self._left:
            match = _DATA.search(self._text, start, at)
            if match is None:
                break
            self._left -= 1
            start = match.start() + 1
            with suppress(ValueError, RecursionError):
                begin, end = match.start(), _DECODER.raw_decode(self._text, match.start())[1]
                self._data, start = (begin, end), end
        return begin <= at < end


def _bare(thought: str) -> str:
    return _ANY.sub("", thought).strip()


def _of_harmony(text: str) -> tuple[str, str]:
    """By channel: ``final`` is the answer; a call to a tool stays, for who reads calls in texts.

    What stands before all messages is reasoning; what stands behind them, the answer where none of
    them is.
    """
    thoughts, answers, calls = list[str](), list[str](), list[str]()
    messages = list(_HARMONY.finditer(text))
    if not messages:
        return "", text
    thoughts += filter(None, [_BETWEEN.sub("", text[: messages[0].start()]).strip()])
    for message in messages:
        channel, content = message["channel"].strip(), message["text"].strip()
        if _CALLED.search(channel) or _CALLED.search(_head(text, message.start())):
            calls.append(message[0])
        elif channel == "final":
            answers.append(content)
        else:
            thoughts.append(content)
    if not answers:
        answers += filter(None, [_BETWEEN.sub("", text[messages[-1].end() :]).strip()])
    return "\n\n".join(thoughts), "\n\n".join((*answers, *calls))


def _head(text: str, end: int) -> str:
    """What stands between ``<|start|>`` and a channel: the role, perhaps with a recipient."""
    start = text.rfind("<|start|>", 0, end)
    return text[start:end] if start >= 0 and end - start < 200 else ""
