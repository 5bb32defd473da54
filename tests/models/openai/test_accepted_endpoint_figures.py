"""What a model shows of itself, and what of it later runs know."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rlm_ci.models.openai.accepted import FILE, NO_FIGURES, EndpointFigures, ModelFigures

if TYPE_CHECKING:
    from pathlib import Path

URL, MODEL = "http://127.0.0.1:8000/v1?key=sk-secret", "small"
DAY = 86_400


def figures(folder: Path, model: str = MODEL, at: float = 1_000) -> EndpointFigures:
    return EndpointFigures(str(folder), URL, model, lambda: at)


def test_a_later_run_knows_the_mean_of_long_prompts_and_what_was_refused(tmp_path: Path) -> None:
    first = figures(tmp_path)
    assert (first.stored, first.shown) == (NO_FIGURES, NO_FIGURES)
    first.count(300, 300)  # mostly of the template
    first.count(12_000, 10_000)
    first.count(6_000, 2_000)
    first.refuse(8_192)
    assert first.shown == ModelFigures(1.5, 8_192)
    later = figures(tmp_path)
    assert later.stored == ModelFigures(1.5, 8_192)
    assert later.shown == ModelFigures(1.5, None), "the server may have been started anew"
    assert figures(tmp_path, "other").stored == NO_FIGURES
    assert "sk-secret" not in (tmp_path / FILE).read_text()


def test_a_density_that_hardly_differs_leaves_what_is_kept(tmp_path: Path) -> None:
    figures(tmp_path).count(6_000, 2_000)
    for tokens, kept in ((2_100, 3.0), (1_900, 3.0), (2_500, 2.4)):
        figures(tmp_path).count(6_000, tokens)
        assert figures(tmp_path).stored.bytes_per_token == kept


def test_what_a_model_reads_counts_for_a_week(tmp_path: Path) -> None:
    first = figures(tmp_path)
    first.refuse(8_192)
    first.count(6_000, 2_000)
    assert figures(tmp_path, at=1_000 + 6 * DAY).stored == ModelFigures(3.0, 8_192)
    for at in (1_000 + 8 * DAY, 0):
        assert figures(tmp_path, at=at).stored == ModelFigures(3.0, None)


def test_the_latest_hundred_models_are_kept(tmp_path: Path) -> None:
    for number in range(102):
        figures(tmp_path, f"m-{number}").refuse(8_192)
    rows = json.loads((tmp_path / FILE).read_text())["models"].values()
    assert [row["model"] for row in rows] == [f"m-{number}" for number in range(2, 102)]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "[" * 100_000, '{"version": 2}', '{"version": 1, "models": []}', "\x00"],
)
def test_another_file_counts_as_none_and_is_replaced(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    found = figures(tmp_path)
    assert found.stored == NO_FIGURES
    found.refuse(8_192)
    assert figures(tmp_path).stored == ModelFigures(None, 8_192)


@pytest.mark.parametrize(
    "row", [1, {}, {"bytes_per_token": "3", "context_tokens": True, "at": 1_000},
            {"bytes_per_token": -1.0, "context_tokens": 10, "at": 1_000},
            {"bytes_per_token": 1e9, "context_tokens": 8_192, "at": "now"}],
)  # fmt: skip
def test_figures_that_cannot_be_count_as_none(tmp_path: Path, row: object) -> None:
    figures(tmp_path).refuse(8_192)
    value = json.loads((tmp_path / FILE).read_text())
    value["models"] = dict.fromkeys(value["models"], row)
    (tmp_path / FILE).write_text(json.dumps(value))
    assert figures(tmp_path).stored == NO_FIGURES


def test_nothing_is_written_without_a_folder_or_where_there_is_none(tmp_path: Path) -> None:
    for folder in ("", str(tmp_path / "missing" / "runs")):
        found = EndpointFigures(folder, URL, MODEL)
        found.refuse(8_192)
        assert found.shown.context_tokens == 8_192
    assert not list(tmp_path.rglob(FILE))
