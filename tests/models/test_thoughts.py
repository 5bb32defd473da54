"""Reasoning in the text of an answer: cut wherever a model writes it, and nowhere else."""

from __future__ import annotations

import pytest

from rlm_ci.models import thoughts

ANSWER = '{"findings": []}'
BLOCK = "```repl\nprint(1)\n```"
DRAFT = '```repl\nFINAL("a draft")\n```'

REASONING = {
    "block": f"<think>\nhm\n</think>\n{ANSWER}",
    "block on the line of the answer": f"<think>hm</think>{ANSWER}",
    "longer word": f"<thinking>hm</thinking>\n{ANSWER}",
    "gemini": f"<thought>\nhm\n</thought>\n{ANSWER}",
    "magistral": f"[THINK]hm[/THINK]{ANSWER}",
    "kimi": f"◁think▷hm◁/think▷{ANSWER}",
    "gemma": f"<|channel>thought\nhm\n<channel|>{ANSWER}",
    "end alone": f"hm\n</think>\n\n{ANSWER}",
    "end alone before the object": f"hm </think>{ANSWER}",
    "end alone at the end of a line": f"hm</think>\n{ANSWER}",
    "harmony": "<|channel|>analysis<|message|>hm<|end|><|start|>assistant"
    f"<|channel|>final<|message|>{ANSWER}<|return|>",
    "harmony without an end": "<|channel|>analysis<|message|>hm<|start|>assistant"
    f"<|channel|>final<|message|>{ANSWER}",
}


@pytest.mark.parametrize("text", REASONING.values(), ids=REASONING)
def test_reasoning_is_parted_from_the_answer(text: str) -> None:
    assert thoughts.split(text) == ("hm", ANSWER)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        (f"<think>\n{DRAFT}\n</think>\n{BLOCK}", BLOCK),
        (f"I could\n{DRAFT}\nno\n</think>\n{BLOCK}", BLOCK),
        (f"<think>a</think><think>\n{DRAFT}\n</think>\n\n{BLOCK}", BLOCK),
        (f"{BLOCK}\n<think>\n{DRAFT}\n</think>", BLOCK),
        (f"<think>\n{DRAFT}", ""),
        (f"{BLOCK}\n<think>\n{DRAFT}", BLOCK),
        ("<think>all of it</think>", ""),
        (f"I could\n{DRAFT}\nno.</think>Let me look.\n{BLOCK}", f"Let me look.\n{BLOCK}"),
        (f"{DRAFT} no.</think> Looking.\n\n{BLOCK}", f"Looking.\n\n{BLOCK}"),
        ('I could\nFINAL("a draft")\nyet.</think>Look first.', "Look first."),
    ],
)
def test_a_draft_in_it_is_no_answer(text: str, answer: str) -> None:
    thought, shown = thoughts.split(text)
    assert shown == answer
    assert "a draft" in thought or "all of it" in thought


@pytest.mark.parametrize(
    "text",
    [
        '{"quote": "text.partition(\\"</think>\\")"}',
        "The tag `</think>` ends it; `<think>` begins it.",
        "Write <think> first.",
        '```python\nMARK = """\n</think>\n"""\n```\nThat is all.',
        "```python\n<think>\n```",
        "  an answer, with its blanks \n",
        "",
    ],
)
def test_an_answer_about_the_marks_stays(text: str) -> None:
    assert thoughts.split(text) == ("", text)


def test_a_call_in_harmony_is_neither() -> None:
    call = '<|channel|>commentary to=functions.read<|message|>{"path": "a"}<|call|>'
    thought, answer = thoughts.split(f"<|channel|>analysis<|message|>hm<|end|>{call}")
    assert (thought, answer) == ("hm", call)


def test_the_box_of_an_answer_is_no_part_of_it() -> None:
    text = f"<think>hm</think>\n<|begin_of_box|>{ANSWER}<|end_of_box|>"
    assert thoughts.split(text) == ("hm", ANSWER)
