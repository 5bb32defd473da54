"""Answers of a model, kept in a file and played again: to the same prompt, and to no other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.config.options import BUDGET, MODEL
from rlm_ci.config.settings import Settings
from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.judge.options import models_of
from rlm_ci.models import Completion, ModelRequest, TokenUsage
from rlm_ci.models.gateway import CONNECTOR, Gateway, opened, provider_of
from rlm_ci.models.record.clock import RunClock
from rlm_ci.models.record.record import Record
from rlm_ci.models.recorded import RecordedModel, digest, keep, line

if TYPE_CHECKING:
    from pathlib import Path

SAID = Completion("yes", (), "stop", "m", TokenUsage(10, 2))


def asks(text: str, **more: object) -> ModelRequest:
    request = ModelRequest("m", ({"role": "user", "content": text},), 100)
    return request.replace(**more)


def options_of(environ: dict[str, str]) -> Settings:
    return Settings((*MODEL, *BUDGET), {"model": "m"}, environ)


class Says:
    """A model of the caller's own, which says what it was asked."""

    name = CONNECTOR

    def complete(self, request: ModelRequest) -> Completion:
        return SAID.replace(text=f"the key to {request.messages[0]['content']}")


def test_what_a_model_answered_is_played_to_the_same_prompt(tmp_path: Path) -> None:
    path = str(tmp_path / "answers.jsonl")

    def complete(environ: dict[str, str], text: str, model: Says | None = None) -> Completion:
        options = models_of(options_of(environ))
        with Record.open(
            str(tmp_path / f"{text}{len(environ)}"), redact=lambda said: said.replace("key", "*")
        ) as record:
            way = Gateway(
                options, record, RunClock(record.fact), model="m", max_minutes=None,
                provider=model.name if model else None, connector=model,
            )  # fmt: skip
            return way.complete(asks(text), "place")

    first = complete({"RLM_CI_MODELS_RECORDING": path}, "a", Says())
    assert first.text == "the * to a"  # no secret is written
    played = {"OPENAI_BASE_URL": f"recorded:{path}", "X": ""}
    again = complete(played, "a")
    assert (again.text, again.usage) == (first.text, first.usage)
    with pytest.raises(ConfigError, match="no answer to this prompt"):
        complete(played, "b")


def test_a_run_goes_on_with_what_it_began_with(tmp_path: Path) -> None:
    options = models_of(options_of({"OPENAI_BASE_URL": f"recorded:{tmp_path / 'a'}"}))
    assert provider_of(options) == "recorded"
    with Record.open(str(tmp_path / "calls"), redact=str) as record:
        clock = RunClock(record.fact)
        with pytest.raises(ConfigError, match="began with openai"):
            Gateway(options, record, clock, model="m", max_minutes=None, provider="openai")
    keep(str(tmp_path / "a"), asks("a"), SAID)
    with opened(options) as model:
        assert model.complete(asks("a")) == SAID


def test_a_prompt_is_what_the_model_reads() -> None:
    same = asks("a").replace(model="other", max_tokens=5, seconds=1.0)
    assert digest(same) == digest(asks("a")) != digest(asks("b"))
    assert digest(asks("a", tools=({"type": "function"},))) != digest(asks("a"))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (None, ConfigError),
        (b"{", DamagedError),
        (b"[1]\n", DamagedError),
        (line({"prompt": "x", "answer": {"text": "a"}}), DamagedError),
        (line({"prompt": "x", "answer": 3}), DamagedError),
    ],
)
def test_a_file_that_is_none_is_an_error(
    data: bytes | None, error: type[Exception], tmp_path: Path
) -> None:
    path = tmp_path / "answers.jsonl"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(error, match=r"recording"):
        RecordedModel(str(path))


def test_the_first_answer_to_a_prompt_counts_and_other_lines_do_not(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(line({"head": "of something"}))
    for text in ("yes", "no"):
        keep(str(path), asks("a"), SAID.replace(text=text))
    with RecordedModel(str(path)) as model:
        assert model.complete(asks("a")) == SAID
