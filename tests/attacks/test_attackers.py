"""The attackers are who they say: else no attack of theirs would show anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testing.attacker import Attacker

WHO = """
import os
from rlm_ci import errors
print(os.getuid(), os.environ["HOME"], os.access("/etc/shadow", os.R_OK))
open("mine", "w").close()
"""


def test_each_runs_programs_of_their_own(attacker: Attacker) -> None:
    ended = attacker.python(WHO)
    uid, home, reads = ended.stdout.split()
    assert (ended.stderr, home) == ("", str(attacker.home))
    assert (uid == "0", reads == "True") == (attacker.name == "root",) * 2
    assert (attacker.folder / "mine").stat().st_uid == int(uid)


def test_each_starts_the_program_that_is_attacked(attacker: Attacker) -> None:
    ended = attacker.rlm_ci("--version")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.startswith("rlm-ci ")
