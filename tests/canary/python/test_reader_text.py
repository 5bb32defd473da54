"""What becomes of the text of Python tests: layout, lines, names. Nothing is run here."""

from __future__ import annotations

import ast
import random
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.canary import forms
from rlm_ci.canary.python import reader
from rlm_ci.canary.python.source import PythonSource
from rlm_ci.canary.python.writing import ClaimWriter

FORMS = (
    forms.ALTERED, forms.INVERTED, forms.REWORDED, forms.STOPPED, forms.REACHED, forms.IDLE,
)  # fmt: skip
TORTURE = '''\
import pytest


def test_first():\t# a comment: with a colon
\tassert f() == \\
\t\t3 ; x = "ü" ; assert "é" == x, f"{x!r:>{4}} {f'{x}'}"


@pytest.mark.parametrize("x", [1,
    2])
async def test_second(x):
    """Doc."""
    if x:
        assert (y := await f(x)), (yield_ := 3)
    elif not x: pytest.fail("no")
    else: return


class TestOuter(Base):
    @decorator
    class TestInner:
        def test_third(self): assert self.__private == [1, -2.5, (3j, b"b"), {"a": True}, {4}]
\x0c
        def test_fourth(self):
            with (pytest.raises(ValueError, match="a"
                  "b")) as e:  # here: too
                f(); g()
            assert e.value.args == ("x",); assert (1, "always")


def test_fifth():
    """Only this."""


def test_sixth():
    for one in f(): assert one in """
""", """
message"""
    else:
        mock.assert_called_with(*args, 3, a="b", **more)


async def test_seventh():
    async with assert_all(x), other() as y:
        def inner():
            assert 1 == 2
        await mock.assert_awaited_with(1,
            # why
            2)


def test_eighth():
    def main(): assert g() == "x" "y"
    main()


if True:
    def test_ninth():
        try:
            assert snapshot() == {**x, "a": 1}
        finally:
            assert 1 < f() < 3 <= g()
        assert not x is None and y == [*z, 1] or w
        return f(
            1)
def test_last(): return'''


def changed(text: str, form: str, seed: int = 1, *, plain: bool = False) -> forms.ChangedText:
    wanted = {test.name: form for test in reader.tests("test_x.py", text)}
    made = reader.change("test_x.py", text, wanted, random.Random(seed), plain=plain)
    assert made.changed_tests.keys() == wanted.keys()
    return made


@pytest.mark.sample(3)
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_every_layout_stays_python(newline: str, mark: str) -> None:
    text = mark + TORTURE.replace("\n", newline)
    for form in FORMS:
        for seed in range(2):
            for plain in (False, True):
                made = changed(text, form, seed, plain=plain).text
                assert made != text
                assert made.startswith(mark)
                ast.parse(made.removeprefix(mark))
                assert newline == "\r" or made.count("\r") == made.count("\n") * (newline != "\n")
                assert "# a comment: with a colon" in made


def test_other_tests_and_their_lines_stay() -> None:
    """A test is given blank lines behind it for those that it has more."""
    before = TORTURE.split("\n")
    for test in reader.tests("test_x.py", TORTURE):
        for form in FORMS:
            for seed in range(3):
                wanted, chance = {test.name: form}, random.Random(seed)
                after = reader.change("test_x.py", TORTURE, wanted, chance).text.split("\n")
                assert after[: test.line - 1] == before[: test.line - 1]
                if before[test.end : test.end + 2] == ["", ""]:
                    rest = before[test.end + 2 :]
                    assert after[len(after) - len(rest) :] == rest
                    more = len(after) - len(before)
                    # What a mock was called with needs two lines more, and its test a failure.
                    mocks = form == forms.ALTERED and test.name in {"test_sixth", "test_seventh"}
                    assert more <= mocks, (test, form)


