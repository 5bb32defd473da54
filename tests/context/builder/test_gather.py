"""A context of many files: which of a folder, a work tree, a pattern; in which order."""

from __future__ import annotations

import gzip
import io
import os
import socket
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rlm_ci.context.builder import build, gather
from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.text import unpacking
from testing.contexts import built, names

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo


def test_a_folder_in_git_is_what_git_lists(repo: GitRepo, out: str) -> None:
    """Tracked and untracked without the ignored; what is no text is left out and counted."""
    repo.write_all({"b.txt": "bravo\n", "a/z.txt": "zulu\n", "a.txt": "alpha\n",
                    ".gitignore": "*.log\n", "gone.txt": "x", "run.log": "noise"})  # fmt: skip
    repo.write("image.png", b"\x89PNG\0").symlink("link", "a.txt")
    repo.commit()
    repo.write("new.txt", "untracked\n")
    (Path(repo.path) / "gone.txt").unlink()
    with built(Path(repo.path), out) as context:
        assert names(context) == [".gitignore", "a.txt", "a/z.txt", "b.txt", "new.txt"]
        assert context.omitted == {"binary": 1, "ignored": 1, "link": 1, "missing": 1}
        assert context.raw(0, 99) == b"*.log\nalpha\nzulu\nbravo\nuntracked\n"
        assert context.files[1].blob == repo.sha("HEAD:a.txt")
    with built(Path(repo.path), f"{out}2", "a") as context:
        assert names(context) == ["a/z.txt"]


def test_what_git_ignores_is_read_when_somebody_names_it(repo: GitRepo, out: str) -> None:
    repo.write_all({".gitignore": "logs/\n", "a.txt": "alpha\n"}).commit()
    repo.write_all({"logs/one.log": "1\n", "logs/two.log": "2\n"})
    with built(Path(repo.path), out, "logs") as context:
        assert names(context) == ["logs/one.log", "logs/two.log"]
    with built(Path(repo.path), f"{out}2", "logs/t*.log") as context:
        assert names(context) == ["logs/two.log"]


def test_a_conflict_and_a_submodule_are_counted_once(repo: GitRepo, out: str) -> None:
    repo.write("a.txt", "1\n").commit()
    repo.submodule("module", repo.sha())
    os.makedirs(os.path.join(repo.path, "module"), exist_ok=True)
    repo.run("update-index", "--index-info", stdin=b"".join(
        b"100644 %s %d\ta.txt\n" % (repo.sha("HEAD:a.txt").encode(), stage) for stage in (1, 2, 3)
    ))  # fmt: skip
    with built(Path(repo.path), out) as context:
        assert names(context) == ["a.txt"]
        assert context.omitted == {"submodule": 1}


