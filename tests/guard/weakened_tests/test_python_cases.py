"""The tests of a file of Python, as pytest and unittest find them."""

from __future__ import annotations

import pytest

from rlm_ci.guard.weakened_tests.python_cases import read


def test_tests_are_those_that_are_left() -> None:
    text = (
        "def test_a(): pass\nclass TestB:\n    def test_c(self): pass\n    def helper(self): pass\n"
        "if X:\n    def test_d(): pass\nelse:\n    def test_e(): pass\n"
        "def test_f(): pass\ndel test_f\n"
    )
    names = [one.name for one in read(text).cases]
    assert names == ["test_a", "TestB.test_c", "test_d", "test_e"]
    assert read("def test_(:").flaw == "is no valid Python"


@pytest.mark.parametrize(
    ("text", "owners"),
    [
        ("@skip\ndef test_a(): pass", ["test_a"]),
        ("@pytest.mark.xfail\nclass TestA: pass", ["TestA"]),
        ("pytestmark = pytest.mark.skip", [""]),
        ("pytestmark = pytest.mark.slow", []),
        ("def test_a():\n    if WIN:\n        pytest.skip()", ["test_a"]),
        ("def test_a():\n    sys.exit(0)", ["test_a"]),
        ("def test_a():\n    def command(ctx):\n        sys.exit(1)\n    run(command)", []),
        ("def test_a():\n    ctx.exit()", []),
        ("if __name__ == '__main__':\n    sys.exit(main())", []),
        ("yaml = pytest.importorskip('yaml')", []),
        ("@pytest.fixture(autouse=True)\ndef wait(): pytest.skip()", [""]),
        ("@pytest.fixture\ndef server(): pytest.skip()", ["server"]),
    ],
)
def test_what_leaves_tests_out_has_an_owner(text: str, owners: list[str]) -> None:
    assert [one.owner for one in read(text).skips] == owners


@pytest.mark.parametrize(
    ("body", "escapes"),
    [
        ("return", 0),
        ("if WIN:\n        return\n    assert x", 1),
        ("def inner():\n        return 3\n    assert inner()", 0),
        ("for x in xs:\n        if x:\n            return\n    raise AssertionError('none')", 0),
        ("for x in xs:\n        if x:\n            return\n    assert xs", 1),
        ("try:\n        assert x\n    except Exception:\n        pass", 1),
        ("try:\n        assert x\n    except AssertionError:\n        raise", 0),
        ("try:\n        import x\n    except Exception:\n        x = None", 0),
        ("with suppress(Exception):\n        assert x", 1),
    ],
)
def test_ways_out_of_a_test_are_known(body: str, escapes: int) -> None:
    (case,) = read(f"def test_a():\n    {body}\n").cases
    assert len(case.facts.escapes) == escapes
