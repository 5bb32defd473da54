"""What a review of 500 changed lines asks a model at most: ``python benchmarks/review_cost.py``.

A scripted model takes all that it is given: it looks around as long as it may, claims a severe
fault on each new line, and writes reproductions that show nothing. Of the two changes one has its
lines together, in new functions; the other has each on its own, so that as many lines as can be
stand around them. Exploration and proofs are on, as by default. Tokens are bytes of the requests
by 4. The result is written to ``benchmarks/results/review_cost.md``.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))

from testing.loopback_model.replies import Answer, Call  # noqa: E402 - the path comes first
from testing.loopback_model.server import ModelServer  # noqa: E402
from testing.repositories.git_repo import closed_environment  # noqa: E402

if TYPE_CHECKING:
    from testing.loopback_model.server import Asked

LINES, FILES, BYTES = 500, 10, 4
MOST_CALLS, MOST_TOKENS = 60, 400_000
KINDS = {
    "A reviewer claims": "reproduction",
    "A test was written": "judge",
    "A program has a fault": "repair",
    "Somebody claims": "refutation",
    "review of a whole repository": "architecture",
}
HEAD = re.compile(r"^=== (\S+)")
ROW = re.compile(r"^ *(\d+)\+ ?(.*)$")


class Greedy:
    """Takes all that it may; counts calls, and tokens of prompts, by the kind of question."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.tokens: Counter[str] = Counter()

    def __call__(self, asked: Asked) -> Answer:
        prompt = str(asked.messages[0]["content"])
        kind = next((name for begins, name in KINDS.items() if begins in prompt), "reading")
        read = {name: asked.body.get(name) for name in ("messages", "tools")}
        size = len(json.dumps(read, ensure_ascii=False)) // BYTES
        self.calls[kind] += 1
        self.tokens[kind] += size
        answer = self._answer(kind, asked, prompt)
        return Answer(answer.text, answer.calls, usage=(size, 100))

    def _answer(self, kind: str, asked: Asked, prompt: str) -> Answer:
        last = str(asked.messages[-1]["content"])
        if kind == "reading" and asked.body.get("tools") and "nothing is left" not in last:
            number = len(asked.messages)
            looks = [("read", {"path": f"shop/part{at}.py"}) for at in range(FILES)]
            looks.append(("search", {"pattern": f"def f{number}"}))
            calls = [Call(name, json.dumps(told)) for name, told in looks[number % 8 :][:3]]
            return Answer("", calls)
        answers: dict[str, dict[str, Any]] = {
            "reproduction": {
                "kind": "script", "path": "a.py", "expects": "ValueError", "breaks": "x",
                "content": f"raise TypeError({len(asked.messages)})\n",
            },
            "judge": {"verdict": "fault", "reason": "x"},
            "repair": {"edits": []},
            "refutation": {"verdict": "unsure", "reason": "x"},
            "architecture": {"claims": []},
        }  # fmt: skip
        return Answer(json.dumps(answers.get(kind) or {"findings": _claims(prompt)}))


def _claims(prompt: str) -> list[dict[str, Any]]:
    found, path = [], ""
    for row in prompt.split("\n"):
        if head := HEAD.match(row):
            path = head[1]
        elif path and (new := ROW.match(row)) and new[2].strip():
            line = int(new[1])
            found.append({
                "domain": "quality", "severity": "high", "confidence": 0.9, "rule": f"r{line}",
                "message": f"Line {line} of {path} is wrong.", "path": path, "line_start": line,
                "line_end": line, "quote": new[2], "suggested_fix": None,
            })  # fmt: skip
    return found[:: max(1, len(found) // 60)][:60]


def together(part: int, number: int) -> list[str]:
    """Lines of a file: ``number`` of them new, in functions of ten lines."""
    rows = [f"def old{at}(value):\n    return value + {at}\n" for at in range(200)]
    for at in range(number // 10):
        body = [f"    value = value * {line} + old{line}(value)  # of {part}" for line in range(8)]
        rows += [f"def new{part}_{at}(value):", *body, "    return value"]
    return rows


def scattered(part: int, number: int) -> list[str]:
    """Lines of a file: ``number`` of them changed, each in a long function of its own."""
    rows = []
    for at in range(LINES // FILES):
        rows.append(f"def f{part}_{at}(value, other=None, more=()):")
        for line in range(26):
            wrong = f" - {part}" if line == 13 and at < number else ""
            rows.append(f"    value = value * {line} + len(more){wrong}  # step {line} of {at}")
        rows.append("    return value, other, more")
    return rows


def measured(kind: Any, folder: Path) -> Greedy:
    """A review of the change that ``kind`` makes."""
    env = closed_environment()
    repository = folder / "repository"
    (repository / "shop").mkdir(parents=True)

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(repository), *words], env=env, check=True)

    git("init", "-q", "-b", "base")
    for branch, number in (("base", 0), ("head", LINES // FILES)):
        for part in range(FILES):
            text = "\n".join(kind(part, number)) + "\n"
            (repository / "shop" / f"part{part}.py").write_text(text)
        git("add", "-A")
        git("commit", "-q", "-m", branch)
        git("checkout", "-q", "-b", "work" if branch == "base" else "head")
    model = Greedy()
    with ModelServer(model) as server:
        env |= {
            "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key, "PATH": os.environ["PATH"],
        }  # fmt: skip
        argv = [sys.executable, "-m", "rlm_ci", "review", "--base", "base", "--head", "head"]
        ended = subprocess.run(
            [*argv, "--model", "m", "--format", "json", "--quiet"],
            env=env, cwd=repository, capture_output=True, check=False,
        )  # fmt: skip
    report = json.loads(ended.stdout)
    if report["usage"]["calls"] != sum(model.calls.values()):
        raise SystemExit(f"not all calls are counted: {report['usage']}")
    if "reproduction" not in model.calls:
        print(f"nothing was tried: {report['parts']}", file=sys.stderr)
    return model


def main() -> int:
    bounds = f"At most: {MOST_CALLS} calls, {MOST_TOKENS:,} tokens of prompts."
    rows = [
        f"{LINES} changed lines, and a model that takes all that it may. {bounds}",
        "",
        "`python benchmarks/review_cost.py`",
        "",
        "| change | calls | tokens of prompts | calls by kind |",
        "|---|---|---|---|",
    ]
    worst = (0, 0)
    for name, kind in (("lines together", together), ("each line on its own", scattered)):
        with tempfile.TemporaryDirectory() as folder:
            model = measured(kind, Path(folder))
        calls, tokens = sum(model.calls.values()), sum(model.tokens.values())
        worst = max(worst[0], calls), max(worst[1], tokens)
        kinds = ", ".join(f"{one} {number}" for one, number in sorted(model.calls.items()))
        rows.append(f"| {name} | {calls} | {tokens:,} | {kinds} |")
        print(rows[-1], dict(model.tokens), flush=True)
    (TOP / "benchmarks" / "results" / "review_cost.md").write_text("\n".join(rows) + "\n")
    return int(worst[0] > MOST_CALLS or worst[1] > MOST_TOKENS)


if __name__ == "__main__":
    sys.exit(main())
