"""What a model says that says nothing: it is told, and never taken for an answer."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.recursion.nodes import FILE_GROUP
from rlm_ci.report import render
from rlm_ci.report.findings import INCOMPLETE, Report, Severity, Subject
from rlm_ci.review.model.finder import EXAMPLES
from rlm_ci.review.objective import ReviewObjective, analyse, options
from rlm_ci.review.results.report import part
from testing.review_leaves import (
    SHOP,
    TEXTS,
    TOTAL,
    Asking,
    answering,
    by_model,
    closing,
    leaf,
    reviewed,
    text,
)

TEMPLATES = Path(__file__).parents[3] / "templates/prompts"

if TYPE_CHECKING:
    from testing.loopback_model.server import ModelServer

__all__ = ["closing"]


def test_structure_that_nobody_could_tell_of_is_not_looked_at(llm: ModelServer) -> None:
    llm.script([answering(TOTAL), answering({**TOTAL, "path": "b.py"}), *["I cannot."] * 2])
    chosen = options(ruff="off")
    review, asking = ReviewObjective(chosen), Asking(llm)
    children = []
    for name in ("shop.py", "b.py"):
        task = leaf([text(name, SHOP)], chosen, kind=FILE_GROUP)
        children.append(review.judge(task.node.replace(id=name), task, analyse(task), asking))
    result = review.aggregate(leaf([], chosen).node, children, asking)
    assert len(asking.places) == 4
    told = part(result, chosen, "m-1")
    assert told.state == INCOMPLETE
    assert "the whole not looked at in full: architecture: the model's answer" in told.summary


def test_a_claim_that_says_nothing_is_none(llm: ModelServer) -> None:
    llm.script([answering({**TOTAL, "message": " \t -", "rule": " "}, TOTAL)])
    result = reviewed(TEXTS, Asking(llm), ruff="off")
    (found,) = by_model(result)
    assert found.rule == "review/wrong-result"
    assert result.counts.rejected == 1
    assert "1 claim of the model dropped: not in the form that was asked for" in result.summary


def test_all_that_is_wrong_with_an_answer_is_told_at_once(llm: ModelServer) -> None:
    odd = {**TOTAL, "severity": "grave", "confidence": 3, "quote": ""}
    llm.script([answering(odd, {"path": "shop.py"}), answering(TOTAL)])
    assert len(by_model(reviewed(TEXTS, Asking(llm), ruff="off"))) == 1
    told = llm.completions[1].messages[-1]["content"]
    for name in ("$.severity: 'grave'", "$.confidence: 3", "$.quote: ''"):
        assert name in told.split("findings[1]")[0]
    assert "'severity' is a required property" in told.split("findings[1]")[1]


def test_claims_that_are_dropped_are_told_to_who_reads_only_a_comment(llm: ModelServer) -> None:
    """Two parts of a repository drop as many claims: both count."""
    lies = answering(
        {**TOTAL, "quote": "x = 'never'"}, {**TOTAL, "quote": ""},
        {**TOTAL, "domain": "architecture"}, TOTAL,
    )  # fmt: skip
    llm.script([lies, lies, json.dumps({"claims": []})])
    chosen = options(ruff="off")
    review, asking = ReviewObjective(chosen), Asking(llm)
    children = []
    for name in ("shop.py", "b.py"):
        task = leaf([text(name, SHOP)], chosen, kind=FILE_GROUP)
        children.append(review.judge(task.node.replace(id=name), task, analyse(task), asking))
    whole = part(review.aggregate(leaf([], chosen).node, children, asking), chosen, "m-1")
    report = Report(Subject(), Severity.HIGH, (whole,))
    for surface in ("text", "summary", "html"):
        shown = " ".join(render.render(report, surface, render.RenderOptions()).split())
        assert "2 claims of the model dropped: not in the form that was asked for" in shown, surface
        assert "1 claim of the model dropped: of a domain that was not asked for" in shown, surface
        assert "of the model dropped: the quote is not in the files" in shown, surface


def test_an_answer_of_such_claims_alone_could_not_be_read(llm: ModelServer) -> None:
    llm.script([answering({**TOTAL, "message": "…"})] * 2)
    result = reviewed(TEXTS, Asking(llm), ruff="off")
    assert by_model(result) == []
    assert {why for _, why in result.uncovered} == {"the model's answer could not be read, twice"}


@pytest.mark.parametrize(
    "claims",
    [
        ({**TOTAL, "quote": "x = 'never'"}, {**TOTAL, "quote": "y = 'never'"}),
        ({**TOTAL, "path": "as in the listing"}, {**TOTAL, "quote": "z = 'never'"}),
        ({**TOTAL, "message": "What breaks, in one line, then why."},) * 2,
        ({**TOTAL, "quote": "never"}, {**TOTAL, "quote": ""}),
        # The example, with something else in place of one or two of its members.
        ({**TOTAL, "rule": "short-name-of-the-kind-of-fault"},) * 2,
        ({**TOTAL, "rule": "Short name of the kind of fault!", "message": "It is wrong."},) * 2,
        ({**TOTAL, "message": "`total`: what breaks in one line... then why"},) * 2,
        ({**TOTAL, "path": "a.py, as in the listing"},) * 2,
        ({**TOTAL, "message": "WHAT IS WRONG and what it leads to", "severity": "low"},) * 2,
    ],
)
def test_an_answer_of_which_nothing_holds_is_no_reading(
    llm: ModelServer, claims: tuple[dict[str, Any], ...]
) -> None:
    llm.script([answering(*claims)])
    result = reviewed(TEXTS, Asking(llm), ruff="off")
    assert by_model(result) == []
    told = part(result, options(ruff="off"), "m-1")
    assert told.state == INCOMPLETE
    assert "nothing that the model claimed holds: 2 claims dropped" in told.summary


def test_the_example_of_a_prompt_is_no_suggestion(llm: ModelServer) -> None:
    fix = "```suggestion\nthe lines that replace these, to the letter\n```"
    llm.script([answering({**TOTAL, "suggested_fix": fix})])
    (found,) = by_model(reviewed(TEXTS, Asking(llm), ruff="off"))
    assert found.suggested_fix is None
    prompts = [
        (TEMPLATES / name).read_text("utf-8") for name in ("review.md.j2", "review-change.md.j2")
    ]
    for examples in EXAMPLES.values():
        assert all(any(example in prompt for example in examples) for prompt in prompts)
    assert EXAMPLES.keys() == {"rule", "message", "path", "quote", "suggested_fix"}


@pytest.mark.parametrize(
    ("template", "module"),
    [
        ("review-describe", "review.model.describe"),
        ("review-architecture", "review.model.architecture"),
        ("wiki-module", "wiki.prose.questions"),
        ("analysis", "fix.rlms.analysis"),
    ],
)
def test_the_text_of_each_example_stands_in_its_prompt(template: str, module: str) -> None:
    prompt = (TEMPLATES / f"{template}.md.j2").read_text("utf-8")
    examples = import_module(f"rlm_ci.{module}")._EXAMPLES
    assert all(one in prompt for one in examples)


def test_a_claim_that_names_the_same_things_as_the_example_is_none_of_it(llm: ModelServer) -> None:
    said = (
        "What breaks is one line: then `total` returns 1. Nobody knows why, and what it leads to."
    )
    llm.script([answering({**TOTAL, "message": said, "rule": "kind-of-fault"})])
    (found,) = by_model(reviewed(TEXTS, Asking(llm), ruff="off"))
    assert found.message.startswith("What breaks is one line")


def test_a_place_that_the_model_was_not_shown_is_marked_in_its_message(llm: ModelServer) -> None:
    """Its evidence is opened; what its words name beside that would look just as true."""
    said = "As shop.py:1 and shop.py:2, unlike other.py:12 (shop.py:9999), at 12:30."
    llm.script([answering({**TOTAL, "message": said})])
    (found,) = by_model(reviewed(TEXTS, Asking(llm), ruff="off"))
    assert found.message == (
        "As shop.py:1 and shop.py:2, unlike [unverified: other.py:12] "
        "([unverified: shop.py:9999]), at 12:30."
    )
