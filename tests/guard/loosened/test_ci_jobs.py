"""CI that judges less than before."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.guard.loosened.ci_jobs import RENAMED_JOB, not_read, weakened
from rlm_ci.guard.loosened.exit_codes import CI_WEAKENED as WEAKENED
from rlm_ci.guard.weakening import REPLACED, RestOfTree, TextChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PATH = ".github/workflows/ci.yml"
CI = """\
name: CI
on:
  pull_request:
  push:
jobs:
  test:
    name: All tests
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v4
      - name: Test
        run: pytest -q
  lint:
    runs-on: ubuntu-24.04
    steps:
      - run: |
          ruff check .
          mypy
"""
#: What is changed in it, and the rules that this breaks.
CASES: dict[str, tuple[str, str, list[str]]] = {
    "as an action of others": ("run: pytest -q", "uses: some/action-pytest-uv@v1", []),
    "a hook's other packages": (
        "          mypy\n", "          mypy\nadditional_dependencies: [tox]\n", [],
    ),
    "a newer action": ("checkout@v4", "checkout@v6", []),
    "another order of words": ("pytest -q", "pytest --quiet tests", []),
    "one tool for another": ("mypy", "pyright", []),
    "one formatter for another": ("mypy", "mdformat", []),
    "one for two of its kind": ("ruff check .\n          mypy", "biome\n          mypy", []),
    "another kind for one of two": (
        "ruff check .\n          mypy", "mdformat .", [WEAKENED],
    ),
    "as an action": ("      - run: |\n          ruff check .\n          mypy\n",
                     "      - uses: astral-sh/ruff-action@v3\n      - run: mypy\n", []),
    "a job that lints in another way": (
        CI[CI.index("  lint:") :],
        "  style:\n    needs: a\n    steps:\n      - run: flake8 src\n      - run: pyright\n",
        [RENAMED_JOB],
    ),
    "two tools for two": ("ruff check .\n          mypy", "pyright\n          ruff format .", []),
    "a step less": ("      - name: Test\n        run: pytest -q\n", "", [WEAKENED]),
    "a tool less": ("          mypy\n", "", [WEAKENED]),
    "a tool in a comment": ("          mypy\n", "          # mypy\n", [WEAKENED]),
    "a job renamed": ("All tests", "Tests", [RENAMED_JOB]),
    "an id renamed": ("  lint:", "  style:", [RENAMED_JOB]),
    "another job in its place": (
        "  lint:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: |\n",
        "  types:\n    steps:\n      - uses: us/dashboard@v3\n      - run: |\n", [RENAMED_JOB],
    ),
    "another job elsewhere": (
        CI[CI.index("  test:") :],
        "  types:\n    steps:\n      - run: a\n" + CI[CI.index("  test:") : CI.index("  lint:")],
        [WEAKENED, WEAKENED, WEAKENED],
    ),
    "the name of a step": ("      - name: Test\n", "      - name: Cache pre-commit\n", []),
    "for nothing": ("  push:\n", "  push:\n    paths-ignore: ['**']\n", [WEAKENED]),
    "not for the code": (
        "  push:\n", "  push:\n    paths-ignore:\n      - docs/**\n      - '**.py'\n", [WEAKENED],
    ),
    "not for a folder": ("  push:\n", "  push:\n    paths-ignore: [src/**]\n", [WEAKENED]),
    "not for the docs": ("  push:\n", "  push:\n    paths-ignore: [docs/**, '**.md']\n", []),
    "no pull request": ("  pull_request:\n", "", [WEAKENED]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_ci_that_judges_less_is_found(case: str) -> None:
    old, new, rules = CASES[case]
    assert old in CI
    assert [one.rule for one in weakened([TextChange(PATH, CI, CI.replace(old, new))])] == rules


def test_jobs_may_move_to_another_workflow() -> None:
    moved = [TextChange(PATH, CI, None), TextChange(".github/workflows/all.yml", None, CI)]
    assert list(weakened(moved)) == []


SCAN = "on: [pull_request]\njobs:\n  {}:\n    steps:\n      - uses: {}@v1\n"


@pytest.mark.parametrize(
    ("name", "action", "rules"),
    [
        ("scan-all", "a/trivy", [RENAMED_JOB]),
        ("scan-all", "a/label", [WEAKENED]),
    ],
)  # fmt: skip
def test_a_job_may_have_another_name_elsewhere(name: str, action: str, rules: list[str]) -> None:
    moved = [
        TextChange(PATH, SCAN.format("scan", "a/trivy"), None),
        TextChange(".github/workflows/scan.yml", None, SCAN.format(name, action)),
    ]
    assert [one.rule for one in weakened(moved)] == rules


def test_the_steps_of_a_job_may_move_into_another() -> None:
    steps = CI[CI.index("      - run: |") :]
    moved = CI.replace("  lint:\n    runs-on: ubuntu-24.04\n    steps:\n", "")
    assert steps in moved
    assert [one.rule for one in weakened([TextChange(PATH, CI, moved)])] == [RENAMED_JOB]
    without = CI.partition("  lint:")[0]
    assert WEAKENED in [one.rule for one in weakened([TextChange(PATH, CI, without)])]


def test_a_script_of_the_package_may_run_the_tool() -> None:
    change = TextChange(PATH, CI, CI.replace("          mypy\n", "          yarn types\n"))
    files = Tree({"package.json": '{"scripts": {\n  "types": "mypy ."\n}}'})
    assert list(weakened([change], files)) == []
    assert list(weakened([change])) != []


def test_a_workflow_may_run_the_tool_of_another_kind_of_ci() -> None:
    change = TextChange("appveyor.yml", "test_script:\n  - pytest -q\n  - tox\n", None)
    files = Tree({PATH: CI})
    assert [one.message for one in weakened([change], files)] == ["CI no longer runs tox here"]
    assert len(list(weakened([change.replace(after="test_script: []\n")], files))) == 2


def test_the_name_of_a_step_runs_no_tool() -> None:
    before = CI.replace("- name: Test", "- name: Cache pre-commit")
    assert list(weakened([TextChange(PATH, before, CI)])) == []


def test_a_workflow_may_run_for_pull_requests_on_their_target() -> None:
    change = TextChange(PATH, CI, CI.replace("pull_request:", "pull_request_target:"))
    assert list(weakened([change])) == []


def test_a_trigger_in_a_comment_is_none() -> None:
    before = "on: workflow_dispatch\n# on: [push, pull_request]\njobs:\n"
    after = "on:\n  push:\n    branches: [main]\njobs:\n"
    assert list(weakened([TextChange(PATH, before, after)])) == []


def test_a_tool_may_be_run_by_the_file_of_a_runner_that_ci_starts() -> None:
    change = TextChange(PATH, CI, CI.replace("          mypy\n", "          tox run -e lint\n"))
    both = "          ruff check .\n          mypy\n"
    other = change.replace(after=CI.replace(both, "          tox\n"))
    files = Tree({"tox.ini": "[testenv:lint]\ncommands =\n    mypy\n    ruff check .\n"})
    assert list(weakened([change], files)) == []
    assert list(weakened([other], files)) == []
    assert list(weakened([other])) != []


@pytest.mark.parametrize(
    ("path", "line", "is_told"),
    [
        ("tox.ini", "    uv run -m mypy src\n", False),
        ("tox.ini", "    # mypy\n", True),
        ("README.md", "    mypy src\n", True),
    ],
)
def test_a_tool_may_move_to_a_task_of_the_runner(path: str, line: str, *, is_told: bool) -> None:
    change = TextChange(PATH, CI, CI.replace("          mypy\n", ""))
    task = TextChange(path, "[testenv:lint]\ncommands =\n", f"[testenv:lint]\ncommands =\n{line}")
    assert bool(list(weakened([change], None, [task]))) is is_told


def test_a_key_of_the_matrix_may_have_another_name() -> None:
    before = CI.replace("All tests", "Tests on ${{ matrix.version }}")
    change = TextChange(PATH, before, before.replace("matrix.version", "matrix.node"))
    assert list(weakened([change])) == []


@pytest.mark.parametrize(
    ("job", "is_told"),
    [
        ("label:\n    steps:\n      - uses: actions/labeler@v6\n", False),
        ("size:\n    name: Label the PR size\n    steps:\n      - uses: a/size@v1\n", False),
        ("label:\n    steps:\n      - run: pytest -q\n", True),
        ("analyze:\n    steps:\n      - uses: a/size@v1\n", True),
    ],
)
def test_a_job_that_only_tidies_up_judges_nothing(job: str, *, is_told: bool) -> None:
    before = f"on: [pull_request]\njobs:\n  {job}"
    assert bool(list(weakened([TextChange(PATH, before, None)]))) is is_told


def test_each_job_of_a_workflow_that_is_gone_is_named() -> None:
    told = [one.message for one in weakened([TextChange(PATH, CI, None)])]
    assert "the job 'lint' is gone: a required check may stand for it" in told
    assert "the job 'All tests' is gone: a required check may stand for it" in told


@pytest.mark.parametrize(
    ("trigger", "is_told"),
    [
        ("schedule:\n    - cron: '0 0 * * *'\n  workflow_dispatch:", False),
        ("issues:\n    types: [opened]", False),
        ("push:\n    tags: ['*']", False),
        ("push:\n    tags: ['*']\n    branches: [main]", True),
        ("push:\n    tags: ['*']\n  pull_request:", True),
        ("push:\n    branches: [main]", True),
        ("schedule:\n    - cron: '0 0 * * *'\n  pull_request_target:", True),
        ("merge_group:", True),
        ("workflow_call:", True),
    ],
)
def test_no_required_check_stands_for_a_job_that_no_change_starts(
    trigger: str, *, is_told: bool
) -> None:
    before = CI.replace("pull_request:\n  push:", trigger)
    told = [one.message for one in weakened([TextChange(PATH, before, None)])]
    assert any("the job" in one for one in told) is is_told
    assert "CI no longer runs pytest here" in told


@pytest.mark.parametrize(
    ("old", "new", "is_told"),
    [
        ("make test", "make richtest", False),
        ("make test", "make test-all", False),
        ("npm run lint", "npm run lint:ci", False),
        ("npm run ci-lint", "npm run build", True),
        ("go test ./...", "go build ./...", True),
    ],
)
def test_a_target_of_another_name_may_do_the_same(old: str, new: str, *, is_told: bool) -> None:
    change = TextChange(".gitlab-ci.yml", f"a:\n  script: {old}\n", f"a:\n  script: {new}\n")
    assert bool(list(weakened([change]))) is is_told


def test_of_other_ci_the_words_count() -> None:
    before = "test:\n  script: tox\n"
    (found,) = weakened([TextChange(".gitlab-ci.yml", before, "test:\n  script: echo\n")])
    assert found.message == "CI no longer runs tox here"


class Tree(RestOfTree):
    """Files by path."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files

    def read(self, paths: Iterable[str]) -> Mapping[str, str]:
        return {path: self.files[path] for path in paths if path in self.files}

    def paths(self) -> frozenset[str]:
        return frozenset(self.files)


