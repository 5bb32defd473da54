"""Which mode a goal is gone about in, why, and what becomes of it without a context."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from rlm_ci.context.builder.build import build
from rlm_ci.errors import ConfigError
from rlm_ci.pipelines import stored_runs
from rlm_ci.solve import pipeline
from testing.ask_stage import LOG, QUESTION, Script, final, require_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testing.ask_stage import Asking

#: Mends nothing and asks nobody: enough to see that a goal was taken for one of the fix loop.
FIX = ("--agent", "autofix", "--validator", "true")
PARENT = {"CODEX_DELEGATION_PARENT_MANIFEST_PATH": "/runs/parent/manifest.json"}
CONTEXT = {"RLM_CONTEXT_PATH": LOG}
LARGE = "Why? " * 20


@pytest.mark.parametrize(
    ("environ", "goal", "mode", "why"),
    [
        ({}, QUESTION, "iterative", "there is no context, and the goal is short"),
        (PARENT, QUESTION, "symbolic", "the run is delegated"),
        (CONTEXT, QUESTION, "symbolic", "there is a context (RLM_CONTEXT_PATH)"),
        ({"RLM_SYMBOLIC_MIN_BYTES": "99"}, LARGE, "symbolic", "the goal has 100 bytes"),
        ({"RLM_SYMBOLIC_MIN_BYTES": "100"}, LARGE, "iterative", "the goal is short"),
        ({"RLM_SYMBOLIC_MIN_BYTES": "199"}, "é" * 100, "symbolic", "200 bytes, more than 199"),
        ({}, "x" * (1 << 20), "iterative", "the goal is short"),
        ({}, "x" * ((1 << 20) + 1), "symbolic", "1,048,577 bytes, more than 1,048,576"),
        ({**PARENT, **CONTEXT, "RLM_MODE": "auto"}, QUESTION, "symbolic", "is delegated"),
        ({**PARENT, **CONTEXT, "RLM_MODE": "iterative"}, QUESTION, "iterative", "RLM_MODE says so"),
        ({"RLM_MODE": "symbolic"}, QUESTION, "symbolic", "RLM_MODE says so"),
    ],
)
def test_the_table(
    monkeypatch: pytest.MonkeyPatch, environ: Mapping[str, str], goal: str, mode: str, why: str
) -> None:
    """Spec, mode selection: ``RLM_MODE=iterative|symbolic|auto``; "Default: RLM_MODE=auto
    everywhere"; auto is symbolic when the run is delegated, or RLM_CONTEXT_PATH is provided, or
    the input exceeds RLM_SYMBOLIC_MIN_BYTES (default 1 MB); "Otherwise iterative".
    """
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    found = pipeline.select(stored_runs.settings_of({}), goal)
    assert (found.name, why in found.reason) == (mode, True), found


def test_the_flag_goes_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLM_MODE", "iterative")
    found = pipeline.select(stored_runs.settings_of({"mode": "symbolic"}), QUESTION)
    assert (found.name, found.reason) == ("symbolic", "--mode says so")


def test_another_mode_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RLM_MODE", "recursive")
    with pytest.raises(ConfigError, match="recursive") as caught:
        stored_runs.settings_of({})
    assert "RLM_MODE" in str(caught.value.where)


def test_a_delegated_run_without_a_context_is_about_its_goal(stage: Asking) -> None:
    """Decision 13e: "Symbolic over the goal text"; spec: "default to true RLM for delegated
    runs". The reason is recorded in the state.
    """
    stage.llm.script(Script(final()))
    goal = "What is the third word of this line?"
    ended, run = stage.ask(context=None, question=goal, env=PARENT)
    assert ended.code == 0, ended
    assert (run.folder / "rlm/context/source.txt").read_text() == goal
    assert run.state["mode"] == "symbolic"
    assert run.state["modeReason"] == (
        "the run is delegated (CODEX_DELEGATION_PARENT_MANIFEST_PATH)"
    )


@pytest.mark.full
def test_a_large_goal_is_its_own_context(stage: Asking) -> None:
    """Spec: auto is symbolic when the input exceeds RLM_SYMBOLIC_MIN_BYTES. The prompt has the
    goal's head alone.
    """
    goal = "".join(f"Line {n} of a goal that is long. " for n in range(3000))
    stage.llm.script(Script(final()))
    ended, run = stage.ask(context=None, question=goal, env={"RLM_SYMBOLIC_MIN_BYTES": "90000"})
    assert ended.code == 0, ended
    assert (run.folder / "rlm/context/source.txt").read_text() == goal
    [prompt] = stage.prompts()
    assert goal[:4000] in prompt
    assert goal[:9000] not in prompt
    [turn] = run.state["symbolic_iterations"]
    assert turn["truncation"]["goal_bytes_dropped"] > 80_000


@pytest.mark.full
def test_auto_falls_back_where_the_context_cannot_be_built(stage: Asking) -> None:
    """Spec: "If RLM_MODE=auto and context build fails, fall back to iterative with warning"."""
    ended, run = stage.ask(*FIX, context="nowhere.log")
    assert ended.code == 3, ended  # nothing was changed
    assert "the source cannot be read" in ended.stderr
    assert "nowhere.log" in ended.stderr
    state = run.state
    assert state["mode"] == "iterative"
    assert state["modeReason"].startswith("there is a context (--context), and cannot be built: ")
    assert not stage.llm.asked
    replayed = stage.cli("replay", run.id, "--check")
    assert replayed.code == 0, replayed


@pytest.mark.parametrize("data", [b"%PDF-1.7\n\xe2\xe3 stream", b"\x7fELF" + bytes(99), bytes(100)])
def test_what_is_no_text_is_an_error_and_no_reason_to_fix(stage: Asking, data: bytes) -> None:
    stage.repo.write("spec.pdf", data)
    ended, run = stage.ask(*FIX, context="spec.pdf")
    assert ended.code == 5, ended
    assert "the source cannot be read as text" in ended.stderr
    assert run.state["mode"] == "symbolic"
    assert not stage.llm.asked


def test_an_object_that_was_tampered_with_is_no_context(stage: Asking) -> None:
    """Spec: the same fallback; a tampered object is refused by name."""
    source = stage.repo.path / "object/source.txt"
    build(str(stage.repo.path / LOG), str(source.parent)).close()
    source.write_bytes(source.read_bytes().replace(b"order 7 ", b"order 8 "))
    ended, run = stage.ask(*FIX, context="object")
    assert (ended.code, run.state["mode"]) == (3, "iterative"), ended
    assert "source.txt" in ended.stderr
    ended, run = stage.ask("--mode", "symbolic", context="object")
    assert (ended.code, run.state["mode"]) == (6, "symbolic"), ended
    assert "source.txt" in ended.stderr


def test_symbolic_fails_where_the_context_cannot_be_built(stage: Asking) -> None:
    """Spec: "If RLM_MODE=symbolic and context build fails, hard-fail with actionable error"."""
    ended, run = stage.ask(context="nowhere.log", env={"RLM_MODE": "symbolic"})
    assert ended.code == 5, ended
    [error] = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    [hint] = [line for line in ended.stderr.splitlines() if line.startswith("hint: ")]
    assert "nowhere.log" in error
    assert "name a file, a folder" in hint
    state = run.state
    assert (state["mode"], state["context"], state["symbolic_iterations"]) == ("symbolic", None, [])
    assert (state["final"]["status"], state["final"]["exitCode"]) == ("invalid_config", 5)
    assert run.report["verdict"] == "not_run"
    assert not stage.llm.asked


def test_the_fix_loop_s_state_follows_the_same_schema(stage: Asking) -> None:
    """Spec: the extension is additive; "existing fields remain valid"."""
    from testing.fix_stage import ITERATION_KEYS, STATE_KEYS, TWO_TURNS

    stage.llm.script(TWO_TURNS)
    _, run = stage.fixed("--validator", "grep -q 'a + b' calc.py", goal="fix it")
    require_state(run)
    assert run.state.keys() == STATE_KEYS | {"modeReason"}
    assert run.state["iterations"]
    assert all(turn.keys() == ITERATION_KEYS for turn in run.state["iterations"])
    assert json.loads(run.text("rlm/state.json"))["modeReason"]
