"""A reviewer with tools: what it may see, when it ends, and what a resumed run asks again."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import RemoteError
from rlm_ci.git.repository import Repository
from rlm_ci.models.record.record import Record
from rlm_ci.recursion.corpus.corpus import at_commit
from rlm_ci.recursion.corpus.eligibility import EligibilityRules
from rlm_ci.review.exploration.explorer import (
    LIMITS,
    NO_CALL,
    NO_CALLS,
    NO_END,
    NO_ROOM,
    NO_TOOLS,
    Explorer,
    NodeQuestions,
    ReviewTools,
    ReviewTrees,
)
from rlm_ci.trials.trees import BASE, HEAD
from testing.loopback_model.replies import Answer, Call, refusal
from testing.loopback_model.small_contexts import SmallContext
from testing.review_leaves import Asking, closing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from testing.loopback_model.server import Asked, ModelServer
    from testing.repositories.git_repo import GitRepo

__all__ = ["closing"]

PROMPT = "Review this.\n" + "x = 1\n" * 20
FOUND: dict[str, Any] = {"findings": []}


def look(tool: str, **arguments: Any) -> Call:
    return Call(tool, json.dumps(arguments))


def results(asked: Asked) -> list[str]:
    return [str(one["content"]) for one in asked.messages if one["role"] == "tool"]


@pytest.fixture
def changed(repo: GitRepo) -> tuple[GitRepo, str]:
    """A repository whose second commit changes a file, and the first commit."""
    repo.write("shop.py", "def total(rows):\n    return sum(rows)\n")
    repo.write("use.py", "from shop import total\n\ntotal([])\n").commit()
    base = repo.sha()
    repo.symlink("out", "/etc").symlink("names", "/etc/passwd")
    repo.write("shop.py", "def total(rows):\n    return max(rows)\n").commit()
    return repo, base


@pytest.fixture
def explore(changed: tuple[GitRepo, str], tmp_path: Path) -> Iterator[Callable[..., NodeQuestions]]:
    """Makes an explorer over both sides; each has the record of the one before it."""
    repo, base = changed
    repository = Repository(str(repo.path), str(repo.path / ".git"), os.environ)
    opened: list[Explorer | Record] = []

    def make(depth: str = "normal") -> NodeQuestions:
        record = Record.open(str(tmp_path / "calls.jsonl"), redact=str)
        head = repo.sha()
        trees = ReviewTrees(repository, {HEAD: head, BASE: base})
        corpus = at_commit(repository, head, EligibilityRules())
        explorer = Explorer(
            record.fact, ReviewTools(trees, repository, head), LIMITS[depth], corpus
        )
        opened.extend((explorer, record))
        return NodeQuestions(explorer, "n1")

    yield make
    for one in opened:
        one.close()


def put(explorer: NodeQuestions, asking: Asking, prompt: str = PROMPT) -> dict[str, Any] | None:
    answered, _ = explorer(asking, "find-1", prompt, lambda _found: "")
    return answered


def test_both_sides_are_read_and_each_request_begins_with_the_last(
    explore: Callable[..., NodeQuestions], llm: ModelServer
) -> None:
    llm.script([
        Answer("I look.", [
            look("read", path="shop.py"), look("read", path="shop.py", side="base"),
            look("references", name="total"), look("history", path="shop.py", start=1, end=2),
        ]),
        Answer(None, [
            look("read", path="../../../etc/passwd"), look("read", path=".git/config"),
            look("search", text="(", regex=True), look("run", command="id"), Call("read", "{"),
            look("read", path="shop.py", side="elsewhere"), look("read", path="names"),
        ]),
        json.dumps(FOUND),
    ])  # fmt: skip
    explorer = explore()
    assert put(explorer, Asking(llm)) == FOUND
    _, second, last = llm.completions
    head, base, uses, history = results(second)
    assert "max(rows)" in head
    assert "sum(rows)" in base
    assert "use.py:3: call" in uses
    assert "-    return sum(rows)" in history
    assert "left to look with: 9 more answers" in history
    passwd, git, pattern, run, odd, side, link = results(last)[4:]
    assert passwd.startswith("Refused: ")
    assert git.startswith("Refused: ")
    assert pattern.startswith("Refused: ")
    assert "there is no tool 'run'" in run
    assert "not JSON" in odd
    assert side.startswith("Error: read: ")
    assert link.startswith("Refused: names cannot be read")
    for before, after in pairwise(llm.completions):
        assert after.messages[: len(before.messages)] == before.messages
        assert after.body["tools"] == before.body["tools"]
    assert explorer.metrics == {"turns": 3, "looks": 11}
    assert not explorer.notes


def test_an_endpoint_without_tools_is_asked_once_for_them(
    explore: Callable[..., NodeQuestions], llm: ModelServer
) -> None:
    def says(asked: Asked) -> Any:
        if asked.body.get("tools"):
            return refusal(400, "tools is not supported by this model", param="tools")
        return json.dumps(FOUND)

    llm.script(says)
    explorer = explore()
    assert put(explorer, Asking(llm)) == put(explorer, Asking(llm)) == FOUND
    assert [bool(one.body.get("tools")) for one in llm.completions] == [True, False, False]
    assert llm.completions[-1].messages == [{"role": "user", "content": PROMPT}]
    assert explorer.notes == [NO_TOOLS]
    assert not explorer.metrics
    again = explore()  # resumed: it is known
    assert put(again, Asking(llm)) == FOUND
    assert len(llm.completions) == 4


@pytest.mark.parametrize(
    "calls",
    [
        [Call("grep_repo", '{"pattern": "x"}')],
        [Call("bash", '{"command": "id"}'), Call("think", "{}")],
        [Call("read", "{"), Call("read", '{"file": "shop.py"}')],
    ],
)
def test_three_answers_without_a_sound_call_end_the_tools(
    explore: Callable[..., NodeQuestions], llm: ModelServer, calls: list[Call]
) -> None:
    sound = [look("read", path="shop.py"), *calls]
    answers = [calls, calls, sound, calls, calls, calls]
    llm.script([*(Answer(None, some) for some in answers), json.dumps(FOUND)])
    explorer = explore()
    assert put(explorer, Asking(llm)) == FOUND
    assert [bool(one.body.get("tools")) for one in llm.completions] == [True] * 6 + [False]
    assert explorer.notes == [NO_CALL]


@pytest.mark.parametrize("depth", ["normal", "deep"])
def test_a_model_that_never_answers_is_stopped(
    explore: Callable[..., NodeQuestions], llm: ModelServer, depth: str
) -> None:
    def says(asked: Asked) -> Any:
        has_tools = asked.body.get("tools")
        return Answer("", [look("list")] * 2) if has_tools else json.dumps(FOUND)

    llm.script(says)
    explorer = explore(depth)
    assert put(explorer, Asking(llm)) == FOUND
    assert explorer.notes == [NO_END]
    *talk, plain = llm.completions
    assert len(talk) <= LIMITS[depth].turns - 1
    assert "answer now" in results(talk[-1])[-1]
    assert plain.messages == [{"role": "user", "content": PROMPT}]


def test_an_answer_with_too_much_in_it_ends_the_conversation(
    explore: Callable[..., NodeQuestions], llm: ModelServer
) -> None:
    many = Answer("", [look("list")] * 200)
    long = Answer("x" * 60_000, [look("list")])
    for number, answer in enumerate((many, long)):
        llm.script([answer, json.dumps(FOUND)])
        explorer = explore()
        assert explorer(Asking(llm), f"find-{number}", PROMPT, lambda _found: "") == (FOUND, "")
        assert explorer.notes == [NO_END]
        assert not explorer.metrics["looks"]


def test_what_tools_have_shown_is_left_out_where_it_was_too_much(
    explore: Callable[..., NodeQuestions], llm: ModelServer, changed: tuple[GitRepo, str]
) -> None:
    """The prompt is asked without tools; one that is refused itself is for the caller to cut."""
    changed[0].write("large.txt", "a line of some length\n" * 20_000).commit()
    llm.context = SmallContext(3_000, 3.0)
    llm.script(
        lambda asked: (
            Answer("", [look("read", path="large.txt")])
            if "tools" in asked.body
            else json.dumps(FOUND)
        )
    )
    explorer, prompt = explore(), "y" * 1_500
    assert put(explorer, Asking(llm), prompt) == FOUND
    assert explorer.notes == [NO_END]
    assert [one.status for one in llm.completions][-2:] == [400, 200]
    assert llm.completions[-1].messages == [{"role": "user", "content": prompt}]
    with pytest.raises(RemoteError, match="too long"):
        put(explore(), Asking(llm), "z" * 9_000)


def test_tools_show_no_more_than_the_depth_allows(
    explore: Callable[..., NodeQuestions], llm: ModelServer, changed: tuple[GitRepo, str]
) -> None:
    changed[0].write("large.txt", "a line of some length\n" * 20_000).commit()
    prompt = "y" * 30_000

    def says(asked: Asked) -> Any:
        told = results(asked)
        if told and "answer now" in told[-1]:
            return json.dumps(FOUND)
        return Answer("", [look("read", path="large.txt", start=1 + len(told) * 400)])

    sizes = {}
    for depth in ("normal", "deep"):
        llm.asked.clear()
        llm.script(says)
        explorer = explore(depth)
        assert explorer(Asking(llm), f"find-{depth}", prompt, lambda _found: "") == (FOUND, "")
        sizes[depth] = len(json.dumps(llm.completions[-1].messages))
        assert not explorer.notes
    assert 30_000 < sizes["normal"] < 1.5 * 30_000 + 3_000
    assert 60_000 < sizes["deep"] < 3 * 30_000 + 5_000


def test_a_budget_keeps_a_call_for_the_answer(
    explore: Callable[..., NodeQuestions], llm: ModelServer
) -> None:
    llm.script([Answer("", [look("list")]), json.dumps(FOUND), json.dumps(FOUND)])
    assert put(explore(), Asking(llm, calls=2)) == FOUND
    assert "answer now" in results(llm.completions[1])[-1]
    explorer = explore()
    assert explorer(Asking(llm, calls=1), "find-2", PROMPT, lambda _found: "") == (FOUND, "")
    assert "tools" not in llm.completions[2].body
    assert explorer.notes == [NO_CALLS]


def test_a_wrong_answer_is_asked_for_once_more(
    explore: Callable[..., NodeQuestions], llm: ModelServer
) -> None:
    llm.script(["I think it is fine.", Answer("", [look("list")]), json.dumps(FOUND)])
    assert put(explore(), Asking(llm)) == FOUND
    assert "What is wrong with it" in llm.completions[1].messages[-1]["content"]
    llm.script(["I think it is fine.", "It is fine.", json.dumps(FOUND)])
    other = explore()
    assert other(Asking(llm), "find-2", PROMPT, lambda _found: "") == (FOUND, "")
    assert "tools" not in llm.completions[-1].body
    assert other.notes == [NO_END]


def test_conversations_about_one_change_share_what_they_may_take(
    llm: ModelServer, explore: Callable[..., NodeQuestions]
) -> None:
    normal, deep = LIMITS["normal"], LIMITS["deep"]
    one, three, many = (normal.shared(number, 1) for number in (1, 3, 20))
    assert (one.turns, one.most_sent(10_000), one.most_sent(80_000)) == (12, 300_000, 600_000)
    assert (three.turns, three.most_sent(80_000)) == (10, 200_000)
    assert (three.has_room(80_000), many.has_room(10_000)) == (True, False)
    assert normal.shared(20, 10).has_room(80_000)  # a change of ten times the lines
    assert deep.shared(20, 1) == deep
    # Without room it is asked as a quick review asks, and says so.
    llm.script(["{}"])
    asked = explore()
    assert asked._explorer is not None
    asked._explorer.limits = many
    assert put(asked, Asking(llm)) == {}
    assert "tools" not in llm.completions[0].body
    assert (asked.notes, asked.metrics["looks"]) == ([NO_ROOM], 0)