def test_names() -> None:
    text = """
class Base:
    def test_shared(self): assert f() == 1
    def helper(self): assert 1
class TestA(Base): pass
class TestB(TestA):
    @parameterized.expand([1])
    def test_many(self): assert f() == 1
def describe_x():
    def it_works(): assert f() == 1
def check_y(): assert f() == 1
def testz(): pass
"""
    found = reader.tests("test_x.py", text)
    assert [(test.name, test.line, test.end) for test in found] == [
        ("TestA::test_shared", 3, 3), ("TestB::test_many", 7, 8), ("testz", 12, 12),
    ]  # fmt: skip
    told = ["describe_x::it_works", "check_y", "TestB::test_shared", "TestB::test_many_0_a", "no"]
    found = reader.tests("test_x.py", text, told)
    assert [test.name for test in found] == [
        "TestB::test_shared", "TestB::test_many_0_a", "describe_x::it_works", "check_y",
    ]  # fmt: skip
    wanted = dict.fromkeys(told, forms.ALTERED) | {"TestA::test_shared": forms.IDLE}
    made = reader.change("test_x.py", text, wanted, random.Random(1)).changed_tests
    assert made.keys() == {*told, "TestA::test_shared"} - {"no"}
    assert made["TestA::test_shared"] == made["TestB::test_shared"]  # one function, one form


@pytest.mark.parametrize(
    ("claim", "form"),
    [
        ("assert f(3)", forms.INVERTED),
        ("assert f() != 3", forms.INVERTED),
        ("assert f() == 3 or g()", forms.INVERTED),
        ("assert 3 == IsInt()", forms.INVERTED),
        ("assert f() == {**x, 'a': 1}", forms.INVERTED),
        ("assert 2 < f() == 3", forms.ALTERED),
        ("assert f() == g(3)", forms.INVERTED),
        ("assert f() == f'{x}'", forms.INVERTED),
        ("with pytest.raises(E): assert f() == 3", forms.INVERTED),
        ("assert f() is None", forms.INVERTED),
        ("assert f() == Money(x, 3)", forms.INVERTED),
        ("assert f() == Money(3, unit='EUR')", forms.ALTERED),
        ("assert math.isclose(f(), 1.5, rel_tol=0.1)", forms.ALTERED),
        ("assert f() is True", forms.ALTERED),
        ("assert f() == 3 and g()", forms.ALTERED),
        ("assert 3 == f() == g()", forms.ALTERED),
        ("assert f() == [x, {'a': (-1,)}]", forms.ALTERED),
        ("assert f() == pytest.approx(3, abs=1)", forms.ALTERED),
        ("assert 'x' in f()", forms.ALTERED),
        ("self.assertEqual(3, f())", forms.ALTERED),
        ("m.assert_any_call(x, a=3)", forms.ALTERED),
        ("with pytest.warns(E): assert f() == 3", forms.ALTERED),
        ("try: assert f() == 3\n    except Exception: pass", forms.STOPPED),
        ("check(lambda: f() == 3)", forms.STOPPED),
        ("def inner(): assert 1 == f()\n    product(inner)", forms.ALTERED),
        ("def inner(): assert 1 == f()\n    product(inner())", forms.ALTERED),
    ],
)
def test_what_can_be_altered(claim: str, form: str) -> None:
    made = changed(f"def test_x():\n    {claim}\n", forms.ALTERED)
    assert made.changed_tests["test_x"].form == form, made.text


