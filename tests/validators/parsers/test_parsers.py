"""What tools print becomes findings: real outputs as cases, hostile ones by chance.

A case is a text as the tool printed it (jest, vitest, node, mocha, eslint, tsc, npm, go, cargo,
pytest, unittest, ruff, mypy and make were all run for it) and beside it what must be found.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.report.findings import Severity
from rlm_ci.system.process import Clipped
from rlm_ci.system.transcript import transcribe
from rlm_ci.text.printable import printable
from rlm_ci.validators import parsers
from rlm_ci.validators.parsers._output import LONGEST_MESSAGE, MOST_FINDINGS, Printout

CASES = Path(__file__).parent / "cases"
NAMES = sorted(path.stem for path in CASES.glob("*.json"))
ROOT = "/home/ada/shop"


def plain(text: str) -> str:
    return text


def lines_of(data: bytes) -> tuple[str, ...]:
    return transcribe(Clipped(data), plain).lines


def case(name: str) -> tuple[tuple[str, ...], dict[str, Any]]:
    record: dict[str, Any] = json.loads((CASES / f"{name}.json").read_text(encoding="utf-8"))
    return lines_of((CASES / f"{name}.txt").read_bytes()), record


def told(reading: parsers.ParsedOutput) -> dict[str, Any]:
    """A reading in the form of a case."""
    return {
        "findings": [
            {
                "rule": one.rule,
                "severity": one.severity.label,
                "source": one.source,
                "message": one.message,
                "places": [
                    f"{place.path}:{place.line_start}" if place.line_start else place.path
                    for place in one.evidence
                ],
            }
            for one in reading.findings
        ],
        "tallies": {tool: [tally.passed, tally.failed] for tool, tally in reading.tallies},
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_real_output(name: str) -> None:
    lines, wanted = case(name)
    reading = parsers.read(lines, wanted["root"], set(wanted["files"]).__contains__)
    assert told(reading) == {key: wanted[key] for key in ("findings", "tallies")}


@pytest.mark.parametrize("name", NAMES)
def test_the_same_output_in_colour_and_with_the_line_ends_of_windows(name: str) -> None:
    lines, wanted = case(name)
    dressed = "".join(f"\x1b[1;31m{line}\x1b[0m\x1b[K\r\n" for line in lines).encode()
    reading = parsers.read(lines_of(dressed), wanted["root"], set(wanted["files"]).__contains__)
    assert told(reading) == {key: wanted[key] for key in ("findings", "tallies")}


@pytest.mark.parametrize("name", [name for name in NAMES if "outcomes" in case(name)[1]])
def test_how_each_test_ended(name: str) -> None:
    lines, wanted = case(name)
    told = parsers.outcomes(lines, wanted["root"])
    rows = [(one.state, one.location, one.name, one.case, one.message[:100]) for one in told.tests]
    assert [" | ".join(row) for row in rows] == wanted["outcomes"]
    assert told.complete == wanted["complete"]


@pytest.mark.parametrize("name", ["node-nested", "tap-nested", "jest-verbose", "vitest-verbose"])
def test_a_second_run_tells_of_its_tests_as_well(name: str) -> None:
    """As the packages of a workspace do, one after the other."""
    lines, wanted = case(name)

    def renamed(text: str) -> str:
        return re.sub(r"adds|fails|works|top |test/", r"other-\g<0>", text)

    first = parsers.outcomes(lines, wanted["root"])
    both = parsers.outcomes([*lines, *map(renamed, lines)], wanted["root"])
    assert both.complete
    told = {(one.state, one.name) for one in both.tests}
    assert told == {
        (one.state, name) for one in first.tests for name in (one.name, renamed(one.name))
    }
    assert len(told) > len(first.tests)


def test_every_family_has_a_case() -> None:
    tools = {
        one["source"].partition(":")[2]
        for name in NAMES
        for one in case(name)[1]["findings"]
    }  # fmt: skip
    assert {parsers.load(name).TOOL for name in parsers.names()} <= tools
    assert len(NAMES) > 30


def test_every_rule_is_explained() -> None:
    texts = tomllib.loads((Path(__file__).parents[3] / "docs" / "rules.toml").read_text("utf-8"))
    explained = {rule for rule in texts if rule.startswith("validator/")}
    sources = "".join(
        path.read_text("utf-8") for path in Path(parsers.__file__).parent.glob("*.py")
    )
    found = {one["rule"] for name in NAMES for one in case(name)[1]["findings"]}
    assert found <= explained
    for rule in explained:
        assert f'"{rule.partition("/")[2]}"' in sources


# -- places -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "path"),
    [
        ("src/a.py", "src/a.py"),
        ("./src/../src/a.py", "src/a.py"),
        ("/home/ada/shop/src/a.py", "src/a.py"),
        ("file:///home/ada/shop/src/a.py", "src/a.py"),
        ("file:///home/ada/shop/with%20space.py", "with space.py"),
        ("../shop/src/a.py", None),
        ("/home/ada/shop/../other/a.py", None),
        ("/home/ada/shopping/a.py", None),
        ("/etc/passwd", None),
        ("node_modules/x/a.py", None),
        (".venv/lib/a.py", None),
        ("missing.py", None),
        (".", None),
        ("", None),
        ("//home/ada/shop/src/a.py", None),
        ("src/a.py\0", None),
    ],
)
def test_a_place_is_a_file_of_the_repository(said: str, path: str | None) -> None:
    everything = {"src/a.py", "with space.py", "node_modules/x/a.py", ".venv/lib/a.py", "a.py"}
    place = Printout((), ROOT, everything.__contains__).location_of(said, "3")
    assert (place.path if place else None) == path
    assert place is None or (place.line_start, place.line_end) == (3, 3)


@pytest.mark.parametrize("line", ["0", "-1", "9" * 400, "٣", "", "x"])
def test_a_line_that_is_none_leaves_the_file(line: str) -> None:
    place = Printout((), ROOT, lambda _: True).location_of("a.py", line)
    assert place is not None
    assert place.line_start is None


def test_a_path_outside_stays_in_the_message() -> None:
    reading = parsers.read(["/etc/x.py:3: error: bad  [misc]"], ROOT, lambda _: True)
    (one,) = reading.findings
    assert one.evidence == ()
    reading = parsers.read(["panic: in /etc/x.go:3", "FAIL\tpkg\t0.1s"], ROOT, lambda _: True)
    assert "/etc/x.go:3" in reading.findings[0].message


def test_names_without_end_are_not_looked_up_without_end() -> None:
    asked: list[str] = []
    lines = [f"f{number}.py:1: error: x  [misc]" for number in range(20_000)]

    def exists(path: str) -> bool:
        asked.append(path)
        return True

    reading = parsers.read(lines, ROOT, exists)
    assert len(reading.findings) == MOST_FINDINGS
    assert len(asked) <= 5000


def test_a_long_message_is_cut() -> None:
    (one,) = parsers.read([f"a.py:1: error: {'x' * 100_000}"], ROOT, lambda _: True).findings
    assert len(one.message) == LONGEST_MESSAGE


# -- particular forms ---------------------------------------------------------------------------


def test_a_parameter_may_hold_what_parts_a_row() -> None:
    lines = [
        "=== short test summary info ===",
        "FAILED tests/test_a.py::test_x[a - b] - assert 1 == 2",
        "=== 1 failed in 0.1s ===",
    ]
    (one,) = parsers.read(lines, ROOT, {"tests/test_a.py"}.__contains__).findings
    assert one.subject == "tests/test_a.py::test_x[a - b]"
    assert one.message.endswith("assert 1 == 2")


def test_tests_of_one_name_in_two_files_keep_their_tracebacks() -> None:
    lines = ["=== FAILURES ==="]
    for name in ("b", "a"):
        lines += ["___ test_x ___", f"E   assert '{name}'", "", f"tests/test_{name}.py:5: Error"]
    lines += ["=== short test summary info ==="]
    lines += [f"FAILED tests/test_{name}.py::test_x - assert" for name in ("a", "b")]
    found = parsers.read(lines, ROOT, lambda _: True).findings
    assert [(one.evidence[0].path, one.message[-3:]) for one in found] == [
        ("tests/test_a.py", "'a'"), ("tests/test_b.py", "'b'"),
    ]  # fmt: skip


def test_words_that_look_like_another_tool_are_left_alone() -> None:
    harmless = ["ok  \texample.com/shop\t0.1s", "okay", "FAILED to connect", "error: retrying"]
    reading = parsers.read(harmless, ROOT, lambda _: True)
    assert not reading.findings
    assert dict(reading.tallies).keys() == {"go"}


PHPUNIT_ENDS = [
    ("OK, but there were issues!\nTests: 5, Assertions: 9, Deprecations: 1.", 5, 0),
    ("OK, but some tests have issues!\nTests: 3, Assertions: 3, PHPUnit Warnings: 1.", 3, 0),
    ("OK, but incomplete or risky tests!\nTests: 5, Assertions: 4, Incomplete: 2.", 3, 0),
    ("WARNINGS!\nTests: 2, Assertions: 2, Warnings: 1.", 2, 0),
    ("FAILURES!\nTests: 5, Assertions: 9, Errors: 1, Failures: 1, Skipped: 1.", 2, 2),
    ("No tests executed!", 0, 0),
]


@pytest.mark.parametrize(("output", "passed", "failed"), PHPUNIT_ENDS)
def test_the_last_line_of_phpunit_is_not_that_of_jest(
    output: str, passed: int, failed: int
) -> None:
    tallies = dict(parsers.read(output.splitlines(), ROOT, bool).tallies)
    assert {name: (one.passed, one.failed) for name, one in tallies.items()} == {
        "phpunit": (passed, failed)
    }


def test_a_warning_of_phpunit_is_no_failure() -> None:
    output = """\
