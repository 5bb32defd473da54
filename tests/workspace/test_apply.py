"""The way home: patches that give back every byte, and a work tree that is never half done."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rlm_ci.workspace.apply import STAGING
from rlm_ci.workspace.workspace import Workspace
from testing.repositories.git_repo import GitRepo
from testing.workspaces import opened, patch, shape, workspace

# ── random trees ──

_NAMES = (
    b"a", b"b.py", b"c d", b"\xe4\xf6", "ü".encode(), b"n\nl", b"q\"uo'te", b"-x", b"t\tab", b"z\\",
    b" lead", b"trail ", b"#h", b"!e", b"*", b"[a]", b"cr\r", b".hid",
)  # fmt: skip


def content(rand: random.Random) -> bytes:
    kind = rand.randrange(6)
    if kind == 0:
        return b""
    if kind == 1:
        return rand.randbytes(rand.randrange(1, 3000))
    lines = [rand.choice((b"alpha", b"beta", b"\xff", b"+++ b/x", b"", b"diff --git a/a b/a"))
             for _ in range(rand.randrange(1, 40))]  # fmt: skip
    return rand.choice((b"\n", b"\r\n")).join(lines) + rand.choice((b"", b"\n"))


def scribble(root: bytes, rand: random.Random, changes: int) -> None:
    """Change the folder at random: write, delete, rename, link, switch kinds and modes."""
    for _ in range(changes):
        depth = rand.randrange(1, 4)
        path = os.path.join(root, *(rand.choice(_NAMES) for _ in range(depth)))
        folder = os.path.dirname(path)
        here = root
        for part in os.path.relpath(folder, root).split(b"/"):
            here = os.path.join(here, part)
            if os.path.islink(here) or os.path.isfile(here):
                os.unlink(here)
        os.makedirs(folder, exist_ok=True)
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif os.path.lexists(path):
            os.unlink(path)
        act = rand.randrange(7)
        if act == 0:
            continue
        if act == 1:
            os.symlink(rand.choice((b"a", b"../b.py", b"/etc/passwd", b"no\nwhere")), path)
            continue
        Path(os.fsdecode(path)).write_bytes(content(rand))
        os.chmod(path, 0o755 if act == 2 else 0o644)


def check_round_trip(seed: int, place: Path) -> None:
    rand = random.Random(seed)
    repo = GitRepo(place / "repo")
    scribble(os.fsencode(repo.path), rand, 15)
    repo.run("add", "-A")
    repo.run("commit", "-q", "--allow-empty", "-m", "one")
    scribble(os.fsencode(repo.path), rand, 5)  # and work that is not committed
    space = workspace(repo, place / "run")
    assert shape(space.path) == shape(repo.path)
    scribble(os.fsencode(space.path), rand, 12)
    tree = space.tree()
    wanted = shape(space.path)
    made = patch(space, tree)
    assert made == patch(space, tree)
    # The patch alone is enough, for a git that knows nothing of us: the same tree, byte by byte.
    other = GitRepo(place / "other")
    top = str(repo.path)
    shutil.copytree(
        top, other.path, symlinks=True, dirs_exist_ok=True,
        ignore=lambda folder, _names: [".git"] if folder == top else [],
    )  # fmt: skip
    other.run("config", "core.protectNTFS", "false")
    other.run("add", "-A")
    assert other.text("write-tree") == space.snapshot.tree
    options = ("--cached", "--binary", "--allow-empty", "--whitespace=nowarn")
    other.run("apply", *options, stdin=made)
    assert other.text("write-tree") == tree
    space.restore(space.snapshot.tree)
    assert shape(space.path) == shape(repo.path)
    space.restore(tree)
    assert shape(space.path) == wanted
    landed = space.apply_to(opened(repo.path), tree)
    assert landed.reason == ""
    assert shape(repo.path) == wanted
    assert not (repo.path / STAGING).exists()


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(6))
def test_patch_and_landing_give_back_every_byte(seed: int, tmp_path: Path) -> None:
    check_round_trip(seed, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 125))
def test_patch_and_landing_give_back_every_byte_of_many(seed: int, tmp_path: Path) -> None:
    check_round_trip(seed, tmp_path)


@pytest.mark.parametrize("name", ["a /b", "a / b /c", 'q" /b', "ü /b", "x b/x /y", "plain"])
def test_a_patch_can_be_read_back_whatever_its_names(
    name: str, repo: GitRepo, tmp_path: Path
) -> None:
    # git writes headings that it cannot read where a folder's name ends with a blank.
    repo.write(name, "").write(f"{name}s", "1\n").write("z", "diff --git a/a /b b/a /b\n").commit()
    space = workspace(repo, tmp_path / "run")
    Path(space.path, name).chmod(0o755)
    Path(space.path, f"{name}s").write_bytes(b"\0binary")
    Path(space.path, f"{name}t").write_text("")
    Path(space.path, "z").unlink()
    tree = space.tree()
    made = patch(space, tree)
    assert b"-diff --git a/a /b b/a /b\n" in made
    repo.run("apply", "--index", "--binary", stdin=made)
    assert repo.text("write-tree") == tree
    assert shape(repo.path) == shape(space.path)


# ── one result, and what may stand in its way ──


@pytest.fixture
def changed(repo: GitRepo, tmp_path: Path) -> tuple[GitRepo, Workspace, str]:
    """A repository, a workspace of it, and a result that changes, adds, moves and deletes."""
    repo.write(".gitignore", "*.log\n").write("app.py", "x = 1\n").write("old/gone.py", "1\n")
    repo.write("kind", "a file\n").write("private.txt", "1\n").write("run.sh", "echo\n").commit()
    (repo.path / "private.txt").chmod(0o600)
    space = workspace(repo, tmp_path / "run")
    copy = Path(space.path)
    (copy / "app.py").write_text("x = 2\n")
    shutil.rmtree(copy / "old")
    (copy / "new" / "deep").mkdir(parents=True)
    (copy / "new" / "deep" / "file.py").write_bytes(b"\0\xff")
    (copy / "kind").unlink()
    os.symlink("app.py", copy / "kind")
    (copy / "private.txt").write_text("2\n")
    (copy / "run.sh").chmod(0o755)
    return repo, space, space.tree()


def test_a_result_lands_whole(changed: tuple[GitRepo, Workspace, str]) -> None:
    repo, space, tree = changed
    index = (repo.path / ".git" / "index").read_bytes()
    assert space.apply_to(opened(repo.path), tree).done
    assert shape(repo.path) == shape(space.path)
    assert not (repo.path / "old").exists()
    assert (repo.path / "private.txt").stat().st_mode & 0o777 == 0o600
    assert (repo.path / "run.sh").stat().st_mode & 0o111 == 0o111
    assert (repo.path / ".git" / "index").read_bytes() == index


@pytest.mark.parametrize("edit", ["change", "add", "delete", "mode"])
def test_a_work_tree_that_went_on_is_left_alone(
    edit: str, changed: tuple[GitRepo, Workspace, str]
) -> None:
    repo, space, tree = changed
    match edit:
        case "change":
            repo.write("app.py", "x = 'mine'\n")
        case "add":
            repo.write("mine.py", "1\n")
        case "delete":
            (repo.path / "app.py").unlink()
        case "mode":
            (repo.path / "app.py").chmod(0o755)
    before = shape(repo.path)
    landed = space.apply_to(opened(repo.path), tree)
    assert landed.reason.startswith("the work tree has changed meanwhile: 1 file, ")
    assert not landed.done
    assert shape(repo.path) == before


def test_an_ignored_file_is_not_written_over(repo: GitRepo, tmp_path: Path) -> None:
    repo.write(".gitignore", "*.log\n").write("a", "1").commit()
    space = workspace(repo, tmp_path / "run")
    Path(space.path, "build").write_text("new\n")
    repo.write(".git/info/exclude", "build\n").write("build", "precious\n")
    landed = space.apply_to(opened(repo.path), space.tree())
    assert landed.reason == "a file that git ignores is in the way: build"
    assert (repo.path / "build").read_text() == "precious\n"


def test_nothing_is_written_through_a_link(repo: GitRepo, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    repo.write("a", "1").write(".gitignore", "ignored\n").commit()
    space = workspace(repo, tmp_path / "run")
    Path(space.path, "ignored").mkdir()
    repo.write(".git/info/exclude", "data\n")
    os.symlink(outside, repo.path / "data")
    Path(space.path, "data").mkdir()
    Path(space.path, "data", "x").write_text("1")
    Path(space.path, "a").write_text("2")
    landed = space.apply_to(opened(repo.path), space.tree())
    assert landed.reason.startswith("Not a directory")
    assert os.listdir(outside) == []
    assert (repo.path / "a").read_text() == "1"
    assert not (repo.path / STAGING).exists()


def test_an_error_in_the_middle_undoes_everything(
    changed: tuple[GitRepo, Workspace, str],
) -> None:
    repo, space, tree = changed
    # A folder whose files git ignores stands where the last file must go.
    repo.write("zz/kept.log", "mine\n")
    before = shape(repo.path)
    Path(space.path, "zz").write_text("1\n")
    tree = space.tree()
    landed = space.apply_to(opened(repo.path), tree)
    assert landed.reason != ""
    assert shape(repo.path) == before
    assert not (repo.path / "new").exists()
    assert not (repo.path / STAGING).exists()
    shutil.rmtree(repo.path / "zz")
    assert space.apply_to(opened(repo.path), tree).done
    assert shape(repo.path) == shape(space.path)


#: No file of ours may outgrow this: a disk that is full, as far as a process can tell.
_FULL = """
import os, resource, sys
from rlm_ci.errors import StorageError
from rlm_ci.git.repository import Repository, discover
from rlm_ci.workspace.workspace import Workspace
root, place, tree = sys.argv[1:]
top, git_dir = discover(root)
repository = Repository(top, git_dir, dict(os.environ))
space = Workspace(place, repository, dict(os.environ))
resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))
try:
    print(space.apply_to(repository, tree))
