"""Makes runs of every verb and environment, for later releases to read.

    GOLDEN=tests/data/golden/NAME.tar.xz .venv/bin/python -m pytest tests/tools/golden_runs.py

A pytest file, for its fixtures. It writes an archive of a repository with its runs, and a table of
their ids beside it. An archive is never made again: runs that a release has left cannot change.
"""

from __future__ import annotations

import json
import os
import re
import signal
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from testing.ask_stage import LOG, STORY, Asking, Script
from testing.fix_stage import MEND, QUICK, Play, call, done
from testing.leftovers import eventually
from testing.loopback_model.fixture import llm
from testing.loopback_model.replies import Answer
from testing.repl_stage import Coder, repl

if TYPE_CHECKING:
    from collections.abc import Callable

    from testing.loopback_model.replies import Reply
    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]

FIX = ("rlm", "make it add", "--validator", QUICK)
ASK = ("rlm", "Why did the payments fail?", "--context", LOG)
CHANGE = ("--base", "HEAD~1")
SHOP = (
    '"""A shop."""\n\n\n'
    'def total(prices):\n    """The mean."""\n    return sum(prices) / len(prices)\n'
)
CLAIM = {
    "rule": "division-by-zero", "severity": "medium", "domain": "quality", "confidence": 0.8,
    "message": "An empty list divides by zero.", "path": "shop.py", "line_start": 6, "line_end": 6,
    "quote": "    return sum(prices) / len(prices)", "suggested_fix": None,
}  # fmt: skip
NEEDLES = {"presets": {"small": [
    {"id": "needle-1", "context": {"generator": "needle", "seed": 1, "tokens": 512}}]}}  # fmt: skip


def reviews(asked: Asked) -> Reply:
    is_shown = "return sum(prices)" in asked.messages[-1]["content"]
    return json.dumps({"findings": [CLAIM] if is_shown else []})


def computes(asked: Asked) -> Reply:
    """Acts by the actions of an episode."""
    if "5050" in asked.messages[-1]["content"]:
        return json.dumps({"action": "final", "final_response": "It is 5050."})
    return json.dumps({"action": "run_python", "code": "print(sum(range(101)))"})


def takes_roles(asked: Asked) -> Reply:
    """The implementer mends; each role ends its turn then."""
    prompts = [at for at, message in enumerate(asked.messages) if message["role"] == "user"]
    turn = sum(message["role"] == "assistant" for message in asked.messages[prompts[-1] :])
    is_implementer = "# Your work now: the implementer" in asked.messages[prompts[-1]]["content"]
    return MEND if is_implementer and not turn else done("It adds now.\nVerdict: accept")


def finds(asked: Asked) -> Reply:
    """Finds the number in the context of a benchmark, by code where it has a session."""
    prompt = "\n".join(str(message["content"]) for message in asked.messages)
    name = re.search(r"number of the ([\w ]+) in the context", prompt)
    assert name
    if "```repl" in prompt:
        code = f"import re\nmatch = re.search(r'of the {name[1]} is (\\d+)', context)"
        return Answer(f"```repl\n{code}\nFINAL('Answer: ' + match[1])\n```")
    match = re.search(rf"of the {name[1]} is (\d+)\.", prompt)
    assert match
    return Answer(f"Answer: {match[1]}")


