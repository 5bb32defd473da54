"""test-guard on real repositories: what is told, to whom it fails, and how it is overridden."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.change import change_set, trigger
from rlm_ci.change.change_set import ChangeSet, PullRequest
from rlm_ci.checks import test_guard
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import Settings
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report.findings import CLEAN, FINDINGS, Part, Severity
from rlm_ci.runs.store import RunStore
from rlm_ci.source import grammars
from testing.guarded_trees import swap
from testing.repositories import events
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TESTS = """\
from cart import total


def test_small():
    assert total([11, 12]) == 23


def test_large():
    assert total([31, 45]) == 76
"""
PATH = "tests/test_cart.py"
FEWER = TESTS[: TESTS.index("\n\ndef test_large")]


@pytest.fixture
def shop(repo: GitRepo) -> GitRepo:
    repo.write(PATH, TESTS).write("cart.py", "def total(cart):\n    return sum(cart)\n").commit()
    return repo


def judge(
    change: ChangeSet,
    environ: Mapping[str, str] | None = None,
    config: Mapping[str, Any] | None = None,
) -> Part:
    rows = (*CORE, *test_guard.OPTIONS)
    options = Settings(rows, {}, environ or {})
    options.apply({"test_guard": dict(config or {})}, "rlm-ci.toml", rows)
    return test_guard.run(change, options, RunStore("", ""), lambda: "2026-03-01")


def local(repo: GitRepo, kind: str) -> ChangeSet:
    return change_set.from_local(Repository(*discover(os.fspath(repo)), os.environ), kind)


def last_commit(repo: GitRepo, **more: Any) -> ChangeSet:
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    return change_set.from_range(opened, "HEAD~1", "HEAD", "test", **more)


def rules(part: Part) -> list[str]:
    return [one.rule.removeprefix("test-guard/") for one in part.findings]


def test_a_test_that_is_gone_is_told_and_fails_nobody(shop: GitRepo) -> None:
    shop.write(PATH, FEWER)
    for change in (local(shop, "worktree"), local(shop.stage(), "index")):
        part = judge(change)
        (found,) = part.findings
        assert (found.rule, found.severity) == ("test-guard/test-removed", Severity.MEDIUM)
        assert found.message == "test_large is gone"
        (place,) = found.evidence
        assert (place.path, place.line_start, place.side) == (PATH, 8, "old")
        assert place.quote == "def test_large():"
        assert place.blob == shop.text("rev-parse", f"HEAD:{PATH}")
        assert part.verdict(Severity.HIGH) == CLEAN
        assert part.summary == "1 weakening"
        assert part.metrics["weakened"] == 1
    shop.commit()
    assert rules(judge(last_commit(shop))) == ["test-removed"]


def test_a_test_that_moved_to_a_file_that_git_does_not_know_is_there(shop: GitRepo) -> None:
    shop.write(PATH, FEWER).write("tests/test_more.py", TESTS.replace("test_small", "test_x"))
    part = judge(local(shop, "worktree"))
    assert (rules(part), part.metrics["moved"]) == ([], 1)
    assert part.summary == "no test is weakened; 1 test moved or renamed"


def test_a_test_with_an_equal_copy_in_another_file_is_not_gone(shop: GitRepo) -> None:
    shop.write("tests/test_copy.py", TESTS).commit()
    shop.write(PATH, FEWER)
    (found,) = judge(local(shop.stage(), "index")).findings
    assert found.rule == "test-guard/told"
    assert found.message == "1 test gone from one file, and the same in another: test_large"


@pytest.mark.parametrize("content", [FEWER, "", "import pytest\n"])
def test_a_test_that_no_runner_collected_is_gone_with_a_note(shop: GitRepo, content: str) -> None:
    shop.write("pytest.ini", "[pytest]\npython_files = test_*.py\n")
    shop.write("tests/cart_tests.py", TESTS).commit()
    shop.write("tests/cart_tests.py", content)
    part = judge(local(shop.stage(), "index"))
    (finding,) = part.findings
    assert (finding.rule, finding.severity) == ("test-guard/told", Severity.INFO)
    assert "gone from a file that no runner collected: " in finding.message
    assert "test_large" in finding.message
    assert part.metrics["uncollected"] == TESTS.count("def ") - content.count("def ")


@pytest.mark.parametrize("end", ["1", "", "Output: 1\n\n\t// done"])
def test_an_example_of_go_that_lost_its_output_is_a_removed_test(repo: GitRepo, end: str) -> None:
    example = "package a\n\nfunc ExampleAdd() {\n\tprint(1)\n\t// Output: 1\n}\n"
    repo.write("a_test.go", example).commit()
    repo.write("a_test.go", example.replace("Output: 1", end)).commit()
    (finding,) = judge(last_commit(repo)).findings
    assert (finding.rule, finding.severity) == ("test-guard/test-removed", Severity.MEDIUM)
    assert finding.message == "ExampleAdd is gone"
    assert finding.evidence[0].quote == "func ExampleAdd() {"


def test_a_tool_may_move_to_a_script_that_did_not_change(shop: GitRepo) -> None:
    workflow = "on: push\njobs:\n  test:\n    steps:\n      - run: pytest\n"
    shop.write(".github/workflows/ci.yml", workflow).write("ci/test.sh", "pytest -q\n").commit()
    shop.write(".github/workflows/ci.yml", workflow.replace("pytest", "ci/test.sh"))
    assert rules(judge(local(shop, "worktree"))) == []
    shop.write(".github/workflows/ci.yml", "on: push\njobs:\n  test: {steps: [{run: pytest}]}\n")
    (found,) = judge(local(shop, "worktree")).findings
    assert found.message.startswith("1 file not compared: jobs in flow style")


def test_what_changed_with_the_code_is_one_line(shop: GitRepo) -> None:
    skipped = "import pytest\n" + swap(
        TESTS, "def test_large", '@pytest.mark.skip("no server in CI")\ndef test_large'
    )
    shop.write(PATH, swap(skipped, "== 23", "== 24")).write("cart.py", "def total(x):\n    ...\n")
    (found,) = judge(local(shop, "worktree")).findings
    assert (found.rule, found.severity) == ("test-guard/told", Severity.INFO)
    assert found.message == (
        "1 test with an expected value that changed together with the code: test_small; "
        "1 test skipped with a reason: test_large: pytest.mark.skip('no server in CI')"
    )
    assert [(one.path, one.line_start) for one in found.evidence] == [(PATH, 5), (PATH, 9)]


@pytest.mark.parametrize(
    ("pull", "config", "why"),
    [
        ({}, {}, None),
        ({"by_bot": True}, {}, "; strict: a bot opened the pull request"),
        ({"author": "renovate[bot]", "by_bot": True}, {},
         "; strict: renovate[bot] opened the pull request"),
        ({"author": "Our-Agent"}, {"strict_authors": ["our-agent"]},
         "; strict: Our-Agent opened the pull request"),
        ({"author": "ada"}, {"strict_authors": ["our-agent"]}, None),
        ({}, {"fail": True}, ""),
    ],
)  # fmt: skip
def test_it_fails_for_bots_and_who_is_named(
    shop: GitRepo, pull: dict[str, Any], config: dict[str, Any], why: str | None
) -> None:
    shop.write(PATH, FEWER).commit()
    change = last_commit(shop, pull_request=PullRequest(1, **pull))
    part, verdict = judge(change, config=config), CLEAN if why is None else FINDINGS
    assert (part.verdict(Severity.HIGH), part.summary) == (verdict, f"1 weakening{why or ''}")
    if not pull:  # nor where there is no pull request
        assert judge(change.replace(pull_request=None), config=config).verdict(3) == verdict  # type: ignore[arg-type]


CLAUDE = "Co-Authored-By: Claude Opus 5 <noreply@anthropic.com>"


def test_it_fails_where_an_agent_wrote_a_commit_of_the_change(shop: GitRepo) -> None:
    base = shop.sha()
    shop.write(PATH, FEWER).commit("By hand")
    opened = Repository(*discover(os.fspath(shop)), os.environ)

    def judged(**more: Any) -> tuple[str, str]:
        part = judge(change_set.from_range(opened, base, "HEAD", "test", **more))
        return part.verdict(Severity.HIGH), part.summary

    pull = PullRequest(1, author="ada")
    assert judged(pull_request=pull) == (CLEAN, "1 weakening")
    shop.write("other.py", "x = 1\n").commit(f"Another file\n\n{CLAUDE}")
    strict = "1 weakening; strict: 1 of 2 commits by Claude Code"
    assert judged(pull_request=pull) == judged() == (FINDINGS, strict)
    # Nothing is said of a change that weakens no test.
    shop.write(PATH, TESTS).commit()
    assert judged() == (CLEAN, "no test is weakened")


OFTEN = """\
def total(cart):
    if cart.is_wholesale:
        return cart.wholesale_price()
    return sum(cart)
