"""ai-policy on real commits: what each policy takes, and what it does not."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.change import change_set
from rlm_ci.change.change_set import ChangeSet, PullRequest
from rlm_ci.checks import ai_policy
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import Settings
from rlm_ci.errors import ConfigError
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report.findings import CLEAN, FINDINGS, INCOMPLETE, Part, Severity
from rlm_ci.runs.store import RunStore
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Mapping

CLAUDE = "Claude <noreply@anthropic.com>"
ASSISTED = "Assisted-by: Claude:claude-opus-5"


def settings(config: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Settings:
    rows = (*CORE, *ai_policy.OPTIONS)
    options = Settings(rows, {}, environ or {})
    options.apply({"ai_policy": dict(config)}, "rlm-ci.toml", rows)
    return options


def judge(
    repo: GitRepo,
    message: str,
    config: Mapping[str, Any],
    author: str = "",
    *,
    pull: PullRequest | None = None,
    environ: Mapping[str, str] | None = None,
    hook: str | None = None,
) -> Part:
    """The part for one commit with this message, by this author."""
    repo.write("a", "1").commit("Begin")
    repo.write("a", "2").commit()
    by = ("--author", author) if author else ()
    repo.run("commit", "--amend", "--allow-empty-message", *by, "--message", message)
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    change: ChangeSet = change_set.from_range(opened, "HEAD~1", "HEAD", "test", pull_request=pull)
    options = settings(config, environ)
    options.values["hook"] = hook
    return ai_policy.run(change, options, RunStore("", ""), lambda: "2026-03-01")


def rules(part: Part) -> list[str]:
    return [one.rule.removeprefix("ai-policy/") for one in part.findings]


LINUX = {"preset": "linux"}
BY_LINE = "Sell\n\nGenerated with [Claude Code](https://claude.com/claude-code)"


@pytest.mark.parametrize(
    ("config", "message", "author", "broken"),
    [
        (LINUX, "Sell", "", []),
        (LINUX, f"Sell\n\n{ASSISTED}\nSigned-off-by: Ada <ada@example.com>", "", []),
        (LINUX, f"Sell\n\nCo-authored-by: {CLAUDE}", "", ["attribution"]),
        (LINUX, BY_LINE, "", ["attribution"]),
        (LINUX, f"Sell\n\n{ASSISTED}\nSigned-off-by: {CLAUDE}", "", ["signed-off"]),
        (LINUX, f"Sell\n\n{ASSISTED}", CLAUDE, ["author"]),
        ({"preset": "gentoo"}, f"Sell\n\n{ASSISTED}", "", ["forbidden"]),
        ({"preset": "gentoo"}, "Sell\n\nAssisted-by: some model", "", ["forbidden"]),
        ({"preset": "gentoo"}, "Sell\n\nReviewed-by: Claude Monet <c@example.com>", "", []),
        ({"preset": "fedora"}, "Sell\n\nAssisted-by: generic LLM chatbot", "", []),
        ({"preset": "fedora"}, BY_LINE, "", ["attribution"]),
        ({"preset": "llvm"}, f"Sell\n\nCo-authored-by: {CLAUDE}", "", []),
        ({"preset": "ansible"}, "Sell", CLAUDE, ["author"]),
        ({"preset": "apache"}, "Sell\n\nGenerated-by: Codex", "", []),
        ({"preset": "apache"}, f"Sell\n\n{ASSISTED}", "", ["attribution"]),
        ({"preset": "openinfra"}, "Sell\n\nGenerated-By: Codex", "", []),
        ({"preset": "linux", "sign_off": "anyone"}, f"S\n\n{ASSISTED}\nSigned-off-by: {CLAUDE}", "",
         []),
        ({"attribution": "forbidden"}, f"Sell\n\nCo-authored-by: {CLAUDE}", "", ["attribution"]),
        ({"attribution": "forbidden"}, "Sell", "", []),
        ({"attribution": "allowed", "trailers": ["Assisted-by"]}, f"S\n\nCo-authored-by: {CLAUDE}",
         "", ["attribution"]),
        ({"issue": "required"}, f"Sell\n\n{ASSISTED}", "", ["issue"]),
        ({"issue": "required"}, f"Sell\n\nCloses #12\n\n{ASSISTED}", "", []),
        ({"issue": "required"}, "Sell", "", []),
    ],
)  # fmt: skip
def test_what_a_policy_takes(
    repo: GitRepo, config: Mapping[str, Any], message: str, author: str, broken: list[str]
) -> None:
    part = judge(repo, message, config, author)
    assert rules(part) == broken
    assert part.verdict(Severity.HIGH) == (FINDINGS if broken else CLEAN)


def test_the_summary_names_the_source_of_a_preset(repo: GitRepo) -> None:
    part = judge(repo, f"Sell\n\n{ASSISTED}", LINUX)
    assert part.summary.startswith("1 commit, 1 of an agent; policy: https://docs.kernel.org/")


def test_a_project_without_a_policy_is_not_said_to_be_within_it(repo: GitRepo) -> None:
    part = judge(repo, f"Sell\n\n{ASSISTED}", {})
    assert part.summary.startswith("no ai_policy is set, so nothing is required: 1 commit, 1 of")


ACCEPTED = {"issue": "accepted"}
CLOSES = f"Sell\n\nCloses #12\n\n{ASSISTED}"


def test_an_issue_that_was_not_looked_up_is_no_pass(repo: GitRepo) -> None:
    part = judge(repo, CLOSES, ACCEPTED)
    assert (rules(part), part.verdict(Severity.HIGH)) == ([], INCOMPLETE)
    assert part.summary.endswith(
        "whether the issue is accepted was not looked up: the repository's name on GitHub is not "
        "known"
    )


def test_a_hook_leaves_the_issue_to_ci_and_says_so(repo: GitRepo) -> None:
    part = judge(repo, CLOSES, ACCEPTED, hook="pre-push")
    assert part.verdict(Severity.HIGH) == CLEAN
    assert part.summary.endswith("was not looked up: a hook asks nobody")


def test_an_override_speaks_for_an_issue_that_was_not_looked_up(repo: GitRepo) -> None:
    environ = {"AI_POLICY_OVERRIDE_REASON": "GitHub is down"}
    part = judge(repo, CLOSES, ACCEPTED, environ=environ)
    assert part.verdict(Severity.HIGH) == CLEAN
    assert part.summary.endswith("; overridden: GitHub is down")


def test_no_issue_at_all_needs_no_look(repo: GitRepo) -> None:
    part = judge(repo, f"Sell\n\n{ASSISTED}", ACCEPTED)
    assert (rules(part), part.verdict(Severity.HIGH)) == (["issue"], FINDINGS)


def test_a_label_without_an_accepted_issue_is_an_error(repo: GitRepo) -> None:
    with pytest.raises(ConfigError, match="only looked at for its label") as caught:
        judge(repo, "Sell", {"issue_label": "accepted"})
    assert 'ai_policy.issue = "accepted"' in caught.value.hint


def test_a_pull_request_can_name_the_issue_and_override(repo: GitRepo) -> None:
    message = f"Sell\n\n{ASSISTED}"
    pull = PullRequest(7, "Sell", "See https://github.com/acme/shop/issues/12")
    assert rules(judge(repo, message, {"issue": "required"}, pull=pull)) == []
    pull = PullRequest(7, "", "AI policy override: agreed", labels=("ai-policy-override",))
    part = judge(repo, message, {"use": "forbidden"}, pull=pull)
    assert [one.suppression for one in part.findings] == ["agreed"]
    half = PullRequest(7, "", "AI policy override: agreed")
    part = judge(repo, message, {"use": "forbidden"}, pull=half)
    assert rules(part) == ["forbidden", "override-incomplete"]
    environ = {"AI_POLICY_OVERRIDE_REASON": "agreed (until 2026-01-31)"}
    part = judge(repo, message, {"use": "forbidden"}, environ=environ)
    assert rules(part) == ["forbidden", "override-incomplete"]


def test_it_is_off_until_a_policy_is_set(repo: GitRepo) -> None:
    repo.write("a", "1").commit("Begin")
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    change = change_set.from_commit(opened, "HEAD")
    assert ai_policy.applies(change, settings({})) == "no ai_policy is set"
    assert ai_policy.applies(change, settings(LINUX)) is None
    work = change_set.from_local(opened, "worktree")
    assert ai_policy.applies(work, settings(LINUX)) == "nothing is committed yet"


def test_every_preset_has_an_address() -> None:
    assert all(one.source.startswith("https://") for one in ai_policy.PRESETS.values())
