"""The next push: a model is asked about what is new, and what it said of the rest stays true."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci import cli as program
from rlm_ci.review.change import carry_over
from testing.comment_commands_stage import NAME, NUMBER, Stage, stage
from testing.loopback_github.state import Reaction
from testing.loopback_model.fixture import llm
from testing.pushes_stage import Critic, Pushes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from testing.loopback_model.server import ModelServer

__all__ = ["llm", "stage"]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")

A, B = "src/a.py", "src/b.py"


def fault(word: str, number: int) -> str:
    """A function that a critic who ``proves`` shows to be wrong."""
    return f"def {word}():\n    return {number}  # FAULT {word}\n"


@pytest.fixture
def pushes(stage: Stage, llm: ModelServer) -> Iterator[Pushes]:
    critic = Critic(llm)
    llm.script(critic)
    made = Pushes(stage, critic)
    made.push(a="one = 1  # FAULT one\n", b="two = 2  # FAULT two\n", c="three = 3\n")
    yield made
    made.close()


@pytest.mark.full
def test_only_what_is_new_is_asked_and_the_rest_stays(pushes: Pushes) -> None:
    assert pushes.judge() == {A, B, "src/c.py"}
    assert pushes.faults == {"one", "two"}
    assert "anew" not in pushes.part["summary"]
    spent = pushes.stage.last.calls
    assert spent == 2  # the change is read, and described

    pushes.push(b="two = 2\n", d="four = 4  # FAULT four\n")
    assert pushes.judge() == {B, "src/d.py"}
    assert pushes.faults == {"one", "four"}
    assert pushes.part["metrics"]["carried"] == 1
    assert pushes.stage.last.calls == 4
    assert "src/a.py: not read again by the model" in pushes.stage.summary.replace("`", "")

    assert pushes.judge() == set()  # the same commit once more
    assert pushes.faults == {"one", "four"}
    assert pushes.stage.last.calls == 4

    pushes.push(a="one = 1\n")
    assert pushes.judge() == {A}
    assert pushes.faults == {"four"}

    pushes.push(e="five = 5  # FAULT five\n")
    assert pushes.judge() == {"src/e.py"}
    log = pushes.stage.github.log[pushes.stage.before :]
    assert len(log) <= 8, [f"{one.method} {one.path}" for one in log]
    assert pushes.faults == {"four", "five"}


@pytest.mark.full
def test_whoever_imports_what_changed_is_asked_about_again(pushes: Pushes) -> None:
    pushes.push(a="import src.b  # FAULT one\n\nprint(src.b.two)\n")
    pushes.judge()
    pushes.push(b="two = 3  # FAULT two\n")
    assert pushes.judge() == {A, B}
    pushes.push(c="three = 4\n")
    assert pushes.judge() == {"src/c.py"}
    assert pushes.faults == {"one", "two"}


@pytest.mark.full
def test_a_finding_that_a_person_settled_stays_settled_while_its_lines_stand(
    pushes: Pushes,
) -> None:
    stage, env = pushes.stage, {"RLM_CI_FAIL_LEVEL": "medium"}
    pushes.critic.proves = True  # what is argued alone has no comment beside its line
    pushes.push(a=fault("one", 1), b=fault("two", 2))
    pushes.judge(**env)
    made = {re.findall(r"fault-(\w+)", one.body)[0]: one for one in stage.pull.review_comments}
    now = stage.github.world.now()
    made["one"].reactions.append(Reaction(1, "ada", "-1", now))
    made["two"].reactions.append(Reaction(2, "eve", "-1", now))

    def accepted() -> dict[str, str | None]:
        return {one["rule"][-3:]: one["suppression"] for one in stage.report["findings"]}

    pushes.push(c="three = 4\n")
    pushes.judge(**env)
    told = "ada gave the review comment a thumbs down"
    assert accepted() == {"one": told, "two": None}
    assert told in stage.summary
    assert pushes.beside() == {"one": False, "two": True}
    stage.keeps_runs = True
    pushes.judge(**env)
    (report,) = stage.clone.path.glob(".runs/*/cli/*/report.json")
    assert "on the pull request: 1 finding settled" in report.read_text()
    assert program.main(["verify", "latest", "-C", str(stage.clone.path)]) == 0
    stage.keeps_runs = False
    pushes.push(a=fault("one", 3), b="two = 2\n")
    pushes.judge(**env)
    assert (accepted(), stage.report["verdict"]) == ({"one": None}, "findings")


@pytest.mark.full
def test_a_grave_finding_of_before_still_fails(pushes: Pushes) -> None:
    pushes.critic.severity, pushes.critic.proves = "high", True
    env = {"RLM_CI_REVIEW_REFUTE_LEVEL": "off"}
    pushes.push(a=fault("one", 1), b=fault("two", 2))
    pushes.judge(**env)
    assert pushes.stage.report["verdict"] == "findings"
    pushes.push(c="three = 5\n")
    assert pushes.judge(**env) == {"src/c.py"}
    assert pushes.stage.report["verdict"] == "findings"
    assert pushes.stage.conclusions[-1] == "failure"


def edited(pushes: Pushes) -> None:
    """By a person, who has left it as it was but for one thing."""
    pushes.forge(review="")
    pushes.comment.edit(pushes.comment.body, "ada", pushes.stage.github.world.now())


def rewritten(pushes: Pushes) -> None:
    pushes.stage.author.run("commit", "-q", "--amend", "-m", "Other")
    pushes.stage.publish_head()


def merged(pushes: Pushes) -> None:
    stage = pushes.stage
    stage.author.checkout("main")
    stage.author.write("base.md", "x").commit()
    stage.author.run("push", "-q", str(stage.remote.path), "main:main")
    stage.author.checkout("feature")
    stage.author.run("merge", "-q", "--no-edit", "main")
    stage.publish_head()
    stage.github.push(NAME, NUMBER, "feature", base="main")
    stage.clone.fetch("origin", "main")


def doubled(pushes: Pushes) -> None:
    again = replace(pushes.comment, id=pushes.stage.github.world.new_id())
    pushes.stage.pull.comments.append(again)


def unanswered(pushes: Pushes) -> None:
    pushes.stage.github.fault("POST", "/graphql", times=1, status=403)


#: What happens between two runs, with what settings the second runs, and why it begins anew.
DOUBTS: dict[str, tuple[Callable[[Pushes], None], dict[str, str], str]] = {
    "edited": (edited, {}, "somebody has edited the summary comment"),
    "settings": (lambda _: None, {"RLM_CI_REVIEW_DOMAINS": "quality"}, "settings have changed"),
    "rewritten": (rewritten, {}, "the branch was rewritten"),
    "merged": (merged, {}, "the merge base has changed"),
    "incomplete": (lambda one: one.forge(verdict="incomplete"), {}, "did not look at everything"),
    "terms": (lambda one: one.forge(review=_repacked(one, terms="0" * 32)), {}, "the model or"),
    "digest": (lambda one: one.forge(review=_repacked(one, digest="0" * 16)), {}, "found again"),
    "nothing": (lambda one: one.forge(review=""), {}, "had no complete review by a model"),
    "garbage": (lambda one: one.forge(review="!"), {}, "cannot be read"),
    "doubled": (doubled, {}, "more than one summary"),
    "unanswered": (unanswered, {}, "the summary comment cannot be read"),
    "stranger": (lambda one: setattr(one.comment, "user", "eve"), {}, "there is no earlier review"),
}


@pytest.mark.full
@pytest.mark.parametrize("doubt", DOUBTS)
def test_on_any_doubt_everything_is_asked_and_why(pushes: Pushes, doubt: str) -> None:
    pushes.judge()
    act, env, why = DOUBTS[doubt]
    act(pushes)
    pushes.push(d="four = 4\n")
    assert pushes.judge(**env) == {A, B, "src/c.py", "src/d.py"}
    assert why in pushes.part["metrics"]["why"], pushes.part
    assert pushes.faults == {"one", "two"}
    assert (why in pushes.part["summary"]) is (doubt != "stranger")
    assert "invented" not in pushes.stage.report.__repr__()


@pytest.mark.full
def test_without_a_comment_nothing_is_kept(pushes: Pushes) -> None:
    pushes.judge("--no-publish")
    assert "this run posts no summary comment" in pushes.part["metrics"]["why"]
    assert pushes.judge("--no-publish") == {A, B, "src/c.py"}


@pytest.mark.full
def test_what_a_budget_left_out_is_asked_the_next_time(pushes: Pushes) -> None:
    assert pushes.judge(RLM_CI_MAX_CALLS="0") == set()
    assert pushes.stage.last.review == ""
    assert pushes.judge(RLM_CI_MAX_CALLS="9") == {A, B, "src/c.py"}


def _repacked(pushes: Pushes, *, terms: str = "", digest: str = "") -> str:
    """What the last review left, changed."""
    import json
    from base64 import urlsafe_b64decode, urlsafe_b64encode
    from zlib import compress, decompress

    record: dict[str, Any] = json.loads(decompress(urlsafe_b64decode(pushes.stage.last.review)))
    record["t"] = terms or record["t"]
    if digest:
        record["f"][0][-1][0][-1] = digest
        record["f"][0][4] = "An invented finding."
    return urlsafe_b64encode(compress(json.dumps(record).encode())).decode()


@pytest.mark.full
def test_on_a_fork_nothing_is_asked_and_nothing_carried(pushes: Pushes) -> None:
    pushes.judge()
    pushes.stage.pull.head_repository = "mallory/shop"
    pushes.push(d="four = 4\n")
    assert pushes.judge() == set()
    assert pushes.faults == set()


@pytest.mark.full
def test_ten_pushes(pushes: Pushes) -> None:
    stage, texts = pushes.stage, {}
    pushes.judge()
    for number in range(10):
        name = f"f{number % 4}"
        texts[name] = f"x = {number}  # FAULT f{number}\n"
        pushes.push(**{name: texts[name]})
        assert pushes.judge() == {f"src/{name}.py"}
        faults = {"one", "two"} | {text.split()[-1] for text in texts.values()}
        assert pushes.faults == faults
        assert len(stage.github.log) - stage.before <= 8 + (number > 3)  # one is closed then
    assert stage.last.calls == 22
    assert len([one for one in stage.pull.comments if "rlm-ci:report" in one.body]) == 1


@pytest.mark.full
def test_more_than_the_comment_can_keep(pushes: Pushes, monkeypatch: pytest.MonkeyPatch) -> None:
    pushes.push(a="".join(f"v{n} = {n}  # FAULT {n:032x}\n" for n in range(50)))
    monkeypatch.setattr(carry_over, "_CLAIMS", 20)
    pushes.judge()
    assert pushes.stage.last.review == "-"
    pushes.push(d="four = 4\n")
    assert pushes.judge() == {A, B, "src/c.py", "src/d.py"}
    assert "more than the summary comment can store" in pushes.part["summary"]
