"""One whole run, looked at from every side: state, artifacts, prompts, answer, evidence."""

from __future__ import annotations

import copy
import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.resources import loader
from testing.ask_stage import ANSWER, LOG, QUESTION, REFUSED, STORY, STUCK, Asking, Script, log
from testing.loopback_model.server import ModelServer
from testing.program import Cli
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from testing.fix_stage import Outcome
    from testing.program import Ended


class Told:
    """What the run left; ``source`` is the text that it was about."""

    def __init__(self, stage: Asking, ended: Ended, run: Outcome) -> None:
        self.stage, self.ended, self.run = stage, ended, run
        self.source = log()
        self.turns = run.state["symbolic_iterations"]
        self.llm = stage.llm
        self.prompts = stage.prompts()

    def file(self, shown: str) -> bytes:
        """A file that the state names."""
        return (self.stage.repo.path / shown).read_bytes()


@pytest.fixture(scope="module")
def kept() -> dict[str, Told]:
    return {}


@pytest.fixture
def told(kept: dict[str, Told], tmp_path_factory: pytest.TempPathFactory) -> Told:
    """The story's run, made once, in the environment of the first test that asks."""
    if not kept:
        folder = tmp_path_factory.mktemp("story")
        with ModelServer(Script(*STORY)) as llm:
            stage = Asking(GitRepo(folder / "repo"), Cli(folder), llm)
            ended, run = stage.ask()
            assert not llm.unexpected()
        kept["run"] = Told(stage, ended, run)
    return kept["run"]


def test_it_ends_well(told: Told) -> None:
    """Spec: "Planner returns ``intent=final`` with ``final_answer``. The runner persists final
    state and exits."
    """
    assert told.ended.code == 0, told.ended
    final = told.run.state["final"]
    assert (final["status"], final["exitCode"]) == ("passed", 0)
    assert told.run.report["verdict"] == "clean"
    assert told.run.manifest["status"] == "succeeded"


def test_the_context_lies_in_the_run(told: Told) -> None:
    """Spec: "Single context per run, stored directly under .../rlm/context/": source.txt,
    index.json, pointers.md; the defaults of the chunks.
    """
    folder = told.run.folder / "rlm/context"
    assert sorted(os.listdir(folder)) == ["index.json", "pointers.md", "source.txt"]
    assert (folder / "source.txt").read_bytes() == told.source
    index = json.loads((folder / "index.json").read_text())
    assert index["chunking"]["target_bytes"] == 65536
    assert index["chunking"]["overlap_bytes"] == 4096
    state = told.run.state["context"]
    assert state["object_id"] == index["object_id"]
    assert state["chunk_count"] == len(index["chunks"]) == 3
    assert told.stage.repo.path / state["index_path"] == folder / "index.json"


