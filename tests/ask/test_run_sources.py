"""What a question may be about: a file, a folder, a glob, a stream, an object, wherever it lies."""

from __future__ import annotations

import gzip
import lzma
import os
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.context.builder.build import build
from rlm_ci.context.context import Context
from testing.ask_stage import (  # fmt: skip
    LOG,
    QUESTION,
    REFUSED,
    Asking,
    Script,
    chunk,
    final,
    going_on,
    log,
    prompt_of,
    read,
    require_state,
    span,
)
from testing.repl_stage import Coder, repl

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from testing.fix_stage import Outcome
    from testing.loopback_model.server import ModelServer
    from testing.program import Cli, Ended

#: Reads how the context begins, and says that the answer stands there.
GLANCE = Script(going_on(reads=[read(span(0, 60), 60)]), final(f"It begins so [{span(0, 20)}]."))


def glanced(stage: Asking, context: str, **more: Any) -> tuple[Ended, Outcome]:
    stage.llm.script(GLANCE)
    ended, run = stage.ask(context=context, **more)
    assert ended.code == 0, ended
    return ended, run


def source(run: Outcome) -> bytes:
    return (run.folder / "rlm/context/source.txt").read_bytes()


def answer(run: Outcome) -> str:
    text: str = run.report["documents"][0]["text"]
    return text


def test_a_folder_is_its_files_one_after_the_other(stage: Asking) -> None:
    """A folder, concatenated with a file table, so that a pointer maps back to path and line."""
    stage.repo.write("logs/b.log", "second\n" * 9).write("logs/a.log", "first\nand more\n")
    stage.repo.write("logs/c.bin", b"\0\1\2").commit()
    _, run = glanced(stage, "logs")
    assert "- left out: 1 binary\n" in stage.prompts()[0]
    assert run.report["parts"][0]["summary"].endswith("; left out: 1 binary")
    assert source(run) == b"first\nand more\n" + b"second\n" * 9
    assert answer(run) == "It begins so [logs/a.log:1-2, logs/b.log:1]."
    assert len(run.report["documents"][0]["evidence"]) == 2
    checked = stage.cli("verify", run.id)
    assert checked.code == 0, checked


@pytest.mark.full
@pytest.mark.parametrize("environment", ["symbolic", "repl"])
def test_an_encoded_log_has_its_errors(stage: Asking, environment: str) -> None:
    """A count that says 0, and holds, is the worst answer: UTF-16 of PowerShell, and packed."""
    text = "all is well\r\n" * 999 + "ERROR disk full é\r\n"
    stage.repo.write("logs/ps.log", text.encode("utf-16"))
    stage.repo.write("logs/old.log.gz", gzip.compress(text.encode()))
    stage.repo.write("logs/shot.bin", b"\0\1").commit()
    notes = "left out: 1 binary; decoded: 1 from gzip; 1 from utf-16-le"
    if environment == "symbolic":
        counts = [{"pattern": "ERROR", "by": "file", "reason": "count"}]
        reads = [read(span(12_990, 13_000), 10)]
        said = f"Two [count:0:1], {span(12_990, 13_000)}"
        stage.llm.script(Script(going_on(counts=counts, reads=reads), final(said)))
    else:
        look = repl("print(context.count('ERROR'), read('bytes:12990-13000'))")
        end = repl("FINAL(f'{context.count(\"ERROR\")} [bytes:12990-13000]')")
        stage.llm.script(Coder(look, end))
    ended, run = stage.ask("--environment", environment, context="logs")
    assert ended.code == 0, ended
    assert notes in run.report["parts"][0]["summary"]
    (place,) = run.report["documents"][0]["evidence"]
    assert (place["path"], place["line_start"]) == ("logs/old.log.gz", 1000)
    assert place["blob"] == stage.repo.sha("HEAD:logs/old.log.gz")
    assert "1 from utf-16-le" in prompt_of(stage.llm.completions[0])
    assert "2" in run.report["documents"][0]["text"]
    checked = stage.cli("verify", run.id)
    assert (checked.code, "✗" in checked.stdout) == (0, False), checked
    again = stage.cli("replay", run.id, "--check")
    assert again.code == 0, again


