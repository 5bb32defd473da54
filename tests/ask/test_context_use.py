"""What a run showed of its source: by its files, and by its bytes."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.ask.context_use import examine
from rlm_ci.context.context import Context
from testing.scripted_questions import Stage, harbour, player

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: So many bytes of the source in a row are no chance.
PIECE = 24


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ``rlm/`` of a run with its context in ``rlm/context``."""
    folder = tmp_path_factory.mktemp("run")
    with harbour(folder / "harbour") as context:
        Stage(folder / "run", context, player(context)).play()
    shutil.copytree(folder / "harbour" / "object", folder / "run" / "rlm" / "context")
    return folder / "run" / "rlm"


def prompts(rlm: Path) -> Iterator[tuple[bytes, list[dict[str, Any]]]]:
    """Each prompt of the planner with its sections."""
    for path in sorted(rlm.glob("planner/*/*/meta.json")):
        sections = json.loads(path.read_text())["sections"]
        yield path.with_name("prompt.txt").read_bytes(), sections


def test_what_a_planner_was_shown(finished: Path) -> None:
    with Context.open(str(finished / "context")) as context:
        use = examine(str(finished), context)
    sizes = [len(prompt) for prompt, _ in prompts(finished)]
    assert (use.prompts, use.largest) == (len(sizes), max(sizes))
    assert use.largest <= use.limit
    assert 0 < use.excerpt_bytes < (finished / "context/source.txt").stat().st_size
    assert (use.counts > 0, use.maps, use.problems) == (True, 1, ())


def test_a_count_is_counted_again(finished: Path, tmp_path: Path) -> None:
    """A count is a fact of the record, so the record alone would vouch for it."""
    rlm = shutil.copytree(finished, tmp_path / "rlm")
    state = json.loads((rlm / "state.json").read_text())
    state["symbolic_iterations"][0]["counts"][0]["found"]["rows"][0]["hits"] += 1
    (rlm / "state.json").write_text(json.dumps(state))
    with Context.open(str(rlm / "context")) as context:
        assert examine(str(rlm), context).problems == (
            "state.json, count:0:1: the context has other hits",
        )


def test_no_prompt_has_text_of_the_source_outside_of_its_excerpts(finished: Path) -> None:
    """The root never sees the text: looked up by other code than that which writes prompts."""
    source = (finished / "context/source.txt").read_bytes()
    excerpts = 0
    for prompt, sections in prompts(finished):
        for section in sections:
            data = prompt[section["start"] : section["end"]]
            if section["kind"] not in ("frame", "goal"):
                excerpts += 1
                continue
            windows = (data[at : at + PIECE] for at in range(len(data) - PIECE + 1))
            assert [window for window in windows if window in source] == []
    assert excerpts > 3
