"""A pull request's own file makes an analyzer run a module of it, as sqlfluff's settings can."""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

import pytest

from testing.attacker import git

if TYPE_CHECKING:
    from pathlib import Path

    from testing.attacker import Attacker

pytestmark = pytest.mark.full

#: Obeys a file beside what it looks at, whose name nobody knows as that of settings.
LINTER = """#!{python}
import json, os, runpy, sys
folder = sys.argv[1]
said = "nothing"
if os.path.exists(os.path.join(folder, "house-style")):
    with open(os.path.join(folder, "house-style")) as file:
        said = runpy.run_path(os.path.join(folder, file.read().strip()))["said"]
file = {{"artifactLocation": {{"uri": "shop.sql"}}, "region": {{"startLine": 1}}}}
places = [{{"physicalLocation": file}}]
result = {{"ruleId": "style", "level": "note", "message": {{"text": said}}, "locations": places}}
print(json.dumps({{"runs": [{{"results": [result]}}]}}))
"""
MODULE = """
import json, os, socket
tried = {{}}
def attempt(name, action):
    try:
        action()
        tried[name] = True
    except OSError:
        tried[name] = False
attempt("marks", lambda: open({home!r} + "/owned", "x").close())
attempt("reads", lambda: open({home!r} + "/secret").close())
attempt("connects", lambda: socket.create_connection(("127.0.0.1", {port}), 2).close())
said = json.dumps(tried)
"""
SETTINGS = """
[[review.analyzers]]
name = "linter"
command = ["{program}", "{{folder}}"]
"""


@pytest.fixture
def change(attacker: Attacker) -> Path:
    """A change that brings the file, and the module that the file names."""
    program, repo = attacker.folder / "bin" / "linter", attacker.folder / "repo"
    program.parent.mkdir()
    program.write_text(LINTER.format(python=sys.executable))
    program.chmod(0o755)
    repo.mkdir()
    (repo / "shop.sql").write_text("SELECT 1\n")
    (repo / "rlm-ci.toml").write_text(SETTINGS.format(program=program))
    git(repo, "init", "-q", "-b", "main")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "Base")
    git(repo, "checkout", "-qb", "theirs")
    (attacker.home / "secret").write_text("of the user")
    return repo


@pytest.mark.parametrize("command", ["pr", "review"])
@pytest.mark.parametrize("sandbox", ["auto", "none"])
def test_what_a_change_makes_an_analyzer_run_reaches_nothing(
    attacker: Attacker, change: Path, command: str, sandbox: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        (change / "style.py").write_text(MODULE.format(home=str(attacker.home), port=port))
        (change / "house-style").write_text("style.py\n")
        (change / "shop.sql").write_text("SELECT 2\n")
        git(change, "add", "-A")
        git(change, "commit", "-qm", "Theirs")
        attacker.own()
        ended = attacker.rlm_ci(
            command, "--base", "main", "--sandbox", sandbox, "--format", "json", cwd=change
        )
    report: dict[str, Any] = json.loads(ended.stdout)
    [found] = [one for one in report["findings"] if one["rule"] == "review/linter-style"]
    # Without a sandbox it does all of it, so that the attack is one.
    assert json.loads(found["message"]) == dict.fromkeys(
        ("marks", "reads", "connects"), sandbox == "none"
    )
    assert os.path.exists(attacker.home / "owned") == (sandbox == "none")
    [part] = [one for one in report["parts"] if one["id"] == "review"]
    assert ("ran without a sandbox: linter" in part["summary"]) == (sandbox == "none")