#: One file in which a plain search of bytes finds nothing.
ENCODED: dict[str, Callable[[str], bytes]] = {
    "utf-16-be without a mark": lambda text: text.encode("utf-16-be"),
    "utf-32-le without a mark": lambda text: text.encode("utf-32-le"),
    "xz": lambda text: lzma.compress(text.encode()),
    "utf-16 in gzip": lambda text: gzip.compress(text.encode("utf-16")),
    "cp1252": lambda text: text.encode("cp1252"),
}


@pytest.mark.full
@pytest.mark.parametrize("encode", ENCODED.values(), ids=ENCODED)
def test_an_encoded_file_alone_has_its_errors(
    stage: Asking, encode: Callable[[str], bytes]
) -> None:
    text = "all is well, naïve café\r\n" * 499 + "ERROR disk full é\r\n"
    stage.repo.write("odd.log", encode(text)).commit()
    counts = [{"pattern": "ERROR", "reason": "count"}, {"pattern": "é", "reason": "count"}]
    stage.llm.script(Script(going_on(counts=counts), final("See [count:0:1] and [count:0:2].")))
    ended, run = stage.ask(context="odd.log")
    assert ended.code == 0, ended
    shown = prompt_of(stage.llm.completions[1])
    assert ["1 hit" in shown, "500 hits" in shown] == [True, True], shown[-3000:]
    assert stage.cli("verify", run.id).code == 0


@pytest.mark.full
def test_a_glob_takes_what_fits(stage: Asking) -> None:
    stage.repo.write("logs/a.log", "first " * 20).write("logs/a.txt", "no\n").commit()
    _, run = glanced(stage, "logs/*.log")
    assert source(run) == b"first " * 20
    assert answer(run) == "It begins so [logs/a.log:1]."


def test_standard_input_has_no_files(stage: Asking) -> None:
    """Where the context came from no files, a citation becomes its bytes."""
    _, run = glanced(stage, "-", stdin=log())
    assert source(run) == log()
    assert answer(run) == "It begins so [bytes 0-20]."
    assert run.report["documents"][0]["evidence"] == []


def test_nothing_on_standard_input_is_no_context(stage: Asking) -> None:
    """A run that is resumed, or in the background, has no input: no answer comes of that."""
    ended, run = stage.ask("--mode", "symbolic", context="-", stdin=b"")
    assert (ended.code, run.final) == (5, "invalid_config"), ended
    assert "nothing is there" in ended.stderr
    again = stage.cli("resume", run.id)
    assert again.code == 5, again
    assert not stage.llm.asked


def test_an_object_is_used_directly(stage: Asking) -> None:
    """Spec: "An existing context object directory containing index.json + source.txt (runner
    uses it directly)"; "RLM_CONTEXT_PATH, to avoid re-chunking on each run".
    """
    top = stage.repo.path
    build(
        str(top / LOG), str(top / "object"), target_bytes=1000, overlap_bytes=100, root=str(top)
    ).close()
    stage.llm.script(GLANCE)
    ended, run = stage.ask(context=None, env={"RLM_CONTEXT_PATH": "object"})
    assert ended.code == 0, ended
    theirs, ours = stage.repo.path / "object/source.txt", run.folder / "rlm/context/source.txt"
    assert os.path.samefile(theirs, ours)
    with Context.open(str(theirs.parent)) as one, Context.open(str(ours.parent)) as other:
        assert one.object_id == other.object_id == run.state["context"]["object_id"]
        assert one.chunk_count == other.chunk_count == run.state["context"]["chunk_count"] > 100
    assert answer(run) == f"It begins so [{LOG}:1]."


@pytest.mark.full
def test_chunks_are_as_large_as_the_settings_say(stage: Asking) -> None:
    """Spec: "Chunking defaults: target_bytes=65536, overlap_bytes=4096"; the variables change it,
    and "Read ... is clamped to the chunk boundaries".
    """
    stage.llm.script(Script(going_on(reads=[read(chunk(3), 8000)]), final()))
    cut = {"RLM_CHUNK_TARGET_BYTES": "300", "RLM_CHUNK_OVERLAP_BYTES": "20"}
    ended, run = stage.ask(env=cut)
    assert ended.code == 0, ended
    [entry] = run.state["symbolic_iterations"][0]["reads"]
    assert (entry["start_byte"], entry["end_byte"]) == (560, 860)


