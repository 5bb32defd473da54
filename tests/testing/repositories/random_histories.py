"""Random histories, the same for the same seed: material for property tests."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from testing.repositories.changes import HOSTILE_NAMES
from testing.repositories.git_repo import FILE, GITLINK, SCRIPT, SYMLINK, History

if TYPE_CHECKING:
    from testing.repositories.git_repo import Change, GitRepo, Name

_ENDINGS = (b"\n", b"\n", b"\n", b"\r\n", b"\r", b"\f\n", "\u2028".encode(), b"\0\n", b"\xff\n")
_FOLDERS = (b"", b"src/", b"src/deep/er/", b"dist/", b"node_modules/x/", b"vendor/", b"a b/")
_NAMES = (b"main.py", b"README.md", b"package-lock.json", b"uv.lock", b"logo.png", b"x.gen.py")
#: What may happen to a file, and how often.
_ACTS = {
    "add": 25, "edit": 30, "delete": 8, "rename": 10, "rename and edit": 10, "copy": 6, "mode": 6,
    "retype": 5,
}  # fmt: skip

#: A state of the tree: name to mode and content.
Tree = dict[bytes, tuple[str, bytes]]


class _Writer:
    """Draws the next state of a tree from the last one."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def lines(self, count: int) -> bytes:
        words = [b"%x" % self.rng.getrandbits(24) for _ in range(count)]
        ending = self.rng.choice(_ENDINGS)
        text = b"".join(word + (ending if self.rng.random() < 0.9 else b"\n") for word in words)
        return text if self.rng.random() < 0.9 else text.rstrip()

    def content(self) -> bytes:
        kind = self.rng.random()
        if kind < 0.05:
            return b""
        if kind < 0.15:
            return self.rng.randbytes(self.rng.randrange(1, 400))
        return self.lines(self.rng.randrange(1, 60))

    def entry(self) -> tuple[str, bytes]:
        mode = self.rng.choices((FILE, SCRIPT, SYMLINK, GITLINK), (80, 10, 6, 4))[0]
        if mode == SYMLINK:
            return mode, self.rng.choice((b"main.py", b"../up", b"/etc/passwd", b"no\xff"))
        if mode == GITLINK:
            return mode, b"%040x" % self.rng.getrandbits(160)
        return mode, self.content()

    def name(self, tree: Tree) -> bytes | None:
        """A name that is free and neither below a file nor above one; None if none was found."""
        for _ in range(8):
            last = self.rng.choice((self.rng.choice(_NAMES), b"f%d.py" % self.rng.randrange(99)))
            name = self.rng.choice(_FOLDERS) + last
            if self.rng.random() < 0.25:
                name = self.rng.choice(HOSTILE_NAMES)
            above = {name[:at] for at, byte in enumerate(name) if byte == 0x2F}
            below = any(other.startswith(name + b"/") for other in tree)
            if name not in tree and not above & tree.keys() and not below:
                return name
        return None

    def edited(self, content: bytes) -> bytes:
        lines = content.split(b"\n")
        for _ in range(self.rng.randrange(1, 5)):
            at = self.rng.randrange(len(lines) + 1)
            lines[at : at + self.rng.randrange(3)] = self.lines(self.rng.randrange(4)).split(b"\n")
        return b"\n".join(lines)

    def step(self, tree: Tree) -> None:
        """One of the acts; none where it does not fit the file that was drawn."""
        old = self.rng.choice(sorted(tree)) if tree else None
        new = self.name(tree)
        act = self.rng.choices(list(_ACTS), list(_ACTS.values()))[0]
        if act == "add" or old is None:
            if new is not None:
                tree[new] = self.entry()
            return
        mode, content = tree[old]
        is_file = mode in (FILE, SCRIPT)
        if act == "edit" and is_file:
            tree[old] = (mode, self.edited(content))
        elif act == "delete":
            del tree[old]
        elif act.startswith("rename") and new is not None:
            del tree[old]
            edit = act.endswith("edit") and is_file
            tree[new] = (mode, self.edited(content) if edit else content)
        elif act == "copy" and new is not None:
            tree[new] = (mode, content)
        elif act == "mode" and is_file:
            tree[old] = (SCRIPT if mode == FILE else FILE, content)
        elif act == "retype":
            tree[old] = self.entry()


def _changes(before: Tree, after: Tree) -> dict[Name, Change]:
    """What leads from one tree to the next; removals first, for a folder may become a file."""
    gone: dict[Name, Change] = {name: None for name in before if name not in after}
    return gone | {name: entry for name, entry in after.items() if before.get(name) != entry}


def random_history(
    repo: GitRepo, seed: int, commits: int = 10, *, files: int = 12, checkout: bool = False
) -> History:
    """``commits`` random commits on main, some of them merges of a side branch.

    base is the first commit, head the last; ``commits`` names each one ``"0"``, ``"1"``, …
    in the order in which they were made. Same seed, same ids.
    """
    rng = random.Random(seed)
    writer = _Writer(rng)
    tree: Tree = {}
    for _ in range(files):
        if (name := writer.name(tree)) is not None:
            tree[name] = writer.entry()
    with repo.bulk() as bulk:
        made = [bulk.commit("main", dict(tree), "Start", ())]
        for number in range(1, commits):
            before = dict(tree)
            for _ in range(rng.randrange(1, 6)):
                writer.step(tree)
            parents = [made[-1]]
            if number > 1 and rng.random() < 0.2:
                # A side branch from any earlier commit, with a file of its own, is merged.
                name, entry = b"side-%d.txt" % number, (FILE, b"side %d\n" % number)
                parents.append(bulk.commit("side", {name: entry}, "Side", [rng.choice(made)]))
                tree[name] = entry
            made.append(bulk.commit("main", _changes(before, tree), f"Commit {number}", parents))
    if checkout:
        repo.run("reset", "--hard", "-q")
    ids = {str(number): bulk[mark] for number, mark in enumerate(made)}
    return History(repo, bulk[made[0]], bulk[made[-1]], ids)
