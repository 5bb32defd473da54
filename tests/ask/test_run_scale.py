"""A needle in a gigabyte, found within the budgets of a small run."""

from __future__ import annotations

import json
import re
import shutil
from hashlib import sha256
from typing import TYPE_CHECKING

import pytest

from testing.ask_stage import (
    NOBODY,
    Script,
    final,
    going_on,
    measured,
    read,
    require_state,
    span,
    subcall,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from testing.ask_stage import Asking

GIB = 1 << 30
#: What the disk must have free: the text and the run's copy of it, and room for others.
ROOM = 4 * GIB
NEEDLE = b"\nthe keeper's lamp was lit by order 77 of the harbour master\n"
AT = 800 << 20 | 12345


@pytest.fixture
def haystack(tmp_path: Path) -> Iterator[Path]:
    """A gigabyte of lines that are much alike, with a needle in it; removed at the end."""
    if shutil.disk_usage(tmp_path).free < ROOM:
        pytest.skip("the disk has not 4 GB free")
    lines = "".join(
        f"{n:07} the lamp of the keeper stayed dark, order {n}\n" for n in range(40_000)
    )
    block = (lines.encode() * 2)[: 2 << 20]
    path = tmp_path / "haystack.log"
    with path.open("wb") as stream:
        for _ in range(GIB // len(block)):
            stream.write(block)
        stream.seek(AT)
        stream.write(NEEDLE)
    yield path
    path.unlink()
    shutil.rmtree(tmp_path / "repo" / ".runs")


@pytest.mark.long
@pytest.mark.full
@pytest.mark.timeout(900)
def test_a_needle_in_a_gigabyte(stage: Asking, haystack: Path) -> None:
    """A needle in 1 GiB is found within the budgets; memory stays flat, and prompts small."""

    def close(prompt: str) -> tuple[int, int]:
        start = int(re.findall(r"the first at bytes (\d+)-\d+", prompt)[0])
        return start, start + len(b"harbour master")

    stage.llm.script(
        Script(
            going_on(searches=[{"query": one} for one in ("HARBOUR MASTER", "keeper", "absent")]),
            lambda prompt: going_on(
                reads=[read(span(close(prompt)[0] - 60, close(prompt)[1]), 300)],
                subcalls=[subcall(span(close(prompt)[0] - 9999, close(prompt)[1]), size=9000)],
            ),
            lambda prompt: final(f"By the harbour master [{span(*close(prompt))}]."),
        )
    )  # fmt: skip
    words = ("--context", str(haystack), "--max-iterations", "3", "--max-calls", "4",
             "--max-tokens", "200000", "--budget-usd", "0.2", "--max-minutes", "10")  # fmt: skip
    code, stderr, peak = measured(stage, *words, seconds=600)
    assert code == 0, stderr
    run = stage.only()
    require_state(run)
    state = run.state
    assert state["context"]["byte_length"] == GIB
    [needle, common, absent] = state["symbolic_iterations"][0]["searches"]
    assert (needle["total_hits"], absent["total_hits"]) == (1, 0)
    assert common["total_hits"] > 10_000_000
    assert needle["hits"][0]["start_byte"] == AT + NEEDLE.index(b"harbour master")
    assert run.report["evidence"]["verified"] == 1
    assert len(stage.llm.completions) == 4
    assert sum(len(prompt.encode()) for prompt in stage.prompts()) < 100_000
    assert peak < 300 << 20
    index = json.loads((run.folder / "rlm/context/index.json").read_text())
    with haystack.open("rb") as stream:
        stream.seek(index["chunks"][7]["start"])
        assert sha256(stream.read(65536)).hexdigest() == index["chunks"][7]["sha256"]
    haystack.write_bytes(b"")
    replayed = stage.cli("replay", run.id, "--check", env=NOBODY, timeout=300)
    assert replayed.code == 0, replayed
    verified = stage.cli("verify", run.id, timeout=300)
    # The file that the answer cites is outside of the repository: nothing else is wrong.
    assert verified.code == 0, verified
