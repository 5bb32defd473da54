"""Analyzers over the texts of a leaf: ruff as it is, and programs that print what they like."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from recursion.reviewing import FILE_GROUP, by_file, leaf, reviewed, text
from recursion.solving_cases import solve

from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.findings import INCOMPLETE, Finding, Severity
from rlm_ci.recursion.nodes import COMPLETED, PARTIAL, NodeResult, Traced
from rlm_ci.recursion.objectives.review import Review, options
from rlm_ci.recursion.review import analyzers, export, ruff, sarif, scratch
from rlm_ci.recursion.review.touched import UNTOUCHED
from rlm_ci.recursion.solver import Constraints
from rlm_ci.recursion.tree import Shape

if TYPE_CHECKING:
    from collections.abc import Mapping

SHOP = '''"""The shop."""

import pickle
import sqlite3


def orders(name, seen=[]):
    seen.append(name)
    rows = sqlite3.connect("db").execute("SELECT * FROM orders WHERE name = '%s'" % name)
    return rows, "%d of %d" % (1,)


def load(data):
    assert data
    return pickle.loads(data)  # noqa: S301
'''


def rules(result: NodeResult) -> dict[str, tuple[str, int | None]]:
    """Severity and line of each rule that was found."""
    return {
        one.finding.rule.removeprefix("review/"): (
            one.finding.severity.label,
            one.finding.evidence[0].line_start,
        )
        for one in result.findings
    }


# ── ruff ──


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


def test_by_a_pipe_it_says_the_same_as_of_files_and_nothing_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = ("shop/orders.py", "-odd\n.py", "stub.pyi", "script", "tests/test_a.py", "__init__.py")
    shebang = "#!/usr/bin/env python3\nimport os\n"
    texts = [text(name, shebang if name == "script" else SHOP) for name in names]
    texts.append(text("broken.py", "def f(:\n"))
    chosen = options()
    by_files = analyzers.analyse(leaf(texts, chosen), _rows(chosen), chosen["domains"])
    monkeypatch.setattr(analyzers, "Scratch", None)
    by_pipe = analyzers.analyse(leaf(texts, chosen), _rows(chosen), chosen["domains"], by_pipe=True)
    assert by_pipe.findings
    assert sorted(by_pipe.findings, key=str) == sorted(by_files.findings, key=str)
    assert (by_pipe.seen, by_pipe.failed) == (by_files.seen, ())


def _rows(chosen: Mapping[str, Any]) -> list[analyzers.Analyzer]:
    return [analyzers.Analyzer.from_dict(row) for row in chosen["analyzers"]]


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
    assert [path for path, _ in export.unseen(paths, options(), None, result)] == ["bin/other"]


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


def placed(finding: Finding) -> tuple[str, str, list[int | None]]:
    return finding.rule, finding.message, [place.line_start for place in finding.evidence]


def in_slices(folder: Path, path: str, content: str, **more: Any) -> NodeResult:
    """The review of a file that is looked at in slices."""
    constraints = Constraints(shape=Shape(200, 4, 64))
    objective = Review(options(domains=("security", "quality"), **more))
    files = {path: content.encode()}
    result = solve(folder, files, objective=objective, constraints=constraints)
    assert len((folder / "nodes.jsonl").read_bytes().splitlines()) > 4
    return result


ORDERS = "".join(
    f"    def order_{number}(self, name, seen=[]):\n"
    f"        seen.append(exec(name), self.order_{number - 1})\n\n"
    for number in range(1, 20)
)
LARGE = f"import os\nimport sys\n\n\nclass Orders:\n{ORDERS}\n\nprint(os.sep, missing)\n"


def test_a_file_larger_than_a_leaf_is_judged_as_a_whole(tmp_path: Path) -> None:
    """A class that is cut, an import that is used further down: programs see all of the file."""
    whole = by_file({"big.py": LARGE}, domains=("security", "quality"))
    assert {"ruff-f401", "ruff-f821", "ruff-b006", "ruff-s102"} <= set(rules(whole))
    result = in_slices(tmp_path, "big.py", LARGE)
    assert result.status == COMPLETED
    assert result.metrics["files"] == result.metrics["looked"] == 1
    assert result.data["unseen"] == {}
    assert [placed(one.finding) for one in result.findings] == [
        placed(one.finding) for one in whole.findings
    ]


def test_a_file_larger_than_a_leaf_that_does_not_parse_is_told(tmp_path: Path) -> None:
    result = in_slices(tmp_path, "big.py", f"{LARGE}\n\ndef broken(:\n    pass\n")
    line = LARGE.count("\n") + 3
    assert rules(result)["ruff-invalid-syntax"] == ("high", line)


def test_an_analyzer_that_fails_on_a_sliced_file_leaves_it_uncovered(tmp_path: Path) -> None:
    result = in_slices(tmp_path, "big.py", LARGE.replace("\n", "\r", 3))
    assert result.status == PARTIAL
    ((path, why),) = result.uncovered
    assert path == "big.py"
    assert "carriage returns" in why
    assert result.metrics["looked"] == 0


def test_minor_findings_of_a_kind_are_one_with_many_places() -> None:
    code = "".join(f"def f{number}(x=[]):\n    return x\n\n\n" for number in range(30))
    (found,) = [one.finding for one in by_file({"a.py": code}, domains=("quality",)).findings]
    assert found.message.endswith("(and 29 more of the kind in this file)")
    assert [place.line_start for place in found.evidence] == [1 + 4 * one for one in range(20)]


def test_every_rule_that_is_asked_for_is_one_of_ruff_and_nothing_usual_is_high() -> None:
    found = analyzers.builtin()
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
    }  # fmt: skip


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


def _of(one: Traced) -> Finding:
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


def test_a_change_answers_for_its_own_lines() -> None:
    texts = [text("shop.py", SHOP), text("other.py", SHOP)]
    result = reviewed(texts, changed={"shop.py": [[8, 10]]}, domains=("security", "quality"))
    assert {one.finding.evidence[0].path for one in result.findings} == {"shop.py"}
    waved = {one.finding.rule: one.finding.suppression for one in result.findings}
    assert waved["review/ruff-s608"] is None
    assert waved["review/ruff-b006"] == UNTOUCHED
    # Those of the other file, and what is accepted on lines that are not touched.
    assert result.metrics["elsewhere"] == 5
    assert result.summary.endswith(f"; 1 {UNTOUCHED}")


def test_another_version_than_the_run_began_with_is_not_mixed_in() -> None:
    chosen = options()
    chosen["analyzers"][0]["version"] = "0.0.1"
    task = leaf([text("a.py", SHOP)], chosen)
    known = [analyzers.Analyzer.from_dict(row) for row in chosen["analyzers"]]
    done = analyzers.analyse(task, known, chosen["domains"])
    assert done.findings == ()
    assert "and was 0.0.1 when the run began" in done.failed[0][2]


# ── any other program ──

TOOL = """
import json, os, sys
files = sys.argv[2:]
{body}
"""


def tool(tmp_path: Path, body: str, *more: str, **row: Any) -> dict[str, Any]:
    """An analyzer of the settings that is this script."""
    path = tmp_path / "tool.py"
    path.write_text(TOOL.format(body=body))
    command = [sys.executable, str(path), *(more or ("x", "{files}"))]
    return {"name": "tool", "command": command, **row}


def log(results: str, rules: str = "[]") -> str:
    return (
        f"results = {results}\n"
        "print(json.dumps({'runs': [{'tool': {'driver': {'name': 't', 'rules': "
        f"{rules}"
        "}}, 'results': results}]}))"
    )


def at(uri: str, line: int = 2, **more: object) -> str:
    region = {"startLine": line, **more}
    return (
        "{'ruleId': 'Big.Rule_1', 'level': 'error', 'message': {'text': 'It is wrong'}, "
        "'locations': [{'physicalLocation': {'artifactLocation': {'uri': "
        f"{uri}}}, 'region': {region}}}}}]}}"
    )


FILES = [text("src/a.go", "package a\nfunc A() {}\n"), text("ü b.go", "package b\nvar B = 1\n")]


def test_any_program_that_prints_sarif_takes_part(tmp_path: Path) -> None:
    uris = ["files[0]", "'file://' + files[1]", "os.path.relpath(files[0], '../files')"]
    row = tool(tmp_path, log(f"[{', '.join(at(uri) for uri in uris)}]"))
    result = reviewed(FILES, analyzers=[row], ruff="off", domains=("quality",))
    (first, second) = [one.finding for one in result.findings]
    assert first.rule == second.rule == "review/tool-big-rule-1"
    assert first.severity == Severity.HIGH
    assert first.source == "analyzer:tool"
    assert {one.evidence[0].path: one.evidence[0].quote for one in (first, second)} == {
        "src/a.go": "func A() {}", "ü b.go": "var B = 1",
    }  # fmt: skip
    assert result.counts.verified == 3  # one place was named twice
    assert result.metrics["looked"] == 2


def test_what_points_elsewhere_is_rejected_and_counted(tmp_path: Path) -> None:
    uris = ["'/etc/passwd'", "'../../etc/passwd'", "'https://x.example/a.go'", "'file:///'", "7"]
    results = [at(uri) for uri in uris]
    results += [at("files[0]", line) for line in (0, -1, 4, 10**12)]
    results += ["{}", "{'message': {'text': 'no place'}}", "7", "None"]
    row = tool(tmp_path, log(f"[{', '.join(results)}]"))
    result = reviewed(FILES, analyzers=[row], ruff="off")
    assert result.findings == ()
    assert (result.counts.verified, result.counts.rejected) == (0, 11)
    # What would fail a run if it had a place is not passed over.
    assert result.status == PARTIAL
    why = "the analyzer tool gave nothing: a result of it has no place in the files: "
    assert result.uncovered == (("src/a.go", f"{why}It is wrong"),)
    assert result.notes == ("10 results of tool have no place in the files: It is wrong",)


def test_a_minor_result_without_a_place_is_told(tmp_path: Path) -> None:
    row = tool(
        tmp_path, log("[{'level': 'warning', 'message': {'text': 'a {0}', 'arguments': ['b']}}]")
    )
    result = reviewed(FILES, analyzers=[row], ruff="off", domains=("quality",))
    assert (result.status, result.uncovered) == (COMPLETED, ())
    assert result.notes == ("1 result of tool has no place in the files: a b",)
    assert reviewed(FILES, analyzers=[row], ruff="off", domains=("docs",)).notes == ()


def test_a_place_may_be_told_by_the_number_of_an_artifact(tmp_path: Path) -> None:
    body = (
        "artifacts = [{'location': {'uri': one}} for one in files]\n"
        "file = {'artifactLocation': {'index': 1}, 'region': {'startLine': 2}}\n"
        "results = [{'message': {'text': 'x'}, 'locations': [{'physicalLocation': file}]}]\n"
        "print(json.dumps({'runs': [{'artifacts': artifacts, 'results': results}]}))"
    )
    result = reviewed(FILES, analyzers=[tool(tmp_path, body)], ruff="off")
    assert [one.finding.evidence[0].path for one in result.findings] == ["ü b.go"]


def test_the_end_of_a_file_is_its_last_line(tmp_path: Path) -> None:
    row = tool(tmp_path, log(f"[{at('files[0]', 3)}]"))
    (found,) = reviewed(FILES, analyzers=[row], ruff="off").findings
    assert found.finding.evidence[0].quote == "func A() {}"


@pytest.mark.parametrize(
    ("rule", "level", "severity", "domain"),
    [
        ("{'properties': {'security-severity': '9.8'}}", "note", "critical", "security"),
        ("{'properties': {'security-severity': '5'}}", "error", "medium", "security"),
        ("{'properties': {'security-severity': 'nan'}}", "error", "high", "docs"),
        ("{'properties': {'tags': ['security']}}", "warning", "medium", "security"),
        ("{'defaultConfiguration': {'level': 'note'}}", None, "low", "docs"),
        ("{}", None, "medium", "docs"),
    ],
)
def test_a_tools_own_words_decide_what_its_findings_weigh(
    tmp_path: Path, rule: str, level: str | None, severity: str, domain: str
) -> None:
    result = at("files[0]").replace("'level': 'error', ", f"'level': {level!r}, " if level else "")
    row = tool(
        tmp_path, log(f"[{result}]", f"[dict({rule}, id='Big.Rule_1')]"), domain="docs",
        max_severity="critical",
    )  # fmt: skip
    (found,) = reviewed(FILES, analyzers=[row], ruff="off").findings
    assert (found.finding.severity.label, found.finding.domain) == (severity, domain)


def test_a_tool_cannot_be_louder_than_it_may(tmp_path: Path) -> None:
    row = tool(tmp_path, log(f"[{at('files[0]')}]"), max_severity="low")
    (found,) = reviewed(FILES, analyzers=[row], ruff="off").findings
    assert found.finding.severity == Severity.LOW


def test_a_tool_may_write_to_a_file_and_look_at_the_folder(tmp_path: Path) -> None:
    body = (
        "out, folder = sys.argv[1].split('=')[1], files[0]\n"
        f"files = [os.path.join(folder, 'src', 'a.go')]\nresults = [{at('files[0]')}]\n"
        "open(out, 'w').write(json.dumps({'runs': [{'results': results}]}))"
    )
    row = tool(tmp_path, body, "--out={sarif}", "{folder}")
    assert len(reviewed(FILES, analyzers=[row], ruff="off").findings) == 1


def test_a_tool_starts_in_an_empty_folder_without_our_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    told = tmp_path / "told.json"
    body = (
        f"open({str(told)!r}, 'w').write(json.dumps([os.listdir('.'), dict(os.environ),"
        " sorted(os.listdir(os.path.dirname(files[0])))]))\n" + log("[]")
    )
    texts = [
        text("a.js", "x\n"), text("eslint.config.js", "x\n"), text(".eslintrc.json", "{}"),
        text("package.json", "{}"), text("node_modules/p/index.js", "x\n"), text(".env", "A=1\n"),
    ]  # fmt: skip
    result = reviewed(texts, analyzers=[tool(tmp_path, body)], ruff="off")
    assert result.status == COMPLETED
    hidden = ["eslint.config.js", ".eslintrc.json", "package.json", "node_modules/p/index.js"]
    assert result.notes == tuple(
        f"tool was not shown {path}: it could command it" for path in hidden
    )
    assert result.metrics["looked"] == 2
    here, known, there = json.loads(told.read_text())
    assert here == []
    assert "OPENAI_API_KEY" not in known
    assert there == [".env", "a.js"]


def test_names_that_fit_no_command_are_parted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(analyzers, "_NAMES", 200)
    row = tool(tmp_path, "assert len(files) < 6\n" + log(f"[{at('one', 1)} for one in files]"))
    texts = [text(f"src/module_{number}.go", "package a\n") for number in range(9)]
    result = reviewed(texts, analyzers=[row], ruff="off")
    assert result.uncovered == ()
    assert len(result.findings) == 9


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("print('Segmentation fault')", "Segmentation fault"),
        ("sys.exit('no such option: --sarif')", "no such option: --sarif"),
        ("sys.exit(3)", "it printed nothing and ended with 3"),
        ("print('{\"runs\":')", "what it printed is no JSON"),
        ("print('{\"runs\": ' + '[' * 100000)", "what it printed is no JSON"),
        ("print('{}')", "what it printed is no SARIF: it has no runs"),
        ("import time; time.sleep(60)", "it took more than 1 seconds"),
        ("print('{' + ' ' * 3000000)", "it printed more than 1 MiB"),
    ],
)
def test_a_tool_that_fails_is_told_for_each_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, why: str
) -> None:
    monkeypatch.setattr(analyzers, "_SECONDS", 1.0)
    monkeypatch.setattr(analyzers, "_PRINTED", 1 << 20)
    if why.startswith("it took") is False:
        monkeypatch.setattr(analyzers, "_SECONDS", 60.0)
    texts = [*FILES, text("a.py", SHOP)]
    result = reviewed(texts, analyzers=[tool(tmp_path, body, files=["*.go"])])
    assert result.status == PARTIAL
    assert result.uncovered == tuple(
        (path, f"the analyzer tool gave nothing: {why}") for path in ("src/a.go", "ü b.go")
    )
    assert "ruff-s608" in rules(result)  # the others are heard all the same


def test_a_tool_that_says_that_it_did_not_finish_is_believed(tmp_path: Path) -> None:
    body = (
        "print(json.dumps({'runs': [{'invocations': [{'executionSuccessful': False, "
        "'toolExecutionNotifications': [{'message': {'text': 'out of memory'}}]}], "
        f"'results': [{at('files[0]')}]}}]}}))"
    )
    result = reviewed(FILES, analyzers=[tool(tmp_path, body)], ruff="off")
    assert len(result.findings) == 1
    assert result.uncovered[0] == ("src/a.go", "the analyzer tool gave nothing: out of memory")


def test_a_test_never_weighs_more_than_the_program() -> None:
    old = "import sys\n\nif sys.version_info < (3,):\n    ask = raw_input\n"
    found = {
        path: rules(by_file({path: old}, domains=("quality",)))["ruff-f821"][0]
        for path in ("a.py", "tests/test_a.py")
    }
    assert found == {"a.py": "info", "tests/test_a.py": "info"}


def test_names_that_others_build_in_are_known() -> None:
    code = "try:\n    shell = get_ipython()\nexcept NameError:\n    shell = _('none')\n"
    assert rules(by_file({"a.py": code + "gone\n"}, domains=("quality",))) == {
        "ruff-f821": ("medium", 5),
        "ruff-b018": ("info", 5),
    }


def test_a_program_that_is_not_there_is_told() -> None:
    row = {"name": "gone", "command": ["no-such-tool-anywhere", "{files}"]}
    result = reviewed(FILES, analyzers=[row], ruff="off")
    assert result.uncovered[0][1] == (
        "the analyzer gone gave nothing: no-such-tool-anywhere is not on PATH"
    )
    assert result.metrics["looked"] == 0
    told = export.part(result, options(analyzers=[row], ruff="off"))
    assert told.state == INCOMPLETE
    assert told.summary.endswith(
        "2 files not looked at in full: "
        "the analyzer gone gave nothing: no-such-tool-anywhere is not on PATH"
    )


def test_too_many_results_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sarif, "MOST", 10)
    row = tool(tmp_path, log(f"[{at('files[0]')}] * 11"))
    result = reviewed(FILES, analyzers=[row], ruff="off")
    assert result.uncovered[0][1].endswith("it has more than 10 results")


# ── the settings ──


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ({"name": "Tool", "command": ["x", "{files}"]}, "cannot be called"),
        ({"name": "", "command": ["x", "{files}"]}, "cannot be called"),
        ({"name": "a/b", "command": ["x", "{files}"]}, "cannot be called"),
        ({"name": "tool", "command": []}, "has no command"),
        ({"name": "tool", "command": ["x"]}, "names no files"),
        ({"name": "tool", "command": ["x", "--all={files}"]}, "names no files"),
        ({"name": "ruff", "command": ["ruff", "{files}"]}, "two analyzers have the name"),
    ],
)
def test_a_row_that_cannot_work_is_refused(row: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        options(analyzers=[row])


def test_an_unknown_domain_is_refused() -> None:
    with pytest.raises(ConfigError, match="unknown domain 'style'"):
        options(domains=("style",))
    with pytest.raises(ConfigError, match="no domain is named"):
        options(domains=())


def test_ruff_that_is_asked_for_by_name_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analyzers, "locate", lambda _program: None)
    assert options()["analyzers"] == []
    with pytest.raises(UnavailableError, match="ruff is not installed"):
        options(ruff="on")


def test_options_name_no_place_of_this_machine() -> None:
    told = json.dumps(options())
    assert sys.prefix not in told
    assert json.loads(told) == options()


def test_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert by_file({"a.py": SHOP}, kind=FILE_GROUP).findings
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RuntimeError), scratch.Scratch([scratch.Given(0, "a", b"x")]):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_leaf_without_anything_to_analyse_starts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    chosen = options()
    monkeypatch.setattr(scratch, "_put", lambda *_: pytest.fail("a folder was made"))
    task = leaf([text("a.md", "# A\n")], chosen)
    known = [analyzers.Analyzer.from_dict(row) for row in chosen["analyzers"]]
    assert analyzers.analyse(task, known, chosen["domains"]) == analyzers.Analysis()
