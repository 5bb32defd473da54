"""What becomes of a green result: in the work tree, or a patch, and the last line says which."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fixing.stage import BUG, MENDED
from rlm_ci.loop.staging import STAGING

if TYPE_CHECKING:
    from fixing.stage import Stage

AGENT = ("--agent", "sed -i s/-/+/ calc.py")


def test_what_a_killed_landing_has_left_is_put_back_at_the_start(stage: Stage) -> None:
    left = f"{STAGING}/{16 * 'a'}"
    original = ["100644", "blob", stage.repo.text("rev-parse", "HEAD:calc.py")]
    stage.repo.write(f"{left}/plan.json", json.dumps([["calc.py", original, None]]))
    stage.repo.write(f"{left}/old/0", BUG)
    (stage.repo.path / "calc.py").unlink()
    ended, run = stage.fixed(*AGENT)
    assert (ended.code, run.final, stage.source()) == (0, "passed", MENDED), ended
    assert "a run was killed while its result was applied: 1 file put back" in ended.stderr
    assert not (stage.repo.path / STAGING).exists()


def test_what_cannot_be_put_back_ends_the_run_before_it_begins(stage: Stage) -> None:
    left = f"{STAGING}/{16 * 'a'}"
    original = ["100644", "blob", stage.repo.text("rev-parse", "HEAD:calc.py")]
    stage.repo.write(f"{left}/plan.json", json.dumps([["calc.py", original, None]]))
    stage.repo.write(f"{left}/old/0", BUG).write("calc.py", "mine\n")
    ended, run = stage.fixed(*AGENT)
    assert (ended.code, run.final) == (5, "invalid_config"), ended
    assert f"originals lie in {left}/old" in ended.stderr
    assert f"remove {STAGING}" in ended.stderr
    assert (stage.repo.path / left / "old" / "0").read_text() == BUG