"""


def test_signs_speak_for_people_and_for_no_agent(shop: GitRepo) -> None:
    """A test went as the product says its names less often: told, or a weakening."""
    wholesale = (
        "\n\ndef test_wholesale(cart):\n    cart.is_wholesale = True\n"
        "    assert total(cart) == cart.wholesale_price()\n"
    )
    label = "\n\ndef label(cart):\n    return cart.wholesale_price() if cart.is_wholesale else 0\n"
    shop.write(PATH, TESTS + wholesale).write("cart.py", OFTEN + label).commit()
    plain = "def total(cart):\n    return sum(cart)\n"
    shop.write(PATH, TESTS).write("cart.py", plain + label).commit("By hand")
    part = judge(last_commit(shop))
    assert part.summary == "no test is weakened"
    assert [(one.rule, one.severity) for one in part.findings] == [
        ("test-guard/told", Severity.INFO)
    ]
    assert "1 test changed or gone with the code that it names: test_wholesale" in (
        part.findings[0].message
    )
    assert judge(last_commit(shop), config={"fail": True}).verdict(Severity.HIGH) == FINDINGS
    shop.run("commit", "--amend", "-m", f"By an agent\n\n{CLAUDE}")
    part = judge(last_commit(shop))
    assert part.verdict(Severity.HIGH) == FINDINGS
    assert part.summary == "1 weakening; strict: 1 of 1 commit by Claude Code"


def test_it_fails_where_the_pull_request_says_that_an_agent_wrote_it(shop: GitRepo) -> None:
    shop.write(PATH, FEWER).commit()
    body = "Fewer tests\r\n\r\n🤖 Generated with [Claude Code](https://claude.com/claude-code)\r\n"
    hidden = f"<!-- Agents add this:\n{body}-->\n"  # by a template
    part = judge(last_commit(shop, pull_request=PullRequest(1, author="ada", body=hidden)))
    assert part.verdict(Severity.HIGH) == CLEAN
    part = judge(last_commit(shop, pull_request=PullRequest(1, author="ada", body=hidden + body)))
    assert part.verdict(Severity.HIGH) == FINDINGS
    assert part.summary.endswith("; strict: the pull request says that Claude Code wrote it")


def test_commits_of_a_bot_alone_are_strict(shop: GitRepo) -> None:
    bot = "dependabot[bot] <49699333+dependabot[bot]@users.noreply.github.com>"
    shop.write(PATH, FEWER).stage().run("commit", "-m", "Bump", "--author", bot)
    assert judge(last_commit(shop)).summary == "1 weakening; strict: all commits by bots"
    shop.write("other.py", "x = 1\n").commit()
    change = last_commit(shop)
    change = change.replace(base=shop.sha("HEAD~2"), merge_base=shop.sha("HEAD~2"))
    assert judge(change).verdict(Severity.HIGH) == CLEAN


@pytest.mark.parametrize("kind", ["index", "worktree"])
def test_the_environment_of_a_running_agent_is_strict(shop: GitRepo, kind: str) -> None:
    change = local(shop.write(PATH, FEWER).stage(), kind)
    assert judge(change).verdict(Severity.HIGH) == CLEAN
    part = judge(change, {"CLAUDECODE": "1"})
    assert part.verdict(Severity.HIGH) == FINDINGS
    assert part.summary == "1 weakening; strict: Claude Code runs this"
    # A pull request is judged by what is in it, wherever that happens.
    shop.commit()
    part = judge(last_commit(shop, pull_request=PullRequest(1)), {"CLAUDECODE": "1"})
    assert part.verdict(Severity.HIGH) == CLEAN


def test_records_of_agent_trace_are_strict(shop: GitRepo) -> None:
    def record(revision: str, path: str = PATH) -> str:
        talk = {"contributor": {"type": "ai"}, "ranges": []}
        return json.dumps({
            "version": "1.0", "id": "0", "timestamp": "", "tool": {"name": "cursor"},
            "vcs": {"type": "git", "revision": revision},
            "files": [{"path": path, "conversations": [talk]}],
        })  # fmt: skip

    traces, strict = ".agent-trace/traces.jsonl", "1 weakening; strict: Agent Trace names Cursor"
    begin = shop.sha()
    shop.write(".gitignore", ".agent-trace/\n").commit()
    shop.write(PATH, FEWER).write(traces, f"{record(begin)}\n{record(shop.sha(), 'x.py')}\n")
    assert judge(local(shop, "worktree")).summary == "1 weakening"  # an older edit, another file
    shop.write(traces, f"{record(shop.sha())}\n")
    assert judge(local(shop, "worktree")).summary == strict
    # Where it is committed, what the change adds counts, whatever a rebase did to the ids.
    shop.write(".gitignore", "").write(traces, f"{record('0' * 40)}\n").commit()
    assert judge(last_commit(shop, pull_request=PullRequest(1))).summary == strict
    shop.write(PATH, TESTS).commit()
    shop.write(PATH, FEWER).commit()
    assert judge(last_commit(shop, pull_request=PullRequest(1))).summary == "1 weakening"


def test_a_shallow_clone_that_lacks_commits_does_not_know(shop: GitRepo, tmp_path: Path) -> None:
    # The change merges a branch, of which the clone lacks the beginning.
    shop.run("checkout", "-b", "side")
    shop.write("side.py", "x = 0\n").commit(f"Begin the side\n\n{CLAUDE}")
    for number in (1, 2):
        shop.write("side.py", f"x = {number}\n").commit()
    shop.run("checkout", "main")
    shop.write(PATH, FEWER).commit()
    shop.run("merge", "--no-ff", "side", "-m", "Merge side")
    shop.run("branch", "-d", "side")
    for depth, summary in (
        (3, "1 weakening; who wrote it is not known: shallow clone"),
        (4, "1 weakening; strict: 1 of 4 commits by Claude Code"),
    ):
        clone = shop.clone(tmp_path / f"{depth}", depth=depth)
        opened = Repository(*discover(os.fspath(clone)), os.environ)
        change = change_set.from_range(opened, "HEAD~2", "HEAD", "test")
        assert judge(change).summary == summary


def test_the_author_comes_from_the_event(shop: GitRepo, tmp_path: Path) -> None:
    shop.write(PATH, FEWER).commit()
    base, head = shop.sha("HEAD~1"), shop.sha()
    opened = Repository(*discover(os.fspath(shop)), os.environ)
    for kind, by_bot in (("User", False), ("Bot", True)):
        payload = events.pull_request(base, head)
        payload["pull_request"]["user"] = events.user("some-agent[bot]", kind)
        path = events.write_event(tmp_path, payload)
        change = trigger.from_event(opened, os.fspath(path), "pull_request")
        assert change is not None
        assert change.pull_request is not None
        found = change.pull_request
        assert (found.author, found.by_bot) == ("some-agent[bot]", by_bot)


LABEL, LINE = ("test-guard-override",), "Test guard override: the feature is gone"


@pytest.mark.parametrize(
    ("environ", "labels", "body", "reason"),
    [
        ({"TEST_GUARD_OVERRIDE_REASON": "the feature is gone"}, (), "", "the feature is gone"),
        ({}, LABEL, LINE, "the feature is gone"),
        ({}, LABEL, "", None),
        ({}, (), LINE, None),
        ({"TEST_GUARD_OVERRIDE_REASON": "gone (until 2026-02-01)"}, (), "", None),
    ],
)
def test_an_override_takes_a_reason(
    shop: GitRepo, environ: dict[str, str], labels: tuple[str, ...], body: str, reason: str | None
) -> None:
    shop.write(PATH, FEWER).commit()
    pull = PullRequest(1, body=body, labels=labels, by_bot=True)
    part = judge(last_commit(shop, pull_request=pull), environ)
    assert [one.suppression for one in part.findings] == ([reason] if reason else [None, None])
    assert part.verdict(Severity.HIGH) == (CLEAN if reason else FINDINGS)
    assert ("override-incomplete" in rules(part)) is (reason is None)
    assert part.summary.endswith("; overridden: the feature is gone") is (reason is not None)


def test_what_judges_the_tests_is_compared_too(shop: GitRepo) -> None:
    workflow = "on: push\njobs:\n  test:\n    steps:\n      - run: pytest\n"
    shop.write(".github/workflows/ci.yml", workflow).write("tox.ini", "[x]\nfail_under = 95\n")
    shop.write("web/__snapshots__/a.snap", "one\ntwo\n").commit()
    shop.write(".github/workflows/ci.yml", workflow.replace("pytest", "pytest || true"))
    shop.write("tox.ini", "[x]\nfail_under = 5\n").write("cart.py", "import os  # noqa\n")
    shop.write("web/__snapshots__/a.snap", "three\nfour\n")
    found = set(rules(judge(local(shop, "worktree"))))
    assert found == {"run-loosened", "coverage-lowered", "check-silenced", "snapshot-replaced"}


def test_without_a_grammar_files_are_listed(shop: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.write("a.test.js", "it('adds', () => { expect(1).toBe(1) })\n").commit()
    shop.write("a.test.js", "")
    assert rules(judge(local(shop, "worktree"))) == ["test-removed"]
    monkeypatch.setitem(sys.modules, "tree_sitter_javascript", None)
    monkeypatch.setitem(sys.modules, "tree_sitter_typescript", None)
    grammars._language.cache_clear()
    try:
        part = judge(local(shop, "worktree"))
    finally:
        grammars._language.cache_clear()
    (found,) = part.findings
    assert (found.rule, found.severity) == ("test-guard/not-read", Severity.INFO)
    assert "the grammar of JavaScript is not installed" in found.message
    assert part.summary == "no test is weakened; 1 file not read"


def test_large_and_binary_files_are_listed(shop: GitRepo) -> None:
    shop.write("tests/test_big.py", "x = 1\n" * 400_000).write(
        "tests/test_bin.py", b"a\0b"
    ).commit()
    (found,) = judge(last_commit(shop)).findings
    assert [one.path for one in found.evidence] == ["tests/test_big.py", "tests/test_bin.py"]


@pytest.mark.skipif(os.name != "posix", reason="a script in place of git")
def test_a_hook_asks_git_twice(
    shop: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, program = tmp_path / "asked", tmp_path / "git"
    program.write_text(f'#!/bin/sh\necho >> {asked}\nexec {shutil.which("git")} "$@"\n')
    program.chmod(0o755)
    shop.write(PATH, swap(TESTS, "== 23", "> 0")).stage()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert rules(judge(local(shop, "index"))) == ["assertion-weakened"]
    assert asked.read_text() == "\n\n"


def test_hostile_names_and_texts_stay_data(shop: GitRepo) -> None:
    name = "tests/test_\x1b[31m\n.py"
    shop.write(name, "def test_x():\n    assert f('\\x1b[31m::error::') == 1\n").commit()
    shop.write(name, "def test_x():\n    pass\n").commit()
    (found,) = judge(last_commit(shop)).findings
    assert "\x1b" not in found.message
    assert "\n" not in found.message
    json.dumps(found.to_dict())


def test_the_first_commit_and_no_change_are_clean(repo: GitRepo) -> None:
    repo.write(PATH, TESTS)
    assert judge(local(repo, "worktree")).findings == ()
    repo.stage()
    assert judge(local(repo, "index")).summary == "no test is weakened"
