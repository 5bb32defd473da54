"""Somebody else's repository, or the folder of somebody else's run: neither opens a door."""

from __future__ import annotations

import json
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from testing.fix_stage import QUICK, told_plainly

if TYPE_CHECKING:
    from pathlib import Path

    from testing.fix_stage import Outcome, Stage

NONE = ("--sandbox", "none")
#: It needs no model.
AGENT = ("--agent", "sed -i 's/a - b/a + b/' calc.py", "--no-apply")
COMMAND = "echo ran >> ../said"
IN_TOML = f'[[pipelines]]\nid = "rlm"\n[[pipelines.stages]]\nid = "x"\ncommand = "{COMMAND}"\n'
IN_JSON = json.dumps({"pipelines": [
    {"id": "rlm", "stages": [{"kind": "command", "title": "x", "command": COMMAND}]},
]})  # fmt: skip
AROUND = IN_TOML + '[[pipelines]]\nid = "ci"\n[[pipelines.stages]]\npipeline = "rlm"\n'


def said(stage: Stage) -> bool:
    return (stage.repo.path.parent / "said").exists()


def interrupted(run: Outcome, **flags: Any) -> None:
    """As a run is that a signal has ended before it had agreed on anything."""
    (run.folder / "calls.jsonl").unlink()
    shutil.rmtree(run.folder / "rlm")
    record = run.manifest | {"status": "cancelled", "status_detail": "interrupted"}
    record |= {"exit_code": 143, "commands": [], "sandbox": None}
    (run.folder / "manifest.json").write_text(json.dumps(record))
    asked = run.json("request.json")
    asked["flags"] |= flags
    (run.folder / "request.json").write_text(json.dumps(asked))


# -- a pipeline of the repository ------------------------------------------------------------------


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["rlm-ci.toml", "codex.orchestrator.json"])
def test_stages_of_the_repository_take_the_place_of_ours_only_where_one_says_so(
    stage: Stage, name: str
) -> None:
    """'Stages are your own commands: they run as you, without a sandbox.'"""
    stage.repo.write(name, IN_TOML if name.endswith("toml") else IN_JSON).commit()
    for words in ((), ("--sandbox", "bubblewrap"), ("--sandbox", "auto")):
        ended = stage.rlm(*words)
        assert ended.code == 5, ended
        told_plainly(ended)
        assert "its stages would run as you, without a sandbox" in ended.stderr
        assert f"({name})" in ended.stderr
        assert "--sandbox none" in ended.stderr
        started = stage.cli("start", "rlm", "--goal", "x", *words)
        assert (started.code, started.stdout) == (5, ""), started
    assert not said(stage)
    assert stage.runs() == []
    assert stage.rlm(*NONE).code == 0
    assert said(stage)


def test_a_file_of_settings_cannot_say_so(stage: Stage) -> None:
    stage.repo.write("rlm-ci.toml", f'sandbox = "none"\n{IN_TOML}').commit()
    ended = stage.rlm()
    assert (ended.code, said(stage)) == (5, False), ended


@pytest.mark.full
def test_it_is_the_same_around_ours_in_the_background_and_when_resumed(stage: Stage) -> None:
    stage.repo.write("rlm-ci.toml", AROUND).commit()
    assert stage.cli("start", "ci", "--goal", "x").code == 5
    wrong = stage.cli("start", "ci", "--goal", "x", "--sandbox", "bubblewrap")
    assert wrong.code == 5, wrong
    started = stage.cli("start", "ci", "--goal", "x", *NONE, "-q")
    assert started.code == 0, started
    assert stage.cli("wait", started.stdout.strip()).code == 0
    assert said(stage)
    (stage.repo.path.parent / "said").unlink()
    run = next(one for one in stage.runs() if one.id == started.stdout.strip())
    record = run.manifest | {"status": "cancelled", "status_detail": "interrupted"}
    record |= {"exit_code": 143, "commands": [], "child_runs": []}
    (run.folder / "manifest.json").write_text(json.dumps(record))
    again = stage.cli("resume", run.id)
    assert again.code == 5, again
    assert f"rlm-ci resume {run.id} --sandbox none" in again.stderr
    assert not said(stage)
    assert stage.cli("resume", run.id, env={"RLM_CI_SANDBOX": "none"}).code == 0
    assert said(stage)


