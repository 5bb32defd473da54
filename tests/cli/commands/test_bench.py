"""``rlm-ci bench`` as users have it, with a model on loopback."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from rlm_ci.errors import CONFIG, FINDINGS, LIMIT, OK, USAGE
from testing.loopback_model.replies import Answer
from testing.loopback_model.server import ModelServer

if TYPE_CHECKING:
    from testing.loopback_model.replies import Reply
    from testing.loopback_model.server import Asked
    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

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
