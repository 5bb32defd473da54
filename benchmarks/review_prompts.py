"""The bytes of a review's prompts: ``python benchmarks/review_prompts.py CLONE...``.

Each change is that of a release, or one commit, of a project; the repositories are clones that
exist already, whose folders end with the repository's name:

    python benchmarks/review_prompts.py /tmp/requests /tmp/httpx ...

``rlm-ci review --depth quick`` asks a model on loopback that finds nothing. The data of its
prompts are compared with ``git diff -U12`` of code and tests and ``-U3`` of documents, without
lock files and binary ones. The rest of a prompt is its fixed instructions. Every line that the
diff adds or removes must be in a prompt.

A second review, with ``--depth normal``, asks a model that looks around until nothing is left to
look with. All that it was sent once is counted: the last request of each conversation, with
instructions and tools. The result is written to ``benchmarks/results/review_prompts.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))

# The model of the tests; it is found only now, hence the noqa.
from rlm_ci.git.patches import parse  # noqa: E402
from rlm_ci.review.change_prompts.changed_files import kind_of  # noqa: E402
from testing.loopback_model.replies import Answer, Call  # noqa: E402
from testing.loopback_model.server import Asked, ModelServer  # noqa: E402

RLM_CI = str(Path(sys.executable).parent / "rlm-ci")
RESULTS = TOP / "benchmarks" / "results" / "review_prompts.md"
#: Base and head of each change.
CHANGES: dict[str, tuple[tuple[str, str], ...]] = {
    "requests": (("v2.31.0", "v2.32.0"), ("v2.32.3", "v2.32.4")),
    "httpx": (("0.27.0", "0.28.0"), ("0.28.0~20", "0.28.0")),
    "click": (("8.1.7", "8.2.0"), ("8.2.0", "8.2.1"), ("8.1.3", "8.1.4")),
    "flask": (("3.0.0", "3.1.0"), ("2.2.0", "2.2.1")),
    "attrs": (("23.2.0", "24.1.0"), ("24.2.0", "24.3.0")),
    "express": (("4.18.0", "4.19.0"), ("4.21.0", "v5.0.0")),
    "mux": (("v1.7.0", "v1.8.0"),),
}
#: The most times the bytes of the diff, where it has so many, and bytes of instructions.
TARGET, LARGE, FIXED = 1.3, 20_000, 6_000
#: The most times the bytes of the diff with all that tools show.
WITH_TOOLS = 2
_FOUND = '{"findings": [], "claims": []}'
_ROW = re.compile(r"(\d+)([-+|])(.*)", re.DOTALL)


@dataclass
class Measured:
    """One change: bytes of its diff, of the data of its prompts, of the longest instructions.

    ``explored`` are those of all conversations of a model that looks around.
    """

    diff: int
    data: int
    fixed: int
    calls: int
    lost: int
    explored: int

    @property
    def ratio(self) -> float:
        return self.data / max(1, self.diff)

    @property
    def with_tools(self) -> float:
        return self.explored / max(1, self.diff)


def git(clone: Path, *args: str) -> bytes:
    return subprocess.run(["git", *args], cwd=clone, capture_output=True, check=True).stdout


def review(clone: Path, base: str, head: str) -> list[str]:
    """The prompts that a review sends."""
    prompts: list[str] = []

    def answer(asked: Asked) -> str:
        prompts.append(str(asked.messages[-1]["content"]))
        return _FOUND

    ask(clone, base, head, "quick", answer)
    assert prompts, f"{clone}: no prompt of {base}..{head}"
    return prompts


def explore(clone: Path, base: str, head: str) -> int:
    """The bytes of all conversations of a review whose model looks around as far as it may."""
    longest: dict[str, int] = {}

    def answer(asked: Asked) -> str | Answer:
        first, last = (str(asked.messages[at]["content"]) for at in (0, -1))
        said = [str(one["content"] or "") for one in asked.messages]
        called = [call["function"] for one in asked.messages for call in one.get("tool_calls", ())]
        texts = (*said, *map(json.dumps, called), json.dumps(asked.body["tools"]))
        longest[first] = sum(len(text.encode()) for text in texts)
        if "answer now" in last:
            return _FOUND
        return Answer("", [Call("search", '{"text": "e", "context": 3}')])

    ask(clone, base, head, "normal", answer)
    return sum(longest.values())


def ask(
    clone: Path, base: str, head: str, depth: str, answer: Callable[[Asked], str | Answer]
) -> None:
    with ModelServer() as llm, tempfile.TemporaryDirectory() as runs:
        llm.script(answer)
        reach = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url, "RLM_CI_RUNS_DIR": runs}
        words = ("review", "--base", base, "--head", head, "--model", "m-1", "--depth", depth)
        subprocess.run(
            [RLM_CI, *words, "--quiet"], cwd=clone, env={**os.environ, **reach},
            capture_output=True, check=False, timeout=600,
        )  # fmt: skip


def listing_of(prompt: str) -> str:
    return re.split(r"(?m)^-----data-[0-9a-f]{32}-----$", prompt)[-2]


def fixed_of(prompt: str) -> int:
    """The bytes of all that is not data of the repository."""
    return sum(len(one.encode()) for one in re.split(r"(?m)^-----data-\w+-----$", prompt)[::2])


def measure(clone: Path, base: str, head: str) -> Measured:
    base = git(clone, "merge-base", base, head).decode().strip()
    paths = git(clone, "diff", "--name-only", "--no-renames", "-z", base, head).decode().split("\0")
    kinds = {path: kind_of(path) for path in paths if path}
    diffs = {"code": "-U12", "document": "-U3"}
    diff = 0
    for kind, context in diffs.items():
        some = [path for path, of in kinds.items() if of == kind]
        diff += len(git(clone, "diff", "-M", context, base, head, "--", *some)) if some else 0
    prompts = review(clone, base, head)
    listings = [listing_of(one) for one in prompts]
    data = sum(len(one.encode()) for one in listings)
    lost = missing(git(clone, "diff", "-M", "--raw", "-z", "--patch", "-U0", base, head), listings)
    explored = explore(clone, base, head)
    return Measured(diff, data, max(map(fixed_of, prompts)), len(prompts), lost, explored)


def missing(patch: bytes, listings: list[str]) -> int:
    """How many lines of the patch are in no prompt."""
    shown = set()
    path = ""
    for row in "\n".join(listings).split("\n"):
        if row.startswith("=== "):
            path = row[4:].partition(" === ")[0]
        elif match := _ROW.fullmatch(row):
            shown.add((path, match[2], int(match[1]), match[3]))
    found = (
        (path, line.kind, (line.old if line.kind == "-" else line.new) or 0, line.text.rstrip("\r"))
        for path, hunks in parse(patch)[0].items()
        if kind_of(path) != "lock"
        for hunk in hunks
        for line in hunk.lines
        if line.kind != " "
    )
    return sum(one not in shown for one in found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", nargs="+", type=Path)
    rows = []
    for clone in parser.parse_args().clones:
        name = re.split(r"[+/_]", clone.name)[-1]
        for base, head in CHANGES[name]:
            rows.append((name, f"{base}..{head}", measure(clone, base, head)))
            print(*rows[-1], flush=True)
    large = [one for _, _, one in rows if one.diff >= LARGE]
    most = max(one.with_tools for one in large)
    worst, fixed = max(one.ratio for one in large), max(one.fixed for _, _, one in rows)
    RESULTS.write_text("\n".join([
        "# The bytes of a review's prompts\n",
        (
            "`benchmarks/review_prompts.py`: the data of all prompts of `rlm-ci review --depth "
            "quick`, beside `git diff -U12` of code and tests and `-U3` of documents. A smaller "
            "change gets as much around it as fits 24,000 bytes. Lost are lines of the diff that "
            "no prompt shows; those of symbolic links and excluded files are named instead. The "
            "last column is all that a model reads which looks around as far as `--depth normal` "
            "allows, instructions and tools included.\n"
        ),
        "| project | change | diff | data | ratio | prompts | lost lines | with tools |",
        "|---|---|--:|--:|--:|--:|--:|--:|",
        *(
            f"| {name} | `{of}` | {one.diff:,} | {one.data:,} | {one.ratio:.2f}× | {one.calls} "
            f"| {one.lost} | {one.with_tools:.2f}× |"
            for name, of, one in rows
        ),
        "",
        (
            f"Diffs of {LARGE:,} bytes or more: at most **{worst:.2f}×**, target {TARGET}×. Fixed "
            f"instructions: at most **{fixed:,}** bytes, target {FIXED:,}. With tools: at most "
            f"**{most:.2f}×**, target {WITH_TOOLS}×.\n"
        ),
    ]), encoding="utf-8")  # fmt: skip
    assert worst <= TARGET
    assert fixed <= FIXED
    assert most <= WITH_TOOLS


if __name__ == "__main__":
    main()