@pytest.mark.full
def test_inputs_alone_keep_our_stages_and_open_nothing(stage: Stage) -> None:
    """'A repository must not be able to open the door of its own cage.'"""
    table = '[[pipelines]]\nid = "rlm"\n[pipelines.inputs]\nroles = "single"\n'
    stage.repo.write("rlm-ci.toml", table).commit()
    ended, run = stage.fixed("--no-apply")
    assert (ended.code, run.state["sandbox"]) == (0, "bubblewrap"), ended
    for line in ("allow_test_edits = true", "apply = true", 'goal = "x"', 'sandbox = "none"'):
        stage.repo.write("rlm-ci.toml", f"{table}{line}\n").commit()
        refused = stage.rlm()
        assert refused.code == 5, (line, refused)
        assert "inputs of the pipeline rlm" in refused.stderr


# -- an agent that its files would configure -------------------------------------------------------

#: Says what it sees of the files, mends the bug, and leaves a file behind.
CONFIGURED = """\
#!/bin/sh
cat .env .aider.conf.yml .gemini/settings.json 2>&1
test -e .gemini && ls -A .gemini
sed -i 's/a - b/a + b/' calc.py
echo "Summary: mended"
"""


@pytest.mark.full
@pytest.mark.parametrize(("name", "unseen", "seen"), [
    ("aider", ("ADDRESS", "COMMAND"), "SERVER"), ("gemini", ("ADDRESS", "SERVER"), "COMMAND"),
])  # fmt: skip
def test_an_agent_is_not_configured_by_the_repository(
    stage: Stage, tmp_path: Path, name: str, unseen: tuple[str, ...], seen: str
) -> None:
    """Such a file may send its key to any address, or have commands run that are told it."""
    program = tmp_path / "programs" / name
    program.parent.mkdir()
    program.write_text(CONFIGURED)
    program.chmod(0o755)
    stage.repo.write("settings/.env", "ADDRESS").write(".aider.conf.yml", "COMMAND")
    stage.repo.symlink("settings/.env", ".env")
    stage.repo.write(".gemini/settings.json", "SERVER")
    stage.repo.write("rlm-ci.toml", '[loop]\nagent_env = ["GEMINI_API_KEY"]\n').commit()
    path = os.pathsep.join([str(program.parent), stage.environment()["PATH"] or ""])
    ended, run = stage.fixed(
        "--agent", name, "--no-apply", env={"PATH": path, "GEMINI_API_KEY": "k"}
    )
    assert (ended.code, run.final) == (0, "passed"), ended
    said = "".join(path.read_text() for path in run.folder.glob("rlm/iteration-1/*"))
    journal = run.text("calls.jsonl")
    assert seen in journal
    assert not any(word in journal + said for word in unseen)
    assert "calc.py" in run.text("rlm/result.patch")
    assert run.text("rlm/result.patch").count("diff --git") == 1


# -- a run that came with the repository -----------------------------------------------------------


@pytest.fixture
def committed(stage: Stage) -> Outcome:
    """A run that would run an agent without a sandbox, in the history of a clone."""
    mark = stage.repo.path.parent / "said"
    agent = ("--agent", f"touch {mark}", "--max-iterations", "1", "--validator", "false")
    ended, run = stage.fixed(*NONE, *agent, "--no-apply")
    assert (ended.code, said(stage)) == (3, True), ended
    mark.unlink()
    interrupted(run)
    stage.repo.stage(".runs").commit(stage=False)
    return run


@pytest.mark.full
def test_nobody_is_invited_to_resume_what_came_with_the_repository(
    stage: Stage, committed: Outcome
) -> None:
    for command in ("list", "status", "resume", "wait", "replay", "export", "cancel"):
        for word in (committed.id, "latest", str(committed.folder)):
            ended = stage.cli(command, *([] if command == "list" else [word]))
            assert ended.code == (0 if command == "list" else 2), (command, ended)
            assert committed.id not in ended.stdout
            warnings = [line for line in ended.stderr.splitlines() if "warning:" in line]
            assert warnings == ["warning: 1 run came with the repository, and are ignored (.runs)"]
            assert "hint: remove them: git rm -r .runs; or, if" in ended.stderr
    assert not said(stage)


@pytest.mark.full
def test_a_run_of_our_own_is_the_latest_whatever_the_repository_says(
    stage: Stage, committed: Outcome
) -> None:
    future = "2099-01-01T00-00-00Z-00000000"
    folder = committed.folder.with_name(future)
    shutil.copytree(committed.folder, folder)
    record = committed.manifest | {"run_id": future, "started_at": "2099-01-01T00:00:00.000Z"}
    record |= {"status": "succeeded", "status_detail": None, "exit_code": 0}
    (folder / "manifest.json").write_text(json.dumps(record))
    stage.repo.stage(".runs").commit(stage=False)
    ended = stage.rlm("--max-iterations", "1", "--validator", "false")
    assert ended.code == 3, ended
    assert stage.cli("wait", "latest").code == 3


