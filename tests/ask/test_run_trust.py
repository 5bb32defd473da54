"""What is believed of others: an object's table of files, a plan's models, a run's folder."""

from __future__ import annotations

import json
import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.context.builder.build import build
from testing.ask_stage import (  # fmt: skip
    LOG,
    QUESTION,
    Asking,
    Script,
    chunk,
    final,
    going_on,
    log,
    read,
    span,
    subcall,
    texts,
)
from testing.loopback_model.replies import refusal

if TYPE_CHECKING:
    from pathlib import Path

    from testing.fix_stage import Outcome

#: Reads how the context begins; then names that place by pointer, by name, and one never read.
BY_NAME = Script(
    going_on(reads=[read(span(0, 60), 60)]),
    final(f"So [{span(0, 20)}], as {LOG}:1 says at 11:33:20, but not {LOG}#L2000."),
)
GLANCE = Script(going_on(reads=[read(span(0, 60), 60)]), final(f"It begins so [{span(0, 20)}]."))
KEY = "ghp_" + "a1B2" * 9


def adopted(stage: Asking, *, told: str = LOG) -> str:
    """The path of an object of the log, whose table says that it is the file ``told``."""
    top = stage.repo.path
    folder = top.parent / "object"
    build(str(top / LOG), str(folder), root=str(top)).close()
    index = folder / "index.json"
    index.write_text(index.read_text().replace(f'"path": "{LOG}"', f'"path": "{told}"'))
    return str(folder)


def same_again(stage: Asking, run: Outcome) -> None:
    """A replay says the same, and ``verify`` has nothing to add."""
    replayed = stage.cli("replay", run.id, "--check")
    assert replayed.code == 0, replayed
    checked = stage.cli("verify", run.id)
    assert checked.code == 0, checked


def test_places_that_a_planner_writes_are_evidence_or_marked(stage: Asking) -> None:
    stage.llm.script(BY_NAME)
    ended, run = stage.ask()
    assert ended.code == 0, ended
    [document] = run.report["documents"]
    assert document["text"] == (
        f"So [{LOG}:1], as {LOG}:1 says at 11:33:20, but not [unverified: {LOG}#L2000]."
    )
    assert run.report["evidence"] == {
        "offered": 3, "verified": 2, "reanchored": 0, "rejected": 1,
    }  # fmt: skip
    assert [one["line_start"] for one in document["evidence"]] == [1]
    same_again(stage, run)


def test_a_table_that_lies_about_a_file_is_found_out_at_once(stage: Asking) -> None:
    """An adopted object says that its text is another file of the repository: not verified, and
    why, also when that file is another one later.
    """
    stage.repo.write("src/safe.py", "import os\n" * 9).commit()
    stage.llm.script(GLANCE)
    ended, run = stage.ask(context=adopted(stage, told="src/safe.py"))
    assert ended.code == 0, ended
    assert run.report["documents"][0]["text"] == "It begins so [[unverified: bytes 0-20]]."
    assert run.report["evidence"]["rejected"] == 1
    [finding] = run.report["findings"]
    assert finding["message"] == (
        "The answer cites bytes 0-20, which does not hold: the file of the repository has "
        "something else in these lines"
    )
    (stage.repo.path / "src/safe.py").write_bytes(log())
    same_again(stage, run)


@pytest.mark.full
def test_a_table_that_is_right_is_believed(stage: Asking) -> None:
    """The file may have grown since, or be gone."""
    stage.llm.script(GLANCE)
    place = stage.repo.path / LOG
    context = adopted(stage)
    place.write_bytes(log() + b"and one more line\n")
    _, run = stage.ask(context=context)
    assert run.report["documents"][0]["text"] == f"It begins so [{LOG}:1]."
    stage.repo.remove(LOG).commit()
    _, run = stage.ask(context=context)
    assert run.report["documents"][0]["text"] == f"It begins so [{LOG}:1]."


