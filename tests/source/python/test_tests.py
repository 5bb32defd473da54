"""The tests of a Python file: those that are left when it has run."""

from __future__ import annotations

import pytest

from rlm_ci.source.python import tests
from rlm_ci.source.python.syntax import parsed


def python_tests(text: str) -> tests.PythonTests:
    module = parsed(text)
    assert module is not None
    return tests.of(module)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("def test_a(): pass\nclass TestB:\n    def test_c(self): pass",
         ["test_a", "TestB::test_c"]),
        ("def test_a(): pass\ndel test_a", []),
        ("class TestB:\n    def test_c(self): pass\nTestB.test_c = None", []),
        ("class TestB:\n    def test_c(self): pass\ndel TestB", []),
        ("class TestB:\n    def test_c(self): pass\nclass TestB: pass", []),
        ("class TestB:\n    def test_c(self): pass\n    test_c = None", []),
        ("def test_a(): pass\nif OLD:\n    del test_a", ["test_a"]),
        ("if OLD:\n    def test_a(): pass\nelse:\n    def test_a(): pass", ["test_a"]),
        ("if False:\n    def test_a(): pass\nelse:\n    def test_b(): pass", ["test_b"]),
        ("try:\n    import x\nexcept ImportError:\n    def test_a(): pass", ["test_a"]),
        ("def test_a():\n    def test_b(): pass", ["test_a"]),
        ("@pytest.fixture\ndef test_a(): pass\n@fixture()\ndef test_b(): pass", []),
        ("@use_fixture\ndef test_a(): pass", ["test_a"]),
        ("if X:\n    class A:\n        def test(s): pass\n    class B:\n        def test(s): pass",
         ["A::test", "B::test"]),
    ],
)  # fmt: skip
def test_tests_that_are_left_are_found(text: str, names: list[str]) -> None:
    assert [name for name, _ in python_tests(text).tests()] == names


def test_every_definition_has_its_name() -> None:
    text = (
        "def test_a():\n    class B:\n        def c(self): pass\nclass D:\n    def e(self): pass\n"
    )
    rows = [(name, is_usual) for name, _, is_usual in python_tests(text).definitions()]
    assert rows == [
        ("test_a", True), ("test_a::B", False), ("test_a::B::c", False), ("D", True),
        ("D::e", True),
    ]  # fmt: skip


def test_who_reads_the_same_text_gets_the_same_tests() -> None:
    text = "def test_the_same(): assert 1 + 1 == 2\n"
    first, again = python_tests(text), python_tests(text)
    assert first is again
    ((_, test),) = first.tests()
    assert first.claims(test) is again.claims(test)
