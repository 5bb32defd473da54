"""git as it is used here: names are bytes, refs are looked up, and a repository runs nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from rlm_ci.change import change_set
from rlm_ci.errors import ConfigError, DamagedError, UnavailableError
from rlm_ci.git.hardening import DIFF_OPTIONS, HOOK_VARIABLES, INHERITED
from rlm_ci.git.objects import TreeEntry
from rlm_ci.git.repository import Repository, discover
from rlm_ci.system import process
from testing.leftovers import Belongings
from testing.repositories.changes import HOSTILE_NAMES, hostile_names, numbered, small_change
from testing.repositories.git_repo import EMPTY_TREE, GITLINK, SCRIPT, SYMLINK, GitRepo
from testing.repositories.shapes import (
    ATTRIBUTED_FILES,
    attributed,
    base_moved_ahead,
    dangling_names,
    first_push,
    set_traps,
    sprung,
    unrelated_histories,
)

if TYPE_CHECKING:
    from pathlib import Path


def untracked(repository: Repository) -> list[str]:
    with repository.start_untracked() as pending:
        return os.fsdecode(pending.finish()).split("\0")[:-1]


posix = pytest.mark.skipif(os.name != "posix", reason="owners and programs of POSIX")
as_root = pytest.mark.skipif(
    os.name != "posix" or os.geteuid() != 0, reason="needs root, to be somebody else"
)


def opened(path: os.PathLike[str] | str) -> Repository:
    return Repository(*discover(os.fspath(path)), os.environ)


# -- finding it ---------------------------------------------------------------------------------


def test_the_top_level_is_found_from_anywhere_below(repo: GitRepo, tmp_path: Path) -> None:
    repo.write("a/b/c.txt", "x\n").commit()
    top = os.fspath(repo)
    for start in (repo.path, repo.path / "a" / "b"):
        assert discover(os.fspath(start)) == (top, os.path.join(top, ".git"))
    tree = repo.worktree(tmp_path / "linked")
    root, git_dir = discover(os.fspath(tree.path / "a"))
    assert root == os.fspath(tree)
    assert git_dir == repo.text("rev-parse", "--git-common-dir").replace(
        ".git", os.path.join(top, ".git", "worktrees", "linked")
    )
    assert opened(tree).common_dir == os.path.join(top, ".git")
    assert opened(repo).common_dir == os.path.join(top, ".git")


def test_a_submodule_is_a_repository_of_its_own(repo: GitRepo, tmp_path: Path) -> None:
    inner = GitRepo(tmp_path / "inner")
    inner.write("a", "1\n").commit()
    repo.run("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.path), "sub")
    root, git_dir = discover(os.fspath(repo.path / "sub"))
    assert root == os.fspath(repo.path / "sub")
    assert git_dir == os.fspath(repo.path / ".git" / "modules" / "sub")
    assert opened(repo.path / "sub").resolve("HEAD") == [inner.sha()]


def test_outside_of_a_repository_there_is_none(tmp_path: Path) -> None:
    assert discover(os.fspath(tmp_path)) == (os.fspath(tmp_path), None)
    with pytest.raises(ConfigError, match="not a git repository") as caught:
        opened(tmp_path).resolve("HEAD")
    assert "--repo" in caught.value.hint


def test_a_folder_that_is_only_called_git_is_passed_over(repo: GitRepo) -> None:
    # As git itself does: else the root would be one folder, and the answers another's.
    (repo.path / "sub" / ".git").mkdir(parents=True)
    assert discover(os.fspath(repo.path / "sub"))[0] == os.fspath(repo)


def test_a_bare_repository_in_a_subfolder_is_a_folder(repo: GitRepo) -> None:
    # A pull request may bring one, with a configuration of its own.
    GitRepo(repo.path / "evil", bare=True)
    assert discover(os.fspath(repo.path / "evil"))[0] == os.fspath(repo)


# -- what git gets to see -----------------------------------------------------------------------

RECORDER = """#!/bin/sh
env -0 >>"$RECORD"
exec {git} "$@"
"""


@posix
def test_git_sees_of_our_environment_what_is_listed_and_no_more(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write("a", "1\n").commit()
    record = tmp_path / "record"
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    text = RECORDER.replace("$RECORD", str(record)).format(git=shutil.which("git"))
    wrapper.write_text(text)
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    for name in (
        "SECRET", "GITHUB_TOKEN", "GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_ASKPASS", "LD_X",
        "GIT_CONFIG_COUNT", "GIT_TRACE2_EVENT", "GIT_ALTERNATE_REFS", "HTTPS_PROXY", "BASH_ENV",
    ):  # fmt: skip
        monkeypatch.setenv(name, "1")
    repository = opened(repo)
    repository.resolve("HEAD")
    seen = dict(row.split("=", 1) for row in record.read_bytes().decode().split("\0") if "=" in row)
    own = {"PWD", "SHLVL", "_", "OLDPWD"}  # the wrapper's shell
    fixed = {name for name in seen if name not in INHERITED} - own
    assert fixed == {
        "LC_ALL", "GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS", "GIT_ATTR_NOSYSTEM",
        "GIT_LITERAL_PATHSPECS", "GIT_NO_REPLACE_OBJECTS", "GIT_NO_LAZY_FETCH",
    }  # fmt: skip
    record.write_bytes(b"")
    repository.run("ls-remote", ".", network=True)
    reached = record.read_bytes().decode()
    assert "HTTPS_PROXY=1" in reached
    assert "GIT_SSH_COMMAND=1" in reached
    assert "SECRET" not in reached


@posix
def test_without_git_it_says_what_to_install(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="git could not be started") as caught:
        opened(repo).resolve("HEAD")
    assert "install git" in caught.value.hint


def test_relative_names_of_a_hook_are_those_of_the_folder_it_runs_in(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write("a", "1\n").commit()
    repo.write("b", "2\n")
    repo.run("add", "b", env={"GIT_INDEX_FILE": ".git/other"})
    repo.run("read-tree", "HEAD")
    monkeypatch.chdir(repo)
    environ = {**os.environ, "GIT_DIR": ".git", "GIT_INDEX_FILE": ".git/other"}
    repository = Repository(*discover(os.fspath(repo)), environ)
    monkeypatch.chdir(tmp_path)
    assert list(repository.staged()) == ["b"]
    assert {"GIT_DIR", "GIT_INDEX_FILE"} <= set(HOOK_VARIABLES)


# -- refs ---------------------------------------------------------------------------------------


def test_refs_are_resolved_in_their_order(repo: GitRepo) -> None:
    history = small_change(repo)
    repo.tag("v1", history.base, message="annotated")
    assert opened(repo).resolve("v1", "nope", "HEAD", "HEAD~1", "", "main", "HEAD^{tree}") == [
        history.base, None, history.head, history.base, None, history.base, None,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", dangling_names())
def test_what_names_no_commit_is_none_and_disturbs_no_other(repo: GitRepo, kind: str) -> None:
    head = repo.write("main.py", "1\n").commit()
    odd = dangling_names()[kind]
    assert opened(repo).resolve("HEAD", odd, "main") == [head, None, head]
    assert opened(repo).resolve(odd) == [None]
    assert sorted(os.listdir(repo.path)) == [".git", "main.py"]


def test_merge_bases_and_parents(repo: GitRepo) -> None:
    history = base_moved_ahead(repo)
    repository = opened(repo)
    assert repository.merge_base(history.base, history.head) == history.commits["fork"]
    assert repository.parents(history.head) == [history.commits["fork"]]
    assert repository.parents(history.commits["fork"]) == []
    assert repository.empty_tree() == EMPTY_TREE
    assert not repository.is_shallow()
    assert repository.head_ref() == "refs/heads/feature"
    repo.checkout(history.head, detach=True)
    assert repository.head_ref() is None


def test_unrelated_commits_have_no_merge_base(repo: GitRepo) -> None:
    history = unrelated_histories(repo)
    assert opened(repo).merge_base(history.base, history.head) is None


def test_the_default_branch_is_what_the_clone_knows_of_it(tmp_path: Path) -> None:
    history = first_push(GitRepo(tmp_path / "origin"), tmp_path / "clone")
    clone = history.repo
    assert opened(clone).default_branch() == ("main", history.base)
    clone.run("update-ref", "refs/remotes/origin/develop", history.head)
    clone.run("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/develop")
    assert opened(clone).default_branch() == ("develop", history.head)
    clone.run("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/gone")
    assert opened(clone).default_branch() == ("main", history.base)
    assert opened(clone).default_branch("elsewhere") == ("main", history.base)
    bare = GitRepo(tmp_path / "new")
    assert opened(bare).default_branch() is None
    bare.checkout("topic", new=True).write("a", "1\n").commit()
    assert opened(bare).default_branch() is None
    bare.branch("master")
    assert opened(bare).default_branch() == ("master", bare.sha())


# -- objects ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> GitRepo:
    return hostile_names(GitRepo(tmp_path_factory.mktemp("named") / "repo")).repo


def test_a_file_of_any_name_is_read(named: GitRepo) -> None:
    paths = [os.fsdecode(name) for name in HOSTILE_NAMES]
    repository = opened(named)
    specs = [f"HEAD~1:{path}" for path in paths]
    assert repository.read(*specs) == [b"before\n"] * len(paths)
    assert repository.sizes(specs) == [7] * len(paths)
    assert repository.read(*(f"HEAD~1:new/{path}" for path in paths)) == [None] * len(paths)
    assert repository.sizes([f"HEAD:no\n{path}" for path in paths]) == [-1] * len(paths)


def test_the_tree_and_the_index_list_names_as_they_are(named: GitRepo) -> None:
    expected = {os.fsdecode(name) for name in HOSTILE_NAMES}
    repository = opened(named)
    tree = repository.tree("HEAD~1")
    assert tree.keys() == expected
    assert set(tree.values()) == {TreeEntry("100644", "blob", repository.blob_id(b"before\n"))}
    assert opened(named.path).tree("HEAD").keys() > expected
    assert set(repository.staged()) == set(repository.tree("HEAD"))
    sized = repository.tree("HEAD~1", sizes=True)
    assert sized == {path: entry.replace(size=7) for path, entry in tree.items()}


def test_untracked_files_are_listed_as_they_are(repo: GitRepo) -> None:
    for name in HOSTILE_NAMES:
        repo.write(name, "x\n")
    expected = {os.fsdecode(name) for name in HOSTILE_NAMES}
    assert set(untracked(opened(repo))) == expected
    repo.write("tracked", "x\n").run("add", "tracked")
    with opened(repo).start_listing() as listing:
        assert {os.fsdecode(name) for name in listing.finish().split(b"\0")} == {
            *expected, "tracked", "",
        }  # fmt: skip


def test_only_blobs_have_contents(repo: GitRepo) -> None:
    repo.write_all({"file": b"a\0b", "empty": b"", "folder/file": "x"}).symlink("link", "file")
    repo.submodule("module", "1" * 40)
    head = repo.commit()
    specs = [f"{head}:{path}" for path in ("file", "empty", "folder", "module", "link", "none")]
    repository = opened(repo)
    assert repository.read(*specs) == [b"a\0b", b"", None, None, b"file", None]
    assert repository.read() == []
    kinds = {path: entry.is_file for path, entry in repository.tree(head).items()}
    assert kinds == {
        "file": True, "empty": True, "folder/file": True, "link": False, "module": False,
    }  # fmt: skip
    modes = {entry.mode for entry in repository.tree(head).values()}
    assert modes == {"100644", SYMLINK, GITLINK}
    repo.chmod("file", 0o755).commit()
    assert repository.tree("HEAD")["file"].mode == SCRIPT


def test_small_files_are_read_however_large_the_others_are(repo: GitRepo) -> None:
    repo.write_all({"small": b"x" * 900, "other": b"y" * 900, "large": b"z" * 300_000}).commit()
    specs = [f"HEAD:{path}" for path in ("small", "large", "other", "none", "small")]
    found = opened(repo).read_small(specs, 1000)
    assert found == [b"x" * 900, None, b"y" * 900, None, b"x" * 900]
    assert opened(repo).read_small(specs[3:4], 1000) == [None]


@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
def test_object_ids_are_those_of_git(tmp_path: Path, object_format: str) -> None:
    path = tmp_path / "repo"
    subprocess.run(["git", "init", "-q", f"--object-format={object_format}", path], check=True)
    repo = GitRepo(path)
    repo.write("a", "text\n").write("b", b"\0" * 1000).commit()
    head = repo.write("a", "text\nmore\n").commit()
    repository = opened(repo)
    assert repository.blob_id(b"text\nmore\n") == repo.sha("HEAD:a")
    assert repository.blob_id(b"\0" * 1000) == repo.sha("HEAD:b")
    assert repository.resolve("HEAD") == [head]
    empty = repository.empty_tree()
    assert repository.diff_trees(empty, head, "--numstat").count(b"\0") == 2


def test_a_damaged_repository_is_named(repo: GitRepo) -> None:
    history = small_change(repo)
    blob = repo.sha("HEAD:src/cart.py")
    place = repo.path / ".git" / "objects" / blob[:2] / blob[2:]
    place.chmod(0o644)
    place.write_bytes(b"damaged")
    with pytest.raises(DamagedError) as caught:
        opened(repo).diff_trees(history.base, history.head, "--numstat")
    assert caught.value.code == 6
    assert "git fsck" in caught.value.hint
    assert str(caught.value).isprintable()


def test_what_git_complains_of_is_told_in_one_harmless_line(repo: GitRepo) -> None:
    repo.write("a", "1\n").commit()
    with pytest.raises(DamagedError) as caught:
        opened(repo).run("rev-parse", "--verify", "\x1b[31m\n::error::x\u202e" * 200)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        ("[core]\n\tbare = true\n", "git config core.bare false"),
        ("[core]\n\trepositoryformatversion = 9\n", "update git"),
        ("[core]\n\trepositoryformatversion = 1\n[extensions]\n\tnope = 1\n", "update git"),
        ("[broken\n", "fix the file that it names"),
    ],
)
def test_a_configuration_that_git_cannot_work_with_is_no_damage(
    repo: GitRepo, lines: str, hint: str
) -> None:
    repo.write("a", "1\n").commit()
    with open(repo.path / ".git" / "config", "a", encoding="utf-8") as file:
        file.write(lines)
    with pytest.raises(ConfigError) as caught:
        change_set.from_local(opened(repo), "worktree").files()
    assert caught.value.hint == hint


def test_a_git_that_takes_too_long_is_said(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **__: object) -> process.ProcessResult:
        return process.ProcessResult(-9, b"", b"", timed_out=True)

    monkeypatch.setattr(process.Child, "finish", late)
    with pytest.raises(UnavailableError, match="took too long"):
        opened(repo).run("log")


# -- attributes ---------------------------------------------------------------------------------


def test_attributes_come_from_the_folder_that_is_named(repo: GitRepo, tmp_path: Path) -> None:
    history = attributed(repo, hiding="* linguist-generated\n")
    folder = tmp_path / "attributes"
    for place in (".gitattributes", "sub/.gitattributes"):
        (folder / place).parent.mkdir(exist_ok=True, parents=True)
        (folder / place).write_bytes(repo.run("cat-file", "blob", f"{history.base}:{place}"))
    names = ("linguist-generated", "linguist-vendored")
    found = opened(repo).attributes(names, list(ATTRIBUTED_FILES), str(folder))
    assert found.keys() == {path for path, marked in ATTRIBUTED_FILES.items() if marked}
    assert opened(repo).attributes(names, [], str(folder)) == {}


# -- other people's repositories ----------------------------------------------------------------

SOMEBODY = 65_534


@pytest.fixture
def foreign(tmp_path: Path) -> GitRepo:
    """A repository of another user, in a place whose name a shell would split."""
    repo = GitRepo(tmp_path / "it's $HOME; a place")
    small_change(repo)
    for folder, _, names in os.walk(repo.path):
        for name in (".", *names):
            os.chown(os.path.join(folder, name), SOMEBODY, SOMEBODY, follow_symlinks=False)
    return repo


@as_root
@pytest.mark.parametrize("through_a_link", [True, False])
def test_a_repository_of_another_user_names_the_command_that_mends_it(
    foreign: GitRepo, tmp_path: Path, *, through_a_link: bool
) -> None:
    (tmp_path / "link").symlink_to(foreign.path)
    path = tmp_path / "link" if through_a_link else foreign.path
    hints = set()
    for ask in (
        lambda: opened(path).resolve("HEAD"),
        lambda: opened(path).diff_trees("HEAD~1", "HEAD", "--numstat"),
        lambda: untracked(opened(path)),
    ):
        with pytest.raises(ConfigError, match="belongs to another user") as caught:
            ask()
        hints.add(caught.value.hint)
    command = hints.pop().partition(": ")[2]
    assert command.startswith("git config --global --add safe.directory ")
    subprocess.run(command, shell=True, check=True)
    assert opened(path).diff_trees("HEAD~1", "HEAD", "--numstat").count(b"\0") == 2


def test_a_partial_clone_names_the_command_that_completes_it(repo: GitRepo, tmp_path: Path) -> None:
    history = small_change(repo)
    repo.config("uploadpack.allowFilter", "true")
    clone = repo.clone(tmp_path / "clone", "--filter=blob:none", "--no-checkout")
    repository = opened(clone)
    assert repository.diff_trees(history.base, history.head, "--name-only") == (
        b"src/cart.py\0src/tax.py\0"
    )
    with pytest.raises(ConfigError, match="partial clone") as caught:
        repository.diff_trees(history.base, history.head, "--numstat")
    command = caught.value.hint.partition(": ")[2].split()
    assert command[0] == "git"
    clone.run(*command[1:])
    assert repository.diff_trees(history.base, history.head, "--numstat").count(b"\0") == 2


def test_a_partial_clone_of_the_web_is_not_fetched_behind_the_back(
    repo: GitRepo, tmp_path: Path
) -> None:
    history = small_change(repo)
    repo.config("uploadpack.allowFilter", "true")
    clone = repo.clone(tmp_path / "clone", "--filter=blob:none", "--no-checkout")
    for url in ("https://127.0.0.1:9/x", "ssh://127.0.0.1:9/x", "git://127.0.0.1:9/x"):
        clone.config("remote.origin.url", url)
        with pytest.raises(ConfigError, match="partial clone"):
            opened(clone).diff_trees(history.base, history.head, "--numstat")


# -- a repository that wants to run something ---------------------------------------------------


@posix
def test_no_question_to_a_hostile_repository_runs_anything(repo: GitRepo, tmp_path: Path) -> None:
    history = small_change(repo)
    folder = tmp_path / "attributes"
    folder.mkdir()
    (folder / ".gitattributes").write_text("* filter=trap diff=trap merge=trap\n")
    set_traps(repo, tmp_path / "canary")
    repository = opened(repo)
    repository.resolve("HEAD", "main")
    repository.merge_base(history.base, history.head)
    repository.parents(history.head)
    repository.refs("refs/")
    repository.default_branch()
    repository.read("HEAD:README.md")
    repository.sizes(["HEAD:README.md"])
    repository.tree("HEAD", sizes=True)
    repository.staged()
    untracked(repository)
    with repository.start_listing() as listing:
        assert listing.finish()
    repository.config("core.pager")
    for attributes in (None, str(folder)):
        for form in ("--numstat", "--patch", "--name-only"):
            trees = history.base, history.head
            with repository.start_diff(*trees, form, "-M", attributes=attributes) as pending:
                assert pending.finish()
            assert repository.diff_trees(*trees, form)
    repository.attributes(["diff"], ["README.md"], str(folder))
    assert sprung(tmp_path / "canary") == []


@posix
def test_the_traps_would_have_sprung(repo: GitRepo, tmp_path: Path) -> None:
    # Else the test above would prove nothing.
    small_change(repo)
    set_traps(repo, tmp_path / "canary")
    repo.append("README.md", "more\n")
    for words in (["diff", "HEAD~1", "HEAD"], ["status"], ["diff", "--no-ext-diff", "HEAD~1"]):
        repo.attempt(*words)
    assert {"driver-command", "fsmonitor", "textconv"} <= set(sprung(tmp_path / "canary"))


def test_every_difference_is_asked_for_with_all_its_options(repo: GitRepo) -> None:
    base = repo.write("a", numbered(3)).commit()
    head = repo.write("a", numbered(4)).commit()
    heading = opened(repo).diff_trees(base, head, "--patch").partition(b"\n")[0]
    assert heading == b"diff --git a/a b/a"
    assert {"--no-ext-diff", "--no-textconv", "-z"} <= set(DIFF_OPTIONS)


@posix
def test_a_git_that_nobody_waits_for_is_ended(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = small_change(repo)
    pid = tmp_path / "pid"
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    wrapper.write_text(f"#!/bin/sh\necho $$ >{pid}.new; mv {pid}.new {pid}\nexec sleep 60\n")
    wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
    repository = opened(repo)
    repository._trusted = True
    with repository.start_diff(history.base, history.head):
        while not pid.exists():
            time.sleep(0.01)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


@posix
@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_many_questions_leave_no_descriptor(repo: GitRepo) -> None:
    small_change(repo)
    before = Belongings()
    for _ in range(30):
        opened(repo).resolve("HEAD", "nope")
        with pytest.raises(DamagedError):
            opened(repo).run("no-such-command")
    assert before.added() == (set(), set())


#: On a disk of 64 KiB of its own: a file and an index that do not fit, each error by its class.
_FULL_DISK = """
import os, subprocess, sys
from rlm_ci.errors import RlmCiError
from rlm_ci.git.repository import Repository