def test_the_state_has_all_that_the_spec_names(told: Told) -> None:
    """Spec: "Required keys: mode, context, symbolic_iterations"; "Initialize rlm/state.json with
    context.object_id, chunk_count, budgets"; each iteration's ``planner_prompt_bytes``,
    ``reads[]``, ``subcalls[]``. Decision 9: iterations are numbered from 0.
    """
    state = told.run.state
    assert state["mode"] == "symbolic"
    assert state["modeReason"] == "there is a context (--context)"
    assert state["goal"] == QUESTION
    assert state["budgets"] == {
        "searches": 4, "reads": 8, "subcalls": 4, "read_bytes": 8192, "snippets": 8,
        "snippet_bytes": 8192, "subcall_input_bytes": 120000, "prompt_bytes": 32768,
        "top_k": 20, "preview_bytes": 512, "concurrency": 4, "counts": 4,
        "maps": 1, "map_parts": 1000,
    }  # fmt: skip
    assert [turn["iteration"] for turn in told.turns] == [0, 1, 2]
    assert [turn["intent"] for turn in told.turns] == ["continue", "continue", "final"]
    assert [len(turn["searches"]) for turn in told.turns] == [2, 0, 0]
    assert [len(turn["reads"]) for turn in told.turns] == [0, 1, 0]
    assert [len(turn["subcalls"]) for turn in told.turns] == [0, 2, 0]
    for turn, prompt in zip(told.turns, told.prompts, strict=True):
        assert turn["planner_prompt_bytes"] == len(prompt.encode())
        assert turn["planner_errors"] == turn["clamped"] == []
    [first, second] = told.turns[0]["searches"]
    assert (first["top_k"], first["total_hits"], second["total_hits"]) == (20, 2, 1)
    at = told.source.index(b"ERROR")
    [counted] = told.turns[0]["counts"]
    again = told.source.index(b"ERROR", at + 1)
    assert counted["found"] == {
        "error": None, "by": "groups", "hits": 2, "lines": 2, "chunks": 1, "values": 1,
        "rows": [{"spans": [[at - 9, at - 1]], "hits": 2}],
        "first": [[at - 9, at + 5], [again - 9, again + 5]],
    }  # fmt: skip
    assert first["hits"][0]["start_byte"] == at
    assert first["hits"][0]["end_byte"] == at + 5


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each member of a JSON value."""
    members = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in members:
        yield (*path, name)
        if isinstance(inner, dict | list):
            yield from _places(inner, (*path, name))


_LATER = ("counts", "maps", "map_parts")


@pytest.mark.full
def test_the_schema_of_the_state_knows_each_of_its_keys(told: Told) -> None:
    """schemas/state.schema.json: no key may be missing, be of another type, or be unknown."""
    first, second, _ = told.turns
    turn = {**second, "subcalls": second["subcalls"][:1], "counts": first["counts"]}
    turn["searches"] = first["searches"][:1]
    whole = {**told.run.state, "symbolic_iterations": [turn]}
    assert not loader.misfit(whole, "state.schema.json")
    checked = 0
    for *path, name in _places(whole):
        if not isinstance(name, str):
            continue
        for change in ("missing", "other", "unknown")[name in _LATER :]:  # older runs have none
            state = copy.deepcopy(whole)
            inner: Any = state
            for step in path:
                inner = inner[step]
            if change == "unknown":
                inner[f"{name}_2"] = inner[name]
            elif change == "other":
                inner[name] = 0.5 if isinstance(inner[name], str) else "other"
            else:
                del inner[name]
            assert loader.misfit(state, "state.schema.json"), (path, name, change)
            checked += 1
    assert checked > 200


def test_a_subcall_leaves_its_artifacts(told: Told) -> None:
    """Spec: "Subcall artifacts are written under .../rlm/subcalls/<iter>/<subcall_id>/
    {input.json,prompt.txt,output.txt,meta.json}"; the state refers to them with byte counts.
    """
    for number, entry in enumerate(told.turns[1]["subcalls"], 1):
        assert (entry["id"], entry["status"]) == (f"sc000{number}", "succeeded")
        paths = entry["artifact_paths"]
        folder = told.run.folder / f"rlm/subcalls/1/{entry['id']}"
        assert {name: told.stage.repo.path / path for name, path in paths.items()} == {
            "input": folder / "input.json", "prompt": folder / "prompt.txt",
            "output": folder / "output.txt", "meta": folder / "meta.json",
        }  # fmt: skip
        assert len(told.file(paths["output"])) == entry["output_bytes"]
        assert json.loads(told.file(paths["input"]))["purpose"] == entry["purpose"]
        assert json.loads(told.file(paths["meta"]))["status"] == "succeeded"
    pointers = told.turns[1]["subcalls"][1]["pointers"]
    assert [pointer.rpartition("#")[2] for pointer in pointers] == [
        "chunk:c000001", "chunk:c000003",
    ]  # fmt: skip


def test_a_subcall_is_one_completion_without_tools(told: Told) -> None:
    """Spec: "runner-scheduled single-completion invocations over pointer-resolved text (not a
    full tool-enabled session)"; "Subcalls are scheduled by runner with pointer inputs".
    """
    asked = [one for one in told.llm.completions if one.messages[0]["role"] == "user"]
    assert len(asked) == 2
    for one in asked:
        assert not {"tools", "functions", "tool_choice"} & set(one.body)
        assert len(one.messages) == 1
    sent = {one.messages[0]["content"] for one in asked}
    entries = told.turns[1]["subcalls"]
    assert {told.file(one["artifact_paths"]["prompt"]).decode() for one in entries} == sent
    [first] = [prompt for prompt in sent if "Purpose: extract" in prompt]
    assert 'Expected output: "one sentence"' in first
    start = 65536 - 4096
    assert told.source[start : start + 4000].decode() in first
    assert told.source[: start - 100].decode() not in first


def test_the_planner_never_sees_the_text(told: Told) -> None:
    """Spec: "Root model does not receive full context; it receives metadata + bounded excerpts
    only"; "store prompt snapshots so 'pointer-only contract' is verifiable".
    """
    for turn, prompt in zip(told.turns, told.prompts, strict=True):
        [attempt] = turn["planner"]
        assert told.file(attempt["prompt"]).decode() == prompt
        assert len(prompt.encode()) <= 32768
    first = told.prompts[0]
    assert not any(line in first for line in told.source.decode().splitlines())
    shown = [line for line in told.source.decode().splitlines() if line in told.prompts[-1]]
    assert 2 <= len(shown) < 40


def test_the_next_prompt_has_results_and_excerpts(told: Told) -> None:
    """Spec: "Next planner call receives only aggregated results + minimal excerpts"."""
    second, third = told.prompts[1:]
    assert REFUSED in second
    assert STUCK in third
    for entry in told.turns[1]["subcalls"]:
        assert told.file(entry["artifact_paths"]["output"]).decode() in third
        assert entry["pointer"] in third


def test_the_schema_is_the_form_that_is_asked_for(told: Told) -> None:
    """Decision 13c: structured output is tried on the first planner call and remembered."""
    forms = [
        one.body.get("response_format", {}).get("type")
        for one in told.llm.completions
        if one.messages[0]["role"] == "system"
    ]
    assert forms == ["json_schema"] * 3


def test_the_answer_is_shown_with_its_place(told: Told) -> None:
    """Each citation is verified and turned into path:line; the report carries it as evidence."""
    answer = f"{ANSWER} [{LOG}:2000-2001]."
    assert (told.run.folder / "rlm/answer.md").read_text() == f"{answer}\n"
    [document] = told.run.report["documents"]
    assert document["text"] == answer
    [place] = document["evidence"]
    assert (place["path"], place["line_start"], place["line_end"]) == (LOG, 2000, 2001)
    assert REFUSED in place["quote"]
    assert STUCK in place["quote"]
    assert place["blob"] == told.stage.repo.text("hash-object", LOG)
    assert told.run.report["evidence"] == {
        "offered": 1, "verified": 1, "reanchored": 0, "rejected": 0,
    }  # fmt: skip
    flat = " ".join(told.ended.stdout.split())
    assert answer in flat
    for name in ("comment.md", "report.html"):
        assert ANSWER in re.sub(r"<[^>]+>", "", told.run.text(name)), name
        assert f"{LOG}:2000-2001" in re.sub(r"<[^>]+>", "", told.run.text(name)), name


def test_the_usage_is_that_of_the_bill(told: Told) -> None:
    usage, bill = told.run.report["usage"], told.llm.bill
    assert (usage["calls"], usage["prompt_tokens"], usage["completion_tokens"]) == (
        bill.calls, bill.prompt_tokens, bill.completion_tokens,
    )  # fmt: skip


def test_verify_says_what_the_planner_was_shown(told: Told) -> None:
    """``rlm-ci verify RUN``: "the root never saw the text" can be checked."""
    checked = told.stage.cli("verify", told.run.id, "--format", "json")
    assert checked.code == 0, checked
    found = checked.json()
    assert found["problems"] == []
    assert found["evidence"]["offered"] == found["evidence"]["verified"] == 1
    assert found["exposure"]["prompts"] == 3
    assert found["exposure"]["largest"] == max(len(one.encode()) for one in told.prompts)
    assert 0 < found["exposure"]["excerpt_bytes"] < 2000


def test_every_word_of_the_run_is_private(told: Told) -> None:
    """Run directories 0700, files 0600."""
    assert told.run.folder.stat().st_mode & 0o777 == 0o700
    for path in told.run.folder.rglob("*"):
        assert path.is_dir() or path.stat().st_mode & 0o777 == 0o600, path
