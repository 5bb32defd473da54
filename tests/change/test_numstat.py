"""A large change is counted by two gits, a part each: where that comes to the same."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from rlm_ci.change import change_set
from rlm_ci.change.numstat import part
from rlm_ci.git.repository import Repository, discover
from testing import reference_counts

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo


def kinds(**folders: str) -> dict[str, str]:
    """A file for each letter of a folder; ``__`` in its name stands for a slash."""
    return {
        f"{folder.replace('__', '/')}/{number}.py": kind
        for folder, letters in folders.items()
        for number, kind in enumerate(letters)
    }


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({}, []),
        ({"a.py": "M", "b.py": "M", "c.py": "A"}, []),
        (kinds(a="MM", b="MM"), ["a/"]),
        (kinds(a="MMM", b="MM", c="M"), ["a/"]),
        (kinds(a="MMMMMMM", b="M"), []),
        (kinds(src__a="MM", src__b="MM", docs="M"), ["src/a/"]),
        (kinds(src__only__a="MMMM", src__only__b="MMMM"), ["src/only/a/"]),
        (kinds(a="MA", b="MA"), ["a/"]),  # nothing is gone: nothing can have moved
        (kinds(a="MD", b="MA"), []),
        (kinds(a="MDA", b="MMM", c="MA"), ["b/"]),
    ],
)
def test_about_half_of_a_change_lies_in_some_folders(
    changed: dict[str, str], found: list[str]
) -> None:
    assert part(changed, renames=True) == found


def test_without_renames_what_is_gone_and_what_is_new_may_be_apart() -> None:
    assert part(kinds(a="MD", b="MA"), renames=False) == ["a/"]


@pytest.mark.parametrize("seed", range(30))
def test_what_may_have_moved_stays_together(seed: int) -> None:
    pick = random.Random(seed)
    changed = {
        "/".join([*pick.choices("abc", k=pick.randrange(4)), f"{number}.py"]): pick.choice("MMMAD")
        for number in range(60)
    }
    within = tuple(part(changed, renames=True))
    inside = [path for path in changed if path.startswith(within)] if within else []
    moved = {path for path, kind in changed.items() if kind in "AD"}
    assert not moved & set(inside)
    assert not within or len(changed) / 4 <= len(inside) <= len(changed) / 2


@pytest.mark.parametrize("renames", [True, False])
def test_two_gits_count_what_one_counts(repo: GitRepo, *, renames: bool) -> None:
    """With names that a pathspec could read otherwise, and files that move between folders."""
    edited = ["src/[ab]", "src/a", "src/*", "src/:(top)", "src/a b", "src/ä"]
    for folder in (*edited, "old", "new"):
        for number in range(4):
            lines = "".join(f"{folder} {number} {line}\n" for line in range(20))
            repo.write(f"{folder}/{number}.py", lines)
    before = repo.commit()
    for folder in edited:
        for number in range(4):
            text = (repo.path / folder / f"{number}.py").read_text()
            repo.write(f"{folder}/{number}.py", text.replace(" 7\n", f" seven of {number}\n"))
    for number in range(3):
        repo.run("mv", f"old/{number}.py", f"new/moved-{number}.py")
    after = repo.commit()
    found = change_set.from_commit(Repository(*discover(os.fspath(repo)), os.environ), after)
    within = part(found.kinds, renames=renames)
    assert len(within) > 1
    assert not renames or all(folder.startswith("src/") for folder in within)
    with found.count(renames=renames) as counting:
        counting.share(found.kinds, minimum=2)
        counted = {one.path: (one.added, one.deleted) for one in counting.finish()}
    options = ["-M" if renames else "--no-renames"]
    assert counted == reference_counts.numstat(repo, before, after, options=options)
