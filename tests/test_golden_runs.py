"""Runs that earlier versions have left: each still lists, shows, views, verifies, exports, replays.

``tests/tools/golden_runs.py`` makes the archives; nothing else writes them.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema_rs
import pytest

from rlm_ci.resources import loader
from testing.folders import unpack

if TYPE_CHECKING:
    from testing.program import Cli, Ended

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="flock")

ARCHIVES = Path(__file__).parent / "data" / "golden"
RUNS = [
    pytest.param(table.stem, name, id=f"{table.stem}-{name}")
    for table in sorted(ARCHIVES.glob("*.json"))
    for name in json.loads(table.read_text())
]
#: What ``replay`` refuses: it takes no runs of commands, and none that hold other runs.
_NO_REPLAY = ("pipeline", "bench", "pr", "pr-model")
#: Wikis of which this version makes other pages: only their sums are checked.
_EARLIER_PAGES = ("wiki",)
#: Runs whose comment and page have words of before: only their sums are checked.
_EARLIER_WORDS = ("review", "pr", "pr-model")


@pytest.fixture(scope="module")
def repositories(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The repository of each archive, unpacked in a place where no run was made."""
    folder = tmp_path_factory.mktemp("golden")
    for table in ARCHIVES.glob("*.json"):
        unpack(table.with_suffix(".tar.xz"), folder / table.stem)
    return {table.stem: folder / table.stem / "repo" for table in ARCHIVES.glob("*.json")}


@pytest.mark.sample(2)
@pytest.mark.parametrize(("archive", "name"), RUNS)
def test_a_run_is_read(
    cli: Cli, tmp_path: Path, repositories: dict[str, Path], archive: str, name: str
) -> None:
    repo = repositories[archive]
    ids = json.loads((ARCHIVES / f"{archive}.json").read_text())
    run, is_killed = ids[name], name.endswith("-killed")

    def ended(*words: str) -> Ended:
        return cli(*words, cwd=repo, env={"OPENAI_BASE_URL": None})

    entries = {entry["run_id"]: entry for entry in ended("list", "--format", "json").json()["runs"]}
    assert entries.keys() >= set(ids.values())
    assert (entries[run]["completed_at"] is None) == is_killed
    shown = ended("status", run)
    assert (shown.code, run in shown.stdout) == (0, True), shown
    page = ended("view", run, "-o", "-")
    assert (page.code, run in page.stdout) == (0, True), page.stderr
    verified = ended("verify", run)
    assert verified.code == 0, verified
    assert ("not ended" if is_killed else "all unchanged") in verified.stdout
    assert ("with pages of version" in verified.stdout) == (name in _EARLIER_PAGES)
    assert ("words its report by version" in verified.stdout) == (name in _EARLIER_WORDS)
    exported = ended("export", run, "-o", str(tmp_path / "run.tar.gz"))
    assert exported.code == 0, exported
    unpack(tmp_path / "run.tar.gz", tmp_path / "exported")
    manifest = (tmp_path / "exported" / run / "manifest.json").read_bytes()
    assert manifest == next(repo.glob(f".runs/*/cli/{run}/manifest.json")).read_bytes()
    if not is_killed and name not in _NO_REPLAY:
        replayed = ended("replay", run, "--check")
        assert replayed.code == (1 if name in _EARLIER_PAGES else 0), replayed
        assert ("with pages of version" in replayed.stderr) == (name in _EARLIER_PAGES)


@pytest.mark.full
def test_a_file_with_earlier_words_is_still_held_by_its_sum(
    cli: Cli, repositories: dict[str, Path]
) -> None:
    repo = repositories["0.2.0"]
    run = json.loads((ARCHIVES / "0.2.0.json").read_text())["review"]
    page = next(repo.glob(f".runs/*/cli/{run}/comment.md"))
    content = page.read_text("utf-8")
    page.write_text(f"{content}Approved.\n", encoding="utf-8")
    try:
        verified = cli("verify", run, cwd=repo, env={"OPENAI_BASE_URL": None})
    finally:
        page.write_text(content, encoding="utf-8")
    assert verified.code == 1
    assert "✗ comment.md: " in verified.stdout


#: By the end of a path in an archive, the schema of the file, or of each of its lines.
_SCHEMAS = {
    "/manifest.json": "manifest",
    "/request.json": "request",
    "/metrics.json": "metrics",
    "/rlm/state.json": "state",
    "out/rlm-repo/state.json": "task-state",
    "/calls.jsonl": "calls",
    "/events.jsonl": "event",
    "/nodes.jsonl": "node",
    "/results.jsonl": "result",
    "/queue.jsonl": "queue",
}


def test_records_of_earlier_releases_fit_the_schemas(repositories: dict[str, Path]) -> None:
    checked: Counter[str] = Counter()
    validators = {
        name: jsonschema_rs.validator_for(loader.read_schema(f"{name}.schema.json"))
        for name in _SCHEMAS.values()
    }
    for repo in repositories.values():
        for path in (path for path in repo.rglob("*.json*") if path.is_file()):
            name = next((schema for end, schema in _SCHEMAS.items() if str(path).endswith(end)), "")
            if not name:
                continue
            text = path.read_text("utf-8")
            complete = text[: text.rfind("\n") + 1].splitlines()
            for record in complete if path.suffix == ".jsonl" else [text]:
                validators[name].validate(json.loads(record))
                checked[name] += 1
    assert {*checked} == {*_SCHEMAS.values()}, checked