1 test triggered 1 deprecation:

1) /home/ada/shop/src/Shop.php:7
strlen(): Passing null to parameter #1 ($string) of type string is deprecated

There was 1 failure:

1) App\\Tests\\ShopTest::testTotal
Failed asserting that 6 is identical to 5.

/home/ada/shop/src/Shop.php:9
/home/ada/shop/tests/ShopTest.php:5

--

There was 1 skipped test:

1) App\\Tests\\ShopTest::testLater
later

FAILURES!
Tests: 5, Assertions: 4, Failures: 1, Deprecations: 1, Skipped: 1.
"""
    [found] = parsers.read(output.splitlines(), ROOT, lambda _: True).findings
    assert found.message == (
        "App\\Tests\\ShopTest::testTotal: Failed asserting that 6 is identical to 5."
    )
    assert [(one.path, one.line_start) for one in found.evidence] == [("src/Shop.php", 9)]
    [told] = parsers.outcomes(output.splitlines(), ROOT).tests
    assert (told.location, told.name) == ("tests/ShopTest.php", "ShopTest::testTotal")


def test_make_is_idle_only_where_it_says_nothing_else() -> None:
    idle = "make[1]: Nothing to be done for 'all'."
    assert dict(parsers.read([idle], ROOT, bool).tallies)
    assert not parsers.read([idle, "cc -c a.c"], ROOT, bool).tallies


# -- hostile outputs ----------------------------------------------------------------------------

#: Pieces of all formats, so that chance makes what parsers nearly know.
PIECES = sorted({
    word
    for name in NAMES
    for line in case(name)[0]
    for word in (line, line[: len(line) // 2], *line.split()[:3])
})  # fmt: skip
hostile_line = st.one_of(
    st.sampled_from(PIECES),
    st.text(max_size=40),
    st.tuples(st.sampled_from(PIECES), st.text(max_size=8), st.sampled_from(PIECES)).map("".join),
)


@given(st.lists(hostile_line, max_size=40), st.booleans())
def test_no_output_breaks_a_parser_or_leads_outside(lines: list[str], exists: bool) -> None:
    data = "\n".join(lines).encode("utf-8", "surrogatepass")
    reading = parsers.read(lines_of(data), ROOT, lambda _: exists)
    for one in reading.findings:
        assert one.rule.startswith("validator/")
        assert one.severity in (Severity.HIGH, Severity.MEDIUM)
        assert 0 < len(one.message) <= LONGEST_MESSAGE
        assert printable(one.message) == one.message
        assert exists or not one.evidence
        for place in one.evidence:
            assert not place.path.startswith(("/", "../"))
            assert ".." not in place.path.split("/")
    told = parsers.outcomes(lines_of(data), ROOT)
    assert all(one.state in ("passed", "failed", "skipped") for one in told.tests)
    for _, tally in reading.tallies:
        assert tally.passed >= 0
        assert tally.failed >= 0


#: What makes a careless expression try again and again.
REPEATED = (
    "(", "[", " ", "_", "_ ", "=", "1:", ":1", "a:1:1: ", "a.go:", "1 a", "1 a, ", "at ", "✖ ",
    " > ", " - ", "# ", "(1", ".py:1: error: ", " [x]", "FAIL ", "\t/", "a.js ", "'", "::", "[ ] ",
)  # fmt: skip
BEGINNINGS = (
    "", "___ ", "=== ", "FAIL ", " FAIL  ", "FAILED ", "  ● ", "error: ", "--- FAIL: ", "✖ ",
    "not ok 1 - ", "::error title=ruff (", "thread 'x' panicked at ", "a.ts(1,1): error TS1: ",
)  # fmt: skip


def everything_of(printout: Printout) -> int:
    """How much all parsers find, with nothing bounded for them."""
    found = 0
    for name in parsers.names():
        family = parsers.load(name)
        found += sum(1 for _ in family.parse(printout))
        if hasattr(family, "tally"):
            family.tally(printout)
        if hasattr(family, "outcomes"):
            assert sum(1 for _ in family.outcomes(printout)) <= 2 * len(printout.lines)
    return found


@pytest.mark.sample(6)
@pytest.mark.timeout(60)
@pytest.mark.parametrize("piece", REPEATED)
def test_a_line_that_repeats_itself_takes_the_time_of_any_other(piece: str) -> None:
    # Fifty times longer than a line is ever let through: linear work takes a fraction of a
    # second, work that grows with the square of it hours, which the timeout tells.
    printout = Printout((), ROOT, lambda _: True)
    printout.lines = tuple(f"{start}{piece * (100_000 // len(piece))}x" for start in BEGINNINGS)
    assert everything_of(printout) <= len(BEGINNINGS) * len(parsers.names())


@pytest.mark.full
@pytest.mark.timeout(60)
def test_an_output_of_many_lines_takes_no_more_for_each() -> None:
    once = [line for name in NAMES for line in case(name)[0]]
    found = everything_of(Printout(once, ROOT, lambda _: True))
    assert found > 50
    assert everything_of(Printout(once * 60, ROOT, lambda _: True)) >= 50 * found


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "piece", ["\x1b[1", "\x1b]", "\x1b", "\x1b[;", "\x9b1", "\r", "a\r", "\u202e"]
)
def test_terminal_sequences_without_end_are_taken_out_in_one_go(piece: str) -> None:
    data = (piece * (1 << 20)).encode()[: 1 << 20]
    for line in lines_of(data):
        assert printable(line) == line