@pytest.mark.full
def test_what_another_repository_was_asked_for_is_not_done_here(
    stage: Stage, tmp_path: Path
) -> None:
    """Whoever names its manifest from a clone would have the clone patched."""
    ended, run = stage.fixed(*AGENT)
    assert ended.code == 0, ended
    interrupted(run)
    clone = tmp_path / "clone"
    shutil.copytree(stage.repo.path, clone, ignore=shutil.ignore_patterns(".runs"))
    before = run.manifest
    place = str(run.folder / "manifest.json")
    for command in ("resume", "cancel", "replay"):
        refused = stage.cli(command, place, cwd=clone)
        assert refused.code == 2, refused
        told_plainly(refused)
        assert f"hint: add -C {stage.repo.path}" in refused.stderr
    assert run.manifest == before
    assert stage.cli("status", place, cwd=clone).code == 0
    assert stage.cli("resume", place, "-C", str(stage.repo.path), cwd=clone).code == 0


@pytest.mark.full
def test_a_request_for_another_pipeline_is_damage(stage: Stage) -> None:
    ended, run = stage.fixed(*AGENT)
    assert ended.code == 0, ended
    asked = run.json("request.json") | {"pipeline_id": "unheard-of"}
    (run.folder / "request.json").write_text(json.dumps(asked))
    replayed = stage.cli("replay", run.id)
    assert replayed.code == 6, replayed
    told_plainly(replayed)
    assert "names the pipeline 'unheard-of'" in replayed.stderr


def test_a_judgement_that_was_killed_is_made_anew(stage: Stage) -> None:
    """It keeps no request: nobody is sent to resume it."""
    ended = stage.cli("pr", "--base", "HEAD")
    assert ended.code in (0, 1, 3, 5), ended
    run = stage.only()
    record = run.manifest | {"status": "in_progress", "completed_at": None, "exit_code": None}
    (run.folder / "manifest.json").write_text(json.dumps(record))
    (run.folder / ".lock").unlink()
    record["heartbeat_at"] = record["updated_at"] = "2020-01-01T00:00:00.000Z"
    (run.folder / "manifest.json").write_text(json.dumps(record))
    for command, code in (("status", 0), ("wait", 143)):
        told = stage.cli(command, run.id)
        assert told.code == code, told
        assert "cannot be resumed by itself, and must be started again" in told.stdout
        assert "rlm-ci resume" not in told.stdout + told.stderr
    refused = stage.cli("resume", run.id)
    assert refused.code == 2, refused
    told_plainly(refused)
    assert stage.cli("cancel", run.id).code == 0
    assert run.manifest["status"] == "cancelled"


# -- the folder of a run ---------------------------------------------------------------------------


@pytest.mark.full
def test_without_a_sandbox_is_said_again(stage: Stage) -> None:
    ended, run = stage.fixed(*AGENT)
    assert ended.code == 0, ended
    interrupted(run, sandbox="none")
    for words in ((), ("--sandbox", "bubblewrap"), ("--sandbox", "auto")):
        refused = stage.cli("resume", run.id, *words)
        assert refused.code == 5, refused
        told_plainly(refused)
        assert f"if you want it, repeat it: rlm-ci resume {run.id} --sandbox none" in refused.stderr
    assert run.manifest["status_detail"] == "interrupted"
    assert stage.cli("resume", run.id, *NONE).code == 0
    assert run.state["sandbox"] == "none"


@pytest.mark.full
def test_a_run_goes_on_in_the_sandbox_in_which_it_began(stage: Stage) -> None:
    ended, run = stage.fixed(*AGENT)
    assert ended.code == 0, ended
    interrupted(run)
    (run.folder / "manifest.json").write_text(json.dumps(run.manifest | {"sandbox": "bubblewrap"}))
    for words, env in ((NONE, {}), ((), {"RLM_CI_SANDBOX": "none"})):
        refused = stage.cli("resume", run.id, *words, env=env)
        assert refused.code == 5, refused
        assert "began in the sandbox bubblewrap" in refused.stderr
    assert stage.cli("resume", run.id).code == 0
    assert run.state["sandbox"] == "bubblewrap"


