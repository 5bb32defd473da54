"""``rlm-ci review`` with a model that answers badly: it proves nothing, and loses no claim."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import pytest

from rlm_ci.report import render as surfaces
from rlm_ci.report.findings import Report
from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer, Call, refusal
from testing.pipelines_stage import Stage
from testing.proving_model import BASE, CLAIM, HEAD, ProvingModel, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.loopback_model.replies import Reply
    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap"),
]

#: What it answers instead of what it is asked for.
BAD: dict[str, Reply] = {
    "prose": Answer("It looks right to me."),
    "cut": Answer('{"verdict": "fault", "rea', finish_reason="length"),
    "types": Answer('{"verdict": true, "reason": 3, "line": [], "kind": [], "edits": {}}'),
    "mute": Answer(""),
    "tools": Answer(None, calls=[Call("no_such_tool"), Call("read", "{")]),
    "refused": refusal(500, "out of order"),
    "both": Answer('{"verdict": "fault wrong_test", "reason": "both"}'),
    "lazy": Answer('{"verdict": "fault", "reason": "", "line": ""}'),
    "else": Answer('{"verdict": "fault", "reason": "x", "line": "import sys"}'),
}
#: The question, how it is answered, and whether the claim is proven all the same.
CASES = [
    *(("judge", how, False) for how in BAD if how != "mute"),
    *(("reproduce", how, False) for how in ("types", "mute", "refused")),
    *(("mend", how, True) for how in ("prose", "tools")),
    *(("describe", how, True) for how in ("prose", "refused")),
]


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    repo.write("shop.py", BASE).commit()
    repo.write("shop.py", HEAD).commit()
    yield found
    found.clean()


@pytest.mark.parametrize(("question", "how", "is_proven"), CASES)
def test_a_claim_is_proven_by_what_is_judged_and_named_in_any_case(
    stage: Stage, llm: ModelServer, question: str, how: str, is_proven: bool
) -> None:
    # Who refutes all refutes nothing that ran and was not judged.
    model = ProvingModel(refuted="refuted" if question == "judge" else "unsure")

    def answer(asked: Asked) -> Reply:
        return BAD[how] if kind_of(asked) == question else model(asked)

    llm.script(answer)
    env = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}
    ended = stage.cli("review", "--base", "HEAD~1", "--model", "m", "--format", "json", env=env)
    assert ended.code in ({1} if is_proven else {0, 8}), ended
    report = Report.from_dict(json.loads(ended.stdout))
    [finding] = [one for one in report.findings if one.source == "model:m"]
    assert finding.proof is not None
    assert (finding.proof.level == "proven") == is_proven, finding.proof.reason
    for form in ("text", "markdown", "html"):
        shown = " ".join(surfaces.render(report, form, surfaces.RenderOptions()).split())
        assert CLAIM["rule"] in shown, form
        assert "nothing to fix" not in shown, form
    if question in ("judge", "reproduce") and ended.code == 0:
        assert stage.cli("replay", "latest", "--check").code == 0
        assert stage.cli("verify", "latest").code == 0


FALSE = {**CLAIM, "quote": "these words are in no file"}
#: What it claims, the question that it answers badly, how, and what a person reads first.
LOST = {
    "no forms": ([CLAIM["message"], {**CLAIM, "severity": "grave"}, FALSE], "", "",
                 "3 claims could not be checked"),
    "no guideline": ([{**CLAIM, "guideline": {
        "path": "AGENTS.md", "line_start": 1, "line_end": 1, "quote": "Be kind."
    }}], "", "", "1 claim could not be checked"),
    **{f"{how} for a test, and no for an answer":
       ([CLAIM], "reproduce", how, "1 claim refuted by an argument alone")
       for how in ("prose", "cut", "types")},
}  # fmt: skip


def test_an_answer_of_which_nothing_holds_leaves_its_part_unread(
    stage: Stage, llm: ModelServer
) -> None:
    llm.script(lambda _: Answer(json.dumps({"findings": [FALSE, {**FALSE, "rule": "other"}]})))
    env = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}
    ended = stage.cli("review", "--base", "HEAD~1", "--model", "m", env=env)
    assert ended.code == 3, ended
    assert "nothing that the model claimed holds: 2 claims dropped" in " ".join(
        ended.stdout.split()
    )
    assert "Clean" not in ended.stdout
    assert "0 findings in 0 of 1 file" in ended.stdout
    assert stage.cli("replay", "latest", "--check").code == 0
    again = stage.cli("review", "--base", "HEAD~1", "--model", "m", "--format", "json", env=env)
    [part] = again.json()["parts"]
    assert part["metrics"]["looked"] == 0
    assert part["metrics"]["confidence"] < 0.5


def test_a_prompt_that_the_endpoint_cut_was_not_read(stage: Stage, llm: ModelServer) -> None:
    lines = "".join(f"VALUE_{number} = {number} * len('a word')\n" for number in range(900))
    stage.repo.write("values.py", lines).commit()
    llm.script(lambda _: Answer('{"findings": []}', usage=(1028, 5)))
    env = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}
    ended = stage.cli("review", "--base", "HEAD~1", "--model", "m", env=env)
    output = " ".join((ended.stdout + ended.stderr).split())
    assert ended.code == 3, ended
    assert "the endpoint cut the prompt: it read 1,028 tokens of a prompt of " in output
    assert "num_ctx of Ollama" in output
    assert "Clean" not in output


@pytest.mark.parametrize("case", LOST)
def test_nothing_is_clean_where_all_claims_were_lost(
    stage: Stage, llm: ModelServer, case: str
) -> None:
    claims, question, how, headline = LOST[case]
    model = ProvingModel(claims=(), refuted="refuted")
    told = {"findings": [*claims, CLAIM] if case == "no forms" else claims}

    def answer(asked: Asked) -> Reply:
        kind = kind_of(asked)
        if kind == "find":
            return Answer(json.dumps(told))
        return BAD[how] if kind == question else model(asked)

    llm.script(answer)
    if case == "no forms":  # one of them has its form, so that the answer counts
        told["findings"][-1] = {**CLAIM, "domain": "docs"}
    env = {
        "OPENAI_API_KEY": llm.key,
        "OPENAI_BASE_URL": llm.url,
        "RLM_CI_REVIEW_DOMAINS": "quality",
    }
    ended = stage.cli("review", "--base", "HEAD~1", "--model", "m", "--format", "json", env=env)
    assert ended.code == 0, ended
    report = Report.from_dict(json.loads(ended.stdout))
    for form in ("text", "markdown", "html"):
        shown = surfaces.render(report, form, surfaces.RenderOptions())
        assert f"Nothing shown: {headline}" in shown, form
        for clean in ("Clean", "nothing to fix", "✓ ", "✅"):
            assert clean not in shown, (form, clean)
    assert stage.cli("replay", "latest", "--check").code == 0
    assert stage.cli("verify", "latest").code == 0
