"""``--agent autofix``: lint errors mended by the linter itself, with no model anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from testing.fix_stage import Stage

NO_MODEL = {"OPENAI_API_KEY": None, "OPENAI_BASE_URL": None}
UGLY = "import os\nimport sys\nprint( sys.argv )\n"
RUFF = "ruff check --no-cache . && ruff format --no-cache --check ."


def test_lint_errors_are_gone(stage: Stage) -> None:
    stage.repo.write("ruff.toml", "").write("main.py", UGLY).commit()
    ended, run = stage.fixed("--agent", "autofix", "--validator", RUFF, env=NO_MODEL)
    assert ended.code == 0, ended
    assert stage.source("main.py") == "import sys\n\nprint(sys.argv)\n"
    assert (run.final, run.report["usage"]["calls"]) == ("passed", 0)
    assert run.state["agent"] == "autofix"
    assert stage.llm.completions == []

    again = stage.cli("replay", run.id, "--check", env=NO_MODEL)
    assert again.code == 0, again


@pytest.mark.full
def test_what_no_fixer_can_mend_ends_without_progress(stage: Stage) -> None:
    stage.repo.write("ruff.toml", "").write("main.py", "print(undefined)\n").commit()
    ended, run = stage.fixed("--agent", "autofix", "--validator", RUFF, env=NO_MODEL)
    assert (ended.code, run.final) == (3, "no_progress"), ended
    assert "undefined" in ended.stdout
    assert stage.source("main.py") == "print(undefined)\n"
