"""How the program of an agent starts in the sandbox, and what keeps it from that."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci import sandbox
from rlm_ci.agents.external import try_out

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("folder", "script", "version", "why"),
    [
        ("bin", "echo WARNING: no colours >&2; echo agent 1.2", "agent 1.2", ""),
        ("bin", "true", "it starts", ""),
        (
            "bin", "echo 'Error: Missing package' >&2; echo Node.js v20 >&2; exit 7", "",
            "it ends with 7: Error: Missing package",
        ),
        (".config/bin", "echo 1.2", "", "{path} is not shown in the sandbox: {home}/.config may"),
    ],
)  # fmt: skip
def test_it_starts_or_says_why_not(
    tmp_path: Path, *, folder: str, script: str, version: str, why: str
) -> None:
    program = tmp_path / folder / "agent"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n[ $# = 1 ] && [ $1 = --version ] || exit 9\n{script}\n")
    program.chmod(0o755)
    environ = {"HOME": str(tmp_path), "PATH": f"{program.parent}:/usr/bin:/bin"}
    place = sandbox.choose("bubblewrap", environ)
    told = try_out("agent", str(program), place, environ, None)
    expected = why.format(path=program, home=tmp_path)
    assert told[0] == version
    assert told[1].startswith(expected)
    assert bool(told[1]) is bool(why)
