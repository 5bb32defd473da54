"""``rlm-ci bench`` as users have it, with a model on loopback."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import CONFIG, FINDINGS, LIMIT, OK, USAGE
from rlm_ci.lab.bench import prepare, summary
from testing.loopback_github.fixture import github
from testing.loopback_github.scene import NUMBER
from testing.loopback_model.replies import Answer
from testing.loopback_model.server import ModelServer
from testing.posting_stage import stage
from testing.publish_job import Job, job

if TYPE_CHECKING:
    from testing.loopback_model.replies import Reply
    from testing.loopback_model.server import Asked
    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

__all__ = ["github", "job", "stage"]

SMALL = {
    "presets": {
        "small": [
            {
                "id": f"needle-{seed}",
                "context": {"generator": "needle", "seed": seed, "tokens": 512},
            }
            for seed in (1, 2)
        ]
    }
}


def finds(asked: Asked) -> Reply:
    """A model that reads its context, by code where it has a session; it tells the key, too."""
    prompt = "\n".join(str(one["content"]) for one in asked.messages)
    name = re.search(r"number of the ([\w ]+) in the context", prompt)
    assert name
    said = asked.headers["authorization"]
    if "```repl" in prompt:
        code = f"import re\nfound = re.search(r'of the {name[1]} is (\\d+)', context)"
        return Answer(f"```repl\n{code}\nFINAL('{said}\\nAnswer: ' + found[1])\n```")
    found = re.search(rf"of the {name[1]} is (\d+)\.", prompt)
    assert found
    return Answer(f"{said}\nAnswer: {found[1]}")


@pytest.mark.full
def test_a_bench_is_run_listed_and_compared(cli: Cli, repo: GitRepo) -> None:
    repo.write("small.json", json.dumps(SMALL)).commit()
    with ModelServer(finds) as llm:
        env = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}

        def bench(*words: str) -> Ended:
            return cli("bench", *words, cwd=repo.path, env=env)

        ended = bench(
            "run", "small.json", "--model", "gpt-4o", "--repeats", "2", "--format", "json"
        )
        assert ended.code == OK, ended.stderr
        first = ended.json()
        assert (first["completed_cases"], first["total_cases"], first["cancelled"]) == (4, 4, False)
        assert first["direct"]["completed_cases"] == 4
        assert first["case_results"][0]["environment"] == "pure_rlm"
        assert first["cost_usd"] > 0 < first["direct"]["cost_usd"]
        assert len(llm.completions) == 8  # a repeat is asked again, not found in the record
        [kept] = (repo.path / ".runs").rglob("benchmark.json")
        assert llm.key not in kept.read_text()
        record = json.loads((kept.parent.parent / "manifest.json").read_text())
        assert (record["status"], len(record["child_runs"])) == ("succeeded", 4)

        ended = bench(
            *("run", "small", "--pack", "small.json", "--mode", "direct-llm"),
            *("--model", "gpt-4o", "--max-calls", "1"),
        )
        assert ended.code == LIMIT
        assert "1 call is used up" in ended.stderr
        assert "needle-1" in ended.stdout
        ended = bench("compare")
        assert ended.code == FINDINGS
        assert "needle-2: the candidate lacks it" in ended.stdout
        report = bench("compare", "latest", first["benchmark_id"], "--format", "json").json()
        assert report["parts"][0]["metrics"]["gates"]["completion_regressions"] is False


def test_what_is_wrong_is_said(cli: Cli, repo: GitRepo) -> None:
    repo.write("two.json", json.dumps({"a": SMALL["presets"]["small"], "b": []})).commit()
    for words, code, told in (
        (("foo",), USAGE, "does not know 'foo'"),
        (("run",), USAGE, "takes other words"),
        (("run", "neddle"), CONFIG, "did you mean needle?"),
        (("run", "two.json"), CONFIG, "'b' has no case"),
        (("run", "needle"), CONFIG, "no model is set up"),
        (("run", "needle", "--mode", "nativ"), CONFIG, "native"),
        (("compare",), CONFIG, "no benchmark 'latest'"),
        (("list", "--format", "sarif"), USAGE, "no form 'sarif'"),
    ):
        ended = cli("bench", *words, cwd=repo.path, env={"OPENAI_API_KEY": None})
        assert (ended.code, told in ended.stderr) == (code, True), ended


@pytest.mark.full
def test_a_comparison_is_posted_as_a_comment_with_its_table(job: Job) -> None:
    suite = {"one": "hash"}
    for name, score in (("old", 1.0), ("new", 0.0)):
        head: dict[str, Any] = {
            "benchmark_id": name, "preset": "p", "mode": "native", "model": "m",
            "started_at": "2026-01-01T00:00:00Z", "suite": suite,
            "suite_hash": prepare.suite_hash(suite), "options": {}, "total_cases": 1,
        }  # fmt: skip
        entry = {
            "case_id": "one", "score": score, "completed": score > 0, "total_reward": score,
            "steps": 1, "seconds": 1.0, "cost_usd": None, "usage": {}, "error": "",
        }  # fmt: skip
        record = summary.record(head, "2026-01-01T00:00:00Z", [entry], None, cancelled="")
        summary.write(str(job.folder / f"{name}.json"), record)
    paths = [str(job.folder / name) for name in ("new.json", "old.json", "report.json")]
    argv = ("bench", "compare", *paths[:2], "--format", "json", "--output", paths[2])
    ended = job.cli(*argv, cwd=job.stage.git, env=job.environment())
    assert ended.code == FINDINGS, ended
    report = json.loads((job.folder / "report.json").read_text())
    assert report["subject"]["pull_request"] == NUMBER
    ended = job.publish(job.folder / "report.json")
    assert ended.code == OK, ended
    assert "| score | 1 | 0 |" in job.stage.summary
    assert "The candidate does not pass its gates" in job.stage.summary
