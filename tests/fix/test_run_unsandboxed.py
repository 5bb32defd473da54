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
    led = stage.rlm(*words, ".venv/bin/python check.py", "--no-apply")
    assert led.code == 3, led
    assert "leads to your work tree, not to the copy" in led.stderr
    assert "site-packages/_shop.pth)" in led.stderr
    held = stage.rlm(*words, "PYTHONPATH=src .venv/bin/python check.py", "--no-apply")
    assert held.code == 0, held


# -- green that was not seen ---------------------------------------------------------------------

NODE_TEST = """\
const test = require("node:test"), assert = require("node:assert")
const {total} = require("@acme/money")
test("total", () => assert.equal(total([2, 3]), 5))
"""
NODE = {
    "package.json": '{"scripts": {"test": "node --test"}, "workspaces": ["libs/*"]}',
    "libs/money/package.json": '{"name": "@acme/money", "main": "index.js"}',
    "libs/money/index.js": "exports.total = (p) => p.reduce((a, b) => a + b, 0)\n",
    "app.test.js": NODE_TEST,
}
NOT_SEEN = "the validator does not see the copy"


def refused(stage: Stage, changed: str, agent: str, validator: str) -> None:
    """A change that breaks the product, and that the validator does not see, is not applied."""
    before = stage.repo.path.joinpath(changed).read_bytes()
    ended = stage.rlm("--sandbox", "none", "--agent", agent, "--validator",
                      validator, goal="refactor it")  # fmt: skip
    assert ended.code == 4, ended
    assert f"error: {NOT_SEEN}: it passes with {changed} broken" in ended.stderr
    assert "hint: use a sandbox" in ended.stderr
    assert stage.repo.path.joinpath(changed).read_bytes() == before
    assert "planted" not in stage.only().text("rlm/result.patch")


@pytest.mark.full
def test_a_validator_that_imports_the_work_tree_is_found(stage: Stage) -> None:
    stage.repo.write("src/shop/__init__.py", MENDED).write("check.py", TEST_SHOP)
    stage.repo.write(".gitignore", ".runs/\n__pycache__/\n").commit()
    environment = stage.repo.path.parent / "environment"
    venv.create(environment, symlinks=True)
    library = next(environment.glob("lib/python*/site-packages"))
    (library / "__editable__.shop.pth").write_text(f"{stage.repo.path}/src\n")
    agent = "sed -i 's/a + b/a * b/' src/shop/__init__.py"
    refused(stage, "src/shop/__init__.py", agent, f"{environment}/bin/python check.py")


@pytest.mark.full
@pytest.mark.parametrize("lint", ["", "node --check libs/money/index.js && "])
def test_a_package_of_a_workspace_is_the_one_in_the_copy(stage: Stage, lint: str) -> None:
    for name, text in NODE.items():
        stage.repo.write(name, text)
    stage.repo.write(".gitignore", "node_modules/\n.runs/\n").commit()
    scope = stage.repo.path / "node_modules" / "@acme"
    scope.mkdir(parents=True)
    (scope / "money").symlink_to("../../libs/money")
    (scope.parent / "left-pad").mkdir()
    words = ("--sandbox", "none", "--max-iterations", "1", "--validator", f"{lint}node --test")
    agent = "sed -i 's/, [0-9])/, {})/' libs/money/index.js"
    wrong = stage.rlm(*words, "--agent", agent.format(7), goal="refactor it")
    assert wrong.code == 3, wrong
    assert stage.repo.path.joinpath("libs/money/index.js").read_text().endswith(", 0)\n")
    stage.repo.write("libs/money/index.js", NODE["libs/money/index.js"].replace("0", "1"))
    right = stage.rlm(*words, "--agent", agent.format(0))
    assert (right.code, "warning:" in right.stderr) == (0, False), right
    assert (scope.parent / "left-pad").is_dir()


@pytest.mark.full
def test_a_package_that_is_loaded_by_its_place_in_the_work_tree_is_found(stage: Stage) -> None:
    for path, text in NODE.items():
        stage.repo.write(path, text)
    package = stage.repo.path / "libs/money"
    stage.repo.write("app.test.js", NODE_TEST.replace("@acme/money", str(package))).commit()
    refused(stage, "libs/money/index.js", "sed -i 's/, 0)/, 7)/' libs/money/index.js",
            "node --check libs/money/index.js && node --test")  # fmt: skip


@pytest.mark.full
def test_a_work_tree_that_uses_the_environment_of_another_one_is_found(stage: Stage) -> None:
    stage.repo.write("shop.py", MENDED).write("check.py", TEST_SHOP)
    stage.repo.write(".gitignore", ".runs/\n__pycache__/\n.venv\n").commit()
    main = stage.repo.path.parent / "main"
    stage.repo.run("clone", "-q", ".", str(main))
    venv.create(main / ".venv", symlinks=True)
    (stage.repo.path / ".venv").symlink_to(main / ".venv")
    library = next(main.glob(".venv/lib/python*/site-packages"))
    (library / "a.pth").write_text(f"import sys; sys.path.insert(0, {str(main)!r})\n")
    refused(stage, "shop.py", "sed -i 's/a + b/a * b/' shop.py", ".venv/bin/python -I check.py")


@pytest.mark.full
@pytest.mark.parametrize("changed", ["prices.json", "notes.txt"])
def test_changed_data_counts_where_it_is_read(stage: Stage, changed: str) -> None:
    check = "import json\nassert json.load(open('prices.json'))\n"
    stage.repo.write("prices.json", "[1]\n").write("notes.txt", "1\n").write("check.py", check)
    stage.repo.commit()
    words = ("--sandbox", "none", "--agent", f"sed -i s/1/2/ {changed}",
             "--validator", "python3 check.py")  # fmt: skip
    ended = stage.rlm(*words, goal="change it")
    assert ended.code == (0 if changed == "prices.json" else 4), ended
    assert (NOT_SEEN in ended.stderr) is (ended.code == 4)
