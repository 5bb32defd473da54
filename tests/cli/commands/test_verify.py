"""rlm-ci verify: every pointer of a stored report is opened again, and a forged one falls."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from testing.repositories.archives import POLICY_PATH, policy, stub

if TYPE_CHECKING:
    from collections.abc import Callable

    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

PATH = "docs/PRD-1.md"
OTHER = "docs/café.md"


@pytest.fixture
def broken(repo: GitRepo) -> tuple[GitRepo, str]:
    """A change that adds two dangling stubs, and its base."""
    base = repo.write(POLICY_PATH, policy()).commit()
    repo.branch("doc-archives")
    repo.write(PATH, stub(PATH)).write(OTHER, stub(OTHER)).commit()
    return repo, base


@pytest.fixture
def stored(cli: Cli, broken: tuple[GitRepo, str]) -> tuple[GitRepo, dict[str, Any]]:
    repo, base = broken
    report = cli("check", "doc-archive", "--base", base, "--format", "json", cwd=repo).json()
    assert len(report["findings"]) == 2
    return repo, report


def verify(cli: Cli, repo: GitRepo, report: object, *args: str) -> Ended:
    path = repo.path.parent / "report.json"
    path.write_text(report if isinstance(report, str) else json.dumps(report))
    return cli("verify", str(path), *args, cwd=repo)


def test_a_good_report_holds(cli: Cli, stored: tuple[GitRepo, dict[str, Any]]) -> None:
    repo, report = stored
    ended = verify(cli, repo, report)
    assert (ended.code, ended.stdout) == (0, "2 cited places, all hold\n")
    # It is the commit that counts, not what the work tree holds by now.
    repo.write(PATH, "gone").commit()
    assert verify(cli, repo, report).code == 0
    as_json = verify(cli, repo, report, "--format", "json").json()
    counts = {"offered": 2, "verified": 2, "reanchored": 0, "rejected": 0}
    assert as_json == {"evidence": counts, "problems": []}


def test_a_report_of_nothing_is_not_praised(cli: Cli, stored: tuple[GitRepo, Any]) -> None:
    repo, report = stored
    (part,) = (one for one in report["parts"] if one["id"] == "doc-archive")
    part["verdict"] = report["verdict"] = "not_run"
    report["findings"] = []
    ended = verify(cli, repo, report)
    assert ended.code == 0
    first, last = ended.stdout.splitlines()
    assert first == "0 cited places, nothing to open"
    assert last.startswith("the report itself says: ")
    assert last.endswith(" (not_run)")


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"line_start": 3, "line_end": 3}, "these lines do not have the quote"),
        ({"line_start": 400, "line_end": 400}, "line 400 is not in the file"),
        ({"line_start": 6, "line_end": 5}, "not in the file"),
        ({"quote": "> something else"}, "these lines do not have the quote"),
        ({"path": "docs/none.md"}, "the path is not there"),
        ({"path": "../../etc/passwd"}, "the path is not there"),
        ({"path": "docs"}, "the path is not there"),
        ({"blob": "1" * 40}, "the file has changed since it was quoted"),
        ({"side": "old"}, "the path is not there"),
    ],
)
def test_a_pointer_that_does_not_hold_is_named(
    cli: Cli, stored: tuple[GitRepo, dict[str, Any]], change: dict[str, Any], why: str
) -> None:
    repo, report = stored
    report["findings"][1]["evidence"][0].update(change)
    ended = verify(cli, repo, report)
    assert ended.code == 1
    first, last = ended.stdout.splitlines()
    assert first.startswith("✗ ")
    assert why in first
    assert "(doc-archive/dangling)" in first
    assert last == "2 cited places, 1 does not hold"
    as_json = verify(cli, repo, report, "--format", "json")
    assert (as_json.code, as_json.json()["evidence"]["rejected"]) == (1, 1)
    assert why in as_json.json()["problems"][0]


def test_a_missing_commit_is_5_with_the_command(
    cli: Cli, stored: tuple[GitRepo, dict[str, Any]]
) -> None:
    repo, report = stored
    report["subject"]["head"] = "d" * 40
    ended = verify(cli, repo, report)
    assert (ended.code, ended.stdout) == (5, "")
    assert "hint: git fetch origin " + "d" * 40 in ended.stderr


def test_a_report_of_the_work_tree(cli: Cli, broken: tuple[GitRepo, str]) -> None:
    repo, _ = broken
    repo.write(PATH, stub(PATH, heading="# Edited"))
    report = cli("check", "doc-archive", "--format", "json", cwd=repo).json()
    assert report["subject"]["worktree"] is True
    assert verify(cli, repo, report).code == 0
    repo.write(PATH, "\n" + stub(PATH, heading="# Edited"))  # the lines move
    ended = verify(cli, repo, report)
    assert (ended.code, "has changed since" in ended.stdout) == (1, True)


def test_a_report_of_what_is_staged(cli: Cli, broken: tuple[GitRepo, str]) -> None:
    repo, _ = broken
    repo.write(PATH, stub(PATH, heading="# Staged")).stage()
    repo.write(PATH, stub(PATH, heading="# Later\n\nAnd further down"))
    report = cli("check", "doc-archive", "--staged", "--format", "json", cwd=repo).json()
    assert [one["evidence"][0]["path"] for one in report["findings"] if one["severity"] == "high"]
    ended = verify(cli, repo, report)
    assert (ended.code, "all hold" in ended.stdout) == (0, True)
    repo.stage()
    assert verify(cli, repo, report).code == 1


def test_hostile_paths_of_a_report_are_shown_harmlessly(
    cli: Cli, stored: tuple[GitRepo, dict[str, Any]]
) -> None:
    repo, report = stored
    for path in ("::error::x\n##[error]y\x1b[31m", "a\0b", "\ud800", "-x", "\u202e", "x" * 70_000):
        report["findings"][0]["evidence"][0]["path"] = path
        ended = verify(cli, repo, report)
        assert ended.code in (1, 5), path
        for line in (ended.stdout + ended.stderr).splitlines():
            assert line.isprintable()
            assert "##[" not in line
        assert "##[" not in verify(cli, repo, report, "--format", "json").stdout


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("", 5, "not valid JSON"),
        ("{", 5, "not valid JSON"),
        ("[]", 5, ""),
        ("null", 5, ""),
        ("{}", 5, ""),
        ('{"schema_version": 0}', 5, ""),
        ('{"schema_version": 2}', 6, "the report has version 2, this rlm-ci knows 1"),
        ('{"schema_version": true}', 5, ""),
        ('{"schema_version": "2"}', 5, ""),
        ("[" * 200_000, 5, "not valid JSON"),
        ('{"a":' * 300 + "1" + "}" * 300, 5, ""),
        ('{"schema_version": ' + "9" * 5000 + "}", 5, "not valid JSON"),
        ("\xff", 5, "not valid JSON"),
    ],
)
def test_what_is_no_report(cli: Cli, repo: GitRepo, text: str, code: int, said: str) -> None:
    ended = verify(cli, repo, text)
    assert (ended.code, ended.stdout) == (code, "")
    first, hint = ended.stderr.splitlines()
    assert first.startswith("error: ")
    assert said in first
    assert hint.startswith("hint: ")
    assert len(first) < 900


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["missing", "folder", "fifo", "large", "link to a device"])
def test_a_report_that_cannot_be_read(cli: Cli, repo: GitRepo, kind: str) -> None:

    place = repo.path.parent / "report.json"
    make: dict[str, Callable[[], object]] = {
        "missing": lambda: None,
        "folder": place.mkdir,
        "large": lambda: os.truncate(os.open(place, os.O_RDWR | os.O_CREAT), 600 << 20),
        "fifo": lambda: os.mkfifo(place),
        "link to a device": lambda: place.symlink_to("/dev/zero"),
    }
    make[kind]()
    ended = cli("verify", str(place), cwd=repo, timeout=20)
    assert (ended.code, ended.stdout) == (5, "")
    assert "the report cannot be read" in ended.stderr


def test_a_forged_report_is_refused(cli: Cli, stored: tuple[GitRepo, dict[str, Any]]) -> None:
    repo, report = stored
    finding = report["findings"][0]
    forged: list[tuple[dict[str, Any], str]] = [
        ({"verdict": "clean"}, "the verdict clean where it must be findings"),
        ({"verdict": "perfect"}, "verdict"),
        ({"extra": 1}, "extra"),
        ({"findings": [{**finding, "rule": "other/x"}]}, "no part other"),
        ({"findings": [{**finding, "severity": "worst"}]}, "severity"),
        ({"parts": []}, "no part doc-archive"),
        ({"subject": {**report["subject"], "head": "HEAD"}}, "head"),
        ({"subject": {**report["subject"], "head": "--output=x"}}, "head"),
    ]
    for change, said in forged:
        ended = verify(cli, repo, {**report, **change})
        assert (ended.code, ended.stdout) == (5, ""), change
        assert said in ended.stderr
        assert "hint: " in ended.stderr


@pytest.mark.full
def test_a_large_report_takes_seconds_not_minutes(
    cli: Cli, stored: tuple[GitRepo, dict[str, Any]]
) -> None:
    repo, report = stored
    report["findings"] = report["findings"] * 1000
    ended = verify(cli, repo, report)
    assert (ended.code, ended.stdout) == (0, "2,000 cited places, all hold\n")
