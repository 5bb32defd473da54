"""What has a linter look away counts where the validator runs that linter, and nowhere else."""

from __future__ import annotations

import pytest

from testing.guarded_trees import Tree, judged, rules

PY = "import os\n\n\ndef f(a):\n    return a\n"
JS = "export const f = (a) => a\n"
RS = "pub fn f(a: i32) -> i32 { a }\n"

#: The validator, the other files, and a source before and after.
SILENCED: dict[str, tuple[str, Tree, str, str, str]] = {
    "ruff": ("ruff check shop.py", {}, "shop.py", PY, PY.replace("os\n", "os  # noqa: F401\n")),
    "ruff, the file": ("ruff check .", {}, "shop.py", PY, f"# ruff: noqa\n{PY}"),
    "ruff in make": (
        "make lint", {"Makefile": "lint:\n\tuv run ruff check\n"}, "shop.py", PY,
        PY.replace("os\n", "os  #noqa\n"),
    ),
    "a rule more": (
        "flake8", {}, "shop.py", f"import a  # noqa: F401\n{PY}",
        f"import a  # noqa: F401,E501\n{PY}",
    ),
    "every rule": (
        "flake8", {}, "shop.py", f"import a  # noqa: F401\n{PY}", f"import a  # noqa\n{PY}",
    ),
    "mypy": ("python -m mypy .", {}, "shop.py", PY, f"x: int = ''  # type: ignore[arg]\n{PY}"),
    "mypy, the file": ("mypy .", {}, "shop.py", PY, f"# mypy: ignore-errors\n{PY}"),
    "mypy, a function": ("mypy .", {}, "shop.py", PY, PY.replace("def", "@no_type_check\ndef")),
    "pylint": ("pylint shop", {}, "shop.py", PY, f"# pylint: disable=all\n{PY}"),
    "coverage": (
        "pytest --cov-fail-under=90 --cov", {}, "shop.py", PY, f"if a:  # pragma: no cover\n{PY}",
    ),
    "coverage by a setting": (
        "pytest --cov", {"pyproject.toml": "[tool.coverage.report]\nfail_under = 90\n"
                         "[tool.pytest.ini_options]\naddopts='-q'\n"},
        "shop.py", PY, f"if a:  # pragma: no cover\n{PY}",
    ),
    "eslint": (
        "npm run lint", {"package.json": '{"scripts": {"lint": "eslint . && echo ok"}}'},
        "web/a.js", JS, f"/* eslint-disable no-undef */\n{JS}",
    ),
    "tsc": ("npx tsc --noEmit", {}, "web/a.ts", JS, f"// @ts-nocheck\n{JS}"),
    "clippy": ("cargo clippy -- -D warnings", {}, "src/a.rs", RS, f"#![allow(warnings)]\n{RS}"),
    "go": ("golangci-lint run", {}, "a.go", "package a\n", "package a //nolint\n"),
    "all of them": ("pre-commit run -a", {}, "shop.py", PY, f"# ruff: noqa\n{PY}"),
    "a new file": ("ruff check .", {}, "more.py", "", "import os  # noqa\n"),
    "a new test": ("ruff check .", {}, "test_a.py", "", PY.replace("os\n", "os  # noqa\n")),
}  # fmt: skip
HEARD: dict[str, tuple[str, Tree, str, str, str]] = {
    "nobody looks": ("pytest -q", {"pyproject.toml": "[tool.ruff]\n"}, "shop.py", PY,
                     PY.replace("os\n", "os  # noqa: F401  # type: ignore\n")),
    "nobody counts": ("pytest --cov", {}, "shop.py", PY, f"if a:  # pragma: no cover\n{PY}"),
    "another tool": ("ruff check .", {}, "shop.py", PY, f"x = ''  # type: ignore\n{PY}"),
    "it was there": ("ruff check .", {}, "shop.py", f"import a  # noqa: F401\n{PY}",
                     f"{PY}import b\nimport a  # noqa:F401\n"),
    "a rule less": ("ruff check .", {}, "shop.py", f"import a  # noqa: F401, E501\n{PY}",
                    f"import a  # noqa: E501\n{PY}"),
    "strict": ("mypy .", {}, "shop.py", PY, f"# mypy: strict\n{PY}"),
}  # fmt: skip


def held(case: tuple[str, Tree, str, str, str]) -> set[str]:
    validator, others, path, before, after = case
    base: Tree = {**others, path: before} if before else others
    return rules(judged(base, {**others, path: after}, validator))


@pytest.mark.parametrize("case", SILENCED)
def test_what_silences_a_tool_of_the_validator_is_found(case: str) -> None:
    assert held(SILENCED[case]) == {"check-silenced"}


@pytest.mark.parametrize("case", HEARD)
def test_what_silences_no_tool_of_the_validator_is_no_matter(case: str) -> None:
    assert held(HEARD[case]) == set()


@pytest.mark.full
@pytest.mark.timeout(30)
def test_no_source_takes_long() -> None:
    text = "# noqa: " + "A1," * 100_000 + "\n# noqa\n" * 20_000
    judged({"a.py": text}, {"a.py": f"{text}# noqa\n"}, "pre-commit run")
