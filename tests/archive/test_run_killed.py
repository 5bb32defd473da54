"""An archiver that is killed between any two steps loses no document, and the next one goes on."""

from __future__ import annotations

import shutil
import signal
from typing import TYPE_CHECKING

import pytest

from rlm_ci.archive.tasks import Registry
from rlm_ci.checks._doc_archive.stub import parse
from testing.archived_shop import REGISTRY, STOCK, Shop
from testing.killed_steps import MOVES, STEPS, run_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def stubs(shop: Shop, *, split: bool) -> Iterator[str]:
    """The documents that have given way to stubs, in the work tree or on branches."""
    if not split:
        yield from (path for path in STOCK if parse(shop.repo.read(path)) is not None)
        return
    for branch in shop.repo.text(
        "for-each-ref", "--format=%(refname)", "refs/heads/archive"
    ).split():
        for path in STOCK:
            if parse(shop.repo.run("cat-file", "blob", f"{branch}:{path}")) is not None:
                yield path


def require_nothing_lost(shop: Shop, *, split: bool) -> None:
    there = shop.archived()
    gone = set(stubs(shop, split=split))
    for path in STOCK:
        oid = shop.repo.sha(f"HEAD:{path}")
        assert path not in gone or there.get(path) == oid, path
        if path not in gone or split:
            assert shop.repo.text("hash-object", "--no-filters", path) == oid


def kill_and_go_on(
    made: Shop, place: Path, last: int, steps: frozenset[str], *, split: bool
) -> int:
    """Kill an archiver before a step, then let another one end; the signal of the first."""
    shutil.copytree(made.repo.path.parent, place, symlinks=True)
    shop = Shop.again(place)
    signalled = run_until(lambda: shop.archive(split=split), last, steps)
    require_nothing_lost(shop, split=split)
    if signalled:
        assert run_until(lambda: shop.archive(split=split), 0) == 0
        require_nothing_lost(shop, split=split)
    assert sorted(stubs(shop, split=split)) == sorted(STOCK)
    if not split:
        assert Registry(shop.repo.read(REGISTRY)).status(STOCK[0]) == "archived"
    shutil.rmtree(place)
    return signalled


def test_killed_between_two_stubs(tmp_path: Path) -> None:
    made = Shop(tmp_path / "made")
    assert kill_and_go_on(made, tmp_path / "2", 2, MOVES, split=False) == signal.SIGKILL


@pytest.mark.full
@pytest.mark.parametrize("split", [False, True])
def test_killed_between_any_two_steps(tmp_path: Path, *, split: bool) -> None:
    """From the commit of the full texts on: what is before it changes nothing."""
    made = Shop(tmp_path / "made")
    last = 12
    while kill_and_go_on(made, tmp_path / str(last), last, STEPS, split=split):
        last += 3  # neighbours are mostly alike
    assert last > 20