except StorageError as error:
    print(error)
"""


def test_a_disk_that_fails_is_an_error_and_no_reason(
    changed: tuple[GitRepo, Workspace, str], tmp_path: Path
) -> None:
    repo, space, _ = changed
    Path(space.path, "large.txt").write_text("x" * 9001)
    tree = space.tree()
    before, after = shape(repo.path), shape(space.path)
    argv = [sys.executable, "-c", _FULL, str(repo.path), str(tmp_path / "run"), tree]
    ended = subprocess.run(argv, check=False, capture_output=True, timeout=60, text=True)
    said = "the result cannot be put into the work tree: File too large"
    assert ended.stdout.startswith(said), ended
    assert shape(repo.path) == before
    assert not (repo.path / STAGING).exists()
    assert space.apply_to(opened(repo.path), tree).done
    assert shape(repo.path) == after


# ── killed in the middle ──

_KILLED = """
import os, signal, sys
from rlm_ci.git.repository import Repository, discover
from rlm_ci.workspace.workspace import Workspace
root, place, tree, when = sys.argv[1:]
left = int(when)
def tick(event, args):
    global left
    if event in ("os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"):
        if root in str(args[0]) or root in str(args[-1]) or event != "shutil.rmtree":
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
top, git_dir = discover(root)
repository = Repository(top, git_dir, dict(os.environ))
space = Workspace(place, repository, dict(os.environ))
sys.addaudithook(tick)
space.apply_to(repository, tree)
"""


def killed_at(repo: GitRepo, place: Path, tree: str, when: int) -> bool:
    argv = [sys.executable, "-c", _KILLED, str(repo.path), str(place), tree, str(when)]
    ended = subprocess.run(argv, check=False, capture_output=True, timeout=60)
    assert ended.returncode in (0, -signal.SIGKILL), ended.stderr
    return ended.returncode != 0


def check_kill(changed: tuple[GitRepo, Workspace, str], place: Path, when: int) -> bool:
    repo, space, tree = changed
    before, after = shape(repo.path), shape(space.path)
    was_killed = killed_at(repo, place, tree, when)
    now = shape(repo.path)
    originals = {content for name, (_, content) in now.items() if STAGING.encode() in name}
    for name, entry in before.items():
        # Each file is old or new, or its original lies beside.
        assert now.get(name) in (entry, after.get(name)) or entry[1] in originals, name
        if now.get(name) != entry and now.get(name) is None:
            assert entry[1] in originals or name not in after
    assert space.apply_to(opened(repo.path), tree).reason == ""
    assert shape(repo.path) == after
    return was_killed


#: Steps of the landing of ``changed`` at which it can be killed.
STEPS = 38


@pytest.mark.sample(2)
@pytest.mark.parametrize("when", [11, 24, *range(0, STEPS, 2), STEPS - 1, STEPS])
def test_killed_in_the_middle_nothing_is_lost(
    when: int, changed: tuple[GitRepo, Workspace, str], tmp_path: Path
) -> None:
    assert check_kill(changed, tmp_path / "run", when) == (when < STEPS)


# ── somebody saves a file meanwhile ──

_MINE = "typed while it landed\n"
_RACED = """
import os, sys
from rlm_ci.git.repository import Repository, discover
from rlm_ci.workspace.workspace import Workspace
root, place, tree, when, path, how, text = sys.argv[1:]
left = int(when)
def save():
    target = os.path.join(root, path)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    name = target if how == "in place" else target + "~"
    with open(name, "w") as stream:
        stream.write(text)
    if name != target:
        os.replace(name, target)
