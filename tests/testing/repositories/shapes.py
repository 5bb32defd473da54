"""Histories of every shape: merges, odd heads, clones, sizes, attributes, and traps for git.

Each builder fills the repository that it is given and leaves it standing on the head, with
a clean work tree.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from testing.repositories.changes import numbered
from testing.repositories.git_repo import EMPTY_TREE, ZERO_SHA, GitRepo, History

if TYPE_CHECKING:
    from pathlib import Path


def merged_branches(repo: GitRepo) -> History:
    """A feature branch that merged main into itself: base is main's tip, head the feature's.

    Only the feature's own work counts: ``feature.py`` +8, ``shared.py`` +1; main's
    ``drift.py`` does not. ``commits``: ``fork``, ``merge`` (of main into the feature).
    """
    fork = repo.write_all({"shared.py": numbered(10), "README.md": "# Shop\n"}).commit("Start")
    repo.checkout("feature", new=True)
    repo.write("feature.py", numbered(5, "feature")).commit("Begin the feature")
    repo.checkout("main")
    base = repo.write("drift.py", numbered(50, "drift")).commit("Main goes on")
    repo.checkout("feature")
    merge = repo.merge("main", message="Merge main into feature")
    repo.append("feature.py", numbered(3, "end")).append("shared.py", "from the feature\n")
    head = repo.commit("Finish the feature")
    return History(repo, base, head, {"fork": fork, "merge": merge})


def merge_commit(repo: GitRepo) -> History:
    """The merge of a pull request: base is its first parent, head the merge commit itself.

    Against the first parent: ``side.py`` +6. ``commits``: ``fork``, ``side`` (second parent).
    """
    fork = repo.write("main.py", numbered(4)).commit("Start")
    repo.checkout("side", new=True)
    side = repo.write("side.py", numbered(6)).commit("Side work")
    repo.checkout("main")
    base = repo.append("main.py", "main goes on\n").commit("Main goes on")
    return History(repo, base, repo.merge("side"), {"fork": fork, "side": side})


def criss_cross(repo: GitRepo) -> History:
    """Two branches, each merged into the other: base (main) and head (side) have two merge bases.

    ``commits``: ``left`` and ``right``, the two merge bases.
    """
    repo.write_all({"left.py": numbered(5), "right.py": numbered(5)}).commit("Start")
    repo.branch("side")
    left = repo.append("left.py", "left\n").commit("Left")
    repo.checkout("side")
    right = repo.append("right.py", "right\n").commit("Right")
    head = repo.merge(left, message="Left into side")
    repo.checkout("main")
    base = repo.merge(right, message="Right into main")
    repo.checkout("side")
    head = repo.write("side.py", numbered(7)).commit("On the side")
    return History(repo, base, head, {"left": left, "right": right})


def unrelated_histories(repo: GitRepo) -> History:
    """Base (main) and head (island) have no commit in common, so no merge base."""
    base = repo.write("main.py", numbered(4)).commit("Main")
    repo.orphan("island")
    head = repo.write("island.py", numbered(6)).commit("Island")
    return History(repo, base, head)


def octopus(repo: GitRepo) -> History:
    """A merge of three branches at once; base is its first parent: three files added, +9."""
    fork = repo.write("main.py", numbered(4)).commit("Start")
    sides = {}
    for name in ("one", "two", "three"):
        repo.checkout(fork, detach=True).checkout(name, new=True)
        sides[name] = repo.write(f"{name}.py", numbered(3, name)).commit(f"Branch {name}")
    repo.checkout("main")
    base = repo.append("main.py", "main goes on\n").commit("Main goes on")
    return History(repo, base, repo.merge("one", "two", "three"), sides)


def empty_commit(repo: GitRepo) -> History:
    """The head has the very tree of its parent, the base."""
    base = repo.write("main.py", numbered(4)).commit("Start")
    return History(repo, base, repo.commit("Nothing"))


def there_and_back(repo: GitRepo) -> History:
    """Two commits that undo each other: a change of two commits and no difference."""
    base = repo.write("main.py", numbered(4)).commit("Start")
    there = repo.append("main.py", "more\n").commit("There")
    return History(repo, base, repo.write("main.py", numbered(4)).commit("Back"), {"there": there})


def root_commit(repo: GitRepo) -> History:
    """One commit without a parent; the base is the empty tree."""
    head = repo.write_all({"a.py": numbered(3), "b.py": numbered(2)}).commit("First")
    return History(repo, EMPTY_TREE, head)


def unborn_head(repo: GitRepo) -> GitRepo:
    """Not a commit yet: ``staged.py`` (+3) in the index, ``untracked.py`` (+2) beside it."""
    repo.write("staged.py", numbered(3)).stage("staged.py").write("untracked.py", numbered(2))
    return repo


def detached_head(repo: GitRepo) -> History:
    """HEAD is a commit that no branch holds: ``detached.py`` +5."""
    base = repo.write("main.py", numbered(4)).commit("Start")
    repo.checkout(base, detach=True)
    return History(repo, base, repo.write("detached.py", numbered(5)).commit("On no branch"))


def base_moved_ahead(repo: GitRepo) -> History:
    """Main went on after the fork: a diff against its tip would count, and undo, 200 lines.

    The change: ``feature.py`` +5. ``commits``: ``fork``, the merge base.
    """
    fork = repo.write("main.py", numbered(4)).commit("Start")
    repo.checkout("feature", new=True)
    head = repo.write("feature.py", numbered(5)).commit("Feature")
    repo.checkout("main")
    for step in range(4):
        repo.write(f"drift_{step}.py", numbered(50, "drift")).commit(f"Drift {step}")
    base = repo.sha()
    repo.checkout("feature")
    return History(repo, base, head, {"fork": fork})


def shallow_clone(origin: GitRepo, path: Path, *, depth: int = 1) -> History:
    """A shallow clone of :func:`base_moved_ahead`: both tips are there, their fork is not."""
    full = base_moved_ahead(origin)
    clone = origin.clone(path, depth=depth).checkout("feature")
    return History(clone, full.base, full.head, full.commits)


def forced_push(origin: GitRepo, path: Path) -> History:
    """A clone whose branch was rewritten and force-pushed; it has fetched the new state.

    base is main. ``commits``: ``before`` and ``after``, the branch's two tips; ``before``
    is still in the clone, and on no branch. The change as it stands now: ``feature.py`` +7.
    """
    base = origin.write("main.py", numbered(4)).commit("Start")
    origin.checkout("feature", new=True)
    before = origin.write("feature.py", numbered(5)).commit("First try")
    clone = origin.clone(path).checkout("feature")
    origin.run("reset", "-q", "--hard", base)
    after = origin.write("feature.py", numbered(7, "better")).commit("Second try")
    clone.fetch("--prune", "origin").run("reset", "-q", "--hard", "origin/feature")
    return History(clone, base, after, {"before": before, "after": after})


def first_push(origin: GitRepo, path: Path) -> History:
    """A clone with a new branch that its remote has never seen: ``feature.py`` +5.

    base is the remote's main, which ``refs/remotes/origin/HEAD`` names.
    """
    base = origin.write("main.py", numbered(4)).commit("Start")
    clone = origin.clone(path)
    clone.checkout("feature", new=True)
    head = clone.write("feature.py", numbered(5)).commit("Feature")
    return History(clone, base, head)


# -- sizes ------------------------------------------------------------------------------------


def many_files(
    repo: GitRepo, files: int = 3000, lines: int = 10, *, checkout: bool = False
) -> History:
    """A range of ``files`` files: nine tenths edited (+1 -1 each), the rest added (+``lines``).

    Without ``checkout`` the work tree stays empty: enough for a tree-to-tree diff.
    """
    edited = files * 9 // 10
    before = {
        f"src/part_{n % 50:02}/file_{n:05}.py": numbered(lines, f"f{n}") for n in range(edited)
    }
    changes = {name: text.replace(" 2\n", " two\n") for name, text in before.items()}
    for n in range(edited, files):
        changes[f"src/part_{n % 50:02}/added_{n:05}.py"] = numbered(lines, f"a{n}")
    with repo.bulk() as bulk:
        first = bulk.commit("main", before, "Before", ())
        second = bulk.commit("main", changes, "After")
    if checkout:
        repo.run("reset", "--hard", "-q")
    return History(repo, bulk[first], bulk[second])


def large_patch(repo: GitRepo, megabytes: int = 40, files: int = 20) -> History:
    """A range whose patch is a little over ``megabytes`` · 10^6 bytes of added lines."""
    line = "{:08x} " + "the quick brown fox jumps over the lazy dog; " * 2 + "\n"
    per_file = megabytes * 1_000_000 // (files * (len(line.format(0)) + 1)) + 1
    changes = {
        f"data/part_{n:03}.txt": "".join(line.format(n * per_file + at) for at in range(per_file))
        for n in range(files)
    }
    with repo.bulk() as bulk:
        first = bulk.commit("main", {"README.md": "# Data\n"}, "Before", ())
        second = bulk.commit("main", changes, "Load the data")
    return History(repo, bulk[first], bulk[second])


def large_tree(repo: GitRepo, files: int = 10_000, *, checkout: bool = False) -> History:
    """A small change (+1) in a tree of ``files`` files, 100 to a folder."""
    tree = {f"lib/{n // 100:03}/module_{n:05}.py": f"VALUE = {n}\n" for n in range(files)}
    with repo.bulk() as bulk:
        first = bulk.commit("main", tree, "A large tree", ())
        edit = {"lib/000/module_00000.py": "VALUE = 0\nMORE = 1\n"}
        second = bulk.commit("main", edit, "One line")
    if checkout:
        repo.run("reset", "--hard", "-q")
    return History(repo, bulk[first], bulk[second])


# -- attributes -------------------------------------------------------------------------------

ATTRIBUTES = """\
[attr]machine linguist-generated -diff
*.gen.py linguist-generated
schema.json linguist-generated=true
vendor/** linguist-vendored
*.pb.go machine
*.dat binary
*.lockish -diff
docs/*.md linguist-generated=false linguist-documentation
"sp ace.py" linguist-generated
unset.gen.py -linguist-generated
"""

#: What a head may write to hide its own change: none of it counts.
SELF_HIDING = (
    "* linguist-generated\n",
    "* linguist-vendored=true\n",
    "*.py -diff\n",
    "* binary\n",
    "[attr]mine linguist-generated\n*.py mine\n",
    "*.py diff=quiet filter=quiet textconv=true\n",
)

#: In :func:`attributed`: path to whether the base's attributes have it ignored.
ATTRIBUTED_FILES = {
    "src/app.py": False,
    "src/api.gen.py": True,
    "schema.json": True,
    "src/schema.json": True,
    "vendor/lib/x.js": True,
    "src/vendor/x.js": False,
    "wire.pb.go": True,
    "blob.dat": False,
    "deps.lockish": False,
    "docs/guide.md": False,
    "sp ace.py": True,
    "unset.gen.py": False,
    "sub/made.py": True,
    "sub/kept.gen.py": False,
    "sub/deep/made.py": True,
}


def attributed(repo: GitRepo, hiding: str = "") -> History:
    """Every path of :data:`ATTRIBUTED_FILES` gets +4 between base and head.

    The base has attributes at the top and in ``sub/``. With ``hiding``, the head puts that
    text into ``.gitattributes`` and ``src/.gitattributes``, to be judged by its own rules.
    """
    repo.write(".gitattributes", ATTRIBUTES)
    repo.write("sub/.gitattributes", "made.py linguist-generated\n*.gen.py !linguist-generated\n")
    for name in ATTRIBUTED_FILES:
        repo.write(name, numbered(3, name))
    base = repo.commit("Attributes")
    for name in ATTRIBUTED_FILES:
        repo.append(name, numbered(4, f"more {name}"))
    if hiding:
        repo.append(".gitattributes", hiding).write("src/.gitattributes", hiding)
    return History(repo, base, repo.commit("Edit everything"))


# -- traps: configuration that runs a program ---------------------------------------------------


_HOOKS = (
    "pre-commit", "pre-push", "pre-auto-gc", "post-checkout", "post-index-change",
    "reference-transaction",
)  # fmt: skip


def set_traps(repo: GitRepo, canary: Path) -> GitRepo:
    """Fill ``.git/config`` and the hooks with programs that each create a file ``canary-NAME``.

    Call it last: the builder's own git would spring them. ``sprung(canary)`` tells which ran.
    Needs a POSIX shell.
    """
    canary.mkdir(parents=True, exist_ok=True)
    hooks = canary / "hooks"
    hooks.mkdir(exist_ok=True)

    def trap(name: str, then: str = "") -> str:
        return f"touch '{canary}/canary-{name}'; {then}".rstrip("; ")

    for hook in _HOOKS:
        (hooks / hook).write_text(f"#!/bin/sh\n{trap('hook-' + hook)}\n")
        (hooks / hook).chmod(0o755)
    settings = {
        "core.fsmonitor": trap("fsmonitor", "false"),
        "core.hooksPath": str(hooks),
        "core.pager": trap("pager", "cat"),
        "pager.diff": trap("pager-diff", "cat"),
        "pager.log": trap("pager-log", "cat"),
        "core.editor": trap("editor"),
        "core.sshCommand": trap("ssh", "false"),
        "core.askPass": trap("askpass"),
        "diff.external": trap("external-diff", "true"),
        "diff.trap.command": trap("driver-command", "true"),
        "diff.trap.textconv": trap("textconv", "cat <"),
        "filter.trap.clean": trap("filter-clean", "cat"),
        "filter.trap.smudge": trap("filter-smudge", "cat"),
        "merge.trap.driver": trap("merge-driver", "false"),
        "credential.helper": f"!{trap('credential')}",
        "gpg.program": trap("gpg", "false"),
        "log.showSignature": "true",
        "interactive.diffFilter": trap("diff-filter", "cat"),
        "uploadpack.packObjectsHook": trap("pack-objects"),
        "remote.origin.url": f"ext::sh -c touch% {canary}/canary-remote-ext",
        "remote.origin.uploadpack": trap("uploadpack", "false"),
        "submodule.recurse": "true",
        "status.submoduleSummary": "true",
    }
    for key, value in settings.items():
        repo.config(key, value)
    # Attributes of the repository itself bind the drivers, without a file in any commit.
    info = repo.path / repo.text("rev-parse", "--git-path", "info/attributes")
    info.parent.mkdir(exist_ok=True)
    info.write_text("* diff=trap filter=trap merge=trap\n")
    return repo


def sprung(canary: Path) -> list[str]:
    """The names of the traps of :func:`set_traps` that ran, sorted."""
    return sorted(path.name.removeprefix("canary-") for path in canary.glob("canary-*"))


def dangling_names() -> dict[str, str]:
    """Revisions that resolve to nothing, or to something that is no commit, by what they are."""
    return {
        "zeros": ZERO_SHA,
        "unknown id": "dead" * 10,
        "unknown branch": "no-such-branch",
        "option": "--output=canary",
        "range": "HEAD..HEAD~1",
        "path at a commit": "HEAD:main.py",
        "expression": "HEAD@{upstream}",
        "empty": "",
        "blank": " ",
        "newline": "HEAD\nHEAD",
        "nul-like": "HEAD\\0",
        "too long": "a" * 100_000,
        "tree": EMPTY_TREE,
    }