def test_a_plan_names_only_models_that_are_allowed(stage: Asking) -> None:
    """The default is the run's own model; the planner is told what may be named."""
    plan = going_on(subcalls=[
        subcall(chunk(1), model="gpt-9-dear"), subcall(chunk(1), model="gpt-4o-mini"),
        subcall(chunk(2), model="gpt-4o"),
    ])  # fmt: skip
    stage.llm.script(Script(plan, final()))
    ended, run = stage.ask(env={"RLM_CI_SYMBOLIC_SUBCALL_MODELS": "gpt-4o"})
    assert ended.code == 0, ended
    entries = run.state["symbolic_iterations"][0]["subcalls"]
    assert [one["status"] for one in entries] == ["failed", "succeeded", "succeeded"]
    assert entries[0]["error"] == "model not allowed: 'gpt-9-dear'; allowed: gpt-4o-mini, gpt-4o"
    assert {one.body["model"] for one in stage.llm.completions} == {"gpt-4o-mini", "gpt-4o"}
    first, second = stage.prompts()
    assert '`model` may be left out, or\n  one of "gpt-4o".' in first
    assert entries[0]["error"] in second
    part = run.report["parts"][0]
    assert part["metrics"]["models_not_allowed"] == 1
    assert part["summary"].endswith("; 1 sub-call named a model that is not allowed")
    same_again(stage, run)


@pytest.mark.full
def test_without_others_a_planner_hears_of_no_model(stage: Asking) -> None:
    stage.llm.script(Script(going_on(subcalls=[subcall(chunk(1), model="gpt-4o")]), final()))
    ended, run = stage.ask()
    assert ended.code == 0, ended
    assert run.state["symbolic_iterations"][0]["subcalls"][0]["error"] == (
        "model not allowed: 'gpt-4o'; allowed: gpt-4o-mini"
    )
    assert '"model"' not in stage.prompts()[0]
    assert len(stage.llm.completions) == 2


@pytest.mark.full
def test_an_endpoint_that_refuses_the_schema_in_the_middle(stage: Asking) -> None:
    """It goes on without the schema, and says so to whoever resumes or replays."""
    script = Script(
        going_on(reads=[read(chunk(1), 50)]),
        lambda _prompt: changed(),
        final(),
    )

    def changed() -> dict[str, Any]:
        """From the next request on, another server stands there."""
        stage.llm.unknown_parameter = "response_format"
        return going_on(reads=[read(chunk(2), 50)])

    stage.llm.script(script)
    ended, run = stage.ask()
    assert ended.code == 0, ended
    forms = ["response_format" in one.body for one in stage.llm.completions]
    assert forms.count(False) >= 1
    same_again(stage, run)


# ── the folder of a run ──


@pytest.mark.full
def test_a_run_in_the_background_knows_its_context_from_anywhere(
    stage: Asking, tmp_path: Path
) -> None:
    """``start --context REL``: kept as ``rlm`` keeps it, so that it can be resumed elsewhere."""
    outside = tmp_path / "outside.log"
    outside.write_bytes(log())
    stage.llm.script(GLANCE)
    words = ("start", "rlm", "--goal", QUESTION, "--model", "gpt-4o-mini", "--format", "json")
    begun = stage.cli(*words, "--context", os.path.relpath(outside, stage.repo.path))
    assert begun.code == 0, begun
    run = stage.only()
    assert run.json("request.json")["flags"]["context.source"] == str(outside)
    waited = stage.cli("wait", run.id)
    assert (waited.code, run.final) == (0, "passed"), waited


def foreign(stage: Asking) -> Outcome:
    """A run that was stopped before it had read anything."""
    stage.llm.script(lambda _asked: refusal(401, "no such key"))
    ended, run = stage.ask(question="What is said?")
    assert ended.code == 8, ended
    shutil.rmtree(run.folder / "rlm")
    (run.folder / "calls.jsonl").write_bytes(b"")
    stage.llm.script(GLANCE)
    return run


def is_to_read(run: Outcome, source: str) -> None:
    """Let the folder of a run say that it is to read this."""
    path = run.folder / "request.json"
    record = json.loads(path.read_text())
    record["flags"]["context.source"] = source
    path.write_text(json.dumps(record))