def tick(event, args):
    global left
    if left >= 0 and event in ("os.rename", "os.link", "os.mkdir", "os.remove", "os.rmdir"):
        left -= 1
        if left < 0:
            save()
top, git_dir = discover(root)
repository = Repository(top, git_dir, dict(os.environ))
space = Workspace(place, repository, dict(os.environ))
sys.addaudithook(tick)
landed = space.apply_to(repository, tree)
if left >= 0:  # it was over before
    left = -1
    save()
print("done" if landed.done else landed.reason)
"""


def check_race(
    changed: tuple[GitRepo, Workspace, str], place: Path, path: str, how: str, when: int
) -> str:
    repo, space, _ = changed
    Path(space.path, "zz.txt").write_text("the agent's\n")
    tree = space.tree()
    before, after = shape(repo.path), shape(space.path)
    argv = [sys.executable, "-c", _RACED, str(repo.path), str(place), tree, str(when)]
    ended = subprocess.run(
        [*argv, path, how, _MINE], check=True, capture_output=True, timeout=60, text=True
    )
    said = ended.stdout.strip()
    assert (repo.path / path).read_text() == _MINE, said
    now = {name: entry for name, entry in shape(repo.path).items() if os.fsdecode(name) != path}
    if "originals lie in" in said:  # of the file that was saved over ours, and of no other
        kept = {name for name in now if STAGING.encode() in name}
        assert before[path.encode()] in [now.pop(name) for name in kept]
    wanted = after if said == "done" else before
    assert now == {name: one for name, one in wanted.items() if os.fsdecode(name) != path}
    return said


@pytest.mark.full
@pytest.mark.parametrize("how", ["in place", "renamed"])
@pytest.mark.parametrize("when", range(STEPS + 3))  # a file more; the last comes too late
def test_whenever_something_is_saved_it_is_not_lost(
    when: int, how: str, changed: tuple[GitRepo, Workspace, str], tmp_path: Path
) -> None:
    path = ("app.py", "zz.txt", "old/gone.py")[when % 3]
    check_race(changed, tmp_path / "run", path, how, when)


def killed_without(repo: GitRepo, place: Path, tree: str, name: str) -> Path:
    """A landing is killed where the file ``name`` is taken out of the tree; its folder."""
    for when in range(14, 40):
        if killed_at(repo, place, tree, when) and not (repo.path / name).exists():
            [plan] = (repo.path / STAGING).glob("*/plan.json")
            return plan.parent
    raise AssertionError(name)


@pytest.mark.full
def test_an_original_that_cannot_be_put_back_stays(
    changed: tuple[GitRepo, Workspace, str], tmp_path: Path
) -> None:
    repo, space, tree = changed
    after = shape(space.path)
    folder = killed_without(repo, tmp_path / "run", tree, "app.py")
    originals = shape(folder / "old")
    repo.write("app.py", "x = 'mine'\n")
    for _ in range(2):
        landed = space.apply_to(opened(repo.path), tree)
        assert landed.reason == (
            "an earlier result was applied in part, and cannot be undone: 1 file, app.py; "
            f"originals lie in {STAGING}/{folder.name}/old"
        )
        assert (repo.path / "app.py").read_text() == "x = 'mine'\n"
        assert shape(folder / "old") == originals == {b"0": ("file", b"x = 1\n")}
    repo.write("app.py", "x = 1\n")  # as it was: there is nothing to be lost
    assert space.apply_to(opened(repo.path), tree).done
    assert shape(repo.path) == after


@pytest.mark.full
@pytest.mark.parametrize("seed", range(20))
def test_killed_again_while_a_killed_landing_is_undone(
    seed: int, changed: tuple[GitRepo, Workspace, str], tmp_path: Path
) -> None:
    rand = random.Random(seed)
    repo, space, tree = changed
    before, after = shape(repo.path), shape(space.path)
    for when in (rand.randrange(12, 28), *(rand.randrange(24) for _ in range(3))):
        killed_at(repo, tmp_path / "run", tree, when)
        contents = {content for _, content in shape(repo.path).values()}
        is_all_there = all(content in contents for _, content in before.values())
        assert is_all_there or shape(repo.path, STAGING.encode()) == after
    assert space.apply_to(opened(repo.path), tree).done
    assert shape(repo.path) == after


def test_a_plan_of_somebody_else_leads_nowhere(
    changed: tuple[GitRepo, Workspace, str], tmp_path: Path
) -> None:
    repo, space, tree = changed
    (tmp_path / "home").mkdir()
    left = f"{STAGING}/{16 * '0'}"
    for path in ("../home/x", ".git/hooks/x", "/etc/x", "a/../../home/x"):
        repo.write(f"{left}/plan.json", json.dumps([[path, ["100644", "blob", 40 * "0"], None]]))
        repo.write(f"{left}/old/0", "evil\n")
        landed = space.apply_to(opened(repo.path), tree)
        assert landed.reason.startswith(
            "an earlier result was applied in part, and cannot be undone"
        )
    assert os.listdir(tmp_path / "home") == []
    assert not (repo.path / ".git" / "hooks" / "x").exists()


def test_a_link_in_the_place_of_the_staging_is_not_followed(
    changed: tuple[GitRepo, Workspace, str], tmp_path: Path
) -> None:
    repo, space, tree = changed
    (tmp_path / "home").mkdir()
    os.symlink(tmp_path / "home", repo.path / STAGING)
    landed = space.apply_to(opened(repo.path), tree)
    assert landed.reason == f"something is in the way: {repo.path / STAGING}"
    assert os.listdir(tmp_path / "home") == []
