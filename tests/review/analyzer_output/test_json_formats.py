"""What tools print that speak no SARIF, as they document it, or as they printed it here."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlm_ci.review.analyzer_output import json_formats, sarif

MYPY = (
    '{"file": "a.py", "line": 3, "column": 11, "end_line": 3, "end_column": 14, "message": '
    '"Incompatible return value type", "hint": null, "code": "return-value", "severity": "error"}\n'
    '{"file": "a.py", "line": 3, "column": 0, "message": "See above", "hint": null, '
    '"code": null, "severity": "note"}\n'
)
PYRIGHT = {
    "version": "1.1.414",
    "generalDiagnostics": [{
        "file": "/place/a.py", "severity": "error",
        "message": "Type \"str\" is not assignable to \"int\"\n  more of it",
        "range": {"start": {"line": 2, "character": 11}, "end": {"line": 3, "character": 14}},
        "rule": "reportReturnType",
    }],
}  # fmt: skip
ESLINT = [
    {"filePath": "/place/a.js", "messages": [
        {"ruleId": "no-undef", "severity": 2, "message": "'foo' is not defined.", "line": 1,
         "column": 1, "endLine": 1, "endColumn": 4},
        {"ruleId": None, "fatal": True, "severity": 2, "message": "Parsing error", "line": 1,
         "column": 5},
    ]},
    {"filePath": "/place/b.js", "messages": []},
]  # fmt: skip
CLIPPY = (
    '{"reason":"compiler-artifact","target":{"name":"shop"}}\n'
    '{"reason":"compiler-message","message":{"message":"unneeded `return` statement","code":'
    '{"code":"clippy::needless_return","explanation":null},"level":"warning","spans":[{"file_name":'
    '"src/lib.rs","line_start":7,"line_end":7,"column_start":5,"is_primary":true}]}}\n'
    '{"reason":"compiler-message","message":{"message":"1 warning emitted","code":null,"level":'
    '"warning","spans":[]}}\n{"reason":"build-finished","success":true}\n'
)
GOLANGCI = {
    "Issues": [{
        "FromLinter": "errcheck", "Text": "Error return value is not checked", "Severity": "",
        "SourceLines": ["\tf()"], "Pos": {"Filename": "main.go", "Offset": 0, "Line": 4,
                                          "Column": 3},
    }],
    "Report": {"Linters": [{"Name": "errcheck", "Enabled": True}]},
}  # fmt: skip
STATICCHECK = (
    '{"code":"SA4006","severity":"error","location":{"file":"/place/main.go","line":3,"column":2},'
    '"end":{"file":"/place/main.go","line":3,"column":5},"message":"never used"}\n'
)
SHELLCHECK = {"comments": [{
    "file": "run.sh", "line": 3, "endLine": 3, "column": 9, "endColumn": 11, "level": "warning",
    "code": 3014, "message": "In POSIX sh, == in place of = is undefined.", "fix": None,
}]}  # fmt: skip
ACTIONLINT = [{
    "message": "property \"evnt\" is not defined", "filepath": ".github/workflows/ci.yml",
    "line": 6, "column": 23, "kind": "expression", "snippet": "x", "end_column": 33,
}]  # fmt: skip
HADOLINT = [{
    "line": 1, "code": "DL3006", "message": "Always tag the version of an image explicitly",
    "column": 1, "file": "Dockerfile", "level": "warning",
}]  # fmt: skip
#: The kind, what it prints, and the rule, level and place of its results.
PRINTED: list[tuple[str, Any, list[tuple[str, str, str, int, int]]]] = [
    ("mypy", MYPY, [("return-value", "error", "a.py", 3, 3)]),
    ("pyright", PYRIGHT, [("reportReturnType", "error", "a.py", 3, 4)]),
    ("eslint", ESLINT, [("no-undef", "error", "a.js", 1, 1), ("fatal", "error", "a.js", 1, 1)]),
    ("clippy", CLIPPY, [("needless_return", "warning", "src/lib.rs", 7, 7)]),
    ("golangci-lint", GOLANGCI, [("errcheck", "warning", "main.go", 4, 4)]),
    ("golangci-lint", {"Issues": None}, []),
    ("staticcheck", STATICCHECK, [("SA4006", "error", "main.go", 3, 3)]),
    ("shellcheck", SHELLCHECK, [("SC3014", "warning", "run.sh", 3, 3)]),
    ("actionlint", ACTIONLINT, [("expression", "error", ".github/workflows/ci.yml", 6, 6)]),
    ("actionlint", None, []),
    ("hadolint", HADOLINT, [("DL3006", "warning", "Dockerfile", 1, 1)]),
]


@pytest.mark.parametrize(("kind", "printed", "expected"), PRINTED)
def test_each_is_read(kind: str, printed: Any, expected: list[tuple[object, ...]]) -> None:
    data = printed.encode() if isinstance(printed, str) else json.dumps(printed).encode()
    paths: list[str] = []

    def find(address: str) -> int:
        paths.append(address.removeprefix("/place/"))
        return len(paths) - 1

    read = json_formats.read(kind, data, find)
    assert [
        (one.rule, one.level, paths[one.spots[0].text], *tuple(one.spots[0])[1:3])
        for one in read.results
    ] == expected
    assert all(one.message and "\n" not in one.message for one in read.results)


@pytest.mark.parametrize("kind", sorted({kind for kind, _, _ in PRINTED}))
@pytest.mark.parametrize("odd", ["{", '{"a": ', '{"severity": [], "spans": 7}x'])
def test_what_is_no_json_is_refused(kind: str, odd: str) -> None:
    with pytest.raises(sarif.SarifError, match="its output is not"):
        json_formats.read(kind, odd.encode(), lambda _address: 0)


@pytest.mark.parametrize("kind", ["mypy", "pyright", "eslint", "staticcheck", "shellcheck"])
def test_json_of_something_else_is_refused(kind: str) -> None:
    with pytest.raises(sarif.SarifError, match=f"its output is not the JSON of {kind}"):
        json_formats.read(kind, b'{"a": 1}', lambda _address: 0)


def test_a_place_that_nobody_knows_is_none() -> None:
    read = json_formats.read("shellcheck", json.dumps(SHELLCHECK).encode(), lambda _address: None)
    assert (read.results, len(read.placeless), read.rejected) == ((), 1, 1)
