"""``rlm-ci view``: where the page goes, and what it says where there is none to make."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from testing.pipelines_stage import Stage

if TYPE_CHECKING:
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")


def test_where_the_page_goes(repo: GitRepo, cli: Cli) -> None:
    stage = Stage(repo, cli)
    stage.pipeline("nightly", "true")
    run = str(stage.start("nightly")["run_id"])
    stage.wait_for(run, "succeeded")
    made = stage.cli("view", run, "-o", "page.html", "--format", "json")
    assert made.json()["file"] == "page.html"
    assert made.json()["bytes"] == (repo.path / "page.html").stat().st_size
    for words, told in (
        (("view", "2031"), "there is no run '2031'"),
        (("view", run, "-o", "no/page.html"), "no/page.html"),
        (("view", run, "--format", "sarif"), "view has no form 'sarif'"),
        (("view",), "view takes one run"),
    ):
        ended = stage.cli(*words)
        assert ended.code in (2, 9), ended
        assert told in ended.stderr
        assert ended.stderr.count("error: ") == 1
    shown = stage.cli("view", "latest", "-o", "-")
    assert shown.stdout == (repo.path / "page.html").read_text()
