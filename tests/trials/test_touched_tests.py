"""Which tests of changed files count as touched."""

from __future__ import annotations

import pytest

from rlm_ci.trials.touched_tests import changes_shared, touched

#: The content of files before and after a change.
Files = dict[str, tuple[bytes | None, bytes | None]]

OLD = b"def test_a():\n    assert f(1) == 2\n\n\ndef test_b():\n    assert g('x')\n"


def names(**files: tuple[bytes | None, bytes | None]) -> list[tuple[str, bool]]:
    sides = {f"tests/{name}.py": both for name, both in files.items()}
    return [(test.name, test.is_new) for test in touched(sides).tests]


def test_new_and_changed_tests_are_touched() -> None:
    new = OLD.replace(b"== 2", b"== 3") + b"\n\ndef test_c():\n    assert h()\n"
    assert names(test_x=(OLD, new)) == [("test_a", False), ("test_c", True)]


def test_layout_alone_touches_nothing() -> None:
    new = OLD.replace(b"g('x')", b'g(\n        "x",\n    )')
    assert names(test_x=(OLD, new)) == []


def test_a_test_that_moved_is_not_touched() -> None:
    assert names(test_x=(OLD, None), test_y=(None, OLD)) == []


def test_what_cannot_be_read_is_told() -> None:
    result = touched({"tests/test_x.py": (OLD, b"def test_a(:\n"), "tests/data.bin": (None, b"\0")})
    assert not result.tests
    assert result.unread == ("tests/test_x.py",)


PYTHON = "def test_a():\n    assert f(1) == 2\n"
UNITTEST = "class Tests(TestCase):\n{}    def test_a(self):\n        self.assertEqual(f(1), 2)\n"


@pytest.mark.parametrize(
    ("path", "old", "new", "is_marked_anew"),
    [
        ("test_x.py", f'@pytest.mark.xfail(os.name == "nt", reason="(1)")\n{PYTHON}', PYTHON, True),
        ("test_x.py", f"@skipIf(PY2, 'no')\n{PYTHON}", f"@skipIf(PY3, 'no')\n{PYTHON}", True),
        ("test_x.py", UNITTEST.format("    @expectedFailure\n"), UNITTEST.format(""), True),
        ("test_x.py", f"@skipIf(PY2, 'no')\n{PYTHON}", PYTHON.replace("2", "3"), False),
        ("test_x.py", f"@parametrize('x', [1])\n{PYTHON}", f"@parametrize('x', [2])\n{PYTHON}",
         False),
        ("test_x.py", PYTHON.replace("_a", "_b"), PYTHON, False),
    ],
)  # fmt: skip
def test_marks_that_let_a_test_run_claim_nothing(
    path: str, old: str, new: str, *, is_marked_anew: bool
) -> None:
    (test,) = touched({f"tests/{path}": (old.encode(), new.encode())}).tests
    assert test.is_marked_anew is is_marked_anew


def test_rust_and_its_mark() -> None:
    new = "#[test]\nfn adds() {\n    assert_eq!(f(1), 2);\n}\n"
    old = new.replace("fn", '#[ignore = "slow"]\nfn')
    (test,) = touched({"tests/x.rs": (old.encode(), new.encode())}).tests
    assert test.is_marked_anew


TABLE = """\
const cases = { a: 1 };

for (const [name, value] of Object.entries(cases)) {
  it(name, () => { expect(f(name)).toBe(value); });
}
"""
NEW_SCRIPT = "it('adds', () => { expect(f(1)).toBe(2); });\n"
FIXTURE = """\
@pytest.fixture
def cart():
    return Cart()


def test_a(cart):
    assert cart
"""
GO = "package a\n\nvar cases = []int{1}\n\nfunc TestA(t *testing.T) { run(t, cases) }\n"
NEW_GO = "\nfunc TestB(t *testing.T) { run(t, nil) }\n"
HELPED = """\
class Tests(TestCase):
    def total(self, prices):
        return total(prices)

    def test_a(self):
        self.assertEqual(self.total([1]), 1)
"""
NEW_PYTHON = "\n\ndef test_new():\n    assert f(1) == 2\n"


@pytest.mark.parametrize(
    ("path", "old", "new", "is_shared"),
    [
        ("x.test.ts", TABLE, TABLE.replace("a: 1", "a: 1, b: 2") + NEW_SCRIPT, True),
        ("x.test.ts", TABLE, f"{TABLE}const more = [];\n{NEW_SCRIPT}", False),
        ("test_x.py", FIXTURE, FIXTURE.replace("Cart()", "Cart(1)") + NEW_PYTHON, True),
        ("test_x.py", FIXTURE, FIXTURE + NEW_PYTHON, False),
        ("test_x.py", HELPED, HELPED.replace("total(prices)", "total([*prices])") + NEW_PYTHON,
         True),
        ("test_x.py", "A = 1\n", f"A = 2\n{NEW_PYTHON}", False),  # nobody has it
        ("test_x.py", f"A = 1\n{NEW_PYTHON}", f"A = 2\n{NEW_PYTHON.replace('2', 'A')}", False),
        ("x_test.go", GO, GO.replace("{1}", "{1, 2}") + NEW_GO, True),
    ],
)  # fmt: skip
def test_what_older_tests_read_is_shared(path: str, old: str, new: str, *, is_shared: bool) -> None:
    files: Files = {f"tests/{path}": (old.encode(), new.encode())}
    (test,) = touched(files).tests
    assert changes_shared(files, [test]) is is_shared
