"""What ruff says of a file, and what of it a review tells."""

from __future__ import annotations

import pytest

from rlm_ci.errors import ConfigError
from rlm_ci.recursion.nodes import COMPLETED, PARTIAL, TracedFinding
from rlm_ci.report.findings import Finding, Severity
from rlm_ci.review.analyzers import programs, ruff
from rlm_ci.review.objective import options
from rlm_ci.review.results import report
from testing.analyzed_file import SHOP, rules
from testing.review_leaves import by_file, reviewed, text


def test_ruff_finds_what_a_maintainer_wants_to_hear_of() -> None:
    result = by_file({"shop/orders.py": SHOP}, domains=("security", "quality", "performance"))
    assert rules(result) == {
        "ruff-f507": ("high", 10),
        "ruff-s608": ("medium", 9),
        "ruff-b006": ("low", 7),
        "ruff-s301": ("low", 15),
    }
    assert result.status == COMPLETED
    assert result.counts.rejected == 0
    assert result.counts.offered == result.counts.verified == 4
    wrong = result.findings[0].finding
    assert wrong.source == "analyzer:ruff"
    assert wrong.evidence[0].quote == '    return rows, "%d of %d" % (1,)'
    assert wrong.hint is not None
    assert "https://docs.astral.sh/ruff/rules/" in wrong.hint


def test_what_a_comment_silences_is_shown_as_accepted() -> None:
    result = by_file({"a.py": SHOP, "b.py": "# ruff: noqa\nimport os\n\nexec('1')\n"})
    silent = {one.finding.rule: one.finding.suppression for one in result.findings}
    assert silent["review/ruff-s301"] == "a comment in the file tells ruff to be silent"
    assert silent["review/ruff-s102"] == "a comment in the file tells ruff to be silent"
    assert silent["review/ruff-s608"] is None


def test_nothing_that_the_change_brings_commands_ruff() -> None:
    result = by_file(
        {
            "shop.py": SHOP,
            "pyproject.toml": '[tool.ruff]\nexclude = ["*"]\nlint.select = []\n',
            "ruff.toml": 'exclude = ["*"]\n',
            ".ruff.toml": 'exclude = ["*"]\n',
            ".gitignore": "*\n",
        }
    )
    assert "ruff-s608" in rules(result)


@pytest.mark.sample(8)
@pytest.mark.parametrize(
    "path",
    [
        "-rf.py", "--config=x.py", "a b/ü%20#?.py", "new\nline.py", "quo\"te'.py", "\udcff.py",
        "file:.py", ".py.py", "a/" * 120 + "deep.py", "$(touch x).py", "C:/x.py", "{files}.py",
        "CON.py", "é/é.py", "node_modules.py", "...py",
    ],
)  # fmt: skip
def test_a_file_of_any_name_is_looked_at_under_its_own(path: str) -> None:
    result = reviewed([text(path, SHOP), text("plain.py", "x = 1\n")])
    found = {one.finding.evidence[0].path for one in result.findings}
    assert found == {path}


@pytest.mark.parametrize(
    ("head", "line"),
    [
        (b"# -*- coding: latin-1 -*-\n", b"x = '\xe9'\n"),
        (b"#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\n", b"x = '\x80'\n"),
        (b"", b"x = '\xe9'\n"),  # no encoding, and no UTF-8
        (b"# coding: no-such-one\n", b"x = '\xe9'\n"),
        (b"# coding: ascii\n", b"x = '\xe9'\n"),
        (b"\xef\xbb\xbf", "x = 'é'\n".encode()),
        (b"# coding: rot13\n", b""),
    ],
)
def test_no_encoding_hides_a_file(head: bytes, line: bytes) -> None:
    content = head + line + b"exec(x)\n"
    (found,) = reviewed([text("a.py", content)], domains=("security",)).findings
    assert found.finding.evidence[0].quote == "exec(x)"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"# coding: unicode_escape\n#\\u000aexec(x)\n", "in its encoding, unicode_escape"),
        (b"x = 1\rexec(x)\r", "its lines end with carriage returns alone"),
    ],
)
def test_a_file_whose_lines_are_others_than_they_look_is_told(content: bytes, why: str) -> None:
    result = reviewed([text("a.py", content)])
    assert result.status == PARTIAL
    assert why in result.uncovered[0][1]


