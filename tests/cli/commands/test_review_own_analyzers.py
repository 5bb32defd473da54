"""``review.analyzers = "auto"``: what the repository's base sets up, by the real tools."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from testing.pipelines_stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap")

WORKFLOW = """on: push
jobs:
  test:
    runs-on: ubuntu-latest
    steps:
      - run: echo ${{ github.event_name }}
"""
HOOKS = "repos:\n  - repo: local\n    hooks:\n      - id: actionlint\n      - id: hadolint-docker\n"
CART = """def total(prices: list[int]) -> int:
    return sum(prices)


def old() -> int:
    return "x"
"""
MAIN = "from shop.cart import total\n\nprint(total([1]))\n"


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    repo.write("rlm-ci.toml", 'review.analyzers = "auto"\n')
    yield found
    found.clean()


def reviewed(stage: Stage, *more: str, **options: Any) -> Ended:
    return stage.cli("review", "--format", "json", *more, **options)


def told(stage: Stage, ended: Ended) -> dict[str, Any]:
    folder = stage.folder(ended.json()["run_id"])
    found: dict[str, Any] = json.loads((folder / "rlm/artifacts/review/findings.json").read_bytes())
    return found


def rules(ended: Ended) -> set[tuple[str, str]]:
    return {
        (one["rule"].removeprefix("review/"), one["evidence"][0]["path"])
        for one in ended.json()["findings"]
        if one["suppression"] is None and "ruff" not in one["rule"].partition("-")[0]
    }


@pytest.mark.full
def test_tools_for_single_files_obey_the_base_and_tell_what_is_new(stage: Stage) -> None:
    repo = stage.repo
    repo.write(".shellcheckrc", "disable=SC2086\n").write(".pre-commit-config.yaml", HOOKS)
    repo.write("ruff.toml", '[lint]\nselect = ["PLR2004"]\n').write("a.py", "x = 1\n")
    repo.write("run.sh", "#!/bin/sh\necho $1\n[ $old = 1 ]\n")
    base = repo.write(".github/workflows/ci.yml", WORKFLOW).commit()
    # What the change says of its judges counts for nothing.
    repo.write(".shellcheckrc", "disable=SC2086,SC3014\n").write("ruff.toml", "exclude = ['*']\n")
    repo.write("run.sh", "#!/bin/sh\necho $1\n[ $old = 1 ]\n[ $1 == 1 ]\n")
    repo.write("a.py", "def f(x: int) -> bool:\n    return x == 42\n")
    repo.write("Dockerfile", "FROM python\n").write("eslint.config.js", "")
    repo.write(".github/workflows/ci.yml", WORKFLOW.replace("event_name", "evnt")).commit()
    ended = reviewed(stage, "--base", base)
    assert rules(ended) == {
        ("shellcheck-sc3014", "run.sh"), ("actionlint-expression", ".github/workflows/ci.yml"),
        ("repository-ruff-plr2004", "a.py"),
    }  # fmt: skip
    assert ended.code == 0
    assert "hadolint is set up here and not installed" in told(stage, ended)["notes"]
    assert stage.manifest(ended.json()["run_id"])["sandbox"] == "bubblewrap"
    assert stage.cli("replay", ended.json()["run_id"], "--check").code == 0


@pytest.mark.full
def test_a_tool_for_the_whole_tree_obeys_the_base_and_tells_what_is_new(stage: Stage) -> None:
    repo = stage.repo
    setup = '[tool.mypy]\nstrict = true\nfiles = ["shop"]\n'
    repo.write("pyproject.toml", setup).write("shop/__init__.py", "").write("shop/cart.py", CART)
    repo.write("shop/needs.py", "import not_installed\n")
    base = repo.write("shop/main.py", MAIN).commit()
    repo.write("pyproject.toml", f"{setup}ignore_errors = true\n")
    changed = CART.replace("prices: list[int]", "prices: list[int], tax: int")
    repo.write("shop/needs.py", "import not_installed\nimport neither\n")
    repo.write("shop/cart.py", changed.replace("sum(prices)", "str(sum(prices) * tax)")).commit()
    ended = reviewed(stage, "--base", base)
    assert rules(ended) == {("mypy-return-value", "shop/cart.py")}
    assert told(stage, ended)["notes"][:2] == [
        (
            "mypy does not see all that the base needs: Cannot find implementation or library stub "
            'for module named "not_installed"'
        ),
        (
            "1 new result of mypy in files that this change leaves alone, such as shop/main.py: "
            'Missing positional argument "tax" in call to "total"'
        ),
    ]


@pytest.mark.full
def test_a_changed_file_that_a_tool_fails_on_takes_nothing_from_the_others(stage: Stage) -> None:
    repo = stage.repo
    repo.write("mypy.ini", "[mypy]\nfiles = shop\n").write("shop/__init__.py", "")
    base = repo.write("shop/cart.py", CART).commit()
    repo.write("shop/cart.py", "def total(:\n").write("shop/new.py", 'x: int = "a"\n')
    repo.write("shop/fine.py", "y = 1\n").commit()
    ended = reviewed(stage, "--base", base)
    assert rules(ended) == {("mypy-assignment", "shop/new.py")}
    assert (ended.code, ended.json()["verdict"]) == (1, "findings")  # it is no Python, says ruff
    [why] = [
        one["reason"] for one in ended.json()["coverage"]["omitted"]
        if one["path"] == "shop/cart.py"
    ]  # fmt: skip
    assert why.startswith("the analyzer mypy gave nothing: Expected a parameter")


def test_without_a_sandbox_none_of_them_runs(stage: Stage, tmp_path: Path) -> None:
    stage.repo.write(".shellcheckrc", "").write("mypy.ini", "[mypy]\n").write("a.py", "x = 1\n")
    stage.repo.write("run.sh", "#!/bin/sh\necho $1\n").commit()
    for name in ("git", "sh"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    ended = reviewed(stage, env={"PATH": str(tmp_path)})
    assert (ended.code, ended.json()["verdict"]) == (3, "incomplete")
    why = {one["path"]: one["reason"] for one in ended.json()["coverage"]["omitted"]}
    assert why["run.sh"].startswith("the analyzer shellcheck gave nothing: there is no sandbox: ")
    assert why["a.py"].startswith("the analyzer mypy gave nothing: there is no sandbox: ")


@pytest.mark.full
def test_a_tool_looks_where_its_settings_say_and_nowhere_else(stage: Stage) -> None:
    setup = '[tool.mypy]\nstrict = true\nfiles = ["shop"]\n'
    stage.repo.write("pyproject.toml", setup).write("shop/a.py", "x: int = 1\n")
    stage.repo.write("setup.py", 'x: int = "a"\n').commit()
    ended = reviewed(stage)
    assert (rules(ended), ended.json()["verdict"]) == (set(), "clean")


def test_another_word_and_a_folder_outside_of_git_are_refused(
    stage: Stage, cli: Cli, tmp_path: Path
) -> None:
    stage.repo.write("rlm-ci.toml", 'review.analyzers = "all"\n').commit()
    ended = stage.cli("review")
    assert ended.code == 5
    assert "must be a list of tables: [[review.analyzers]], or \"auto\", not 'all'" in ended.stderr
    (tmp_path / "rlm-ci.toml").write_text('review.analyzers = "auto"\n')
    ended = cli("review", cwd=tmp_path)
    assert (ended.code, "those of a git repository" in ended.stderr) == (5, True)


GOLANGCI = """#!/bin/sh
case "$*" in *--output.json.path*) echo 'Error: unknown flag' >&2; exit 3;; esac
line=$(grep -n BUG main.go | cut -d: -f1)
[ -z "$line" ] && echo '{"Issues": null}' && exit 0
place="{\\"Filename\\": \\"main.go\\", \\"Line\\": $line}"
issue="{\\"FromLinter\\": \\"errcheck\\", \\"Text\\": \\"bug\\", \\"Pos\\": $place}"
echo "{\\"Issues\\": [$issue]}"
exit 1
"""


@pytest.mark.full
def test_an_older_command_is_tried_and_one_that_never_works_is_told(
    stage: Stage, tmp_path: Path
) -> None:
    programs = {"golangci-lint": GOLANGCI, "staticcheck": "#!/bin/sh\necho broken >&2\nexit 2\n"}
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    stage.repo.write(".golangci.yml", "version: '1'\n").write("staticcheck.conf", "")
    base = stage.repo.write("main.go", "package main\n").commit()
    stage.repo.write("main.go", "package main\n// BUG\n").commit()
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    ended = reviewed(stage, "--base", base, env={"PATH": path})
    assert rules(ended) == {("golangci-lint-errcheck", "main.go")}
    assert told(stage, ended)["notes"] == ["staticcheck is set up here and could not look: broken"]
    [part] = ended.json()["parts"]
    assert part["summary"].endswith("; staticcheck is set up here and could not look: broken")
    # Without a base there is nothing that it may have failed on before.
    ended = reviewed(stage, env={"PATH": path})
    assert (ended.code, ended.json()["verdict"]) == (3, "incomplete")
    assert "the analyzer staticcheck gave nothing: broken" in {
        one["reason"] for one in ended.json()["coverage"]["omitted"]
    }


@pytest.mark.full
def test_the_work_tree_and_dependencies_that_git_ignores(stage: Stage) -> None:
    repo = stage.repo
    repo.write(".gitignore", "node_modules\n").write("eslint.config.mjs", "export default [];\n")
    repo.write("a.mjs", "export const a = b;\n").write("mypy.ini", "[mypy]\n").commit()
    program = repo.path / "node_modules" / ".bin" / "eslint"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\ntouch node_modules/written 2>/dev/null\n"
        """printf '[{"filePath": "%s/a.mjs", "messages": [{"ruleId": "no-undef", "severity": 2, """
        """"message": "b", "line": 1, "column": 18}]}]' "$PWD"; exit 1\n"""
    )
    program.chmod(0o755)
    repo.write("b.py", 'x: int = "a"\n')
    for sandbox in ("auto", "none"):
        ended = reviewed(stage, "--worktree", "--sandbox", sandbox)
        assert rules(ended) == {("eslint-no-undef", "a.mjs"), ("mypy-assignment", "b.py")}
        assert os.path.exists(repo.path / "node_modules/written") == (sandbox == "none")
    # What a change brings is no dependency of anybody's.
    repo.run("add", "-f", "node_modules")
    repo.commit()
    ended = reviewed(stage)
    assert "eslint is set up here and not installed" in told(stage, ended)["notes"]
