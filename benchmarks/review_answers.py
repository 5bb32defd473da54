"""The answers that ``rlm-ci bench review`` plays where nobody has a model, recorded again.

``results/review_answers.json`` has what was answered to the prompts of a few changes, and texts by
which a prompt is told. This runs the benchmark with an endpoint on loopback that gives these
answers, and writes the recording that rlm-ci brings. Run it after prompts or libraries changed:

    python benchmarks/review_answers.py

A prompt without an answer goes to ``--unanswered DIR``, and the recording is left as it was.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from rlm_ci.models.recorded import line  # noqa: E402 - the path comes first
from testing.loopback_model.replies import Answer, refusal  # noqa: E402
from testing.loopback_model.server import ModelServer  # noqa: E402

if TYPE_CHECKING:
    from testing.loopback_model.replies import Reply
    from testing.loopback_model.server import Asked

ANSWERS = ROOT / "benchmarks" / "results" / "review_answers.json"
RECORDING = ROOT / "rlm_ci" / "evaluation" / "planted_bugs" / "answers.jsonl"
#: What a prompt of each kind says.
KINDS = {
    "plain": "Review this change.",
    "find": "You review a change to source code",
    "reproduce": "A reviewer claims that a program is wrong",
    "judge": "A test was written to show a fault",
    "mend": "A program has a fault, and a test shows it",
    "refute": "Somebody claims to have found a fault",
}
#: Bytes of a token: no model has counted them.
BYTES = 4


class Reader:
    """Answers prompts by the file of answers; those that it does not know go to a folder."""

    def __init__(self, told: dict[str, Any], unanswered: Path | None) -> None:
        self._rows = told["answers"]
        self._unanswered = unanswered
        self.unknown = 0

    def __call__(self, asked: Asked) -> Reply:
        prompt = str(asked.messages[-1]["content"])
        text = "".join(str(one["content"]) for one in asked.messages)
        kind = next((one for one, words in KINDS.items() if words in prompt), "")
        for row in self._rows:
            if row["kind"] == kind and all(one in prompt for one in row["about"]):
                said = json.dumps(row["answer"])
                return Answer(said, usage=(len(text) // BYTES, len(said) // BYTES))
        self.unknown += 1
        if self._unanswered:
            self._unanswered.mkdir(parents=True, exist_ok=True)
            (self._unanswered / f"{self.unknown:03}-{kind or 'other'}.txt").write_text(prompt)
        return refusal(400, "nobody has answered this prompt yet")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--unanswered", type=Path, help="folder for prompts without an answer")
    unanswered = parser.parse_args().unanswered
    told = json.loads(ANSWERS.read_text())
    reader = Reader(told, unanswered)
    parts = []
    with ModelServer(reader) as server, tempfile.TemporaryDirectory() as folder:
        for sandbox in ("auto", "none"):  # without a sandbox, other questions are asked
            part = Path(folder, f"{sandbox}.jsonl")
            numbers = [f"--{name}={told[name]}" for name in ("seed", "bugs", "honest")]
            argv = [sys.executable, "-m", "rlm_ci", "bench", "review", *numbers]
            argv += ["--model", told["model"], "--sandbox", sandbox, "--record", str(part)]
            env = {
                **os.environ, **told["settings"], "OPENAI_BASE_URL": server.url,
                "OPENAI_API_KEY": server.key,
            }  # fmt: skip
            ended = subprocess.run(
                [*argv, "--folder", str(Path(folder, sandbox))], env=env, cwd=folder, check=False
            )
            if reader.unknown or ended.returncode:
                print(f"{reader.unknown} prompts have no answer", file=sys.stderr)
                return 1
            parts.append([json.loads(one) for one in part.read_text().splitlines()])
    (head, *rows), (_, *more) = parts
    head["bench-review"] |= {name: told[name] for name in ("by", "at")}
    answers = {row["prompt"]: row for row in (*more, *rows)}
    kept = [head, *(answers[prompt] for prompt in sorted(answers))]
    RECORDING.write_bytes(b"".join(map(line, kept)))
    print(f"{len(answers)} answers")
    return 0


if __name__ == "__main__":
    sys.exit(main())
