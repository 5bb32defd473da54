"""Which code an answer asks for: blocks, and final calls as text outside of them."""

from __future__ import annotations

import json

import pytest

from rlm_ci.environments.repl.environment import ReplAnswers, final_code
from rlm_ci.models import Completion


def codes(text: str, finish: str = "stop") -> list[str]:
    calls = ReplAnswers().calls(Completion(text, (), finish, "m"), 1)
    return [json.loads(one.arguments)["code"] for one in calls]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("FINAL(42)", "FINAL(42)"),
        ('So:\n  FINAL("It is (about) 42.")', "FINAL('It is (about) 42.')"),
        (
            "FINAL(The first (of two) is 1) and so on.\nMore.)",
            "FINAL('The first (of two) is 1) and so on.\\nMore.')",
        ),
        ("FINAL(It is 42.)\n\nThis (I think) is all.", "FINAL('It is 42.')"),
        ("FINAL(\n- one\n- two :)\n)", "FINAL('- one\\n- two :')"),
        ("FINAL(1, 2 and 3)", "FINAL('1, 2 and 3')"),
        ("FINAL(1, 2)", "FINAL('1, 2')"),
        ("FINAL(Paris)", "FINAL(globals().get('Paris', 'Paris'))"),
        ("FINAL(final_answer)", "FINAL_VAR('final_answer')"),
        ("FINAL(f'{n} of {m}')", "FINAL(f'{n} of {m}')"),
        ('FINAL(answer["content"])', 'FINAL(answer["content"])'),
        ("FINAL_VAR(result)", "FINAL_VAR('result')"),
        ("SUBMIT(done and dusted)", "FINAL('done and dusted')"),
        ("FINAL(it has no end", ""),
        ("I will call FINAL(x) then.", ""),
        ("```text\nFINAL(no)\n```", ""),
        ("~~~\n```\nFINAL(no)\n~~~\nFINAL(yes!)", "FINAL('yes!')"),
        ("FINAL(" + "(" * 50_000 + ")", "FINAL('" + "(" * 50_000 + "')"),
        ("FINAL(0x" + "f" * 8000 + ")", "FINAL('0x" + "f" * 8000 + "')"),
        ("FINAL([" + "[" * 5000 + "])", "FINAL('[" + "[" * 5000 + "]')"),
    ],
)
def test_a_final_call_as_text(text: str, code: str) -> None:
    assert final_code(text) == code


def test_blocks_come_in_their_order_and_a_final_call_last() -> None:
    text = "One:\n```repl\na = 1\n```\n```json\n{}\n```\n```python\nb = 2\n```\nFINAL(both)"
    assert codes(text) == ["a = 1", "b = 2", "FINAL(globals().get('both', 'both'))"]
    *blocks, last = ReplAnswers().calls(Completion(text, (), "stop", "m"), 1)
    assert last.if_all_well
    assert not any(one.if_all_well for one in blocks)
    assert codes("FINAL(It is 4", "length") == codes("no code") == []
    assert codes("FINAL(It is cut)", "length") == []
