"""A claim that says at least what others said before it."""

from __future__ import annotations

import pytest

from rlm_ci.guard.weakened_tests.compare import compare
from rlm_ci.guard.weakening import TextChange

TRY = """\
    try:
        total(['x'])
    except TypeError as error:
        assert 'no number' in str(error)
    else:
        raise AssertionError('no error')
"""
RAISES = "    with pytest.raises(TypeError, match='no number'):\n        total(['x'])\n"
#: The body of a test before and after.
HONEST = {
    "elements": (
        "    got = total(1)\n    assert len(got) == 1\n    assert got[0] == 1\n",
        "    assert total(1) == [1]\n",
    ),
    "keys": (
        "    got = total(1)\n    assert got['a'] == 1\n    assert got['b'] == 2\n",
        "    assert total(1) == {'a': 1, 'b': 2}\n",
    ),
    "fields": (
        "    got = total(1)\n    assert got.a == 1\n    assert got.b == 'x'\n",
        "    assert total(1) == Total(a=1, b='x')\n",
    ),
    "unittest": (
        "    got = total(1)\n    self.assertEqual(got[0], 1)\n    self.assertEqual(got[1], 2)\n",
        "    self.assertEqual(total(1), (1, 2))\n",
    ),
    "that it is there": (
        "    assert total.stats\n    assert total.stats.get(1) == 2\n",
        "    assert total.stats.get(1) == 2\n",
    ),
    "that it is not None": (
        "    assert got is not None\n    assert got[0] == 2\n", "    assert got[0] == 2\n",
    ),
    "nothing by pytest": ("    self.assertEqual(total([]), 0)\n", "    assert total([]) == 0\n"),
    "none by pytest": ("    self.assertIsNone(self.total)\n", "    assert total is None\n"),
    "an error by pytest": (
        "    with self.assertRaises(TypeError):\n        total('x')\n",
        "    with pytest.raises(TypeError):\n        total('x')\n",
    ),
    "try": (TRY, RAISES),
    "a message by itself": (
        """\
    with pytest.raises(TypeError) as info:
        total(['x'])
    assert 'no number' in str(info.value)
""", RAISES,
    ),
    "unittest's": (
        """\
    with self.assertRaises(TypeError) as caught:
        total(['x'])
    assert str(caught.exception) == 'no number'
""", RAISES,
    ),
}  # fmt: skip
WEAK = {
    "a value less": (
        "    got = total(1)\n    assert got[0] == 1\n    assert got[1] == 2\n",
        "    assert total(1) == [1]\n",
    ),
    "something else": (
        "    got = total(1)\n    assert got[0] == 1\n    assert got[1] == 2\n",
        "    assert [1, 2] == [1, 2]\n",
    ),
    "another subject": (
        "    got = total(1)\n    assert got[0] == 1\n    assert got[1] == 2\n",
        "    want = [1, 2]\n    assert want == [1, 2]\n",
    ),
    "a part": (
        "    got = total(1)\n    assert got[0] == 1\n    assert got[1] == 2\n",
        "    assert 1 in total(1)\n",
    ),
    "that it is there, and no more": (
        "    assert got\n    assert total.stats.get(1) == 2\n",
        "    assert total.stats.get(1) == 2\n",
    ),
    "all that it says": ("    assert got\n    got.close()\n", "    got.close()\n"),
    "no message": (TRY, "    with pytest.raises(TypeError):\n        total(['x'])\n"),
    "another message": (TRY, RAISES.replace("no number", ".*")),
    "any error": (RAISES, RAISES.replace("TypeError", "Exception")),
    "more errors": (RAISES, RAISES.replace("TypeError", "(TypeError, KeyError)")),
}  # fmt: skip


@pytest.mark.parametrize("case", [*HONEST, *WEAK])
def test_a_claim_may_say_what_others_said(case: str) -> None:
    old, new = (f"def test_total(self):\n{body}" for body in (HONEST | WEAK)[case])
    found = compare([TextChange("tests/test_total.py", old, new)]).weakenings
    assert [one.rule for one in found] == (["assertion-weakened"] if case in WEAK else [])
