"""Which files are looked at, and what is said of the others."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest

from rlm_ci.errors import ConfigError
from rlm_ci.git.repository import Repository, discover
from rlm_ci.pipelines.repository.plan import with_closed
from rlm_ci.recursion.corpus.corpus import at_commit, in_folder, in_worktree, order
from rlm_ci.recursion.corpus.eligibility import EligibilityRules
from rlm_ci.report.findings import INCOMPLETE, Part
from testing.repositories.git_repo import GITLINK, GitRepo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.recursion.corpus.corpus import Corpus

#: Any user that is not root.
_NOBODY = 65534
DEFAULT = EligibilityRules()
ATTRIBUTES = """\
gen/** linguist-generated
third/** linguist-vendored
*.dat binary
kept/** -linguist-generated
"""


def repository(repo: GitRepo) -> Repository:
    return Repository(*discover(str(repo.path)), os.environ)


def committed(repo: GitRepo, rules: EligibilityRules = DEFAULT, under: str = "") -> Corpus:
    return at_commit(repository(repo), repo.commit(), rules, under)


def paths(corpus: Corpus) -> list[str]:
    return [file.path for file in corpus.files]


def reasons(corpus: Corpus) -> dict[str, str]:
    return {path: reason.partition(":")[0] for path, reason in corpus.omitted}


def fill(repo: GitRepo) -> None:
    repo.write_all(
        {
            ".gitattributes": ATTRIBUTES,
            "gen/made.py": "x = 1\n",
            "third/party.js": "1\n",
            "sub/.gitattributes": "deep.txt linguist-generated=true\n",
            "sub/deep.txt": "1\n",
            "sub/own.txt": "1\n",
            "data.dat": "text, and called binary\n",
            "zero.bin": b"\x7fELF\0\0",
            "late.txt": b"x" * 9000 + b"\0",
            "big.txt": "y" * 5000 + "\n",
            "yarn.lock": "# lock\n",
            "out/skip.md": "no\n",
            ".runs/0951/cli/x/manifest.json": "{}\n",
            "empty.txt": "",
            "main.py": "print()\n",
        }
    )
    repo.symlink("loop", "loop").symlink("up", ".").symlink("sub/out", "/etc")


RULES = EligibilityRules(exclude=("out/",), max_file_bytes=10_000)
OMITTED = {
    "gen/made.py": "generated",
    "third/party.js": "vendored",
    "sub/deep.txt": "generated",
    "data.dat": "binary",
    "zero.bin": "binary",
    "yarn.lock": "lock_file",
    "out/skip.md": "excluded",
    "loop": "link",
    "up": "link",
    "sub/out": "link",
}
ELIGIBLE = [
    ".gitattributes", "big.txt", "empty.txt", "late.txt", "main.py", "sub/.gitattributes",
    "sub/own.txt",
]  # fmt: skip


def test_everything_in_a_commit_is_looked_at_or_left_out_with_a_reason(repo: GitRepo) -> None:
    fill(repo)
    found = committed(repo, RULES)
    eligible = sorted([*ELIGIBLE, ".runs/0951/cli/x/manifest.json"], key=order)
    assert paths(found) == eligible
    assert reasons(found) == OMITTED
    everything = repo.text("ls-tree", "-r", "--name-only", "HEAD").splitlines()
    assert sorted([*paths(found), *reasons(found)]) == sorted(everything)
    assert found.read(found.files) == [repo.read(path) for path in eligible]
    for file, content in zip(found.files, found.read(found.files), strict=True):
        assert file.size == len(content)
        assert file.oid == repo.text("rev-parse", f"HEAD:{file.path}")


def test_the_work_tree_is_taken_as_it_is(repo: GitRepo) -> None:
    fill(repo)
    repo.write(".gitignore", "ignored/\n*.log\n")
    repo.commit()
    repo.write("ignored/a/b.txt", "1\n").write("x.log", "1\n").write("new.txt", "untracked\n")
    repo.write("main.py", "print('changed')\n")
    (repo.path / "sub/own.txt").unlink()
    GitRepo(repo.path / "inner").write("file.txt", "another repository\n").commit()
    os.mkfifo(repo.path / "pipe.txt")
    found = in_worktree(repository(repo), RULES)
    expected = sorted({*ELIGIBLE, ".gitignore", "new.txt"} - {"sub/own.txt"}, key=order)
    assert paths(found) == expected
    assert reasons(found) == OMITTED | {
        "ignored/": "ignored",
        ".runs/0951/cli/x/manifest.json": "own",
        "x.log": "ignored",
        "inner/": "submodule",
        "sub/own.txt": "missing",
    }
    assert dict(zip(paths(found), found.read(found.files), strict=True))["main.py"] == (
        b"print('changed')\n"
    )
    repo.write("new.txt", "and changed again\n")
    with pytest.raises(ConfigError, match="changed during the run"):
        found.read(found.files)


@pytest.fixture
def unprivileged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of somebody who is not root, as whom the rest of the test runs."""
    with TemporaryDirectory() as name:
        for variable in ("HOME", "XDG_CONFIG_HOME"):  # git reads what is there
            monkeypatch.setenv(variable, name)
        monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(name, _NOBODY, _NOBODY)
            os.seteuid(_NOBODY)
        try:
            yield Path(name)
        finally:
            if is_root:
                os.seteuid(0)


def test_what_cannot_be_opened_is_told_and_makes_the_rest_incomplete(unprivileged: Path) -> None:
    repo = GitRepo(unprivileged / "repo")
    repo.write("a.py", "a = 1\n").write("b.py", "b = 1\n").write("c/d.py", "d = 1\n").commit()
    whole = in_worktree(repository(repo), RULES)
    assert whole.closed == ()
    (repo.path / "b.py").chmod(0)
    repo.write("dark/e.py", "e = 1\n")
    (repo.path / "dark").chmod(0)
    try:
        found = in_worktree(repository(repo), RULES)
        assert paths(found) == ["a.py", "c/d.py"]
        assert reasons(found) == {"b.py": "unreadable", "dark/": "unreadable"}
        assert found.closed == ("b.py", "dark/")
        part = with_closed(Part("review", "0 findings in 2 files", {}), found)
        assert part.state == INCOMPLETE
        assert part.summary == (
            "0 findings in 2 files; 2 files or folders could not be read, such as b.py"
        )
        assert with_closed(part, whole) is part
    finally:
        (repo.path / "dark").chmod(0o700)


def test_a_folder_outside_of_git_is_walked(tmp_path: Path) -> None:
    top = tmp_path / "package"
    for name in ("a/b/c.py", "a/z.py", "b.py", "__pycache__/b.pyc", ".git/config", "a/.git/x"):
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(b"1\n")
    (top / "a/loop").symlink_to("..")
    (top / "closed").mkdir(mode=0o000)
    found = in_folder(str(top), EligibilityRules())
    assert paths(found) == ["b.py", "a/z.py", "a/b/c.py"]
    told = reasons(found)
    if os.getuid():  # root opens everything
        assert told.pop("closed/") == "unreadable"
    assert told == {"__pycache__/": "litter", ".git/": "own", "a/.git/": "own", "a/loop": "link"}
    assert found.commit is None
    assert found.files[0].oid == "d00491fd7e5bb6fa28c517a0bb32b8b506539d4d"
    (top / "closed").chmod(0o700)


NAMES = [
    b"latin-\xe9.txt", "naïve.txt".encode(), "日本語.txt".encode(), b"shift-\x93\xfa.txt",
    b"line\nbreak.txt", b"tab\t.txt", b"quote\".txt", b"-dash.txt", b"sp ace/\xff/in.txt", b"cr\r",
]  # fmt: skip


def test_names_in_every_encoding_are_carried(repo: GitRepo) -> None:
    for name in NAMES:
        repo.write(name, b"content of " + name)
    repo.write(".gitattributes", "shift-* linguist-generated\n")
    found = committed(repo)
    named = {os.fsencode(path) for path in paths(found)}
    assert named == {*NAMES, b".gitattributes"} - {b"shift-\x93\xfa.txt"}
    for file, content in zip(found.files, found.read(found.files), strict=True):
        if file.path != ".gitattributes":
            assert content == b"content of " + os.fsencode(file.path)
    assert paths(in_worktree(repository(repo), EligibilityRules())) == paths(found)
    assert in_worktree(repository(repo), EligibilityRules()).digest == found.digest


def test_files_come_before_folders_and_names_go_by_their_bytes() -> None:
    names = ["a/b", "a.c", "a/a/x", "a b/c", "Z", "a", "a/b/c/d", "a/a0", "é", "z/é", "z/z"]
    assert sorted(names, key=order) == [
        "Z", "a", "a.c", "é", "a/a0", "a/b", "a/a/x", "a/b/c/d", "a b/c", "z/z", "z/é",
    ]  # fmt: skip


def test_a_part_of_it_is_the_same_files(repo: GitRepo) -> None:
    fill(repo)
    found = committed(repo, RULES)
    some = found.limited({"main.py", "loop", "nowhere", "sub/own.txt"})
    assert paths(some) == ["main.py", "sub/own.txt"]
    assert reasons(some) == {"loop": "link"}
    assert some.digest != found.digest
    repo.write(".gitignore", "made/\n").write("made/in/x.py", "1\n")
    tree = in_worktree(repository(repo), RULES)
    assert reasons(tree.limited({"made/in/x.py"})) == {"made/": "ignored"}
    assert some.read(some.files) == [b"print()\n", b"1\n"]
    below = at_commit(repository(repo), found.commit or "", RULES, "sub")
    assert paths(below) == ["sub/.gitattributes", "sub/own.txt"]


def test_generated_files_are_looked_at_when_asked(repo: GitRepo) -> None:
    fill(repo)
    found = committed(repo, RULES.replace(include_generated=True))
    assert {"gen/made.py", "third/party.js", "sub/deep.txt"} <= set(paths(found))
    assert "data.dat" in reasons(found)


def test_a_change_does_not_say_itself_what_is_generated(repo: GitRepo) -> None:
    base = repo.write("a.py", "1\n").commit()
    repo.write(".gitattributes", "*.py linguist-generated\n")
    assert reasons(committed(repo)) == {"a.py": "generated"}
    found = at_commit(repository(repo), repo.sha(), DEFAULT, policy=base)
    assert (paths(found), found.omitted) == ([".gitattributes", "a.py"], ())


def test_what_is_too_large_is_never_read(repo: GitRepo) -> None:
    repo.write("small.txt", "1\n").write("big.txt", "y" * 5000)
    found = committed(repo, EligibilityRules(max_file_bytes=100))
    assert dict(found.omitted) == {"big.txt": "too_large: 5,000 bytes, more than 100"}
    assert reasons(in_worktree(repository(repo), EligibilityRules(max_file_bytes=100))) == {
        "big.txt": "too_large"
    }


def test_a_submodule_is_told(repo: GitRepo) -> None:
    commit = repo.write("a.txt", "1\n").commit()
    repo.submodule("lib/other", commit)
    found = at_commit(repository(repo), repo.commit(stage=False), EligibilityRules())
    assert reasons(found)["lib/other"] == "submodule"


def test_a_pattern_that_cannot_be_read_is_an_error(repo: GitRepo) -> None:
    repo.write("a.txt", "1\n")
    with pytest.raises(ConfigError, match="pattern"):
        committed(repo, EligibilityRules(exclude=("[z-a]",)))


@pytest.mark.full
def test_a_hundred_thousand_files_take_seconds(repo: GitRepo) -> None:
    with repo.bulk() as bulk:
        changes: dict[str, str | bytes | tuple[str, str | bytes] | None] = {
            f"p{number // 1000:03}/f{number}.py": f"x = {number}\n" for number in range(80_000)
        }
        changes |= {f"wide/f{number}.py": f"y = {number}\n" for number in range(20_000)}
        changes["huge.bin"] = b"\0" * (200 << 20)
        changes["loop"] = ("120000", "loop")
        changes["module"] = (GITLINK, "1" * 40)
        bulk.commit("main", changes)
    import time

    begun = time.process_time()
    found = at_commit(repository(repo), repo.sha(), EligibilityRules())
    assert len(found.files) == 100_000
    assert reasons(found) == {"huge.bin": "too_large", "loop": "link", "module": "submodule"}
    assert time.process_time() - begun < 30


GUESSED = {
    "web/jquery.min.js": "generated",
    "web/site.css.map": "generated",
    "dist/bundle.mjs": "generated",
    "lib/Vendor/x.py": "vendored",
    "a/bower_components/b/index.js": "vendored",
}
LONG = "".join(f"var a{number}=1;" for number in range(300))


def guessing(repo: GitRepo) -> None:
    repo.write_all(dict.fromkeys(GUESSED, f"/*x*/\n{LONG}\n"))
    repo.write_all({
        "vendor.py": "x = 1\n", "data.json": LONG, "short.js": "x" * 500, "site.min.py": LONG,
        "ours/vendor/a.js": "1\n", "ours/vendor/b.min.js": "1\n",
    })  # fmt: skip


def test_what_names_and_lines_tell_is_left_out_unless_the_repository_says_otherwise(
    repo: GitRepo,
) -> None:
    guessing(repo)
    plain = {**GUESSED, "ours/vendor/a.js": "vendored", "ours/vendor/b.min.js": "vendored"}
    rules = EligibilityRules(guess=True)
    assert reasons(committed(repo, rules)) == plain
    assert reasons(in_folder(str(repo.path), rules)) == {**plain, ".git/": "own"}
    assert reasons(committed(repo)) == {}
    repo.write(".gitattributes", "/ours/** -linguist-vendored\ndist/* linguist-generated=false\n")
    kept = {path: why for path, why in GUESSED.items() if not path.startswith("dist/")}
    for found in (committed(repo, rules), in_worktree(repository(repo), rules)):
        assert reasons(found) == kept
    # What is asked for by its name is looked at.
    assert paths(committed(repo, rules, "lib/Vendor")) == ["lib/Vendor/x.py"]
    assert paths(committed(repo, rules, "web/jquery.min.js")) == ["web/jquery.min.js"]
