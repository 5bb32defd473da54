"""``--sandbox none``: the loop works where there is no bubblewrap, with what git ignores."""

from __future__ import annotations

import venv
from typing import TYPE_CHECKING

import pytest

from testing.fix_stage import BUG, MENDED

if TYPE_CHECKING:
    from pathlib import Path

    from testing.fix_stage import Stage

CHECK = """\
import os, sys
import installed
from calc import add
assert os.path.samefile(sys.prefix, ".venv"), sys.prefix
assert os.path.isfile("web/node_modules/left-pad/index.js")
assert add(1, 2) == 3, "add"
"""


def installed(root: Path) -> None:
    """What package managers leave in a work tree, and git ignores."""
    venv.create(root / ".venv", symlinks=True)
    library = next((root / ".venv" / "lib").iterdir()) / "site-packages"
    (library / "installed.py").write_text("")
    package = root / "web" / "node_modules" / "left-pad"
    package.mkdir(parents=True)
    (package / "index.js").write_text("")


@pytest.mark.full
def test_dependencies_that_git_ignores_are_there_in_both_copies(stage: Stage) -> None:
    ignored = "/.venv/\nnode_modules/\n.runs/\n__pycache__/\n"
    stage.repo.write(".gitignore", ignored).write("check.py", CHECK).commit()
    installed(stage.repo.path)
    words = ("--sandbox", "none", "--validator", ".venv/bin/python check.py")
    agent = "sed -i 's/a - b/a + b/' calc.py"
    ended = stage.rlm(*words, "--agent", agent, "--no-apply")
    run = stage.only()
    assert (ended.code, run.final) == (0, "passed"), ended
    for name in ("1", "1-final"):
        assert "[exit code 0," in run.text(f"rlm/validator-{name}.log")
    assert "AssertionError: add" in run.text("rlm/validator-0.log")
    assert stage.repo.path.joinpath("calc.py").read_text() == BUG
    assert stage.rlm(*words, "--agent", agent).code == 0
    assert stage.repo.path.joinpath("calc.py").read_text() == MENDED
    assert stage.repo.path.joinpath(".venv/pyvenv.cfg").is_file()
    assert stage.repo.path.joinpath("web/node_modules/left-pad/index.js").is_file()


TEST_SHOP = "from shop import add\nassert add(1, 2) == 3, 'add'\n"


@pytest.mark.full
def test_what_leads_back_to_the_work_tree_is_told(stage: Stage) -> None:
    """An editable install, as uv and pip make it, and a workspace's package, as npm does."""
    root = stage.repo.path
    stage.repo.write("src/shop/__init__.py", BUG).write("check.py", TEST_SHOP)
    stage.repo.write(".gitignore", "/.venv/\nnode_modules/\n.runs/\n__pycache__/\n").commit()
    installed(root)
    words = ("--sandbox", "none", "--agent", "sed -i 's/a - b/a + b/' src/shop/__init__.py",
             "--max-iterations", "1", "--validator")  # fmt: skip
    quiet = stage.rlm(*words, "PYTHONPATH=src .venv/bin/python check.py", "--no-apply")
    assert (quiet.code, "warning:" in quiet.stderr) == (0, False), quiet
    library = next((root / ".venv" / "lib").glob("python*/site-packages"))
    (library / "_shop.pth").write_text(f"{root}/src\n")
    (root / "web/node_modules/ui").symlink_to("../../src")
    (root / "web/node_modules/linked").symlink_to("left-pad")
    led = stage.rlm(*words, ".venv/bin/python check.py", "--no-apply")
    assert led.code == 3, led
    assert "leads to your work tree, not to the copy" in led.stderr
    assert "site-packages/_shop.pth and 1 more path)" in led.stderr
    held = stage.rlm(*words, "PYTHONPATH=src .venv/bin/python check.py", "--no-apply")
    assert held.code == 0, held