def test_a_test_of_a_mixin_has_the_names_of_its_heirs() -> None:
    """A run of unittest names these where they fail, and else none."""
    text = (
        "class Sums:\n    def test_sum(self): self.assertEqual(f(), 1)\n"
        "class A(Sums, unittest.TestCase): pass\nclass B(Sums, unittest.TestCase): pass\n"
    )
    found = reader.tests("test_x.py", text)
    assert [test.name for test in found] == ["A::test_sum", "B::test_sum"]
    wanted = {test.name: forms.INVERTED for test in found}
    made = reader.change("test_x.py", text, wanted, random.Random(1)).changed_tests
    assert made["A::test_sum"] == made["B::test_sum"]


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_reversed_raise_looks_at_what_is_raised(seed: int, *, plain: bool) -> None:
    """Whatever became of ``pytest.raises``: with no exception, the reversal passes."""
    text = "def test_x():\n    with raises(ValueError):\n        product()\n"
    chance = random.Random(seed)
    made = reader.change("test_x.py", text, {"test_x": forms.INVERTED}, chance, plain=plain)
    scope: dict[str, Any] = {"product": lambda: None}
    exec(made.text, scope)
    scope["test_x"]()
    scope["product"] = lambda: int("none")
    with pytest.raises(AssertionError, match=made.changed_tests["test_x"].tokens[0]):
        scope["test_x"]()


@pytest.mark.parametrize("plain", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_a_reversed_call_of_unittest_looks_at_its_values(seed: int, *, plain: bool) -> None:
    """Whatever became of ``assertEqual``: with another value, the reversal passes."""
    text = "def test_x(self):\n    self.assertEqual(product(), 3)\n"
    chance = random.Random(seed)
    made = reader.change("test_x.py", text, {"test_x": forms.INVERTED}, chance, plain=plain)
    scope: dict[str, Any] = {"product": lambda: 4}
    exec(made.text, scope)
    scope["test_x"](None)
    scope["product"] = lambda: 3
    with pytest.raises(AssertionError, match=made.changed_tests["test_x"].tokens[0]):
        scope["test_x"](None)


@given(seed=st.integers(), plain=st.booleans())
def test_what_must_fail_does(seed: int, plain: bool) -> None:
    chance = random.Random(seed)
    with pytest.raises(AssertionError, match="the token"):
        exec(
            ClaimWriter(PythonSource(""), chance, "the token", plain=plain)
            .failing()
            .replace("\0", "")
        )


@pytest.mark.full
@given(
    value=st.recursive(
        st.integers() | st.floats(allow_infinity=False, allow_nan=False) | st.text() | st.binary()
        | st.booleans() | st.complex_numbers(allow_infinity=False, allow_nan=False),
        lambda inner: st.lists(inner, min_size=1) | st.dictionaries(st.text(), inner, min_size=1),
    ),
    seed=st.integers(),
)  # fmt: skip
def test_another_literal_is_never_equal(value: object, seed: int) -> None:
    """Whatever a claim expects, and an equal constant is one."""
    scope = {"value": value}
    text = f"def test_x():\n    assert value == {value!a}\n"
    made = changed(text, forms.ALTERED, seed)
    exec(made.text, scope)
    if made.changed_tests["test_x"].form == forms.ALTERED:
        with pytest.raises(AssertionError, match=made.changed_tests["test_x"].tokens[0]):
            scope["test_x"]()  # type: ignore[operator]
    exec(changed(text, forms.REWORDED, seed).text, scope)
    scope["test_x"]()  # type: ignore[operator]


def library(pattern: str) -> list[Path]:
    """Tests that others wrote: those of Python itself, if they are installed, or else ours."""
    theirs = sorted((Path(sysconfig.get_path("stdlib")) / "test").glob(pattern))
    return theirs or sorted(Path(__file__).parents[2].glob(pattern.replace("test_", "*/test_")))


@pytest.mark.parametrize(
    "pattern", ["test_textw*.py", pytest.param("test_[cltu]*.py", marks=pytest.mark.full)]
)
def test_all_tests_of_others_can_be_changed(pattern: str) -> None:
    lost = []
    for path in library(pattern):
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        try:
            names = [test.name for test in reader.tests(path.name, text)]
        except forms.UnparsableError:
            continue
        for turn in range(3):
            wanted = {name: FORMS[(at + turn) % 3] for at, name in enumerate(names)}
            made = reader.change(path.name, text, wanted, random.Random(turn), plain=turn == 1)
            lost += [f"{path.name}: {name}" for name in wanted if name not in made.changed_tests]
    assert len(lost) < 5, lost
