"""Recorded answers to ``bench review``: whose, for which changes, and only for these."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import ConfigError, DamagedError, UnavailableError
from rlm_ci.lab.planted_bugs import recording
from rlm_ci.lab.planted_bugs.recording import SHIPPED, Recording
from rlm_ci.models import Completion, ModelRequest
from rlm_ci.models.recorded import keep, rows

if TYPE_CHECKING:
    from pathlib import Path

CHANGES = {"seed": 3, "bugs": 2, "honest": 1}


def test_answers_are_joined_under_a_head(tmp_path: Path) -> None:
    said = Completion("[]", (), "stop", "m")
    for name in ("000-mdurl-0.1.2", "001-mdurl-0.1.2"):
        (tmp_path / name).mkdir()
    (tmp_path / "runs").mkdir()
    for text in ("a", "b", "a"):
        asked = ModelRequest("m", ({"role": "user", "content": text},), 9)
        keep(str(tmp_path / "000-mdurl-0.1.2" / recording.ANSWERS), asked, said)
    path = str(tmp_path / "made.jsonl")
    environ = {"RLM_CI_REVIEW_DEPTH": "quick", "OPENAI_API_KEY": "secret", "PATH": "/bin"}
    recording.write(path, str(tmp_path), "m", CHANGES, environ)
    assert len(rows(path)) == 3
    found = Recording.load(path)
    found.require(CHANGES)
    found.require_projects()
    assert (found.model, list(found.projects)) == ("m", ["mdurl"])
    assert "Recorded answers of m" in found.notice()
    # Settings of a review are those of the recording; no other variable comes from it.
    mine = {"RLM_CI_REVIEW_DOMAINS": "docs", "RLM_CI_MODEL": "x", "PATH": "/usr/bin"}
    assert found.environ(mine) == {
        "RLM_CI_REVIEW_DEPTH": "quick", "PATH": "/usr/bin", "OPENAI_BASE_URL": f"recorded:{path}",
    }  # fmt: skip
    with pytest.raises(ConfigError, match="about --seed 3, not 4"):
        found.require({"seed": 4})
    other = found.replace(projects={"mdurl": "0.0.9"}, settings={"PATH": "/evil"})
    assert other.environ({})["OPENAI_BASE_URL"]
    assert "PATH" not in other.environ({})
    with pytest.raises(UnavailableError, match="other versions of mdurl") as refused:
        other.require_projects()
    assert "pip install mdurl==0.0.9" in refused.value.hint


@pytest.mark.parametrize("head", [{}, {"bench-review": 3}, {"bench-review": {"seed": "x"}}])
def test_a_file_without_its_head_is_none(head: object, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps(head))
    with pytest.raises(DamagedError, match="what it is about"):
        Recording.load(str(path))


def test_the_shipped_one_says_whose_answers_it_has() -> None:
    found = Recording.load(SHIPPED)
    assert "No model was asked now" in found.notice()
    assert found.by.startswith("an AI agent")
    assert (found.bugs, found.honest) == (8, 2)
