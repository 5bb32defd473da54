"""Which tests of changed files count as touched."""

from __future__ import annotations

from rlm_ci.trials.touched_tests import touched

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
