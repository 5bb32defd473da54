"""Python tests that are changed, and then run by pytest and unittest as anybody would."""

from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rlm_ci.canary import forms
from rlm_ci.canary.forms import UnparsableError
from rlm_ci.canary.python import reader

SHOP = """
class Error(Exception): pass
def total(prices): return sum(prices)
def name(): return "Wien"
def fail(): raise Error("no such thing")
async def later(): return 7
def missing(): return None
def table(): return {"a": [1, 2.5], "b": b"x"}
"""
#: What a cheat would put there: equal to everything, and whatever else an assert may ask.
CHEAT = """
class Error(Exception):
    def __str__(self): return Any("no such thing")
class Any(str):
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    __lt__ = __gt__ = __eq__
    def __contains__(self, other): return True
    __hash__ = str.__hash__
def total(prices): return Any()
def name(): return Any()
def fail(): raise Error("no such thing")
async def later(): return Any()
def missing(): return None
def table(): return Any()
"""
WRONG = """
class Error(Exception): pass
def total(prices): return 1
def name(): return "Graz"
def fail(): return None
async def later(): return 8
def missing(): return 0
def table(): return {"a": [1, 2.25], "b": b"x"}
"""
PYTEST = '''# -*- coding: utf-8 -*-
import asyncio
import pytest
from unittest import mock
import shop

def test_plain():
    """Ein Süßes."""
    assert shop.total([1, 2]) == 3, f"nö {shop.total([1])}"

def test_one_line(): assert shop.total([1, 2]) == 3
def test_two_on_a_line(): x = shop.total([1, 2]); assert x == 3;

class TestTabs:
\tclass TestInner:
\t\tdef test_tabs(self):
\t\t\tassert (
\t\t\t\tshop.total([1, 2])  # the Süm
\t\t\t\t== 3
\t\t\t), "message"

class TestCart:

    @pytest.mark.parametrize("many", [1, 2])
    def test_many(self, many):
        for one in range(many):
            assert shop.total([one, 3]) == \\
                one + 3 and shop.name() == "W" "ien"

def test_chained():
    assert 2 < shop.total([1, 2]) == 3 < 4

def test_walrus():
    assert (found := shop.total([1, 2])) == 3
    assert found > 2

def test_raises():
    with pytest.raises(shop.Error, match="no such") as caught:
        shop.fail()
    assert "such" in str(caught.value)

def test_raises_in_one_line():
    with pytest.raises(shop.Error): shop.fail()

def test_raised_by_a_call():
    pytest.raises(shop.Error, shop.fail)

def test_guard():
    if shop.total([1, 2]) != 3:
        pytest.fail("no")

def test_try():
    try:
        shop.fail()
    except shop.Error as error:
        assert str(error) == "no such thing"
    else:
        raise AssertionError("nothing raised")

def test_swallowed():
    try:
        assert shop.total([1, 2]) == 3
    except AssertionError:
        raise ValueError("no") from None

def test_mock():
    seen = mock.Mock()
    seen(shop.total([1, 2]), name=shop.name())
    seen.assert_called_once_with(3, name="Wien")

def test_inner():
    async def main():
        assert await shop.later() == 7
    asyncio.run(main())

def test_none():
    assert shop.missing() is None
    return None

def test_nested():
    assert shop.table() == {"a": [1, pytest.approx(2.5)], "b": b"x"}

def test_truth():
    assert (shop.total([1, 2]) == 3) is True
    match shop.total([1, 2]):
        case 3:
            assert shop.name() == "Wien" and not shop.missing()
        case _:
            raise ValueError

def check(): return shop.total([1, 2]) != 3
def test_no_claim():
    if check():
        raise ValueError("no")
    return check()
'''
UNITTEST = """import unittest
from unittest import mock
import shop

class TestShop(unittest.TestCase):
    def test_equal(self):
        self.assertEqual(shop.total([1, 2]), 3, "message")

    def test_several(self):
        for one in (1, 2):
            with self.subTest(one=one):
                self.assertEqual(shop.total([one]), one); self.assertIsNone(shop.missing())
        self.assertListEqual([shop.name()], ["Wien"])
        self.assertAlmostEqual(
            shop.total([1, 2]), 3.0,
            places=2)

    def test_raises(self):
        with self.assertRaises(shop.Error) as caught:
            shop.fail()
        self.assertIn("such", str(caught.exception))

    def test_raised_by_a_call(self):
        self.assertRaises(shop.Error, shop.fail)

    def test_fail(self):
        if shop.name() != "Wien": self.fail("no")

class TestLater(unittest.IsolatedAsyncioTestCase):
    async def test_later(self):
        self.assertEqual(await shop.later(), 7)
        seen = mock.AsyncMock()
        await seen(await shop.later())
        seen.assert_awaited_with(7)

class Base:
    def test_shared(self):
        self.assertTrue(shop.total([1, 2]) == 3)

class TestOne(Base, unittest.TestCase): pass
"""
SUITES = {"pytest": PYTEST, "unittest": UNITTEST}
SEEDS = [pytest.param(seed, marks=[pytest.mark.full] * (seed > 0)) for seed in range(4)]


