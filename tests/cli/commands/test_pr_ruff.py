"""``rlm-ci pr`` at its defaults on a pull request with real Python: ruff's words on GitHub."""

from __future__ import annotations

import re

from testing.comment_commands_stage import Stage, stage

__all__ = ["stage"]

ORDERS = '''"""Orders."""


def add(name, seen=[]):
    """Add one."""
    seen.append(name)
    return "%d of %d" % (1,)
'''


def beside(stage: Stage) -> dict[tuple[str, int | None], bool]:
    """Rule and line of each comment of the review, and whether it is open."""
    found = {}
    for one in stage.pull.review_comments:
        rule = re.search(r"review/[a-z0-9-]+", one.body)
        assert rule, one.body
        found[rule[0], one.original_line] = one.id not in stage.pull.resolved
    return found


def test_ruff_reviews_by_default_and_its_comments_come_and_go(stage: Stage) -> None:
    stage.author.checkout("feature")
    stage.author.write("shop/orders.py", ORDERS).commit("Orders")
    stage.publish_head()
    defaults = {"RLM_CI_REVIEW_ENABLED": "", "RLM_CI_DIFF_BUDGET_MAX_FILES": "99"}
    stage.clone.fetch("origin", "+refs/pull/12/head:refs/remotes/pull")
    assert stage.run(stage.events.pull_request(), **defaults) == 1
    known = ("review/ruff-b006", 4), ("review/ruff-f507", 7)
    posted = len(stage.pull.review_comments)
    assert {key: beside(stage).get(key) for key in known} == dict.fromkeys(known, True)
    assert "review/ruff-f507" in stage.summary
    assert stage.conclusions == ["failure"]

    stage.author.write("shop/orders.py", ORDERS.replace("(1,)", "(1, 2)")).commit("Mended")
    stage.publish_head()
    stage.clone.fetch("origin", "+refs/pull/12/head:refs/remotes/pull")
    assert stage.run(stage.events.pull_request(), **defaults) == 0, stage.said
    assert {key: beside(stage)[key] for key in known} == {known[0]: True, known[1]: False}
    assert len(stage.pull.review_comments) == posted
    assert len(stage.github.log) - stage.before <= 8
