"""``rlm-ci suppress``: a finding is accepted while its lines stand."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest

from testing.pipelines_stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")

HOLE = "import subprocess\n\n\ndef run(word):\n    return subprocess.call(word, shell=True)\n"
WHY = ("--reason", "the words are ours")


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    repo.write("src/hole.py", HOLE).write("rlm-ci.toml", "# ours\nfail_level = 'medium'").commit()
    yield found
    found.clean()


def _reviewed(stage: Stage) -> list[dict[str, Any]]:
    report = stage.cli("review", "--worktree", "--format", "json").json()
    found: list[dict[str, Any]] = [one for one in report["findings"] if "s602" in one["rule"]]
    return found


def test_a_finding_is_accepted_while_its_lines_stand(stage: Stage) -> None:
    (found,) = _reviewed(stage)
    ended = stage.cli("suppress", "src/hole.py:5", *WHY)
    assert (ended.code, ended.stderr) == (0, "")
    assert "rlm-ci.toml accepts review/ruff-s602 at src/hole.py:5" in ended.stdout
    lines = (stage.repo.path / "rlm-ci.toml").read_text().splitlines()
    assert lines[:2] == ["# ours", "fail_level = 'medium'"]
    assert lines[3].startswith("# src/hole.py:5: ")
    assert lines[4:] == [
        "[[suppressions]]", 'rule = "review/ruff-s602"', f'fingerprint = "{found["fingerprint"]}"',
        'reason = "the words are ours"',
    ]  # fmt: skip
    # Moved and indented, it is the same line.
    stage.repo.write("src/hole.py", HOLE.replace("\n    return", "\n    # why\n    return  "))
    assert [one["suppression"] for one in _reviewed(stage)] == ["the words are ours"]
    again = stage.cli("suppress", found["fingerprint"][:8], *WHY, "--format", "json").json()
    assert (again["written"], again["entry"]["fingerprint"]) == (False, found["fingerprint"])
    stage.repo.write("src/hole.py", HOLE.replace("(word,", "(word + word,"))
    assert [one["suppression"] for one in _reviewed(stage)] == [None]


def test_what_cannot_be_accepted_is_told(stage: Stage) -> None:
    path = stage.repo.path / "one.json"
    stage.cli("review", "--worktree", "--format", "json", "-o", str(path))
    report = json.loads(path.read_text())
    (found,) = [one for one in report["findings"] if "s602" in one["rule"]]
    other = {**found, "rule": "review/other", "message": "\u202e::error::\nother"}
    report["findings"] += [{**other, "fingerprint": "0" * 32}]
    path.write_text(json.dumps(report))
    before = (stage.repo.path / "rlm-ci.toml").read_bytes()
    for words, code, said in (
        (("src/hole.py:5",), 2, "a suppression needs a reason"),
        (("src/hole.py:5", "--reason", " \n"), 2, "a suppression needs a reason"),
        (("src/hole.py:5", *WHY, "--until", "soon"), 2, "until must be a day"),
        (("src/hole.py:99", *WHY), 2, "no finding of the stored runs matches 'src/hole.py:99'"),
        (("abc", *WHY), 2, "no finding"),
        (("src/hole.py:5", *WHY, "--report", str(path)), 2, "2 findings of"),
        (("src/hole.py:5", *WHY, "--report", "none.json"), 5, "cannot be read"),
        (("src/hole.py:5", *WHY, "--config", "none.toml"), 5, "the config file cannot be read"),
    ):
        ended = stage.cli("suppress", *words)
        assert (ended.code, said in ended.stderr) == (code, True), ended
        assert not [line for line in ended.stderr.splitlines() if line.startswith("::")]
    assert (stage.repo.path / "rlm-ci.toml").read_bytes() == before


@pytest.mark.full
def test_the_table_of_pyproject_takes_it_too(stage: Stage) -> None:
    (stage.repo.path / "rlm-ci.toml").unlink()
    _reviewed(stage)
    stage.repo.write("pyproject.toml", "[tool.rlm-ci]\r\nfail_level = 'low'\r\n[tool.x]\r\n")
    assert stage.cli("suppress", "src/hole.py:5", *WHY, "--until", "2999-01-31").code == 0
    text = (stage.repo.path / "pyproject.toml").read_bytes()
    assert b"\r\n[[tool.rlm-ci.suppressions]]\r\n" in text
    assert b'until = "2999-01-31"\r\n' in text
    assert [one["suppression"] for one in _reviewed(stage)] == [WHY[1]]
    # Where there is no config file, there is one then.
    (stage.repo.path / "pyproject.toml").unlink()
    assert stage.cli("suppress", "src/hole.py:5", *WHY).code == 0
    assert (stage.repo.path / "rlm-ci.toml").read_text().startswith("# src/hole.py:5: ")


AWAITING = "accepted on this branch; counts once the base has it"


@pytest.mark.sample(1)
@pytest.mark.parametrize("is_committed", [True, False])
def test_what_a_branch_accepts_counts_once_the_base_has_it(
    stage: Stage, *, is_committed: bool
) -> None:
    """The same words in review, check and pr, until the base has the file."""
    repo = stage.repo
    main = repo.text("branch", "--show-current").strip()
    repo.checkout("feature", new=True).write("src/other.py", HOLE)
    repo.write("big.txt", "x\n" * 1300).commit()
    arguments = {
        "review": ("--base", main),
        "pr": ("--base", main, "--review", "on"),
        "check": ("--base", main),
    }

    def findings(command: str) -> dict[str, dict[str, Any]]:
        ended = stage.cli(command, *arguments[command], "--format", "json")
        return {one["rule"]: one for one in ended.json()["findings"] if one["severity"] != "info"}

    assert not any(AWAITING in (one["hint"] or "") for one in findings("pr").values())
    for finding in findings("pr").values():
        assert stage.cli("suppress", finding["fingerprint"], *WHY).code == 0
    if is_committed:
        repo.commit()
    for command, rules in {
        "review": {"review/ruff-s602"},
        "check": {"diff-budget/lines"},
        "pr": {"review/ruff-s602", "diff-budget/lines"},
    }.items():
        open_findings = findings(command)
        assert open_findings.keys() == rules
        for finding in open_findings.values():
            assert finding["suppression"] is None
            assert finding["hint"].endswith(f"; {AWAITING}")
    repo.commit("All") if not is_committed else None
    repo.run("checkout", "-q", main)
    repo.run("checkout", "-q", "feature", "--", "rlm-ci.toml")
    repo.commit()
    repo.run("checkout", "-q", "feature")
    assert [one["suppression"] for one in findings("check").values()] == ["the words are ours"]


def test_a_broken_or_hostile_file_of_a_branch_changes_nothing(stage: Stage) -> None:
    repo = stage.repo
    main = repo.text("branch", "--show-current").strip()
    repo.checkout("feature", new=True).write("big.txt", "x\n" * 1300)
    for text in (
        "[[suppressions]\n",
        "suppressions = 5\n",
        "[[suppressions]]\nrule = 'diff-budget'\nreason = 'x'\nuntil = 'never'\n",
        "[[suppressions]]\nrule = 'diff-budget'\nreason = 'x'\npath = '[z-a]'\n",
    ):
        repo.write("rlm-ci.toml", text).commit()
        ended = stage.cli("check", "--base", main, "diff-budget")
        assert (ended.code, ended.stderr, AWAITING in ended.stdout) == (1, "", False)
