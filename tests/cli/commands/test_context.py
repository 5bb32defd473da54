"""``rlm-ci context``: the object by hand, as a person and a program use it."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from testing.program import Cli

TEXT = "alpha\nbeta needle\n  gamma Needle NEEDLE\né漢😀 delta\n" * 60


@pytest.fixture
def place(repo: GitRepo, cli: Cli) -> Path:
    """A repository with a text, and an object of all of it with chunks of 100 bytes."""
    repo.write_all({"docs/long.txt": TEXT, "a.txt": "first\n", "logo.png": b"\x89PNG\0"}).commit()
    sizes = {"RLM_CHUNK_TARGET_BYTES": "100", "RLM_CHUNK_OVERLAP_BYTES": "10"}
    ended = cli("context", "build", ".", "--out", "made", cwd=repo, env=sizes)
    assert (ended.code, ended.stderr) == (0, "")
    assert ended.stdout.startswith("object        sha256:")
    assert ended.stdout.endswith("\nmade\n")
    return Path(repo.path)


def test_a_file_becomes_an_object(repo: GitRepo, cli: Cli) -> None:
    repo.write("docs/long.txt", TEXT).commit()
    ended = cli("context", "build", "docs/long.txt", "--format", "json", cwd=repo)
    record = ended.json()
    assert record["object"] == "long.txt.context"
    assert (record["byte_length"], record["chunk_count"], record["files"]) == (
        len(TEXT.encode()), 1, 1)  # fmt: skip
    assert (record["target_bytes"], record["overlap_bytes"]) == (65536, 4096)
    info = cli("context", "info", "long.txt.context", "--verify", "--format", "json", cwd=repo)
    del record["object"]
    assert info.json() == {**record, "verified": True}


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        ("-", "stdin.context"),
        ("docs", "docs.context"),
        (".", "repo.context"),
        ("docs/*.txt", "docs.context"),
        ("*.txt", "repo.context"),
    ],
)
def test_where_an_object_is_made(repo: GitRepo, cli: Cli, source: str, folder: str) -> None:
    repo.write("docs/a.txt", TEXT).write("b.txt", "b").commit()
    ended = cli("context", "build", source, cwd=repo, stdin="from a pipe")
    assert ended.code == 0, ended
    assert ended.stdout.splitlines()[-1] == folder
    assert (Path(repo.path) / folder / "index.json").exists()


def test_a_build_may_share_the_file(repo: GitRepo, cli: Cli) -> None:
    repo.write("a.txt", TEXT).commit()
    assert cli("context", "build", "a.txt", "--link", "-q", cwd=repo).stdout == ""
    top = Path(repo.path)
    assert os.path.samefile(top / "a.txt", top / "a.txt.context" / "source.txt")


def test_a_hook_of_another_repository_does_not_change_the_source(
    repo: GitRepo, cli: Cli, tmp_path: Path
) -> None:
    repo.write("docs/long.txt", TEXT).write(".gitignore", "*.log\n").write("a.log", "no\n").commit()
    GitRepo(tmp_path / "other").write("other.txt", "other\n").commit()
    env = {"GIT_DIR": str(tmp_path / "other" / ".git")}
    made = cli("context", "build", str(repo.path), "--format", "json", cwd=tmp_path, env=env)
    assert made.json()["files"] == 2, made


def test_an_empty_source_is_told(cli: Cli) -> None:
    ended = cli("context", "build", "-", "--out", "empty")
    assert ended.code == 0
    assert ended.stderr == "warning: the source is empty\n"
    assert cli("context", "search", "empty", "x").stdout == "x: no hits\n"


def test_a_search_as_a_program_reads_it(place: Path, cli: Cli) -> None:
    """``search --format json`` is what CONTRACT says, to the key."""
    ended = cli(
        "context", "search", "made", "Needle", "nowhere", "--top-k", "2", "--format", "json",
        cwd=place, env={"RLM_MAX_PREVIEW_BYTES": "20"},
    )  # fmt: skip
    record = ended.json()
    assert list(record) == ["queries"]
    needle, nowhere = record["queries"]
    assert nowhere == {"query": "nowhere", "total_hits": 0, "chunks_matched": 0, "hits": []}
    assert list(needle) == ["query", "total_hits", "chunks_matched", "hits"]
    assert (needle["query"], needle["total_hits"], len(needle["hits"])) == ("Needle", 180, 2)
    first, second = needle["hits"]
    assert list(first) == ["pointer", "start_byte", "end_byte", "score", "preview"]
    source = (place / "made" / "source.txt").read_bytes()
    assert source[first["start_byte"] : first["end_byte"]].lower() == b"needle"
    assert (-first["score"], first["start_byte"]) < (-second["score"], second["start_byte"])
    assert len(first["preview"].encode()) <= 20


def test_the_number_of_hits_is_a_setting(place: Path, cli: Cli) -> None:
    def hits(*args: str, **env: str) -> int:
        ended = cli("context", "search", "made", "needle", "--format", "json", *args,
                    cwd=place, env=env)  # fmt: skip
        return len(ended.json()["queries"][0]["hits"])

    assert hits() == 20
    assert hits(RLM_SEARCH_TOP_K="3") == 3
    assert hits("--top-k", "5", RLM_SEARCH_TOP_K="3") == 5


def test_a_search_as_a_person_reads_it(place: Path, cli: Cli) -> None:
    lines = cli("context", "search", "made", "😀 DELTA", "--top-k", "1", cwd=place).stdout
    head, hit, preview = lines.splitlines()
    assert head.startswith("😀 DELTA: 60 hits in ")
    assert "#chunk:c0000" in hit
    assert " docs/long.txt:" in hit
    assert preview.strip() == "é漢😀 delta"


def test_a_pointer_is_read(place: Path, cli: Cli) -> None:
    info = cli("context", "info", "made", "--format", "json", cwd=place).json()
    pointer = f"ctx:{info['object_id']}#chunk:c000001"
    ended = cli("context", "read", "made", pointer, "--bytes", "17", cwd=place)
    assert ended.stdout == "first\nalpha\nbeta \n"
    assert ended.stderr == "bytes 0-17, a.txt:1, docs/long.txt:1-2; there is more\n"
    record = cli("context", "read", "made", pointer, "--format", "json", cwd=place).json()
    assert (record["start_byte"], record["end_byte"], record["truncated"]) == (0, 100, False)
    assert [one["path"] for one in record["places"]] == ["a.txt", "docs/long.txt"]
    assert record["text"].encode() == (place / "made" / "source.txt").read_bytes()[:100]
    for short in ("chunk:0", "chunk:c000001", "c000001", "#chunk:0", "bytes:0-100"):
        again = cli("context", "read", "made", short, "--format", "json", cwd=place).json()
        assert again["text"] == record["text"], short
        assert again["pointer"].startswith(f"ctx:{info['object_id']}#")
    few = cli("context", "read", "made", pointer, cwd=place,
              env={"RLM_MAX_BYTES_PER_CHUNK_READ": "5"})  # fmt: skip
    assert few.stdout == "first\n"
    assert info["omitted"] == {"binary": 1}


def test_what_a_terminal_would_obey_is_written_out(cli: Cli) -> None:
    hostile = b"\x1b[31mred\x1b[0m\r\n::set-env::x\n\ttab\xe2\x80\xae\xff##[error]\n"
    build = ("context", "build", "-", "--out", "made", "-q", "--context-encoding", "bytes")
    assert cli(*build, stdin=hostile).code == 0
    pointer = cli("context", "info", "made").stdout.split()[-1]
    shown = cli("context", "read", "made", pointer).stdout
    assert "\x1b" not in shown
    assert "\\x1b[31mred" in shown
    assert "\ttab\\u202e\ufffd" in shown
    assert not any(line.lstrip().startswith("::") for line in shown.splitlines())
    assert "##[" not in shown
    assert "\x1b" not in cli("context", "search", "made", "red", "\x1b[31m").stdout


WRONG: list[tuple[tuple[str, ...], int, str]] = [
    ((), 2, "context needs an action"),
    (("make",), 2, "context does not know 'make'"),
    (("build",), 2, "context build takes SOURCE"),
    (("build", "a", "b"), 2, "context build takes SOURCE"),
    (("search", "made"), 2, "context search takes OBJECT QUERY..."),
    (("search", "made", " "), 2, "a query is empty"),
    (("read", "made"), 2, "context read takes OBJECT POINTER"),
    (("read", "made", "x", "--link"), 2, "unknown option '--link'"),
    (("search", "made", "x", "--format", "html"), 2, "has no form 'html'"),
    (("read", "made", "x", "--bytes", "0"), 5, "--bytes"),
    (("build", "nothing"), 5, "the source cannot be read: No such file or directory (nothing)"),
    (("build", "a.txt", "--out", "made"), 5, "there is something already (made)"),
    (("info", "docs"), 5, "it is not a context object: index.json: it does not exist (docs)"),
    (("read", "made", "nonsense"), 5, "'nonsense' is not a pointer"),
    (("read", "made", "ctx:sha256:0#chunk:1"), 5, "is another context object"),
    (("read", "made", "chunk:5000"), 5, "there is no chunk 5000"),
]


def test_wrong_use_is_told(place: Path, cli: Cli) -> None:
    for args, code, said in WRONG:
        ended = cli("context", *args, cwd=place)
        assert (ended.code, ended.stdout) == (code, ""), ended
        error, hint, *rest = ended.stderr.splitlines()
        assert said in error
        assert error.startswith("error: ")
        assert hint.startswith("hint: ")
        assert rest == []


def test_settings_that_make_no_sense_are_told(place: Path, cli: Cli) -> None:
    env = {"RLM_CHUNK_TARGET_BYTES": "100", "RLM_CHUNK_OVERLAP_BYTES": "100"}
    ended = cli("context", "build", "a.txt", cwd=place, env=env)
    assert ended.code == 5
    assert "chunks of 100 bytes cannot overlap by 100 (RLM_CHUNK_TARGET_BYTES" in ended.stderr
    assert not (place / "a.txt.context").exists()


_STARTED = """
import sys
from rlm_ci.cli import main
assert main(["context", "search", "made", "needle"]) == 0
print(*sorted({"hashlib", "inspect", "threading", "orjson", "rlm_ci.runs"} & {*sys.modules}))
"""


def test_a_search_starts_with_little(place: Path) -> None:
    """A search of a gigabyte takes 0.2 s: a tenth of that was once for modules of others."""
    said = subprocess.run(
        [sys.executable, "-c", _STARTED], cwd=place, check=True, capture_output=True, text=True
    ).stdout
    assert said.splitlines()[-1] == ""


def test_a_damaged_object_ends_with_6(place: Path, cli: Cli) -> None:
    """``search`` and ``read`` check lengths only; ``info --verify`` re-hashes."""
    source = place / "made" / "source.txt"
    data = bytearray(source.read_bytes())
    data[150] ^= 1
    source.write_bytes(data)
    assert cli("context", "search", "made", "needle", cwd=place).code == 0
    assert cli("context", "info", "made", cwd=place).code == 0
    ended = cli("context", "info", "made", "--verify", cwd=place)
    assert (ended.code, ended.stdout) == (6, "")
    assert "chunk c000002 (bytes 90-190) is not what was indexed" in ended.stderr
    index = place / "made" / "index.json"
    index.write_bytes(index.read_bytes().replace(b'"start": 90,', b'"start": 91,'))
    assert cli("context", "search", "made", "needle", cwd=place).code == 0
    ended = cli("context", "info", "made", cwd=place)
    assert (ended.code, ended.stdout) == (6, "")
    assert "chunk c000002: start is 91" in ended.stderr
    source.write_bytes(data[:-1])
    for args in (("search", "made", "x"), ("info", "made")):
        ended = cli("context", *args, cwd=place)
        assert ended.code == 6
        assert "but its index says" in ended.stderr


def test_help_tells_the_options_of_an_action(cli: Cli) -> None:
    whole = cli("context", "--help").stdout
    assert all(flag in whole for flag in ("--out", "--link", "--top-k", "--bytes", "--verify"))
    build = cli("context", "build", "--help").stdout
    assert "--link" in build
    assert "--top-k N " not in build  # among the options; how the others are used stays told


def test_a_name_that_is_no_text_is_carried(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text("needle\n")
    assert cli("context", "build", "odd", "-q").code == 0
    record = json.loads((tmp_path / "odd.context" / "index.json").read_bytes())
    assert record["source"]["files"][0]["path"] == "odd/caf\\xe9.txt"
    assert record["source"]["files"][0]["path_b64"]
    assert "odd/caf\\xe9.txt:1" in cli("context", "search", "odd.context", "needle").stdout


def test_the_page_shows_what_happens(cli: Cli, tmp_path: Path) -> None:
    """Every command of docs/context.md, one after the other, says what the page says it does."""
    page = Path(__file__).parents[3].joinpath("docs", "context.md").read_text()
    blocks = re.findall(r"^```text\n(\$ .*?)^```", page, re.MULTILINE | re.DOTALL)
    transcript = "".join(blocks)
    shown = re.split(r"^\$ (.*)\n", transcript, flags=re.MULTILINE)[1:]
    commands, answers = shown[::2], shown[1::2]
    assert len(commands) >= 6
    preview = {"RLM_MAX_PREVIEW_BYTES": "55"}
    for command, answer in zip(commands, answers, strict=True):
        words = shlex.split(command)
        if words[0] != "rlm-ci":
            subprocess.run(["sh", "-c", command], check=True, cwd=tmp_path)
            assert answer == ""
            continue
        ended = cli(*words[1:], env=preview if "json" in words else {})
        told = ended.stderr + ended.stdout
        assert re.sub(r"20\d\d-\S+Z", "TIME", told) == re.sub(r"20\d\d-\S+Z", "TIME", answer)
