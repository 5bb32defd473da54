"""Reasoning that a model writes into the text of its answer, and the answer without it.

Where an endpoint has no reader for its model's reasoning, this arrives between marks in the text.
Nothing in it is meant for whoever asked: a call, a block of code or an answer in it is a draft.
"""

from __future__ import annotations

import re
from itertools import pairwise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

#: The mark that begins reasoning, and the one that ends it: of DeepSeek, Qwen and many others; of
#: Anthropic's and Gemini's prompts; of Magistral, Kimi, Seed-OSS, Gemma 4, SkyWork.
_MARKS: Final = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<thoughts>", "</thoughts>"),
    ("<reasoning>", "</reasoning>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<seed:think>", "</seed:think>"),
    ("<|channel>thought", "<channel|>"),
    ("<|begin_of_thought|>", "<|end_of_thought|>"),
)
_ENDS: Final = dict(_MARKS)
_ANY: Final = re.compile("|".join(re.escape(mark) for pair in _MARKS for mark in pair))
#: A message of OpenAI's harmony format; its last one may lack an end.
_HARMONY: Final = re.compile(
    r"<\|channel\|>(?P<channel>[^<]*)(?:<\|constrain\|>[^<]*)?<\|message\|>(?P<text>.*?)"
    r"(?:<\|(?:end|return|call)\|>|(?=<\|start\|>)|(?=<\|channel\|>)|\Z)",
    re.DOTALL,
)
_CALLED: Final = re.compile(r"\bto=")
#: Around the answer of GLM.
_BOX: Final = ("<|begin_of_box|>", "<|end_of_box|>")
_QUOTES: Final = ("`", '"', "'", "\\")
_FENCE: Final = re.compile(r"^[ \t]*(?:```|~~~)", re.MULTILINE)


def split(text: str) -> tuple[str, str]:
    """The reasoning in ``text``, and the answer without it.

    A mark counts where a line begins or ends, and not inside a block of code: an answer may be
    about these marks. A lone end has all before it as reasoning, a lone beginning all after.
    """
    if "<|channel|>" in text and "<|message|>" in text:
        return _of_harmony(text)
    spans = list(_spans(text)) if _ANY.search(text) else []
    if spans:
        bounds = pairwise(((0, 0), *spans, (len(text), len(text))))
        answer = "".join(text[end:begin] for (_, end), (begin, _) in bounds)
        thoughts = "\n\n".join(_bare(text[begin:end]) for begin, end in spans)
    else:
        answer, thoughts = text, ""
    for mark in _BOX:
        answer = answer.replace(mark, "") if mark in text else answer
    return (thoughts, answer.strip() if answer != text else text)


def _spans(text: str) -> Iterator[tuple[int, int]]:
    """Where reasoning begins and ends, marks included."""
    at, first = 0, True
    for match in _ANY.finditer(text):
        if match.start() < at:
            continue
        end = _ENDS.get(match[0])
        if end is None:
            if first and _ends_reasoning(text, match):
                at, first = match.end(), False
                yield 0, at
            continue
        if not _begins_reasoning(text, match):
            continue
        close = text.find(end, match.end())
        at, first = (close + len(end) if close >= 0 else len(text)), False
        yield match.start(), at


def _begins_reasoning(text: str, mark: re.Match[str]) -> bool:
    before = text[: mark.start()]
    is_first = not before.strip() or before.rstrip(" \t").endswith(("\n", *_ENDS.values()))
    return is_first and not _is_in_block(text, mark)


def _ends_reasoning(text: str, mark: re.Match[str]) -> bool:
    """Whether a mark without its beginning ends reasoning; the prompt may have held that.

    It does so wherever it stands, but in quotes, and in data that the answer begins with.
    """
    before, after = text[: mark.start()], text[mark.end() :]
    is_alone = before.rstrip(" \t").endswith("\n") or not after.lstrip(" \t").strip("\r\n")
    is_quoted = bool(before[-1:] in _QUOTES and before) or bool(after[:1] in _QUOTES and after)
    is_mark = is_alone or not (is_quoted or before.lstrip()[:1] in ("{", "["))
    return is_mark and not _is_in_block(text, mark)


def _is_in_block(text: str, mark: re.Match[str]) -> bool:
    """Whether a mark is inside a block of code that is closed behind it."""
    before = len(_FENCE.findall(text, 0, mark.start()))
    return before % 2 == 1 and len(_FENCE.findall(text, mark.end())) % 2 == 1


def _bare(thought: str) -> str:
    return _ANY.sub("", thought).strip()


def _of_harmony(text: str) -> tuple[str, str]:
    """By channel: ``final`` is the answer; a call to a tool stays, for who reads calls in texts."""
    thoughts, answers, calls = list[str](), list[str](), list[str]()
    for message in _HARMONY.finditer(text):
        channel, said = message["channel"].strip(), message["text"].strip()
        if _CALLED.search(channel) or _CALLED.search(_head(text, message.start())):
            calls.append(message[0])
        elif channel == "final":
            answers.append(said)
        else:
            thoughts.append(said)
    return "\n\n".join(thoughts), "\n\n".join((*answers, *calls))


def _head(text: str, end: int) -> str:
    """What stands between ``<|start|>`` and a channel: the role, perhaps with a recipient."""
    start = text.rfind("<|start|>", 0, end)
    return text[start:end] if start >= 0 and end - start < 200 else ""
