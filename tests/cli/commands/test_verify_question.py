"""``rlm-ci verify RUN``: the answer follows from the record, and nobody has touched it since."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.redaction.redactor import SIGN
from rlm_ci.runs.journal import reader
from rlm_ci.runs.journal.journal import replay
from testing.ask_stage import LOG, QUESTION, Asking, Script, final, going_on, log, read, span
from testing.loopback_model.fixture import llm
from testing.run_edits import forge, unseen

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from testing.fix_stage import Outcome
    from testing.loopback_model.server import ModelServer
    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]

pytestmark = pytest.mark.full

NOT_GIVEN = "it is not what the record of the run gives"
#: One citation that holds, and one that was never read.
TWO = Script(
    going_on(reads=[read(span(0, 60), 60)]),
    final(f"It begins so [{span(0, 20)}], and ends so [{span(9000, 9020)}]."),
)


@pytest.fixture
def stage(repo: GitRepo, cli: Cli, llm: ModelServer) -> Iterator[Asking]:
    asking = Asking(repo, cli, llm)
    yield asking
    asking.clean()


def edit(path: Path, change: Callable[[Any], object]) -> None:
    record = json.loads(path.read_bytes())
    change(record)
    path.write_text(json.dumps(record, indent=2))


def test_the_answer_is_found_again(stage: Asking) -> None:
    """The last plan's answer, cited again over the run's own context."""
    stage.llm.script(TWO)
    ended, run = stage.fixed("--context", LOG, goal=QUESTION)
    assert ended.code == 0, ended
    checked = stage.cli("verify", run.id)
    assert (checked.code, "✗" in checked.stdout) == (0, False), checked
    assert "1 citation holds in the run's context; 1 more marked as unverified" in checked.stdout
    record = stage.cli("verify", run.id, "--format", "json").json()
    assert record["answer"] == {"verified": 1, "marked": 1, "problems": []}


def test_an_invented_place_is_marked_and_nobody_takes_the_mark_away(stage: Asking) -> None:
    """It stands in text, in the report and on every page with its mark; without, verify sees it."""
    invented = "src/auth.py:40", "src/auth.py#L40-L44", "/etc/passwd:1", "line 3 of B.TXT"
    answer = f"It begins so [{span(0, 20)}]: {', '.join(invented)}, at 12:30."
    stage.llm.script(Script(going_on(reads=[read(span(0, 60), 60)]), final(answer)))
    ended, run = stage.fixed("--context", LOG, goal=QUESTION)
    assert ended.code == 0, ended
    names = ("rlm/answer.md", "report.json", "report.html", "comment.md")
    for text in [ended.stdout, *((run.folder / name).read_text() for name in names)]:
        assert " ".join(text.split()).count("[unverified: ") >= len(invented), text
    checked = stage.cli("verify", run.id)
    assert checked.code == 0, checked
    assert "1 citation holds in the run's context; 4 more marked as unverified" in checked.stdout
    path = run.folder / "rlm/answer.md"
    path.write_text(path.read_text().replace("[unverified: src/auth.py:40]", "src/auth.py:40"))
    assert stage.cli("verify", run.id).code == 1


def _answer(run: Outcome) -> None:
    path = run.folder / "rlm/answer.md"
    path.write_text(path.read_text().replace("begins", "started"))


def _document(run: Outcome) -> None:
    edit(run.folder / "report.json", lambda one: one["documents"][0].update(text="It is so."))


def _masked(run: Outcome) -> None:
    path = run.folder / "rlm/answer.md"
    path.write_text(path.read_text().replace("begins so", SIGN))


def _masked_document(run: Outcome) -> None:
    def change(report: Any) -> None:
        [document] = report["documents"]
        document["text"] = document["text"].replace("begins so", SIGN)

    edit(run.folder / "report.json", change)


def _counts(run: Outcome) -> None:
    edit(run.folder / "report.json", lambda one: one["evidence"].update(verified=2, rejected=0))


def _finding(run: Outcome) -> None:
    edit(run.folder / "report.json", lambda one: one["findings"].pop())


def _status(run: Outcome) -> None:
    edit(run.folder / "rlm/state.json", lambda one: one["final"].update(status="failed"))


def _code(run: Outcome) -> None:
    edit(run.folder / "rlm/state.json", lambda one: one["final"].update(exitCode=3))


def _reason(run: Outcome) -> None:
    edit(run.folder / "rlm/state.json", lambda one: one["final"].update(reason="answered at once"))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_answer, f"rlm/answer.md: {NOT_GIVEN}"),
        (_document, f"report.json: {NOT_GIVEN}"),
        (_masked, "rlm/answer.md: "),
        (_masked_document, "report.json: "),
        (_counts, f"report.json: {NOT_GIVEN}"),
        (_finding, f"report.json: {NOT_GIVEN}"),
        (_status, f"rlm/state.json: {NOT_GIVEN}"),
        (_code, f"rlm/state.json: {NOT_GIVEN}"),
        (_reason, f"rlm/state.json: {NOT_GIVEN}"),
    ],
)
def test_what_was_changed_is_named(
    stage: Asking, change: Callable[[Outcome], None], named: str
) -> None:
    """Tampering with the answer, the report or the end is named, with exit code 1."""
    stage.llm.script(TWO)
    _, run = stage.fixed("--context", LOG, goal=QUESTION)
    change(run)
    checked = stage.cli("verify", run.id)
    assert checked.code == 1, checked
    assert any(line.startswith("✗ ") and named in line for line in checked.stdout.splitlines()), (
        checked.stdout
    )


def test_every_byte_counts(stage: Asking) -> None:
    """Of prompts, sub-calls and the context, too."""
    stage.llm.script(TWO)
    _, run = stage.fixed("--context", LOG, goal=QUESTION)

    def verified() -> Ended:
        return stage.cli("verify", str(run.folder))

    assert verified().code == 0
    assert unseen(run.folder, verified) == []


def test_a_record_that_gives_no_answer_is_no_excuse(stage: Asking) -> None:
    """Neither by a file that only a fix has, nor with sums that fit: nothing was made again."""
    stage.llm.script(TWO)
    _, run = stage.fixed("--context", LOG, goal=QUESTION)
    calls = run.folder / "calls.jsonl"
    records = list(replay(str(calls)))
    for record in records:
        if record.get("kind") == "completion":
            record["key"] = "0" * 64
    calls.write_bytes(b"".join(map(reader.to_line, records)))
    (run.folder / "rlm/snapshot.json").write_text("{}")
    _answer(run)
    forge(run.folder)
    checked = stage.cli("verify", run.id)
    assert checked.code == 1, checked
    assert "✗ report.json: it cannot be made again from the record of the run" in checked.stdout


@pytest.mark.parametrize("intent", ["fail", "pause"])
def test_an_end_without_an_answer_is_checked_as_well(stage: Asking, intent: str) -> None:
    stage.llm.script(Script(going_on(intent, reason="nobody knows")))
    _, run = stage.fixed("--context", LOG, goal=QUESTION)
    checked = stage.cli("verify", run.id)
    assert (checked.code, "citation" in checked.stdout) == (0, False), checked
    edit(run.folder / "rlm/state.json", lambda one: one["final"].update(status="passed"))
    assert stage.cli("verify", run.id).code == 1


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_source_may_change_after_the_answer(stage: Asking, *, is_gone: bool) -> None:
    """Where the run's context holds the quote, that is a note, not a failure."""
    stage.llm.script(TWO)
    _, run = stage.fixed("--context", LOG, goal=QUESTION)
    place = stage.repo.path / LOG
    place.unlink() if is_gone else place.write_text("rotated\n")
    stage.repo.commit()  # else git still has it
    checked = stage.cli("verify", run.id)
    assert checked.code == 0, checked
    [note] = [line for line in checked.stdout.splitlines() if line.startswith("· ")]
    assert f"{LOG}:1" in note
    assert "the run's own copy has the quote" in note


def test_outside_of_git(cli: Cli, llm: ModelServer, tmp_path: Path) -> None:
    """A folder outside git works; a second question is not asked of the first one's answer."""
    place = tmp_path / "plain"
    place.mkdir()
    (place / LOG).write_bytes(log())
    llm.script(TWO)
    words = ("rlm", QUESTION, "--context", ".", "--model", "gpt-4o-mini", "--format", "json")
    env = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}
    for _ in range(2):
        ended = cli(*words, cwd=place, env=env)
        assert ended.code == 0, ended
        assert ended.json()["parts"][0]["metrics"]["context_bytes"] == len(log())
        checked = cli("verify", "latest", cwd=place)
        assert checked.code == 0, checked
    built = cli("context", "build", ".", "--format", "json", cwd=place)
    assert built.json()["byte_length"] == len(log())
    (place / LOG).write_text("other\n")
    checked = cli("verify", "latest", cwd=place)
    assert (checked.code, "· " in checked.stdout) == (0, True), checked
