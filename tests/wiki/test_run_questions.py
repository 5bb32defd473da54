"""What newcomers ask of five repositories, and whether the wiki of a small one answers them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from testing.wiki_questions import KINDS, Question, answering, passage, read_questions
from testing.wiki_stage import CASES

TABLES = sorted((Path(__file__).parent / "questions").glob("*.toml"))
SHOP = {
    str(path.relative_to(CASES / "expected")): path.read_text(encoding="utf-8")
    for path in (CASES / "expected").rglob("*.md")
}
PAGE = """\
## Errors

| error | raised in |
|---|---|
| `Full` | [`shop/core.py#L1-L2`](../shop/core.py) |
| `Odd` | `pay`
  in no\\_file |

```mermaid
Odd shop
```

- step one
- calls `Full`
"""


@pytest.mark.parametrize("path", TABLES, ids=lambda path: path.stem)
def test_a_table_has_two_questions_of_each_kind(path: Path) -> None:
    table = read_questions(path)
    assert Counter(one.kind for one in table.questions) == dict.fromkeys(KINDS, 2)
    assert len({one.ask for one in table.questions}) == 10
    if path.stem != "shop":
        assert re.fullmatch(r"https://github\.com/[\w.-]+/[\w.-]+", table.repository)
        assert re.fullmatch(r"[0-9a-f]{40}", table.commit)


def test_a_question_of_another_form_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "odd.toml"
    path.write_text(TABLES[0].read_text().replace('kind = "fail"', 'kind = "why"'))
    with pytest.raises(ValueError, match=r"odd\.toml: a question has another form"):
        read_questions(path)


@pytest.mark.parametrize(
    "one", read_questions(TABLES[-1].with_name("shop.toml")).questions, ids=lambda one: one.ask
)
def test_the_pages_of_the_shop_answer(one: Question) -> None:
    """These pages are what a run writes: see ``pages/test_build.py``."""
    assert answering(one, SHOP)


@pytest.mark.parametrize(
    ("kind", "answer", "is_answered"),
    [
        ("fail", ("Full", "shop/core.py"), True),
        ("fail", ("Odd", "no_file"), True),  # one row, on two lines
        ("fail", ("Full", "Odd"), False),  # two rows
        ("call", ("step one", "Full", "Odd"), True),  # below one heading
        ("call", ("Odd shop",), False),  # in a diagram
        ("fail", ("Ful",), False),  # a part of a word
        ("fail", ("../shop",), False),  # where a link leads
    ],
)
def test_an_answer_stands_in_one_passage(
    kind: str, answer: tuple[str, ...], *, is_answered: bool
) -> None:
    asked = Question(kind, "?", answer)
    assert answering(asked, {"flows.md": PAGE}) == ["flows.md"] * is_answered
    is_anywhere = is_answered and kind != "call"
    assert answering(asked, {"modules/a.md": PAGE}) == ["modules/a.md"] * is_anywhere
    assert bool(passage(asked, PAGE)) == is_answered
