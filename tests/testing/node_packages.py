"""Packages of tests/tools/full (jest, vitest) in a project of a test.

A link to a folder would not be followed in the sandbox: each file is a hard link, or a copy where
the temporary folder lies on another disk.
"""

from __future__ import annotations

import json
import os
import shutil
from functools import cache
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).parents[1] / "tools/full"


def install(root: Path, *names: str) -> None:
    """Make ``root/node_modules`` with the packages ``names`` and all that they need."""
    for place in _closure(names):
        shutil.copytree(
            TOOLS / place,
            root / place,
            copy_function=_link,
            ignore=lambda _folder, _found: ["node_modules"],
            dirs_exist_ok=True,
        )
    programs = root / "node_modules/.bin"
    programs.mkdir()
    for name in names:
        for program, command in _lock()[f"node_modules/{name}"].get("bin", {}).items():
            (programs / program).symlink_to(os.path.normpath(f"../{name}/{command}"))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


@cache
def _lock() -> dict[str, Any]:
    """What npm installed, by its place."""
    content = (TOOLS / "node_modules/.package-lock.json").read_text(encoding="utf-8")
    packages: dict[str, Any] = json.loads(content)["packages"]
    return packages


@cache
def _closure(names: tuple[str, ...]) -> tuple[str, ...]:
    waiting = [f"node_modules/{name}" for name in names]
    found = dict.fromkeys(waiting)
    while waiting:
        place = waiting.pop()
        entry = _lock()[place]
        for kind in ("dependencies", "optionalDependencies", "peerDependencies"):
            for name in entry.get(kind, {}):
                needed = _resolved(place, name)
                if needed and needed not in found:
                    found[needed] = None
                    waiting.append(needed)
    return tuple(found)


def _resolved(place: str, name: str) -> str:
    """Where node finds a package that the one at ``place`` asks for; nothing where it is not."""
    while place:
        if f"{place}/node_modules/{name}" in _lock():
            return f"{place}/node_modules/{name}"
        place = place.rpartition("node_modules/")[0].rstrip("/")
    return f"node_modules/{name}" if f"node_modules/{name}" in _lock() else ""