#: What stands in place of a tool, what is in the file that it leads to, and whether that is enough.
LED = {
    "a workflow": ("uses: ./.github/workflows/test.yml", ".github/workflows/test.yml", True),
    "an action": ("uses: ./ci/test", "ci/test/action.yml", True),
    "a file of GitLab": ("local: '/ci/test.yml'", "ci/test.yml", True),
    "a script": ("run: ./ci/test.sh --fast", "ci/test.sh", True),
    "a script by its shell": ("run: bash ci/test.sh", "ci/test.sh", True),
    "another file": ("run: ./ci/test.sh", "ci/other.sh", False),
    "an action of others": ("uses: ci/test@v4", "ci/test/action.yml", False),
}  # fmt: skip


@pytest.mark.parametrize("case", LED)
def test_a_tool_may_run_in_a_file_that_ci_leads_to(case: str) -> None:
    new, path, is_led = LED[case]
    change = TextChange(PATH, CI, CI.replace("run: pytest -q", new))
    assert [one.rule for one in weakened([change])] == [WEAKENED]
    found = list(weakened([change], Tree({path: "steps:\n  - run: pytest\n"})))
    assert (found == []) is is_led
    assert list(weakened([change], Tree({path: "# pytest\n"}))) != []


def test_a_file_that_ci_led_to_before_takes_nothing_over() -> None:
    before = CI.replace("pytest -q", "pytest -q && ci/test.sh")
    change = TextChange(PATH, before, before.replace("pytest -q && ", ""))
    assert list(weakened([change], Tree({"ci/test.sh": "pytest\n"}))) != []


