"""Runs that may fail unseen: what is in their file before, after, and whether that is told."""

from __future__ import annotations

import pytest

from rlm_ci.guard.loosened.exit_codes import CI_WEAKENED, loosened
from rlm_ci.guard.loosened.numbers import RUN
from rlm_ci.guard.weakening import TextChange

PATH = ".github/workflows/ci.yml"
CI = """\
on: [push]
jobs:
  test:
    runs-on: ubuntu-24.04
    steps:
      - name: Test
        run: pytest -q
  lint:
    runs-on: ubuntu-24.04
    steps:
      - run: |
          ruff check .
          mypy
"""
BASH = "pytest -q | tee log.txt\n        shell: bash"
#: What is changed in it, and the rules that this breaks.
CASES: dict[str, tuple[str, str, list[str]]] = {
    "never": ("  test:", "  test:\n    if: false", [CI_WEAKENED]),
    "never by an expression": (
        "  test:", "  test:\n    if: ${{ github.ref && false }}", [CI_WEAKENED],
    ),
    "never by a negation": ("  test:", "  test:\n    if: ${{ !true }}", [CI_WEAKENED]),
    "a key that ends with it": ("  test:", "  test:\n    multi-if: false", []),
    "sometimes": ("  test:", "  test:\n    if: github.ref != 'false'", []),
    "may fail": ("run: pytest -q", "run: pytest -q\n        continue-on-error: true", [RUN]),
    "an upload may fail": (
        CI, f"{CI}      - uses: codecov/codecov-action@v5\n        continue-on-error: true\n", [],
    ),
    "a command of git may fail": (
        CI, f"{CI}      - run: git push --delete x\n        continue-on-error: true\n", [],
    ),
    "an upload by a runner of packages may fail": (
        CI, f"{CI}      - run: npx codecov\n        continue-on-error: true\n", [],
    ),
    "commands that hand on may fail": (
        CI,
        f"{CI}      - continue-on-error: true\n        run: |\n          gh a\n          git b\n",
        [],
    ),
    "commands of which one is another may fail": (
        CI,
        f"{CI}      - continue-on-error: true\n        run: |\n          gh a\n          ./b\n",
        [RUN],
    ),
    "all of a job may fail, behind an upload": (
        "  test:\n",
        "  a:\n    steps:\n      - uses: codecov/upload@v5\n  test:\n    continue-on-error: true\n",
        [RUN],
    ),
    "a job that is new may fail": (CI, f"{CI}  more:\n    continue-on-error: true\n", []),
    "a job that takes the place of one may fail": (
        "  test:\n", "  more:\n    continue-on-error: true\n", [RUN],
    ),
    "may fail by an expression": (
        "run: pytest -q", "run: pytest -q\n        continue-on-error: ${{ true }}", [RUN],
    ),
    "may fail where it says so": (
        "run: pytest -q", "run: pytest -q\n        continue-on-error: ${{ matrix.new }}", [],
    ),
    "shrugs": ("pytest -q", "pytest -q || true", [RUN]),
    "shrugs with words": ("pytest -q", "pytest -q || echo failed", [RUN]),
    "looks at the code": ("pytest -q", "pytest -q || [ $? = 5 ]", []),
    "shrugs elsewhere": ("          ruff", "          rm x || true\n          ruff", []),
    "ends well": ("pytest -q", "pytest -q; exit 0", [RUN]),
    "a pipe": ("pytest -q", "pytest -q | tee log.txt", [RUN]),
    "a pipe in two lines": ("          mypy", "          mypy \\\n            | tail -20", [RUN]),
    "a pipe in bash": ("pytest -q", BASH, []),
    "a pipe in sh": ("pytest -q", BASH.replace("bash", "sh"), [RUN]),
    "a pipe where bash is the default": (
        CI, f"defaults:\n  run:\n    shell: bash\n{CI.replace('pytest -q', 'pytest | cat')}", [],
    ),
    "a pipe where bash is the default elsewhere": (
        CI, f"defaults:\n  run:\n    shell: sh\n{CI.replace('pytest -q', 'pytest | cat')}",
        [RUN],
    ),
    "a pipe with pipefail": (
        "ruff check .", "set -o pipefail\n          ruff check . | tee log.txt", [],
    ),
    "a pipe of a list": ("pytest -q", "pytest -q && pytest --collect-only | head", []),
    "a pipe whose output is looked at": (
        "pytest -q", 'if [ "`pytest -q | tee log.txt`" ]; then exit 1; fi', [],
    ),
    "goes on": ("          ruff", "          set +e\n          ruff", [RUN]),
    "goes on and looks": (
        "          ruff check .\n          mypy",
        "          set +e\n          mypy\n          code=$?\n          exit $code", [],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_ci_that_may_fail_unseen_is_found(case: str) -> None:
    old, new, rules = CASES[case]
    assert old in CI
    assert [one.rule for one in loosened([TextChange(PATH, CI, CI.replace(old, new))])] == rules


#: A file, its text before and after, and whether it loses an exit code.
FILES: dict[str, tuple[str, str, str, bool]] = {
    "gitlab": (
        ".gitlab-ci.yml", "a:\n  script: tox\n", "a:\n  script: tox\n  allow_failure: true\n", True,
    ),
    "gitlab has pipefail": (
        ".gitlab-ci.yml", "a:\n  script: tox\n", "a:\n  script: tox | tee log.txt\n", False,
    ),
    "an action in bash": (
        ".github/actions/test/action.yml", "runs:\n  steps:\n    - run: tox\n      shell: bash\n",
        "runs:\n  steps:\n    - run: tox | tee log.txt\n      shell: bash\n", False,
    ),
    "make ignores it": ("Makefile", "test:\n\tpytest\n", "test:\n\t-pytest\n", True),
    "make ignores it silently": ("Makefile", "test:\n\t@pytest\n", "test:\n\t@-pytest\n", True),
    "make ends well": ("Makefile", "test:\n\tpytest\n", "test:\n\tpytest; exit 0\n", True),
    "make ignores what is no tool": ("Makefile", "clean:\n", "clean:\n\t-rm -r build\n", False),
    "make with pipefail": (
        "Makefile", "test:\n\tpytest\n",
        ".SHELLFLAGS := -eo pipefail -c\ntest:\n\tpytest | tee log.txt\n", False,
    ),
    "a script": (
        "package.json", '{"scripts":{"test":"jest"}}', '{"scripts":{"test":"jest || true"}}', True,
    ),
    "a script with a pipe": (
        "package.json", '{"scripts":{"test":"jest"}}', '{"scripts":{"test":"jest | cat"}}', True,
    ),
    "a script for another tool": (
        "package.json", '{"scripts":{"test":"jest"}}',
        '{"scripts":{"test":"jest","clean":"rm x || true"}}', False,
    ),
    "tox ignores it": ("tox.ini", "commands = pytest\n", "commands = - pytest\n", True),
    "tox ignores it in a list": (
        "tox.ini", "commands =\n    pytest\n", "commands =\n    - pytest\n", True,
    ),
    "tox ignores all": ("tox.ini", "[testenv]\n", "[testenv]\nignore_outcome = true\n", True),
    "surefire": ("pom.xml", "<p/>", "<testFailureIgnore>true</testFailureIgnore>", True),
    "no tests are fine": (
        "vitest.config.ts", "test: {}", "test: { passWithNoTests: true }", True,
    ),
    "one test alone is fine": (
        "playwright.config.ts", "x({ forbidOnly: true })", "x({ forbidOnly: false })", True,
    ),
    "surefire runs none": ("pom.xml", "<p/>", "<p><skipTests>true</skipTests></p>", True),
    "surefire leaves one out": (
        "pom.xml", "<p/>", "<excludes><exclude>**/TillTest.java</exclude></excludes>", True,
    ),
    "a jar leaves one out": ("pom.xml", "<p/>", "<exclude>META-INF/*.SF</exclude>", False),
    "gradle runs none": ("build.gradle", "test {}", "test {\n    enabled = false\n}", True),
    "gradle leaves one out": ("build.gradle", "test {}", "test { exclude '**/TillTest*' }", True),
    "gradle": ("build.gradle", "test {}", "test { ignoreFailures = true }", True),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_files_that_run_tools_lose_no_exit_code_in_silence(case: str) -> None:
    path, before, after, is_lost = FILES[case]
    found = [one.rule for one in loosened([TextChange(path, before, after)])]
    assert found == ([RUN] if is_lost else [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("steps:", "continue-on-error: true\n    steps:"),
        ("steps:", "if: false\n    steps:"),
        ("pytest -q", "pytest || true"),
    ],
)
def test_what_may_fail_may_move_to_another_workflow(old: str, new: str) -> None:
    loose = CI.replace(old, new, 1)
    other = TextChange(".github/workflows/all.yml", None, loose)
    assert list(loosened([TextChange(PATH, loose, None), other])) == []
    assert len(list(loosened([TextChange(PATH, CI, None), other]))) == 1


def test_what_only_downloads_may_fail() -> None:
    step = "    steps:\n      - continue-on-error: true\n        uses: actions/{}@v8\n"
    for action, rules in (("download-artifact", []), ("test", [RUN])):
        after = CI.replace("    steps:\n", step.format(action), 1)
        assert [one.rule for one in loosened([TextChange(PATH, CI, after)])] == rules


def test_what_is_new_in_tox_may_fail() -> None:
    before = "[testenv:py312]\ncommands = pytest\n"
    new = f"{before}[testenv:py314]\nignore_outcome = true\n"
    assert list(loosened([TextChange("tox.ini", before, new)])) == []
    known = before.replace("commands", "ignore_outcome = true\ncommands")
    assert [one.rule for one in loosened([TextChange("tox.ini", before, known)])] == [RUN]