def test_python_is_known_by_its_first_line_too() -> None:
    script = text("bin/tool", "#!/usr/bin/env python3\nexec('1')\n")
    window = text("app.pyw", "exec('1')\n")
    shell = text("bin/other", "#!/bin/sh\nexec true\n")
    result = reviewed([script, window, shell], domains=("security",))
    assert {one.finding.evidence[0].path for one in result.findings} == {"bin/tool", "app.pyw"}
    assert result.metrics["looked"] == 2
    paths = ["bin/tool", "app.pyw", "bin/other"]
    assert [path for path, _ in report.unseen(paths, options(), None, result)] == ["bin/other"]


def test_names_that_differ_in_case_alone_are_two_files() -> None:
    result = reviewed([text("Shop.py", "exec('1')\n"), text("shop.py", "\nexec('1')\n")])
    assert {
        (one.finding.evidence[0].path, one.finding.evidence[0].line_start)
        for one in result.findings
    } == {("Shop.py", 1), ("shop.py", 2)}


def test_tests_are_not_scolded_for_being_tests() -> None:
    result = by_file({"tests/test_shop.py": SHOP, "pkg/conftest.py": SHOP})
    assert {rule for rule in rules(result) if rule.startswith("ruff-s")} == set()
    assert rules(result)["ruff-f507"][0] == "low"


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ('password = "hunter2"', False),
        ('token_begin = "begin"', False),
        ('password = "ab12-CD34-ef56-GH78"', True),
        ('TOKEN = "a token of our thanks"', False),
        ('TOKEN_URL = "https://auth.example/oauth2/v4/token"', False),
    ],
)
def test_a_password_must_look_like_one(line: str, *, is_told: bool) -> None:
    found = rules(by_file({"a.py": f"{line}\n"}))
    assert ("ruff-s105" in found) == is_told


def test_a_safe_shell_is_no_news_and_an_open_one_is() -> None:
    code = 'import subprocess\nsubprocess.run("ls", shell=True)\n'
    assert rules(by_file({"a.py": code}))["ruff-s602"][0] == "info"
    code = "import subprocess\n\ndef go(x):\n    subprocess.run(x, shell=True)\n"
    assert rules(by_file({"a.py": code}))["ruff-s602"][0] == "medium"


CONFLICT = "<<<<<<< HEAD\nx = 1\n=======\nx = 2\n>>>>>>> other\n"


@pytest.mark.parametrize(
    ("path", "code", "severity"),
    [
        ("a.py", "def f(:\n    pass\n", "high"),
        ("a.py", CONFLICT, "high"),
        ("a.py", "printer = executor(1)\nexecute(printer)\ndef f(:\n", "high"),
        ("old.py", "exec code in {}\n", "medium"),
        ("tests/test_a.py", "def f(:\n", "high"),
        ("a_test.py", CONFLICT, "high"),
        ("tests/data/test_a.py", "def f(:\n", "low"),
        ("tests/bad_syntax.py", "def f(:\n", "low"),
        ("old.py", 'print "x"\nprint "y"\nprint "z"\n', "medium"),
        ("old.py", "raise ValueError, 'no'\n", "medium"),
        ("shop/models.py", "{% if db %}\nimport db\n{% endif %}\n", "medium"),
        ("shop/models.py", "import {{ name }}\n", "medium"),
        ("project_template/a.py", "import <name>\n", "medium"),
        ("fixtures/broken.py", "def f(:\n", "medium"),
        ("plot.py", "%matplotlib inline\nimport os\n", "medium"),
        ("a.py", CONFLICT + "{% x %}\n", "high"),
    ],
)
def test_a_file_that_does_not_parse_is_told_once(path: str, code: str, severity: str) -> None:
    """Whoever imports it, fails; unless it is a template, Python 2, or there to be wrong."""
    result = by_file({path: code})
    assert set(rules(result)) == {"ruff-invalid-syntax"}
    assert max(one.finding.severity for one in result.findings).label == severity
    assert len(result.findings) == 1


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "code",
    ["\n" * 1_000_000 + "def f(:\n", " \t" * 500_000 + "\ndef f(:\n", "except " * 150_000,
     "raise " + "a." * 500_000, "(:\n" * 20_000],
)  # fmt: skip
def test_to_ask_why_a_file_does_not_parse_takes_no_time(code: str) -> None:
    content = code.encode()
    for _ in range(5_000):  # as often as a tool says so of one file
        ruff.weigh(ruff.SYNTAX, "a.py", "", "", content)