@pytest.mark.parametrize(
    ("text", "is_flow"),
    [
        ("jobs:\n  test:\n    steps: [{run: x}]\n", True),
        ("jobs:\n  test: {runs-on: x, steps: [{run: x}]}\n", True),
        ("jobs: {test: {steps: [{run: x}]}}\n", True),
        ('{"jobs": {}}\n', True),
        (CI, False),
        (CI.replace("  test:", "  test:\n    needs: [lint]\n    env: {A: b}"), False),
        ("on: [push]\njobs:\n  a:\n    steps:\n      - {uses: b}\n", False),
    ],
)
def test_jobs_in_flow_style_are_listed(text: str, *, is_flow: bool) -> None:
    listed = [path for path, _ in not_read([TextChange(PATH, CI, text)])]
    assert listed == ([PATH] if is_flow else [])
    assert list(not_read([TextChange("ci.yml", text, text)])) == []


STEPS = "          flake8\n          isort .\n          black .\n"
PYTHON_TOOLS = f"jobs:\n  lint:\n    steps:\n      - run: |\n{STEPS}"


def test_one_tool_may_take_the_place_of_several_of_its_kind() -> None:
    for now, left in (
        ("ruff check .\n          ruff format .", []),
        ("ruff format .", ["CI no longer runs flake8 here"]),
        ("mypy", ["CI no longer runs flake8 here", "CI no longer runs isort here"]),
    ):
        text = PYTHON_TOOLS.replace("flake8\n          isort .\n          black .", now)
        assert [one.message for one in weakened([TextChange(PATH, PYTHON_TOOLS, text)])] == left


