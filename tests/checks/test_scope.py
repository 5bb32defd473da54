"""scope on real repositories: whom a rule binds, what a task names, and how one asks first."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.change import change_set
from rlm_ci.change.change_set import ChangeSet, PullRequest
from rlm_ci.checks import scope
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import Settings
from rlm_ci.errors import ConfigError
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report.findings import CLEAN, FINDINGS, Part, Severity
from rlm_ci.runs.store import RunStore
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from testing.program import Cli

AGENT = {"AI_AGENT": "1"}
CI = {"groups": ["ci"]}
WORKFLOW = ".github/workflows/ci.yml"


def settings(
    rules: Sequence[Mapping[str, Any]], environ: Mapping[str, str], **flags: Any
) -> Settings:
    rows = (*CORE, *scope.OPTIONS)
    options = Settings(rows, flags, environ)
    options.apply({"scope": [dict(one) for one in rules]}, "rlm-ci.toml", rows)
    return options


def judge(
    change: ChangeSet,
    rules: Sequence[Mapping[str, Any]],
    environ: Mapping[str, str] = AGENT,
    **flags: Any,
) -> Part:
    options = settings(rules, environ, **flags)
    return scope.run(change, options, RunStore("", ""), lambda: "2026-03-01")


def conditions(part: Part) -> list[str]:
    return [one.rule.removeprefix("scope/") for one in part.findings]


def opened(repo: GitRepo) -> Repository:
    return Repository(*discover(os.fspath(repo)), {})


def worktree(repo: GitRepo) -> ChangeSet:
    return change_set.from_local(opened(repo), "worktree")


@pytest.fixture
def shop(repo: GitRepo) -> GitRepo:
    repo.write(WORKFLOW, "on: push\n").write("shop/cart.py", "").write("db/schema.sql", "")
    repo.write("db/migrations/1.sql", "").commit()
    return repo


def test_an_agent_may_not_touch_what_is_a_persons(shop: GitRepo) -> None:
    shop.write(WORKFLOW, "on: pull_request_target\n").write("shop/cart.py", "x = 1\n")
    part = judge(worktree(shop), [CI])
    (found,) = part.findings
    assert (found.rule, found.severity) == ("scope/person", Severity.HIGH)
    assert [one.path for one in found.evidence] == [WORKFLOW]
    assert part.verdict(Severity.HIGH) == FINDINGS
    assert part.summary.startswith("1 rule broken, 2 paths read")  # one of which breaks it
    people = judge(worktree(shop), [CI], {})
    assert people.verdict(Severity.HIGH) == CLEAN
    assert people.summary.endswith("no agent wrote it")
    assert conditions(judge(worktree(shop), [{**CI, "who": "all"}], {})) == ["person"]


def test_a_project_without_rules_is_not_said_to_be_within_them(shop: GitRepo) -> None:
    shop.write("shop/cart.py", "x = 1\n")
    summary = judge(worktree(shop), []).summary
    assert summary.startswith("no [[scope]] is set, and no task names its paths: 1 path not judged")


def test_an_untracked_file_is_touched(shop: GitRepo) -> None:
    shop.write(".github/workflows/new.yml", "on: push\n")
    assert conditions(judge(worktree(shop), [CI])) == ["person"]


def test_paths_may_only_change_together(shop: GitRepo) -> None:
    rule = {"paths": ["db/schema.sql"], "together": ["db/migrations/"], "reason": "the upgrade"}
    shop.write("db/schema.sql", "create table carts;\n")
    (found,) = judge(worktree(shop), [rule]).findings
    assert found.rule == "scope/together"
    assert found.message.endswith("only change together with db/migrations/: the upgrade")
    shop.write("db/migrations/2.sql", "create table carts;\n")
    assert judge(worktree(shop), [rule]).findings == ()


def test_a_commit_of_an_agent_is_bound_on_a_pull_request(shop: GitRepo) -> None:
    message = "Run less\n\nCo-authored-by: Claude <noreply@anthropic.com>"
    shop.write(WORKFLOW, "on: []\n").commit(message)
    pull = PullRequest(7, "Run less", "")
    change = change_set.from_range(opened(shop), "HEAD~1", "HEAD", "test", pull_request=pull)
    part = judge(change, [CI], {})
    assert conditions(part) == ["person"]
    assert "strict: 1 of 1 commit by Claude Code" in part.summary
    accepted = pull.replace(overrides=(("scope", "seen by Ada"),))
    part = judge(change.replace(pull_request=accepted), [CI], {})
    assert [one.suppression for one in part.findings] == ["seen by Ada"]
    half = pull.replace(labels=("scope-override",))
    part = judge(change.replace(pull_request=half), [CI], {})
    assert conditions(part) == ["person", "override-incomplete"]


def test_a_task_names_its_own_paths(shop: GitRepo) -> None:
    index = {"items": [{"id": "0142", "slug": "cart", "paths": ["shop/"]}]}
    shop.write("tasks/index.json", json.dumps(index)).commit()
    shop.write("shop/cart.py", "x = 1\n")
    for task in ("0142", "0142-cart"):
        assert judge(worktree(shop), [], task=task).findings == ()
    shop.write("db/schema.sql", "create table carts;\n")
    (found,) = judge(worktree(shop), [], task="0142-cart").findings
    assert found.rule == "scope/task"
    assert [one.path for one in found.evidence] == ["db/schema.sql"]


@pytest.mark.parametrize(
    "index",
    ["{", "[]", '{"items": 3}', '{"items": [3]}', '{"items": [{"id": "t1", "paths": "src/"}]}',
     '{"items": [{"id": "t1", "paths": [3]}]}'],
)  # fmt: skip
def test_an_index_that_cannot_be_read_lets_nothing_pass(shop: GitRepo, index: str) -> None:
    shop.write("tasks/index.json", index).commit()
    shop.write("src/a.py", "x = 1\n")
    change = worktree(shop)
    for rules in ([], [CI]):
        with pytest.raises(ConfigError, match="the paths of task t1 cannot be read"):
            judge(change, rules, task="t1")
    assert "cannot be read" in str(scope.applies(change, settings([], AGENT, task="t1")))
    assert scope.applies(change, settings([CI], AGENT, task="t1")) is None


def test_a_body_narrows_and_never_widens(shop: GitRepo) -> None:
    index = {"items": [{"id": "0142", "slug": "cart", "paths": ["shop/"]}]}
    shop.write("tasks/index.json", json.dumps(index)).commit()
    shop.write("db/schema.sql", "create table carts;\n").write("shop/cart.py", "x = 1\n").commit()

    def judged(body: str, **flags: Any) -> list[str]:
        pull = PullRequest(7, "Sell", body, by_bot=True)
        change = change_set.from_range(
            opened(shop), "HEAD~1", "HEAD", "test", trigger="pull_request", pull_request=pull
        )
        return conditions(judge(change, [], **flags))

    assert judged("Scope: `shop/`, db/") == []
    assert judged("Scope: shop/") == ["task"]
    assert judged("Scope: **", task="0142-cart") == ["task"]


def test_the_base_decides(shop: GitRepo, cli: Cli) -> None:
    shop.write("rlm-ci.toml", "[[scope]]\ngroups = ['ci']\n").commit()
    shop.branch("work").checkout("work")
    shop.write("rlm-ci.toml", "").write(WORKFLOW, "on: []\n").commit()
    ended = cli("check", "scope", "--base", "HEAD~1", cwd=shop, env={"AI_AGENT": "1"})
    assert ended.code == 1
    assert "scope/person" in ended.stdout


def test_an_agent_asks_first(shop: GitRepo, cli: Cli) -> None:
    shop.write("rlm-ci.toml", "[[scope]]\ngroups = ['ci']\nreason = 'ask Ada'\n").commit()
    refused = cli("check", "scope", "--", WORKFLOW, cwd=shop)
    assert refused.code == 1
    assert "may not change without a person: ask Ada" in refused.stdout
    allowed = cli("check", "scope", "--", "shop/cart.py", "shop/new.py", cwd=shop)
    assert allowed.code == 0
    assert "2 paths may be touched, by 1 rule" in allowed.stdout


def test_it_is_off_until_a_rule_is_set(shop: GitRepo, cli: Cli) -> None:
    assert scope.applies(worktree(shop), settings([], {}))
    assert scope.applies(worktree(shop), settings([CI], {})) is None
    assert "scope" not in cli("check", cwd=shop).stdout


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"groups": ["cloud"]}, "there is no group 'cloud'"),
        ({"reason": "x"}, "the rule has no paths"),
        ({"paths": ["[z-a]"]}, "a pattern cannot be read"),
    ],
)
def test_a_rule_that_cannot_be_read_is_an_error(
    shop: GitRepo, rule: Mapping[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError, match=r"rule|group|pattern") as raised:
        judge(worktree(shop), [rule])
    assert str(raised.value).startswith(why)
    assert raised.value.where == "rlm-ci.toml, [[scope]] number 1"
