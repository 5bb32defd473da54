"""Counts in a run: what a prompt shows of them, that no secret gets out, what the record has."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from rlm_ci.context.scope import Scope
from rlm_ci.environments.symbolic.planner.plan import Count, Plan
from rlm_ci.text import patterns
from testing.scripted_questions import SECRET, Stage, harbour, player

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.context.context import Context
    from rlm_ci.environments.symbolic.iteration import CountResult


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Context:
    return harbour(tmp_path_factory.mktemp("harbour"))


ALL = Scope()


def asked(
    pattern: str, scope: Scope = ALL, by: str = "", *, fold: bool = False, top_k: int = 3
) -> Count:
    return Count(pattern, scope, by, fold, top_k, hits=2)


def counted(folder: Path, context: Context, *counts: Count) -> tuple[CountResult, ...]:
    stage = Stage(folder, context, player(context))
    return stage.symbolic.act(Plan("continue", counts=counts), 4).counts


def test_rows_name_values_chunks_and_files(tmp_path: Path, context: Context) -> None:
    berths, files, chunks, nothing = counted(
        tmp_path,
        context,
        asked(r"pressure (\d)\d?() at berth ([2-4])$"),
        asked("tor|GATE", by="file", fold=True),
        asked("gate", Scope("c000002-c000003"), top_k=1),
        asked("nothing"),
    )
    gate, keeper, odd = (file.start for file in context.files)
    assert berths.pointer == "count:4:1"
    assert berths.pattern_count is not None
    values = berths.rows.split("\n")
    assert re.fullmatch(r'\d: "\d", "", "[2-4]", first at bytes .*', values[0])
    assert len(values) == 3 < berths.pattern_count.values
    start, end = berths.pattern_count.rows[0].spans[2]
    assert context.raw(start, end) in b"234"
    assert f"{start}-{end}" in values[0]
    assert files.rows == (
        f'59: "gate.log", bytes {gate}-{keeper}\n8: "keeper.md", bytes {keeper}-{odd}\n'
        f'4: "odd.bin.txt", bytes {odd}-{context.byte_length}'
    )
    assert files.hits[0].preview == "0000 the gate reports pressure 0 at berth 0"
    assert chunks.rows.split(": ")[1] in ("chunk:c000002", "chunk:c000003")
    assert chunks.pattern_count is not None
    assert chunks.pattern_count.values == 2
    assert (nothing.rows, nothing.hits) == ("", ())


def test_no_half_of_a_secret_is_captured(tmp_path: Path, context: Context) -> None:
    halves, _ = counted(tmp_path, context, asked("with ([a-z]+[0-9])"), asked("er2-(hunt)"))
    assert halves.pattern_count is not None
    assert halves.rows.startswith('1: "[redacted]", first at')
    assert SECRET[:5] not in halves.rows + halves.hits[0].preview
    whole = json.dumps([one.to_dict() for one in (halves, _)])
    assert SECRET[:5] not in whole.replace("er2-(hunt)", "")


def test_an_error_goes_to_the_planner_and_is_not_looked_for_again(
    tmp_path: Path, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long an expression takes depends on the machine, so its end is a fact."""
    monkeypatch.setattr(patterns, "SECONDS", 0.01)
    slow = asked(r"^(.|..|...)+[#!\x00]$")
    wrong = [slow, asked("("), asked("gate", Scope("c000900")), asked("gate", by="groups")]
    errors = [one.fact["error"] for one in counted(tmp_path, context, *wrong)]
    assert "use a simpler expression" in errors[0]
    assert "missing )" in errors[1]
    assert "there are no chunks c000900: they go from c000001" in errors[2]
    assert "put what to count in parentheses" in errors[3]
    monkeypatch.setattr(patterns, "SECONDS", 60)
    again = counted(tmp_path, context, *wrong)
    assert [one.fact["error"] for one in again] == errors
