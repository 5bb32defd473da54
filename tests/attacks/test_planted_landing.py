"""A repository brings what a killed landing would have left: nothing is written outside of it."""

from __future__ import annotations

import json
import os
from hashlib import sha1
from typing import TYPE_CHECKING

import pytest

from rlm_ci.workspace.apply import STAGING, ApplyRefusedError, recover
from testing.attacker import git

if TYPE_CHECKING:
    from pathlib import Path

    from testing.attacker import Attacker

_CONTENT = b"* * * * * root touch /evil\n"
_OID = sha1(b"blob %d\0%s" % (len(_CONTENT), _CONTENT), usedforsecurity=False).hexdigest()
_FOLDER = f"{STAGING}/{'a' * 16}"


def plant(repo: Path, links: dict[str, Path | str], plan: list[object]) -> None:
    """A landing that was killed, with ``links`` in the place of its folders."""
    folder = repo / _FOLDER
    folder.mkdir(parents=True)
    for name in ("new", "old", "back"):
        if name in links:
            (folder / name).symlink_to(links[name])
        else:
            (folder / name).mkdir()
    (folder / "plan.json").write_text(json.dumps([plan]))


@pytest.mark.parametrize("name", ["", "back", "old", "new"])
def test_a_link_in_a_killed_landing_is_not_followed(name: str, tmp_path: Path) -> None:
    repo, outside = tmp_path / "repo", tmp_path / "outside"
    outside.mkdir()
    (outside / "0").write_bytes(_CONTENT)
    plant(repo, {name: outside} if name else {}, ["taken", ["100644", "blob", _OID], None])
    if not name:
        os.rename(repo / _FOLDER, outside / "landing")
        (repo / _FOLDER).symlink_to(outside / "landing")
    with pytest.raises(ApplyRefusedError, match="something is in the way"):
        recover(str(repo))
    assert (outside / "0").read_bytes() == _CONTENT
    assert not (repo / "taken").exists()


@pytest.mark.full
def test_a_repository_writes_nothing_outside_by_a_planted_landing(attacker: Attacker) -> None:
    repo, outside = attacker.folder / "repo", attacker.folder / "cron.d"
    outside.mkdir()
    # Of our own work tree the file "0" would be taken away, into a folder of somebody else's.
    plant(repo, {"new": "../..", "back": outside}, ["0", None, ["100644", "blob", _OID]])
    (repo / _FOLDER / "old" / ".keep").touch()
    (repo / "0").write_bytes(_CONTENT)
    git(repo, "init", "-q", "-b", "main")
    git(repo, "add", "-A", "-f")
    git(repo, "commit", "-qm", "Base")
    attacker.own()
    ended = attacker.rlm_ci(
        "rlm", "fix it", "--validator", "true", "--agent", "sh -c true", cwd=repo
    )
    assert ended.returncode == 5
    assert "something is in the way" in str(ended.stderr)
    assert list(outside.iterdir()) == []
    assert (repo / "0").read_bytes() == _CONTENT