@pytest.mark.full
def test_a_file_outside_of_the_repository_is_cited_but_no_evidence(
    stage: Asking, tmp_path: Path
) -> None:
    """A place that cannot be looked up in the work tree is told, and is no evidence to re-check."""
    other = tmp_path / "elsewhere.log"
    other.write_bytes(log())
    _, run = glanced(stage, str(other))
    assert answer(run) == "It begins so [../elsewhere.log:1]."
    assert str(tmp_path) not in str([one.body for one in stage.llm.completions])
    assert run.report["documents"][0]["evidence"] == []
    assert run.report["evidence"]["verified"] == 1


@pytest.mark.full
def test_a_folder_outside_of_git_will_do(cli: Cli, llm: ModelServer, tmp_path: Path) -> None:
    """A folder outside git works, with blob hashes and ``commit: null``."""
    report, _ = outside_of_git(cli, llm, tmp_path, "logs")
    assert report["subject"]["head"] is None
    [one] = report["documents"][0]["evidence"]
    assert (one["path"], one["line_start"], len(one["blob"])) == (f"logs/{LOG}", 1, 40)


@pytest.mark.full
def test_it_can_be_verified_outside_of_git(cli: Cli, llm: ModelServer, tmp_path: Path) -> None:
    _, place = outside_of_git(cli, llm, tmp_path, "logs")
    checked = cli("verify", "latest", cwd=place)
    assert checked.code == 0, checked


@pytest.mark.full
def test_a_run_is_no_part_of_its_own_context(cli: Cli, llm: ModelServer, tmp_path: Path) -> None:
    """Its journal would change while it is read, and say what was asked."""
    report, _ = outside_of_git(cli, llm, tmp_path, ".")
    assert [one["path"] for one in report["documents"][0]["evidence"]] == [f"logs/{LOG}"]


def outside_of_git(
    cli: Cli, llm: ModelServer, tmp_path: Path, context: str
) -> tuple[dict[str, Any], Path]:
    """The report on a question about ``context`` in a plain folder, and that folder."""
    place = tmp_path / "plain"
    (place / "logs").mkdir(parents=True)
    (place / "logs" / LOG).write_bytes(log())
    llm.script(GLANCE)
    words = ("rlm", QUESTION, "--context", context, "--model", "gpt-4o-mini", "--format", "json")
    env = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}
    ended = cli(*words, cwd=place, env=env)
    assert ended.code == 0, ended
    return ended.json(), place


@pytest.mark.full
def test_bytes_that_are_no_text_are_kept(stage: Asking) -> None:
    """Spec: "If decoding fails, the runner stores bytes and uses a lossy UTF-8 decode for
    previews, but all slicing remains byte-based".
    """
    data = b"caf\xe9 \xff\xfe " * 2000 + b"the needle\n" + bytes(range(1, 256)) * 20
    stage.repo.write("odd.txt", data).commit()
    at = data.index(b"needle")
    script = Script(
        going_on(searches=[{"query": "NEEDLE"}], reads=[read(span(at - 7, at + 6), 99)]),
        final(f"There [{span(at, at + 6)}]"),
    )
    stage.llm.script(script)
    ended, run = stage.ask("--context-encoding", "bytes", context="odd.txt")
    assert ended.code == 0, ended
    assert source(run) == data
    turn = run.state["symbolic_iterations"][0]
    assert turn["searches"][0]["hits"][0]["start_byte"] == at
    assert "\ufffd the needle" in stage.prompts()[-1]
    assert run.report["evidence"]["verified"] == 1


@pytest.mark.full
def test_the_question_may_be_asked_in_the_background(stage: Asking) -> None:
    """``start rlm --goal Q --context F``; a path is of the folder where it was given."""
    begun = stage.cli(
        "start", "rlm", "--goal", QUESTION, "--context", LOG, "--model", "gpt-4o-mini",
        "--format", "json",
    )  # fmt: skip
    assert begun.code == 0, begun
    waited = stage.cli("wait", begun.json()["run_id"])
    assert waited.code == 0, waited
    run = stage.only()
    require_state(run)
    assert run.final == "passed"
    assert f"{LOG}:2000-2001" in answer(run)
    assert REFUSED in stage.prompts()[-1]