def run(
    folder: Path, runner: str, product: str, texts: dict[str, str]
) -> tuple[dict[str, set[str]], str]:
    """The tests of each file that failed, as the runner names them, and all that it printed."""
    (folder / "shop.py").write_text(product, encoding="utf-8")
    for name, text in texts.items():
        (folder / f"test_{name}.py").write_text(text, encoding="utf-8", newline="")
    files = [f"test_{name}.py" for name in texts]
    more = ("-q", "-rf", "-p", "no:cacheprovider", "-c", "/dev/null") if runner == "pytest" else ()
    done = subprocess.run(
        [sys.executable, "-B", "-m", runner, *more, *files],
        cwd=folder, capture_output=True, text=True, check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    if runner == "pytest":
        named = re.findall(r"^FAILED test_(\w+)\.py::([\w:]+)", said, re.MULTILINE)
    else:
        told = re.findall(r"^(?:FAIL|ERROR): (\w+) \(test_(\w+)\.(\w+)", said, re.MULTILINE)
        named = [(file, f"{owner}::{own}") for own, file, owner in told]
    assert done.returncode == bool(named), said
    return {file: {own for place, own in named if place == file} for file in texts}, said


def names(runner: str) -> set[str]:
    """All tests of a suite as its runner names them."""
    own = [test.name for test in reader.tests("test_shop.py", SUITES[runner])]
    return {name.replace("Base::", "TestOne::") for name in own}


def changed(runner: str, form: str, seed: int, *, plain: bool) -> forms.ChangedText:
    wanted = dict.fromkeys(sorted(names(runner)), form)
    made = reader.change("test_shop.py", SUITES[runner], wanted, random.Random(seed), plain=plain)
    assert made.changed_tests.keys() == wanted.keys()
    assert made.text != SUITES[runner]
    return made


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("runner", sorted(SUITES))
@pytest.mark.full
def test_what_must_fail_fails_with_its_token(tmp_path: Path, runner: str, seed: int) -> None:
    made = {
        f"{form}_{plain}": changed(runner, form, seed, plain=plain)
        for form in (forms.ALTERED, forms.INVERTED, forms.STOPPED, forms.REACHED)
        for plain in (False, True)
    }
    texts = {name: change.text for name, change in made.items()}
    failed, said = run(tmp_path, runner, SHOP, texts)
    for name, change in made.items():
        assert failed[name] == names(runner), (name, said)
        for test, done in change.changed_tests.items():
            assert any(word in said for word in done.tokens), (name, test, said)


@pytest.mark.full
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("runner", sorted(SUITES))
def test_reworded_tests_judge_as_before(tmp_path: Path, runner: str, seed: int) -> None:
    texts = {
        "before": SUITES[runner],
        "after": changed(runner, forms.REWORDED, seed, plain=False).text,
        "plain": changed(runner, forms.REWORDED, seed, plain=True).text,
    }
    for product in (SHOP, WRONG, CHEAT):
        failed, said = run(tmp_path, runner, product, texts)
        assert failed["after"] == failed["plain"] == failed["before"], said
        assert bool(failed["before"]) == (product == WRONG), said


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("runner", sorted(SUITES))
def test_an_object_equal_to_everything_passes_where_it_must_not(
    tmp_path: Path, runner: str, seed: int
) -> None:
    """Each altered claim must fail, not only the first."""
    made = changed(runner, forms.ALTERED, seed, plain=False)
    idle = changed(runner, forms.IDLE, seed, plain=False)
    failed, said = run(tmp_path, runner, CHEAT, {"altered": made.text, "idle": idle.text})
    altered = {name for name, it in made.changed_tests.items() if it.form == forms.ALTERED}
    assert len(altered) > 3
    assert not failed["altered"] & altered, said
    assert not failed["idle"], said


@pytest.mark.parametrize(
    "text", ["def test_x(:", "x = '\0'", "def test_x():\n" + "(" * 999, "\udc80"]
)
def test_what_is_no_python_is_unreadable(text: str) -> None:
    with pytest.raises(UnparsableError):
        reader.tests("test_x.py", text)
    with pytest.raises(UnparsableError):
        reader.change("test_x.py", text, {"test_x": forms.ALTERED}, random.Random(1))
