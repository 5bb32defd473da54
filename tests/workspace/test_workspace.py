"""Where the fix loop works: the snapshot and the copy, as they begin."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.workspace.snapshot import SnapshotLimits
from testing.repositories.git_repo import GitRepo
from testing.workspaces import everything, held, opened, patch, workspace

ODD = [b"a b.txt", b"new\nline", b"\xff\xfe.bin", b'"quoted".txt', b"tab\there", b"-dash", b"cr\r"]


def test_a_copy_holds_the_work_tree_as_it_is(project: GitRepo, tmp_path: Path) -> None:
    project.write("app.py", "x = 2\n").write("new.py", "y = 1\n").write("debug.log", "no\n")
    (project.path / "docs" / "a.md").unlink()
    for name in ODD:
        project.write(name, name)
    space = workspace(project, tmp_path / "run")
    names = {os.fsdecode(name) for name in ODD}
    assert held(space.path) == {"app.py", "new.py", "run.sh", ".gitignore", "link"} | names
    assert Path(space.path, "app.py").read_text() == "x = 2\n"
    assert os.access(Path(space.path, "run.sh"), os.X_OK)
    assert os.readlink(Path(space.path, "link")) == "docs/a.md"
    assert space.snapshot.head == project.sha()
    assert space.tree() == space.snapshot.tree
    assert patch(space) == b""


def test_the_users_git_folder_is_not_touched_to_the_last_bit(
    project: GitRepo, tmp_path: Path
) -> None:
    project.write("app.py", "x = 2\n").run("add", "app.py")
    project.write("other.py", "z\n")
    before = everything(project.path)
    space = workspace(project, tmp_path / "run")
    Path(space.path, "app.py").write_text("x = 1\n")  # a content that his objects hold
    space.restore(space.tree())
    space.fresh(space.tree())
    assert everything(project.path) == before


def test_bytes_are_exact_whatever_attributes_and_configuration_say(
    repo: GitRepo, tmp_path: Path
) -> None:
    canary = tmp_path / "canary"
    repo.run("config", "filter.evil.clean", f"touch {canary}; cat")
    repo.run("config", "filter.evil.smudge", f"touch {canary}; cat")
    repo.run("config", "filter.evil.required", "true")
    repo.run("config", "core.autocrlf", "true")
    repo.run("config", "core.fsmonitor", f"touch {canary}")
    hook = repo.path / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {canary}\n")
    hook.chmod(0o755)
    contents = {
        "crlf.txt": b"a\r\nb\n", "id.txt": b"$Id$\n", "wide.txt": "ä".encode("utf-16"),
        "evil.dat": b"data\n", ".gitattributes": (
            b"* text=auto eol=lf\n*.txt ident\nwide.txt working-tree-encoding=UTF-16\n"
            b"*.dat filter=evil diff=evil\n"
        ),
    }  # fmt: skip
    for name, content in contents.items():
        repo.write(name, content)
    space = workspace(repo, tmp_path / "run")
    assert {name: Path(space.path, name).read_bytes() for name in contents} == contents
    Path(space.path, "evil.dat").write_bytes(b"more\r\n")
    copy = space.fresh(space.tree())
    assert Path(copy.path, "evil.dat").read_bytes() == b"more\r\n"
    assert b"GIT binary" not in patch(space)
    assert space.apply_to(opened(repo.path), space.tree()).done
    assert (repo.path / "evil.dat").read_bytes() == b"more\r\n"
    assert not canary.exists()


@pytest.mark.sample(1)
@pytest.mark.parametrize("kind", ["unborn", "outside", "sha256"])
def test_it_begins_anywhere(kind: str, tmp_path: Path) -> None:
    root = tmp_path / "place"
    root.mkdir()
    (root / ".gitignore").write_text("*.log\n")
    (root / "a.py").write_text("1\n")
    (root / "a.log").write_text("no\n")
    if kind != "outside":
        form = "sha256" if kind == "sha256" else "sha1"
        subprocess.run(["git", "init", "-q", f"--object-format={form}", root], check=True)
    space = workspace(root, tmp_path / "run")
    assert held(space.path) == {"a.py", ".gitignore"}
    assert space.snapshot.head is None
    assert len(space.snapshot.tree) == (64 if kind == "sha256" else 40)
    Path(space.path, "a.py").write_text("2\n")
    result = space.tree()
    assert space.status(space.snapshot.tree, result) == "changed: a.py (+1 -1)\n"
    space.restore(space.snapshot.tree)
    assert Path(space.path, "a.py").read_text() == "1\n"
    assert space.apply_to(opened(root), result).done
    assert (root / "a.py").read_text() == "2\n"


def test_the_same_tree_gives_the_same_snapshot(project: GitRepo, tmp_path: Path) -> None:
    one, other = (workspace(project, tmp_path / name).snapshot for name in ("one", "other"))
    assert one == other


def test_a_resumed_run_starts_from_what_its_first_start_saw(
    project: GitRepo, tmp_path: Path
) -> None:
    first = workspace(project, tmp_path / "run")
    Path(first.path, "app.py").write_text("half done")
    project.write("app.py", "x = 'meanwhile'\n")
    again = workspace(project, tmp_path / "run")
    assert again.snapshot == first.snapshot
    assert Path(again.path, "app.py").read_text() == "x = 1\n"
    (tmp_path / "run" / "snapshot.json").write_text("{}")
    with pytest.raises(DamagedError, match="commit: it is missing"):
        workspace(project, tmp_path / "run")


def test_nothing_that_lies_in_the_folder_of_a_run_is_executed(
    project: GitRepo, tmp_path: Path
) -> None:
    """'No filter, no hook, no configuration but ours': also where a run goes on."""
    first = workspace(project, tmp_path / "run")
    Path(first.path, "app.py").write_text("half done")
    half = first.tree()
    first.discard()
    git, said = tmp_path / "run" / "git", tmp_path / "said"
    config = "".join(f"\t{kind} = echo {kind} >> {said}; cat\n" for kind in ("smudge", "clean"))
    for folder in (git / "objects", git / "view", git / "shown"):
        with (folder / "config").open("a") as stream:
            stream.write(f'[filter "x"]\n{config}[extensions]\n\tworktreeConfig = true\n')
        (folder / "info").mkdir(exist_ok=True)
        (folder / "info" / "attributes").write_text("* filter=x\n")
        (folder / "config.worktree").write_text(f'[filter "x"]\n{config}')
        (folder / "commondir").write_text(str(tmp_path))
        (folder / "hooks").mkdir()
        hook = folder / "hooks" / "post-index-change"
        hook.write_text(f"#!/bin/sh\necho hook >> {said}\n")
        hook.chmod(0o755)
    elsewhere = tmp_path / "elsewhere"
    shutil.move(git / "view" / "info", elsewhere)
    (git / "view" / "info").symlink_to(elsewhere)
    (git / "objects" / "objects" / "info" / "alternates").write_text("/nowhere\n")
    (git / "no-index").write_text("no index")
    again = workspace(project, tmp_path / "run")
    again.restore(half)
    assert Path(again.path, "app.py").read_text() == "half done"
    assert again.fresh(half).tree() == half
    assert not said.exists()
    assert (elsewhere / "attributes").read_text() == "* filter=x\n"
    assert not (git / "view" / "info").is_symlink()
    assert not (git / "view" / "config.worktree").exists()


OID = "1" * 40
#: What a record of a snapshot may not say, by the key that says it.
LIES = [
    ("commit", "HEAD"), ("commit", None), ("tree", "--index-output=/tmp/x"), ("tree", ["x"]),
    ("tree", "1" * 39), ("head", "main"), ("head", 7),
    *(("dependencies", [path]) for path in (
        "/home/me/.venv", "../../.venv", "a/../.venv", "./.venv", "a//.venv", "", ".git/.venv",
        ".GIT/venv", "docs", ".venv/", ".venv\0", 5,
    )),
    ("dependencies", 3),
    *(("submodules", [[path, OID]]) for path in ("/etc", "..", "a/../../b", "", ".git", None)),
    ("submodules", [["lib", "--all"]]), ("submodules", ["lib"]), ("omitted", [["a"]]),
]  # fmt: skip


@pytest.mark.sample(4)
@pytest.mark.parametrize(("key", "lie"), LIES)
def test_a_record_that_leads_elsewhere_is_damaged(
    project: GitRepo, tmp_path: Path, key: str, lie: object
) -> None:
    project.write(".venv/bin/python", "1\n")
    precious = tmp_path / "precious"
    space = workspace(project, tmp_path / "run")
    path = tmp_path / "run" / "snapshot.json"
    record = json.loads(path.read_text())
    path.write_text(json.dumps(record | {key: lie}))
    precious.write_text("x")
    with pytest.raises(DamagedError, match="record of the snapshot") as caught:
        workspace(project, tmp_path / "run")
    assert (caught.value.where, caught.value.hint) == (str(path), "start a new run")
    path.write_text(json.dumps(record))
    assert workspace(project, tmp_path / "run").snapshot == space.snapshot


def test_no_folder_is_shown_that_a_link_leads_to(project: GitRepo, tmp_path: Path) -> None:
    project.write("web/node_modules/x.js", "1\n").write("lib/a", "1\n")
    space = workspace(project, tmp_path / "run")
    path = tmp_path / "run" / "snapshot.json"
    record = json.loads(path.read_text())
    (tmp_path / "home" / "node_modules").mkdir(parents=True)
    (tmp_path / "home" / "node_modules" / "x").write_text("x")
    os.symlink(tmp_path / "home", project.path / "out")
    os.symlink(tmp_path / "home" / "node_modules", project.path / "vendor")
    names = ["out/node_modules", "vendor", "web/node_modules"]
    modules = [["out/node_modules", OID], ["vendor", OID]]
    path.write_text(json.dumps(record | {"dependencies": names, "submodules": modules}))
    again = workspace(project, tmp_path / "run")
    shown = {os.path.relpath(mount.target, project.path) for mount in again.shown().mounts()}
    assert {name for name in shown if not name.startswith(".")} == {"web/node_modules"}
    assert space.snapshot.dependencies == ("web/node_modules",)


def test_what_a_killed_start_leaves_behind_is_no_obstacle(project: GitRepo, tmp_path: Path) -> None:
    whole = workspace(project, tmp_path / "run")
    git = tmp_path / "run" / "git"
    for name in ("snapshot.index.lock", "work.index.lock", "shown/index.lock"):
        (git / name).write_text("")
    shutil.rmtree(Path(whole.path, "docs"))
    assert workspace(project, tmp_path / "run").tree() == whole.snapshot.tree
    for name in ("snapshot.index.lock", "work.index.lock", "fresh.index.lock"):
        (git / name).write_text("")
    (tmp_path / "run" / "snapshot.json").unlink()
    again = workspace(project, tmp_path / "run")
    assert again.snapshot == whole.snapshot
    assert again.fresh(again.tree()).tree() == whole.snapshot.tree


def test_runs_and_caches_are_no_part_and_what_is_tracked_is(
    project: GitRepo, tmp_path: Path
) -> None:
    project.write("out/kept.txt", "1\n").commit()
    for name in (".runs/x/state", "out/0105/state.json", "stuff/runs/a", "__pycache__/a.pyc"):
        project.write(name, "no\n")
    runs = project.path / "stuff" / "runs"
    space = workspace(project, tmp_path / "run", skipped=[str(runs)])
    assert held(space.path) == {"app.py", "run.sh", ".gitignore", "link", "docs/a.md",
                                "out/kept.txt"}  # fmt: skip


def test_a_run_inside_of_the_repository_does_not_copy_itself(project: GitRepo) -> None:
    space = workspace(project, project.path / "deep" / "run")
    assert not [name for name in held(space.path) if name.startswith("deep")]
    assert space.apply_to(opened(project.path), space.tree()).done


def test_submodules_are_kept_and_nested_repositories_are_told(
    project: GitRepo, tmp_path: Path
) -> None:
    inner = GitRepo(tmp_path / "inner").write("lib.py", "1\n")
    inner.commit()
    project.run("-c", "protocol.file.allow=always", "submodule", "add", "-q",
                str(inner.path), "sub")  # fmt: skip
    project.commit()
    GitRepo(project.path / "nested").write("x.py", "1\n").commit()
    space = workspace(project, tmp_path / "run")
    assert space.snapshot.submodules == (("sub", inner.sha()),)
    assert space.snapshot.omitted == (("nested/", "a repository of its own"),)
    assert os.listdir(os.path.join(space.path, "sub")) == []
    whole = GitRepo(project.path / "whole").write("y.py", "1\n").commit()
    project.run("update-index", "--add", "--cacheinfo", f"160000,{whole},whole")
    other = workspace(project, tmp_path / "other")
    assert dict(other.snapshot.omitted)["whole"] == "a submodule with a git folder of its own in it"
    assert str(project.path / "whole") not in [mount.source for mount in other.shown().mounts()]
    assert str(project.path / "sub") in [mount.source for mount in space.shown().mounts()]
    # An agent that takes the folder's place, or fills it, changes nothing of it.
    Path(space.path, "sub", "evil.py").write_text("1")
    assert space.tree() == space.snapshot.tree
    os.rmdir(os.path.join(space.path, "sub"))
    Path(space.path, "sub").write_text("a file")
    assert space.tree() == space.snapshot.tree
    assert [one.path for one in space.removed_at(space.tree())] == ["sub"]


def test_a_file_that_cannot_be_snapshotted_is_named(project: GitRepo, tmp_path: Path) -> None:
    (project.path / "app.py").unlink()
    os.mkfifo(project.path / "app.py")
    with pytest.raises(ConfigError, match="not a regular file") as caught:
        workspace(project, tmp_path / "run")
    assert caught.value.where.endswith("app.py")
    (project.path / "app.py").unlink()
    project.write("app.py", "x" * 100)
    with pytest.raises(ConfigError, match="has 100 bytes, more than 99"):
        workspace(project, tmp_path / "two", bounds=SnapshotLimits(largest=99))
    with pytest.raises(ConfigError, match="files of"):
        workspace(project, tmp_path / "three", bounds=SnapshotLimits(count=2))


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_closed_file_is_named(project: GitRepo, tmp_path: Path) -> None:
    (project.path / "app.py").chmod(0)
    with pytest.raises(ConfigError, match="cannot be read"):
        workspace(project, tmp_path / "run")


def test_a_tree_has_other_contents_in_some_of_its_files(repo: GitRepo, tmp_path: Path) -> None:
    repo.write("a.py", "old\n").write("b c/d.py", "kept\n").commit()
    space = workspace(repo, tmp_path / "run")
    start = space.snapshot.tree
    made = space.edited(start, {"a.py": b"new\r\n", "b c/d.py": b"\xff\n"})
    copy = space.fresh(made)
    assert Path(copy.path, "a.py").read_bytes() == b"new\r\n"
    assert Path(copy.path, "b c", "d.py").read_bytes() == b"\xff\n"
    assert copy.tree() == made
    assert space.edited(start, {}) == start