def test_ci_of_another_kind_and_workflows_of_others_are_doubtful() -> None:
    gone = TextChange(".travis.yml", "script:\n  - cargo test\n", None)
    longer = TextChange(PATH, CI, f"{CI}      - uses: us/cargo@v1\n")
    assert [one.doubt for one in weakened([gone, longer])] == [REPLACED]
    assert [one.doubt for one in weakened([gone])] == [""]
    without = CI.partition("  lint:")[0]
    called = f"{without}  style:\n    uses: us/ci/.github/workflows/lint.yml@v1\n"
    for after, doubts in ((called, {RENAMED_JOB, REPLACED, ""}), (without, {""})):
        found = list(
            weakened([TextChange(PATH, CI.replace("  test:", "  test:\n    if: a"), after)])
        )
        assert {one.doubt for one in found} <= doubts
        assert found


def test_a_job_may_go_with_the_script_that_it_ran() -> None:
    job = "  codegen:\n    runs-on: a\n    steps:\n      - run: ci/generate.sh\n"
    change = TextChange(PATH, CI + job, CI)
    for gone, rules in ((["ci/generate.sh"], [RENAMED_JOB]), (["ci/other.sh"], [WEAKENED])):
        assert [one.rule for one in weakened([change], gone=gone)] == rules


def test_what_a_workflow_that_stays_runs_may_go_elsewhere() -> None:
    old = TextChange(".github/workflows/old.yml", CI, None)
    without = CI.replace("          mypy\n", "").replace("run: pytest -q", "run: make")
    for stays, doubts in ((CI, {RENAMED_JOB, REPLACED}), (without, {REPLACED, ""})):
        found = list(weakened([old], Tree({PATH: stays})))
        assert {one.doubt for one in found} == doubts
    assert {one.doubt for one in weakened([old], Tree({}))} == {""}


def test_a_workflow_may_take_the_place_of_another() -> None:
    old = TextChange(".github/workflows/old.yml", CI, None)
    ids = TextChange(PATH, None, CI.replace("    name: All tests\n", "").replace("  lint:", "  l:"))
    assert [one.rule for one in weakened([old, ids])] == [RENAMED_JOB, RENAMED_JOB]
    other = "  all:\n    steps:\n      - run: pytest\n      - run: ruff check\n      - run: mypy\n"
    new = TextChange(PATH, None, CI[: CI.index("  test:")] + other)
    assert [one.rule for one in weakened([old, new])] == [RENAMED_JOB, RENAMED_JOB]
    less = TextChange(PATH, None, (new.after or "").replace("      - run: pytest\n", ""))
    assert WEAKENED in [one.rule for one in weakened([old, less])]


@pytest.mark.parametrize(
    ("condition", "step", "rules"),
    [
        ("github.actor == 'dependabot[bot]'", "gh pr merge --auto", []),
        ("github.actor == 'dependabot[bot]'", "pytest -q", [WEAKENED]),
        ("github.actor == 'somebody'", "gh pr merge --auto", [WEAKENED]),
    ],
)
def test_a_job_for_the_changes_of_a_bot_judges_nothing(
    condition: str, step: str, rules: list[str]
) -> None:
    job = f"  merge:\n    if: ${{{{ {condition} }}}}\n    steps:\n      - run: {step}\n"
    assert [one.rule for one in weakened([TextChange(PATH, CI + job, CI)])] == rules


def test_what_a_hook_has_installed_beside_it_is_not_run() -> None:
    hook = "repos:\n  - hooks:\n      - id: x\n        additional_dependencies:{}\n"
    for more in (" [tox]", "\n          - tox\n          - mypy", "\n        - tox"):
        change = TextChange(".pre-commit-config.yaml", hook.format(more), hook.format(" []"))
        assert list(weakened([change])) == []