@pytest.mark.parametrize(
    "code",
    ["return 1\n", "break\n", "yield 1\n", "def f():\n    nonlocal q\n    q = 1\n",
     "import os\nfrom __future__ import annotations\nprint(os)\n", "a = [1]\n*b, *c = a\n"],
)  # fmt: skip
def test_what_the_compiler_refuses_is_high(code: str) -> None:
    with pytest.raises(SyntaxError):
        compile(code, "a.py", "exec")
    found = rules(by_file({"a.py": code}))
    assert "high" in {severity for severity, _ in found.values()}, found


def test_minor_findings_of_a_kind_are_one_with_many_places() -> None:
    code = "".join(f"def f{number}(x=[]):\n    return x\n\n\n" for number in range(30))
    (found,) = [one.finding for one in by_file({"a.py": code}, domains=("quality",)).findings]
    assert found.message.endswith("(and 29 more of the kind in this file)")
    assert [place.line_start for place in found.evidence] == [1 + 4 * one for one in range(20)]


def test_every_rule_that_is_asked_for_is_one_of_ruff_and_nothing_usual_is_high() -> None:
    found = programs.builtin()
    assert found is not None
    assert found.rules == ruff.rules()
    high = {
        rule for rule in ruff.rules()
        if (weight := ruff.weigh(rule, "a.py", "", "'abcdefgh12345'", b""))
        and weight.severity >= Severity.HIGH
    }  # fmt: skip
    assert high <= {
        "PLE2502", "S501", "S502", "F501", "F502", "F503", "F505", "F506", "F507", "F508", "F509",
        "F521", "F524", "F525", "PLE1300", "PLE1307",
        # what the compiler refuses
        "F404", "F406", "F407", "F621", "F622", "F701", "F702", "F704", "F706", "F707",
        "PLE0115", "PLE0117", "PLE0118", "PLE1142", "PLE1700",
        # what raises whenever it is run
        "B016", "F633", "F821", "F823", "F901", "PLE0100", "PLE0241", "PLE0303", "PLE0304",
        "PLE0305", "PLE0307", "PLE0308", "PLE0309", "PLE1132", "PLE1507",
    }  # fmt: skip
    assert all(ruff.is_universal(rule) for rule in high)
    assert not ruff.is_universal("F401")


def test_marks_of_direction_are_low_and_what_reorders_a_text_is_high() -> None:
    dates = "FORMAT = 'j \u200fF'\nOTHER = 'j\u061c \u200e'\n"
    found = by_file({"a.py": dates, "b.py": "NAME = 'a\u202eb'\n", "c.py": "# \u2066 \u200f\n"})
    told = {(one.evidence[0].path, one.severity.label) for one in map(_of, found.findings)}
    assert told == {("a.py", "low"), ("b.py", "high"), ("c.py", "high")}


LITERALS = """\
from .compat import Literal
from . import compat
a: Literal["auto", "not this", True, "a[0]"]
b: compat.Literal[
    "deep",
    'no way]',
]
c: "Literal['bare']"
d: "gone"
é: Literal["lost"] = lost
f: "deep" or deep
def g(deep: Literal["é", "deep", 1], h: Literal['é deep']): ...
"""