def test_a_plain_folder_is_walked_in_order(top: Path, tmp_path: Path, out: str) -> None:
    (top / ".git").mkdir()  # no repository
    (top / ".git" / "notes").write_text("x")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (top / "way out").symlink_to(outside)
    (top / "b").mkdir()
    for name, text in {"b/x.txt": "bx", "b.txt": "b\n", "a-1.txt": "a", "empty.txt": ""}.items():
        (top / name).write_text(text)
    os.mkfifo(top / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(os.path.relpath(top / "sock"))
        with build.build(str(top), out, root=str(top)) as context:
            assert names(context) == ["a-1.txt", "b.txt", "b/x.txt", "empty.txt"]
            assert context.omitted == {"link": 1, "own": 1, "special": 2}
            # Each begins on a line of its own: the break between is of no file.
            assert context.raw(0, 99) == b"a\nb\nbx"
            assert [(one.start, one.end) for one in context.files] == [
                (0, 1), (2, 4), (4, 6), (6, 6)]  # fmt: skip
            assert context.lines(0, 99)[-1].path == "b/x.txt"
            context.verify()


def _left_by_runs(top: Path) -> tuple[str, str]:
    """What rlm-ci writes, in a folder that somebody asks about; the folders that it is told of."""
    for name in (".runs/1/journal", ".runs/1/rlm/answer.md", "out/rollup.md", "lib/a.txt"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(f"{name}\n")
    with build.build(str(top / "lib/a.txt"), str(top / "lib/a.context")):
        pass
    (top / "lib/a.context/deeper").mkdir()
    (top / "lib/a.context/deeper/x.txt").write_text("x")
    return str(top / ".runs"), str(top / "out")


def test_what_we_write_is_no_part_of_a_folder(top: Path, out: str) -> None:
    """Nor is another object: each question would make the next one's context larger."""
    runs = _left_by_runs(top)
    for source, number in (("", 3), ("**/*.txt", 3), ("lib", 1)):
        with built(top, f"{out}{number}{source == ''}", source, without=runs) as context:
            assert names(context) == ["lib/a.txt"]
            assert context.omitted == {"own": number}


def test_what_we_write_is_no_part_of_a_work_tree(repo: GitRepo, out: str) -> None:
    """Where git lists it, as nothing ignores it."""
    runs = _left_by_runs(Path(repo.path))
    repo.write("b.txt", "bravo\n").commit()
    with built(Path(repo.path), out, without=runs) as context:
        assert names(context) == ["b.txt", "lib/a.txt"]
        assert context.omitted == {"own": 3}


def test_what_we_wrote_is_read_when_somebody_names_it(top: Path, out: str) -> None:
    runs = _left_by_runs(top)
    with built(top, out, ".runs/1", without=runs) as context:
        assert names(context) == [".runs/1/journal", ".runs/1/rlm/answer.md"]


def test_names_may_be_anything(top: Path, out: str) -> None:
    odd = [
        b"a\nb",
        b"\xff\xfe",
        b"`|<b>",
        b"*[x]?",
        b"-rf",
        "é 漢 😀".encode(),
        b"\x1b[31m",
        b"a" * 255,
    ]
    for number, name in enumerate(odd):
        (top / os.fsdecode(name)).mkdir()
        (top / os.fsdecode(name) / os.fsdecode(name)).write_text(f"{number}\n")
    with built(top, out) as context:
        found = {os.fsencode(path) for path in names(context)}
    assert found == {name + b"/" + name for name in odd}
    page = Path(out, "pointers.md").read_text()
    assert "\x1b" not in page
    assert all(line.startswith("| `") for line in page.splitlines() if "c000001 |" in line)


def test_a_tree_deeper_than_python_recurses(top: Path, out: str) -> None:
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=descriptor)
        inner = os.open("d", os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(os.open("deep.txt", os.O_CREAT | os.O_WRONLY, dir_fd=descriptor))
    os.close(descriptor)
    try:
        with built(top, out) as context:
            assert len(context.files) == 1
    finally:  # nor does pytest's cleaning
        subprocess.run(["rm", "-rf", top], check=True)


def test_a_folder_that_cannot_be_entered_is_counted(top: Path, out: str) -> None:
    (top / "a.txt").write_text("a")
    # More than the system takes as a path, whoever asks.
    descriptor = os.open(top, os.O_RDONLY)
    for _ in range(20):
        os.mkdir("d" * 250, dir_fd=descriptor)
        inner = os.open("d" * 250, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor = inner
    os.close(descriptor)
    try:
        with built(top, out) as context:
            assert names(context) == ["a.txt"]
            assert context.omitted == {"unreadable": 1}
    finally:
        subprocess.run(["rm", "-rf", top], check=True)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.py", ["a.py"]),
        ("**/*.py", ["a.py", "lib/b.py", "lib/inner/c.py"]),
        ("lib/*.py", ["lib/b.py"]),
        ("lib/**", ["lib/b.py", "lib/inner/c.py", "lib/n.txt"]),
        ("l?b/inner/c.p?", ["lib/inner/c.py"]),
    ],
)
def test_a_glob_takes_what_fits(top: Path, out: str, pattern: str, expected: list[str]) -> None:
    (top / "lib" / "inner").mkdir(parents=True)
    for name in ("a.py", "lib/b.py", "lib/inner/c.py", "lib/n.txt", "z.txt"):
        (top / name).write_text("x\n")
    with built(top, out, pattern) as context:
        assert names(context) == expected


def test_a_name_with_a_star_is_a_name_where_there_is_one(top: Path, out: str) -> None:
    (top / "a*.txt").write_text("star")
    (top / "ab.txt").write_text("plain")
    with built(top, out, "a*.txt") as context:
        assert names(context) == ["a*.txt"]


def test_a_folder_with_a_star_in_its_name_is_that_folder(top: Path, out: str) -> None:
    for folder in ("a*", "ab"):
        (top / folder).mkdir()
        (top / folder / "x.txt").write_text(folder)
    with built(top, out, "a*/*.txt") as context:
        assert names(context) == ["a*/x.txt"]


def test_an_object_inside_of_its_source_is_no_part_of_it(top: Path) -> None:
    (top / "a.txt").write_text("a")
    with built(top, str(top / "object")) as context:
        assert names(context) == ["a.txt"]


LOG = "first\r\nERROR disk full é\r\n"


def test_a_folder_may_have_texts_of_many_kinds(repo: GitRepo, out: str) -> None:
    """Each is found, or counted as left out; its blob is that of the file, not of the text."""
    for name, data in {
        "a.log": LOG.encode("utf-16"), "b.log": LOG.encode("utf-32-be"), "c.log": b"\xe9 ERROR",
        "d.log.gz": gzip.compress(LOG.encode("utf-16-le")), "e.log": LOG.encode(), "f.log": b"",
        "cut.gz": gzip.compress(LOG.encode() * 99)[:-5], "doc.pdf": b"%PDF-1.4\n",
        "end.log": b"no end",
    }.items():  # fmt: skip
        repo.write(name, data)
    repo.symlink("loop", ".").write(".gitignore", "/build/\n*.tmp\n").commit()
    repo.write_all({"build/deep/x.log": "ERROR", "a.tmp": "ERROR", "build/y.log": "ERROR"})
    with built(Path(repo.path), out) as context:
        left_out, decoded = context.notes
        assert left_out == "left out: 1 binary; 1 damaged; 2 ignored; 1 link"
        kinds = ("gzip, utf-16-le", "utf-16-le", "utf-32-be", "windows-1252")
        assert decoded == f"decoded: {'; '.join(f'1 from {kind}' for kind in kinds)}"
        assert context.search(["error"])[0].total_hits == 5
        for piece in context.files:
            assert piece.blob == repo.sha(f"HEAD:{piece.path}")
        read_as = {piece.path: piece.read_as for piece in context.files if piece.read_as}
        assert read_as["d.log.gz"] == "gzip, utf-16-le"
        gz = next(piece for piece in context.files if piece.path == "d.log.gz")
        assert context.raw(gz.start, gz.end).decode() == LOG
        assert context.lines(gz.start, gz.end)[0].line_end == 2
        context.verify()
    with built(Path(repo.path), f"{out}2", encoding="bytes") as context:
        assert len(context.files) == 10
        assert context.notes == ("left out: 2 ignored; 1 link",)


def test_no_half_of_a_text_stays(top: Path, out: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor has one file more than the limit of all."""
    noise = os.urandom(1 << 20).hex().encode()
    (top / "a.txt").write_bytes(b"alpha")
    (top / "b.gz").write_bytes(gzip.compress(noise)[:-1])
    (top / "c.gz").write_bytes(gzip.compress(b"gamma\n"))
    (top / "d.gz").write_bytes(gzip.compress(noise))
    monkeypatch.setattr(unpacking.UnpackLimit.__init__, "__defaults__", (5 << 20,))
    (top / "e.gz").write_bytes(gzip.compress(noise))
    with built(top, out) as context:
        assert context.omitted == {"damaged": 1, "large": 1}
        assert context.raw(0, 12) == b"alpha\ngamma\n"
        assert names(context) == ["a.txt", "c.gz", "d.gz"]
        context.verify()


def test_what_is_left_out_leaves_its_room_to_others(
    top: Path, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As often as a folder of bombs may cost; then all that is packed is left out."""
    packed = gzip.compress(bytes(range(32, 127)) * (1 << 16))
    for number in range(6):
        (top / f"{number}.gz").write_bytes(packed if number in (0, 2) else gzip.compress(b"beta\n"))
    monkeypatch.setattr(unpacking.UnpackLimit.__init__, "__defaults__", (5 << 20,))
    with built(top, out) as context:
        assert context.omitted == {"large": 2}
        assert names(context) == ["1.gz", "3.gz", "4.gz", "5.gz"]
        context.verify()
    for number in range(unpacking.SPARED):
        (top / f"0{number}.gz").write_bytes(packed)
    with built(top, f"{out}2") as context:
        assert context.omitted == {"large": unpacking.SPARED + 6}


def test_a_named_source_that_is_no_text_is_refused(
    top: Path, out: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (top / "a.pdf").write_bytes(b"%PDF-1.4\n")
    for source in (str(top / "a.pdf"), io.BytesIO(b"%PDF-1.4\n")):
        with pytest.raises(ConfigError, match="it is a PDF document") as raised:
            build.build(source, out)
        assert "pdftotext" in raised.value.hint
    with pytest.raises(ConfigError, match="no encoding 'klingon'"):
        build.build(str(top / "a.pdf"), out, encoding="klingon")
    (top / "a.zst").write_bytes(b"\x28\xb5\x2f\xfd")
    monkeypatch.setattr(gather, "DecodedText", _without_zstd)
    with pytest.raises(UnavailableError, match="zstd data needs the extra") as missing:
        build.build(str(top / "a.zst"), out)
    assert "zstd" in missing.value.hint


def _without_zstd(*_arguments: object, **_more: object) -> None:
    raise unpacking.UnreadableTextError("zstd", "zstd data needs the extra zstd", "")


def test_a_link_is_made_of_plain_text_alone(top: Path, out: str) -> None:
    (top / "a.txt").write_bytes("é\n".encode())
    (top / "b.txt").write_bytes(b"\xe9\n")
    for name, links in (("a.txt", 2), ("b.txt", 1)):
        with build.build(str(top / name), f"{out}{name}", link=True) as context:
            assert context.raw(0, 9) == "é\n".encode()
        assert (top / name).stat().st_nlink == links
