"""``rlm-ci ask``: what it takes, and what it refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from testing.ask_stage import ANSWER, LOG, QUESTION
from testing.ask_stage_fixture import llm, stage

if TYPE_CHECKING:
    from testing.ask_stage import Asking
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm", "stage"]


def test_a_question_about_a_file_is_answered(stage: Asking) -> None:
    ended = stage.cli("ask", QUESTION, LOG)
    assert ended.code == 0, ended
    assert ANSWER in ended.stdout
    (run,) = stage.runs()
    assert run.state["mode"] == "symbolic"
    assert run.state["modeReason"] == "rlm-ci ask says so"


def test_standard_input_is_a_text_too(stage: Asking) -> None:
    ended = stage.cli("ask", QUESTION, "-", stdin=(stage.repo.path / LOG).read_bytes())
    assert ended.code == 0, ended
    assert ANSWER in ended.stdout


@pytest.mark.parametrize(
    ("words", "what", "hint"),
    [
        ([], "ask takes a question", 'rlm-ci ask "QUESTION" PATH'),
        (["why?"], "there is no text to ask about", "name a file, a folder, or -"),
        (["why?", "a", "b"], "ask takes a question", 'rlm-ci ask "QUESTION" PATH'),
        (["why?", "a", "--validator", "x"], "unknown option '--validator'", "rlm-ci ask"),
        (["why?", "a", "--apply"], "unknown option '--apply'", "rlm-ci ask"),
    ],
)
def test_wrong_use(cli: Cli, repo: GitRepo, words: list[str], what: str, hint: str) -> None:
    ended = cli("ask", *words, cwd=repo)
    assert (ended.code, ended.stdout) == (2, "")
    error, advice = ended.stderr.splitlines()
    assert what in error
    assert hint in advice


def test_a_file_that_is_not_there(stage: Asking) -> None:
    ended = stage.cli("ask", QUESTION, "missing.log")
    assert ended.code == 5
    assert "missing.log" in ended.stderr