MENDS = Play(
    [call("read", path="calc.py"), call("write", path="notes.txt", content="Looked.\n"), done()],
    [call("read", path="calc.py"), MEND, done("Summary: added.")],
)
CODES = Coder(
    repl("print(len(context))"), repl("print(llm_query('Is it a log? ' + context[:200]))"),
    repl("FINAL('It is a log of orders.')"),
)  # fmt: skip
#: Each run: its name, its command, what its model says, and after how many questions it is killed.
RUNS: dict[str, tuple[tuple[str, ...], Callable[[Asked], Reply] | None, int]] = {
    "fix": (FIX, MENDS, 0),
    "fix-killed": (FIX, MENDS, 5),
    "fix-limit": ((*FIX, "--max-iterations", "1"), MENDS, 0),
    "fix-command": ((*FIX, "--agent", "sed -i s/-/+/ calc.py"), None, 0),
    "fix-superloop": ((*FIX, "--roles", "superloop", "--no-apply"), takes_roles, 0),
    "ask": (ASK, Script(*STORY), 0),
    "ask-killed": (ASK, Script(*STORY), 2),
    "ask-failed": (ASK, Script({"schema_version": 1, "intent": "fail"}), 0),
    "repl": ((*ASK, "--environment", "repl"), CODES, 0),
    "repl-killed": ((*ASK, "--environment", "repl"), CODES, 2),
    "review": (("review",), None, 0),
    "review-model": (("review", "--model", "gpt-5-mini"), reviews, 0),
    "review-killed": (("review", "--model", "gpt-5-mini"), reviews, 2),
    "change": (("review", *CHANGE, "--model", "gpt-5-mini"), reviews, 0),
    "wiki": (("wiki", "--out", "pages"), None, 0),
    "pr": (("pr", *CHANGE), None, 0),
    "pr-model": (("pr", *CHANGE, "--model", "gpt-5-mini"), reviews, 0),
    "episode": (("run", "Sum 1 to 100", "--model", "m"), computes, 0),
    "episode-killed": (("run", "Sum 1 to 100", "--model", "m"), computes, 2),
    "pipeline": (("start", "nightly"), None, 0),
    "bench": (("bench", "run", "small.json", "--model", "m"), finds, 0),
}


class Maker:
    """Makes runs in ``stage``'s repository, each from the same work tree."""

    def __init__(self, stage: Asking, llm: ModelServer) -> None:
        self._stage = stage
        self._llm = llm
        self.ids: dict[str, str] = {}

    def make(self, name: str) -> None:
        """Make the run ``name``. Raises AssertionError where it does not end as it should."""
        command, script, limit = RUNS[name]
        before = {run.id for run in self._stage.runs()}
        count = 0

        def answer(asked: Asked) -> Reply:
            nonlocal count
            count += 1
            if limit and count >= limit:
                child.process.send_signal(signal.SIGKILL)
                child.wait()
            return script(asked) if script else Answer("")

        self._llm.script(answer)
        self._stage.repo.run("checkout", "--quiet", "--", ".")
        child = self._stage.spawn(*command, env={"RLM_CI_MODEL": None, **self._model(command)})
        code = child.wait(120)
        assert (code == -signal.SIGKILL) == bool(limit), (name, code, child.stderr)
        assert code in (-signal.SIGKILL, 0, 1, 3), (name, code, child.stderr)
        runs = [run for run in self._stage.runs() if run.id not in before]
        assert runs, (name, child.stderr)
        if command[0] == "start":
            assert eventually(lambda: runs[0].manifest["status"] == "succeeded")
        self.ids[name] = runs[0].id

    @staticmethod
    def _model(command: tuple[str, ...]) -> dict[str, str | None]:
        is_asked = command[0] == "rlm" and "--agent" not in command
        return {"RLM_CI_MODEL": "gpt-4o"} if is_asked else {}


def test_make(repo: GitRepo, cli: Cli, llm: ModelServer) -> None:
    archive = Path(os.environ["GOLDEN"]).absolute()
    assert not archive.exists(), f"{archive} is there: what a release has left cannot change"
    stage = Asking(repo, cli, llm)
    stages = [{"kind": "command", "title": "Say it", "command": "echo hello"}]
    pipeline = {"id": "nightly", "stages": stages}
    repo.write("codex.orchestrator.json", json.dumps({"pipelines": [pipeline]}))
    repo.write("small.json", json.dumps(NEEDLES)).commit()
    repo.write("shop.py", SHOP).commit()
    maker = Maker(stage, llm)
    for name in RUNS:
        maker.make(name)
    repo.run("checkout", "--quiet", "--", ".")
    stage.clean()
    table = archive.with_name(archive.name.removesuffix(".tar.xz") + ".json")
    table.write_text(json.dumps(maker.ids, indent=1) + "\n")
    with tarfile.open(archive, "w:xz") as packed:
        packed.add(repo.path, "repo")