@pytest.mark.full
def test_a_file_of_settings_is_named_again(stage: Stage, tmp_path: Path) -> None:
    """It may say which variables an agent is given."""
    ended, run = stage.fixed(*AGENT)
    assert ended.code == 0, ended
    evil = tmp_path / "evil file.toml"
    evil.write_text('[loop]\nagent_env = ["MY_SECRET_TOKEN"]\n')
    interrupted(run, config=str(evil))
    refused = stage.cli("resume", run.id)
    assert refused.code == 5, refused
    assert f"--config '{evil}'" in refused.stderr
    again = stage.cli("resume", run.id, "--config", str(evil), env={"MY_SECRET_TOKEN": "hunter22"})
    assert again.code == 0, again


@pytest.mark.full
def test_what_is_started_in_the_background_needs_no_second_word(
    stage: Stage, tmp_path: Path
) -> None:
    config = tmp_path / "more.toml"
    config.write_text("[loop]\nvalidator_minutes = 5\n")
    started = stage.cli("start", "rlm", "--goal", "x", *NONE, "--config", str(config), *AGENT,
                        "--validator", QUICK, "-q")  # fmt: skip
    assert started.code == 0, started
    waited = stage.cli("wait", started.stdout.strip())
    assert waited.code == 0, waited
    assert stage.only().state["sandbox"] == "none"


@pytest.mark.full
def test_results_go_where_the_command_line_says(stage: Stage, tmp_path: Path) -> None:
    ended, run = stage.fixed(*AGENT)
    assert ended.code == 0, ended
    target = tmp_path / "profile"
    asked = run.json("request.json")
    asked["flags"]["output"] = str(target)
    (run.folder / "request.json").write_text(json.dumps(asked))
    replayed = stage.cli("replay", run.id)
    assert (replayed.code, target.exists()) == (6, False), replayed
    told_plainly(replayed)


@pytest.mark.sample(1)
@pytest.mark.parametrize("again", ["replay", "resume"])
def test_no_configuration_in_it_is_executed(stage: Stage, again: str) -> None:
    ended, run = stage.fixed(*AGENT)
    assert ended.code == 0, ended
    mark = stage.repo.path.parent / "said"
    for name in ("objects", "view"):
        folder = run.folder / "rlm" / "git" / name
        with (folder / "config").open("a") as stream:
            for kind in ("smudge", "clean"):
                stream.write(f'[filter "x"]\n\t{kind} = touch {mark}; cat\n')
        (folder / "info" / "attributes").write_text("* filter=x\n")
    if again == "resume":
        record = run.manifest | {"status": "cancelled", "status_detail": "interrupted"}
        (run.folder / "manifest.json").write_text(json.dumps(record | {"commands": []}))
    went_on = stage.cli(again, run.id)
    assert went_on.code == 0, went_on
    assert not said(stage)


@pytest.mark.full
@pytest.mark.parametrize("again", ["replay", "resume"])
def test_no_folder_that_it_names_is_emptied(stage: Stage, tmp_path: Path, again: str) -> None:
    ended, run = stage.fixed(*AGENT)
    assert ended.code == 0, ended
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis.txt").write_text("x")
    record = run.json("rlm/snapshot.json") | {"dependencies": [str(precious)]}
    (run.folder / "rlm/snapshot.json").write_text(json.dumps(record))
    if again == "resume":
        manifest = run.manifest | {"status": "cancelled", "status_detail": "interrupted"}
        (run.folder / "manifest.json").write_text(json.dumps(manifest | {"commands": []}))
    refused = stage.cli(again, run.id)
    assert refused.code == 6, refused
    told_plainly(refused)
    assert (precious / "thesis.txt").read_text() == "x"


@pytest.mark.full
@pytest.mark.parametrize("again", ["replay", "resume"])
def test_no_link_in_it_is_written_through(stage: Stage, tmp_path: Path, again: str) -> None:
    ended, run = stage.fixed(*AGENT)
    assert ended.code == 0, ended
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "work").mkdir(parents=True)
    (elsewhere / "work" / "thesis.txt").write_text("x")
    manifest = run.manifest | {"status": "cancelled", "status_detail": "interrupted"}
    (run.folder / "manifest.json").write_text(json.dumps(manifest | {"commands": []}))
    shutil.rmtree(run.folder / "rlm")
    os.symlink(elsewhere, run.folder / "rlm")
    refused = stage.cli(again, run.id)
    assert refused.code == 6, refused
    told_plainly(refused)
    assert re.search(r"is a link \(\S+/rlm\)", refused.stderr)
    assert [path.name for path in sorted(elsewhere.rglob("*"))] == ["work", "thesis.txt"]
