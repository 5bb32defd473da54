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
    "capitals": f"<THINK>hm</THINK>\n{ANSWER}",
    "capitals of a name": f"<Thinking>\nhm\n</thinking>{ANSWER}",
    "attributes": f'<think time="3s" level=2>hm</think>\n{ANSWER}',
    "reasoning": f"<reasoning>hm</reasoning>\n{ANSWER}",
    "claude": f"<antThinking>hm</antThinking>\n{ANSWER}",
    "mark of the order of bytes": f"\ufeff<think>hm</think>\n{ANSWER}",
    "blanks": f" \xa0\u200b\n <think>hm</think>\n{ANSWER}",
    "end alone in capitals": f"hm</THINK>{ANSWER}",
    "inside itself": f"<think>h<think>m</think></think>\n{ANSWER}",
    "a mark inside that never ends": f"<think>\nhm<think></think>\n{ANSWER}",
    "end left over": f"<think>hm</think>\n{ANSWER}\n</think>",
    "harmony without messages": f"<|channel|>analysis hm\n<|channel|>final {ANSWER}",
    "harmony without a final": f"<|channel|>analysis<|message|>hm<|end|>{ANSWER}",
    "harmony begun by the prompt": "analysis<|message|>hm<|end|><|start|>assistant<|channel|>final"
    f"<|message|>{ANSWER}",
    "harmony without marks": f"analysishm\n\nassistantfinal{ANSWER}",
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
        (f"<THINK>\n{DRAFT}", ""),
        (
            f"<think time='1'>\n{DRAFT}\n<think>\n{DRAFT}\n</think>\n{DRAFT}\n</think>\n{BLOCK}",
            BLOCK,
        ),
        (f"<think>a</think>\n{DRAFT}\n</think>\n{BLOCK}", BLOCK),
        (f"<think>a</think>\nSo. <think>\n{DRAFT}\n</think>\n{BLOCK}", f"So. \n{BLOCK}"),
        (f"[THINK]\n{DRAFT}\n[/THINK]{BLOCK}", BLOCK),
        (f"<|channel|>analysis\n{DRAFT}\n<|channel|>final\n{BLOCK}", BLOCK),
        (f"analysisI could\n{DRAFT}\nassistantfinal{BLOCK}", BLOCK),
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
        "~~~xml\n<think time='1'>\nhm\n</think>\n~~~\nThat is how it looks.",
        "```text\n<|channel|>analysis<|message|>hm<|end|>\n```\nThat is harmony.",
        '{"quote": "<|channel|>analysis<|message|>hm"}',
        '{"quote": "\n<think>\nhm\n</think>\n", "of": [1]}',
        'Found:\n{"quote": "\n</think>\n"}',
        "[Think](https://example.org) is a tool.",
        "analysis of it: the assistant final word",
        "  an answer, with its blanks \n",
        "",
    ],
)
def test_an_answer_about_the_marks_stays(text: str) -> None:
    assert thoughts.split(text) == ("", text)


def test_data_behind_reasoning_stays() -> None:
    data = '{"quote": "\n<think>\nhm\n</think>\n"}'
    assert thoughts.split(f"<think>hm</think>\n{data}") == ("hm", data)


def test_many_marks_take_no_time_to_speak_of() -> None:
    many = "```\n" + "<think>\n" * 20_000 + "{" * 20_000 + "\n```\nfine"
    assert thoughts.split(many) == ("", many)


def test_a_call_in_harmony_is_neither() -> None:
    call = '<|channel|>commentary to=functions.read<|message|>{"path": "a"}<|call|>'
    thought, answer = thoughts.split(f"<|channel|>analysis<|message|>hm<|end|>{call}")
    assert (thought, answer) == ("hm", call)


def test_the_box_of_an_answer_is_no_part_of_it() -> None:
    text = f"<think>hm</think>\n<|begin_of_box|>{ANSWER}<|end_of_box|>"
    assert thoughts.split(text) == ("hm", ANSWER)
