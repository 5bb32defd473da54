"""Answers to review comments: whose count, what they say, and how long they hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from rlm_ci.github.api.client import RequestLimits
from rlm_ci.github.posting.outcome import Destination, PostingOptions
from rlm_ci.github.posting.review_threads import marker
from rlm_ci.github.session import Access, GitHubSession
from rlm_ci.pull_request import answers
from rlm_ci.report.details import claim_mark
from rlm_ci.report.findings import Finding, Report, Severity, fingerprints
from rlm_ci.report.proof import Proof
from testing.loopback_github.scene import ADA, BOT, NAME, NUMBER
from testing.loopback_github.state import ACTIONS_BOT, Reaction, ReviewComment, account_id
from testing.posting_stage import Stage, clock, github, stage

__all__ = ["clock", "github", "stage"]

WONT = 'ada answered "won\'t fix" to the review comment'
DOWN = "ada gave the review comment a thumbs down"
RESOLVED = "ada resolved the review comment"


class Talk:
    """A pull request whose review has posted two comments, and what people say to the first."""

    def __init__(self, stage: Stage, token: str = BOT) -> None:
        self.stage = stage
        self.report = _review(stage, stage.finding(1, rule="review/x"),
                              stage.finding(3, rule="review/y"))  # fmt: skip
        assert stage.publish(self.report, token=token).review == "posted"
        self.first = next(
            one for one in stage.state.review_comments
            if fingerprints(self.report.findings)[0] in one.body
        )  # fmt: skip

    def reply(self, body: str, user: str = "ada", **more: Any) -> ReviewComment:
        world, pull = self.stage.github.world, self.stage.state
        now = world.now()
        made = replace(
            self.first, id=world.new_id(), user=user, body=body, in_reply_to=self.first.id,
            created_at=now, updated_at=now, reactions=[], **more,
        )  # fmt: skip
        pull.review_comments.append(made)
        return made

    def react(self, user: str = "ada", content: str = "-1") -> None:
        world = self.stage.github.world
        self.first.reactions.append(Reaction(world.new_id(), user, content, world.now()))

    def resolve(self, user: str = "ada") -> None:
        self.stage.state.resolved[self.first.id] = user

    def silence(self) -> None:
        pull = self.stage.state
        pull.resolved.clear()
        self.first.reactions.clear()
        pull.review_comments[:] = [one for one in pull.review_comments if not one.in_reply_to]

    def outcome(
        self,
        report: Report | None = None,
        *,
        target: str = "",
        merge_base: str | None = None,
        **more: Any,
    ) -> Report:
        """The report with the answers."""
        report = report or self.report
        client = self.stage.client_of(**more)
        session = GitHubSession(Access("t", self.stage.url), client)
        to = Destination(NAME, NUMBER, report.subject.head or "", "", target, merge_base)
        return answers.apply(PostingOptions(), report, to, session)

    def heard(self, report: Report | None = None, **more: Any) -> list[str | None]:
        return [one.suppression for one in self.outcome(report, **more).findings]


def _review(stage: Stage, *found: Finding) -> Report:
    report = stage.report(*found)
    (part,) = report.parts
    return report.replace(parts=(part.replace(id="review"),))


@pytest.fixture
def talk(stage: Stage) -> Talk:
    return Talk(stage)


def test_a_person_who_may_write_settles_a_finding(talk: Talk) -> None:
    assert talk.heard() == [None, None]
    said: dict[str, Callable[[], object]] = {
        WONT: lambda: talk.reply("Won't fix: it is only called by the importer.\nBye"),
        RESOLVED: talk.resolve,
        DOWN: talk.react,
        WONT.replace("ada", "bob"): lambda: talk.reply("wontfix", "bob"),
        WONT + " ": lambda: talk.reply("won\u2019t fix"),
    }
    for reason, act in said.items():
        act()
        assert talk.heard() == [reason.strip(), None]
        talk.silence()
    # What others said before does not keep it from counting.
    talk.reply("Why?", "eve")
    talk.reply("won't fix", "eve")
    talk.react("rex")
    talk.react()
    assert talk.heard() == [DOWN, None]
    (part,) = talk.outcome().parts
    assert part.summary == "what it says; on the pull request: 1 finding settled (src/a.py:1)"


def test_others_and_other_words_settle_nothing(talk: Talk) -> None:
    """A bot, an outsider, somebody without permission, an edited reply, a quote, a thumb up."""

    def edited() -> None:
        talk.reply("won't fix").updated_at = talk.stage.github.world.now()

    def forged() -> None:
        mark = fingerprints(talk.report.findings)[1]
        talk.reply(f"{marker(mark)}\nwon't fix", "eve").in_reply_to = None
        talk.reply(f"{marker(mark)}\nwon't fix")

    for act in (
        lambda: talk.reply("won't fix", "eve"),
        lambda: talk.reply("won't fix", "rex"),
        lambda: talk.reply("won't fix", "renovate[bot]"),
        lambda: talk.reply("won't fix", ACTIONS_BOT),
        lambda: talk.reply("> won't fix\n\nPlease do."),
        lambda: talk.reply("I won't fix it in this one"),
        lambda: talk.reply("won't fix it before Monday"),
        lambda: talk.reply("Let us see.\nwon't fix"),
        edited,
        forged,
        lambda: talk.react("rex"),
        lambda: talk.react("eve"),
        lambda: talk.react("ada[bot]"),
        lambda: talk.react("ada", "+1"),
        lambda: talk.resolve("rex"),
        lambda: talk.resolve(ACTIONS_BOT),
    ):
        act()
        assert talk.heard() == [None, None]
        talk.silence()


WAY = "with write access, settle it by the reply `won't fix`, or resolve the comment"


@pytest.mark.parametrize(
    "reply",
    [
        "No, we want it so: the importer needs it.", "This is intended.", "by design", "Not a bug.",
        "no - it's only for tests", "Works as designed!", "We want this",
    ],
)  # fmt: skip
def test_who_declines_in_other_words_is_offered_the_way_to_settle(talk: Talk, reply: str) -> None:
    talk.reply(reply)
    assert talk.heard() == [None, None]
    (part,) = talk.outcome().parts
    assert part.summary == f"what it says; on the pull request: ada declines src/a.py:1: {WAY}"
    talk.reply("won't fix")
    (part,) = talk.outcome().parts
    assert WAY not in part.summary, "it is settled"


@pytest.mark.parametrize(
    "reply",
    [
        "No?", "No, is it?", "no idea", "None of these", "Is this intended?", "`by design`",
        "Nothing to do here", "I want to know why", "No problem", "> this is intended",
    ],
)  # fmt: skip
def test_other_replies_are_offered_nothing(talk: Talk, reply: str) -> None:
    talk.reply(reply)
    (part,) = talk.outcome().parts
    assert part.summary == "what it says"


def test_a_bot_and_an_edited_reply_decline_nothing(talk: Talk) -> None:
    talk.reply("This is intended.", "renovate[bot]")
    talk.reply("This is intended.").updated_at = talk.stage.github.world.now()
    (part,) = talk.outcome().parts
    assert part.summary == "what it says"


def test_it_holds_on_its_base_alone(talk: Talk) -> None:
    talk.react()
    assert talk.heard() == [DOWN, None]
    assert talk.heard(target="main") == [None, None]
    assert talk.heard(merge_base="a" * 40) == [None, None]
    # On the new base the comment that nobody had answered can be.
    talk.silence()
    talk.stage.publish(talk.report, target="main")
    talk.react()
    assert talk.heard(target="main") == [DOWN, None]
    assert talk.heard() == [None, None]


def test_it_holds_while_its_lines_stand_and_the_person_may_write(talk: Talk) -> None:
    talk.react()
    first, second = talk.report.findings
    place = first.evidence[0]
    moved = first.replace(evidence=(place.replace(line_start=40, line_end=40),), message="Other")
    edited = first.replace(evidence=(place.replace(quote=f"{place.quote} + 1"),))
    hidden = first.replace(evidence=(place.replace(quote=None),))
    again = [moved, edited, hidden, first.replace(rule="diff-budget/files")]
    held = [talk.heard(_review(talk.stage, one, second)) for one in again[:3]]
    assert held == [[None, DOWN], [None, None], [None, None]]
    # Of checks, a comment waves nothing through but by an override.
    assert talk.heard(talk.stage.report(again[3])) == [None]
    home = talk.stage.github.world.repositories[NAME]
    home.collaborators["ada"] = "read"
    assert talk.heard() == [None, None]
    home.collaborators["ada"] = "write"
    talk.first.updated_at = talk.stage.github.world.now()  # somebody has edited our comment
    assert talk.heard() == [None, None]


def test_a_login_that_changed_hands_does_not_count(
    talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk.react()
    from testing.loopback_github import graphql

    monkeypatch.setattr(graphql, "account_id", lambda login: account_id(login) + 1)
    assert talk.heard() == [None, None]


def test_with_the_token_of_a_person_what_we_resolve_is_no_answer(stage: Stage) -> None:
    talk = Talk(stage, ADA)
    talk.resolve()
    assert talk.heard(token=ADA) == [None, None]
    talk.resolve("bob")
    assert talk.heard(token=ADA) == ["bob resolved the review comment", None]
    assert talk.heard() == [None, None]  # to another account the comments are those of others


FAULTS: list[dict[str, Any]] = [
    {"path": "/graphql", "status": 502},
    {"path": "/graphql", "drop": True},
    {"path": "/graphql", "status": 200,
     "body": {"data": None, "errors": [{"type": "FORBIDDEN", "message": "::error::no"}]}},
    {"path": "/graphql", "status": 200, "body": {"data": {"viewer": {"login": "x"}}}},
    {"path": "*/permission", "status": 403},
    {"path": "*/permission", "status": 200, "body": ["odd"]},
]  # fmt: skip


def test_a_run_that_could_not_look_says_so(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    talk.react()
    for fault in FAULTS:
        talk.stage.github.faults.clear()
        talk.stage.github.fault(times=None, **fault)
        done = talk.outcome()
        assert [one.suppression for one in done.findings] == [None, None]
        (part,) = done.parts
        assert (
            "what it says; on the pull request: the answers to review comments cannot be read: "
            in part.summary
        )
        assert "note: the answers to review comments cannot be read" in capsys.readouterr().err
    talk.stage.github.faults.clear()
    talk.stage.github.fault(path="*/permission", status=404)  # the account is gone
    assert talk.heard() == [None, None]
    assert (
        talk.outcome()
        .parts[0]
        .summary.endswith("; on the pull request: 1 finding settled (src/a.py:1)")
    )


@pytest.mark.parametrize("number", [150, pytest.param(4_900, marks=pytest.mark.full)])
def test_thousands_of_threads_and_a_crowd(talk: Talk, number: int) -> None:
    pull, world = talk.stage.state, talk.stage.github.world
    made = [replace(talk.first, id=world.new_id(), body="not ours", user="eve", reactions=[])
            for _ in range(number)]  # fmt: skip
    pull.review_comments[:0] = made
    talk.resolve()
    assert talk.heard(limits=RequestLimits(requests=3)) == [RESOLVED, None]
    talk.silence()
    for at in range(40):
        talk.react(f"eve{at}")
    done = talk.outcome()
    assert [one.suppression for one in done.findings] == [None, None]
    assert "30 accounts answered review comments, and 10 more accounts" in done.parts[0].summary


def _claims(stage: Stage, *claims: tuple[str, int, int, Severity], **more: Any) -> Report:
    """Claims of a model: the rule, the lines, the severity."""
    known = {"source": "model:m", "subject": "area", **more}
    return _review(stage, *(
        stage.finding(first, rule=f"review/{rule}", severity=severity,
                      evidence=(stage.location(first, end=last),), **known)
        for rule, first, last, severity in claims
    ))  # fmt: skip


def test_a_claim_stays_settled_by_other_words(stage: Stage) -> None:
    talk = Talk(stage)
    talk.report = _claims(stage, ("float-money", 5, 6, Severity.MEDIUM))
    assert stage.publish(talk.report).review == "posted"
    talk.first = stage.state.review_comments[-1]
    talk.reply("won't fix")

    def heard(*claims: tuple[str, int, int, Severity], **more: Any) -> list[str | None]:
        return talk.heard(_claims(stage, *claims, **more))

    assert heard(("money-as-float", 6, 8, Severity.MEDIUM)) == [WONT]
    assert heard(("rounding", 5, 5, Severity.LOW)) == [WONT]
    assert heard(("rounding", 4, 9, Severity.MEDIUM), source="model:other") == [WONT]
    # Other lines, another definition, what a tool says.
    assert heard(("money-as-float", 7, 8, Severity.MEDIUM)) == [None]
    assert heard(("money-as-float", 5, 6, Severity.MEDIUM), subject="other") == [None]
    assert heard(("money-as-float", 5, 6, Severity.MEDIUM), source="analyzer:x") == [None]
    both = _claims(stage, ("a", 5, 6, Severity.LOW), ("b", 6, 6, Severity.LOW))
    told = "2 findings settled (src/a.py:5, src/a.py:6)"
    assert talk.outcome(both).parts[0].summary.endswith(told)
    before = len(stage.state.review_comments)
    stage.publish(talk.outcome(_claims(stage, ("money-as-float", 6, 8, Severity.MEDIUM))))
    assert len(stage.state.review_comments) == before


def test_a_settled_claim_that_is_worse_counts_again_and_says_so(stage: Stage) -> None:
    talk = Talk(stage)
    argued = Proof("argued", "nothing ran")
    talk.report = _claims(stage, ("float-money", 5, 6, Severity.MEDIUM))
    stage.publish(talk.report)
    talk.first = stage.state.review_comments[-1]
    talk.reply("won't fix")
    for rule in ("float-money", "sql-injection"):
        report = talk.outcome(_claims(stage, (rule, 5, 6, Severity.HIGH)))
        (finding,) = report.findings
        assert finding.suppression is None
        assert finding.hint == (
            f"fix it It was accepted as medium, argued ({WONT}), and is worse now."
        )
        assert report.parts[0].summary.endswith("1 settled finding got worse, and counts again")
        assert claim_mark.without(finding).hint == "fix it"
    shown = talk.report.findings[0].replace(proof=Proof("proven", "fails at head"))
    assert [one.suppression for one in talk.outcome(_review(stage, shown)).findings] == [None]
    (claim,) = talk.report.findings
    assert talk.heard(_review(stage, claim.replace(proof=argued))) == [WONT]