def test_a_folder_cannot_have_any_file_shown_to_a_model(stage: Asking, tmp_path: Path) -> None:
    """``context.source`` of a foreign request.json: inside the repository, or said again."""
    secret = tmp_path / "secret.log"
    secret.write_bytes(log())
    (stage.repo.path / "link.log").symlink_to(secret)
    git = str(stage.repo.path / ".git/config")
    run = foreign(stage)
    asked = len(stage.llm.completions)
    for source in (str(secret), str(stage.repo.path / "link.log"), "../secret.log", git):
        is_to_read(run, source)
        refused = stage.cli("resume", run.id)
        assert refused.code == 5, refused
        assert f"--context {source}" in refused.stderr
        assert "only a command line can set" in refused.stderr
    other = stage.cli("resume", run.id, "--context", LOG)
    assert (other.code, "the run began with" in other.stderr) == (5, True), other
    assert len(stage.llm.completions) == asked


@pytest.mark.full
def test_a_text_that_was_on_standard_input_is_gone(stage: Asking) -> None:
    run = foreign(stage)
    is_to_read(run, "-")
    for again in ((), ("--context", "-")):
        refused = stage.cli("resume", run.id, *again)
        assert (refused.code, "start a new run" in refused.stderr) == (5, True), refused


@pytest.mark.full
def test_what_is_said_again_or_lies_in_the_repository_is_read(
    stage: Asking, tmp_path: Path
) -> None:
    outside = tmp_path / "outside.log"
    outside.write_bytes(log())
    run = foreign(stage)
    is_to_read(run, str(outside))
    resumed = stage.cli("resume", run.id, "--context", str(outside))
    assert (resumed.code, run.final) == (0, "passed"), resumed
    run = foreign(stage)
    resumed = stage.cli("resume", run.id)
    assert (resumed.code, run.final) == (0, "passed"), resumed


@pytest.mark.full
def test_a_context_that_is_another_one_is_damage(stage: Asking) -> None:
    """The object in the folder must be the one of the record: exit 6, and nothing is asked."""
    stage.llm.script(Script(going_on("pause")))
    _, run = stage.ask()
    asked = len(stage.llm.completions)
    folder = run.folder / "rlm/context"
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()
    other = stage.repo.path / "other.log"
    other.write_bytes(log(100))
    build(str(other), str(folder)).close()
    resumed = stage.cli("resume", run.id)
    assert resumed.code == 6, resumed
    assert "not the one that the run began with" in resumed.stderr
    assert len(stage.llm.completions) == asked


# ── names of files ──


def test_secrets_in_names_of_files_are_taken_out(stage: Asking) -> None:
    """In places, in pointers.md and in the report, as out of every other text."""
    stage.repo.write(f"logs/{KEY}.log", "first\n" * 20).write("logs/z.log", "b\n" * 9).commit()
    stage.llm.script(Script(
        going_on(
            searches=[{"query": "first", "reason": "so"}, {"query": KEY[:12]}],
            reads=[read(span(0, 60), 60), read(span(118, 130), 12)],
            subcalls=[subcall(chunk(1))],
        ),
        final(f"It begins so [{span(0, 5)}], and goes on [{span(120, 122)}]."),
    ))  # fmt: skip
    ended, run = stage.ask(context="logs")
    assert ended.code == 0, ended
    assert run.report["documents"][0]["text"] == (
        "It begins so [logs/[redacted].log:1], and goes on [logs/z.log:1]."
    )
    assert [one["path"] for one in run.report["documents"][0]["evidence"]] == ["logs/z.log"]
    assert run.report["evidence"]["verified"] == 2
    for name, text in texts(ended, run):
        assert KEY not in text or name.endswith("/index.json"), name
    assert "[redacted].log" in run.text("rlm/context/pointers.md")
    assert not any(KEY in one for one in (*stage.prompts(), *stage.subcalls()))
    same_again(stage, run)