git_dir, disk = sys.argv[1:]
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], check=True)
entries = os.listdir(git_dir)
for index, args, stdin in (
    (git_dir + "/index", ["checkout-index", "-a"], b""),
    (disk + "/index", ["update-index", "--index-info"], sys.stdin.buffer.read()),
):
    where = {"GIT_DIR": git_dir, "GIT_WORK_TREE": disk, "GIT_INDEX_FILE": index}
    try:
        Repository(disk, git_dir, {**os.environ, **where}).run(*args, stdin=stdin)
    except RlmCiError as error:
        print(type(error).__name__, error.hint, error)
"""


@pytest.mark.skipif(not shutil.which("unshare"), reason="needs unshare, of util-linux")
def test_a_full_disk_is_the_disks_fault(repo: GitRepo, tmp_path: Path) -> None:
    """Git says it in words of its own, and not always in the system's."""
    disk = tmp_path / "disk"
    disk.mkdir()
    repo.write("large.txt", "0123456789abcdef" * 8_000)
    repo.commit()
    oid = repo.text("rev-parse", "HEAD:large.txt")
    index = "".join(f"100644 {oid}\tfolder-{number:05}/file.txt\n" for number in range(2_000))
    ended = subprocess.run(
        ["unshare", "-Urm", sys.executable, "-c", _FULL_DISK, str(repo.path / ".git"), str(disk)],
        input=index,
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare" in ended.stderr or "mount:" in ended.stderr:
        pytest.skip(f"no disk of our own: {ended.stderr[:200]}")
    lines = ended.stdout.splitlines()
    assert len(lines) == 2, ended
    for line in lines:
        assert "No space left" not in line
        assert line.startswith("StorageError make sure that there is room"), line


@pytest.mark.skipif(sys.platform == "win32", reason="named pipes lie elsewhere")
@pytest.mark.parametrize(
    "name",
    [".git/HEAD", ".git/config", ".git/index", ".git/packed-refs", ".git/refs/heads/main",
     ".git/info/exclude", ".git/objects/info/alternates", ".gitignore", ".gitattributes"],
)  # fmt: skip
@pytest.mark.parametrize("linked", [False, True])
def test_a_pipe_where_git_reads_a_file_is_an_error(
    repo: GitRepo, name: str, *, linked: bool
) -> None:
    repo.write("a.py", "x = 1\n").commit()
    repo.run("branch", "-M", "main")
    place = repo.path / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    pipe = repo.path / "pipe" if linked else place
    os.mkfifo(pipe)
    if linked:
        place.symlink_to(pipe)
    with pytest.raises(
        DamagedError, match="git cannot read a pipe, a socket or a device"
    ) as raised:
        discover(str(repo.path))
    assert raised.value.where == str(place)