def test_a_value_that_a_type_may_have_is_no_name() -> None:
    found = by_file({"a.py": LITERALS}, domains=("quality",))
    told = [
        _of(one) for one in found.findings if "f821" in _of(one).rule or "f722" in _of(one).rule
    ]
    lines = {place.line_start for one in told for place in one.evidence}
    assert lines == {9, 10, 11}


def _of(one: TracedFinding) -> Finding:
    return one.finding


def test_a_file_whose_characters_python_cannot_read_is_told() -> None:
    files = {
        "a.py": b"x = 1\n\n\ny = '\xe9'\n",
        "b.py": b"# -*- coding: nope -*-\nx = 1\n",
        "c.py": b"x = '\xe9'\n",
        "d.py": b"# coding: latin-1\nx = '\xe9'\n",
        "e.py": b"def f():\n    from os import *\n",
        "f.py": b"import os\nfrom __future__ import nope\n",
    }
    found = reviewed([text(path, content) for path, content in files.items()])
    high = {
        (one.evidence[0].path, one.evidence[0].line_start)
        for one in map(_of, found.findings)
        if one.severity == Severity.HIGH
    }
    assert high == {("a.py", 4), ("b.py", 1), ("c.py", 1), ("e.py", 2), ("f.py", 2)}


STATEMENTS = """\
def ask(name, cursor):
    cursor.execute("SELECT * FROM t WHERE name = '%s'" % name)
    cursor.execute(
        " select x from t where name = '%s'" % name
    )
    raise ValueError("Select %s returned nothing from the where clause" % name)
    raise ValueError(
        "DELETE FROM %s is not what one does here" % name
    )
    return "Can't delete from table %s where it is" % name
"""


def test_the_words_of_an_error_are_no_statement_of_a_database() -> None:
    found = by_file({"a.py": STATEMENTS}, domains=("security",))
    told = {
        place.line_start: one.severity.label
        for one in map(_of, found.findings)
        for place in one.evidence
        if "s608" in one.rule
    }
    assert {line for line, label in told.items() if label == "medium"} == {2, 4}
    assert set(told.values()) == {"medium", "info"}


def test_a_name_that_is_not_there_fails_a_test_too_but_not_what_tests_read() -> None:
    found = {
        path: rules(by_file({path: "gone()\n"}, domains=("quality",)))["ruff-f821"][0]
        for path in ("a.py", "tests/test_a.py", "tests/helper.py", "tests/data/test_a.py")
    }
    assert found == {
        "a.py": "high", "tests/test_a.py": "high",
        "tests/helper.py": "low", "tests/data/test_a.py": "low",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("selector", "rules"),
    [("D103", ["D103"]), ("D1", ["D100", "D103"]), ("D", ["D100", "D103"]),
     ("PL", ["PLC0414", "PLE2502"]), ("DTZ", ["DTZ003"]), ("DTZ0", ["DTZ003"])],
)  # fmt: skip
def test_a_selector_names_the_rules_that_ruff_would_take(selector: str, rules: list[str]) -> None:
    known = {"D100", "D103", "DTZ003", "DJ001", "PLC0414", "PLE2502"}
    assert list(ruff.selected_rules([selector], known)) == rules


@pytest.mark.parametrize("selector", ["", "d", "D9", "XYZ"])
def test_a_selector_of_no_rule_is_refused(selector: str) -> None:
    with pytest.raises(ConfigError, match=r"no rule of the ruff .* is called"):
        options(extend=[selector])


def test_rules_of_documentation_are_told_where_the_settings_name_them() -> None:
    code = {"a.py": "def f():\n    return 1\n"}
    assert rules(by_file(code)) == {}
    assert rules(by_file(code, extend=("D103",))) == {"ruff-d103": ("low", 1)}


def test_names_that_others_build_in_are_known() -> None:
    code = "try:\n    shell = get_ipython()\nexcept NameError:\n    shell = _('none')\n"
    assert rules(by_file({"a.py": code + "gone\n"}, domains=("quality",))) == {
        "ruff-f821": ("high", 5),
        "ruff-b018": ("info", 5),
    }
