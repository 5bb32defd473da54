"""Where the answer of a question is told, and what is refused before one is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.ask_stage import ANSWER, LOG, QUESTION, Script, final, going_on

if TYPE_CHECKING:
    from testing.ask_stage import Asking


@pytest.mark.full
def test_a_resumed_question_shows_its_answer(stage: Asking) -> None:
    """``resume``, ``status`` and ``wait`` say where it lies; ``resume`` prints it as well."""
    stage.llm.script(Script(going_on("pause", reason="let me rest"), final()))
    paused, run = stage.fixed("--context", LOG, goal=QUESTION)
    assert paused.code == 3, paused
    assert run.manifest["summary"] == "paused: let me rest"
    assert "answer  " not in stage.cli("status", run.id).stdout
    resumed = stage.cli("resume", run.id)
    assert resumed.code == 0, resumed
    assert resumed.stdout.startswith(ANSWER)
    place = next(path for path in run.folder.rglob("answer.md"))
    told = f"answer     {place.relative_to(stage.repo.path)}\n"
    for ended in (resumed, stage.cli("status", run.id), stage.cli("wait", run.id)):
        assert told in ended.stdout


def test_an_empty_context_is_refused(stage: Asking) -> None:
    """A context that somebody names and that holds nothing is an error of whoever named it."""
    stage.repo.write("empty.log", "").commit()
    ended, run = stage.fixed("--context", "empty.log", goal=QUESTION)
    assert (ended.code, run.final) == (5, "invalid_config"), ended
    assert "the context is empty" in ended.stderr
    assert not stage.llm.asked


def test_the_background_has_no_standard_input(stage: Asking) -> None:
    words = ("start", "rlm", "--goal", QUESTION, "--model", "gpt-4o-mini")
    for ended in (
        stage.cli(*words, "--context", "-", stdin=b"text"),
        stage.cli(*words, env={"RLM_CONTEXT_PATH": "-"}),
    ):
        assert (ended.code, ended.stdout) == (2, ""), ended
        assert "no standard input" in ended.stderr
        assert "hint: name a file" in ended.stderr
