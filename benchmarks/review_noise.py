"""How much a review without a model says of changes that were merged: findings, annotations.

Each change is judged by ``rlm-ci pr`` at its defaults, as in Actions, over a clone that exists
already: nothing is fetched. The changes are those of ``CHANGES``, each by its commit beside its
first parent; their repositories are named by folders, whose names end with the repository's:

    python benchmarks/review_noise.py /tmp/click /tmp/requests ... [--label after]

The result goes to ``benchmarks/results/review_noise.md``, below a heading of that label.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
RESULTS = TOP / "benchmarks" / "results" / "review_noise.md"
#: Merged changes by repository: each commit is compared with its first parent.
CHANGES: dict[str, tuple[str, ...]] = {
    "pallets/click": (
        "cfa01eeb7894a408af70b29d28c0b24f8680f9fb",
        "7df2f82305f20f1611a9668b38d26933b648d807",
        "2103e157683c5e4cadc8ee1838df526a54bde9a4",
        "5e906a8afb67242dffdd91404dbf31f469054b15",
    ),
    "psf/requests": (
        "561e4b6889f53584c39a67f8794c53a414f68481",
        "6f66281a1d6326b1b9c4ac09ca30de0fc4e6ef43",
        "e511bc72777a94c45d004e010c597925092e1efe",
    ),
    "encode/httpx": (
        "7b19cd5f4b749064c6452892a5e58a3758da1d1b",
        "41597adffa9d34171a63f7511fc0f702558dd08c",
        "1805ee0d22f96e2b29f0500dd3076e10020004bf",
    ),
    "pallets/flask": (
        "adf363679da2d9a5ddc564bb2da563c7ca083916",
        "c34d6e81fd8e405e6d4178bf24b364918811ef17",
        "70d04b5a2620705011e65f79ccfd52caa86f5d6a",
    ),
    "python-attrs/attrs": (
        "4b5b295bb815bf845fa3570bf63781a88212db40",
        "58c8e9ade6fa4723199e9fd938e7130f079eb2cd",
        "0f758fe54a8742110f730ebbaf146e79f3937c8d",
        "1ea13ff576c14907280d080c33fa5d25f968f30e",
    ),
    "pypa/build": (
        "945628172dc8887cc12b18ba7403f20b7c4de8fb",
        "820d4e5638eda9aa744528ab6b9a0e4be98d7d41",
        "09fa5e04b7f880ef7e53e1f3bd6290df19cf7501",
    ),
    "pytest-dev/pytest": (
        "df87db7b0462fb764ef73fa00561adf8ad047572",
        "5fd2be03b1f8b5eef48d507d001ebf0a82e875a1",
        "28e86a6c2ae0173831e4925a4af89b02a2936d09",
        "e739014f38d284f1ce57745cdd4e13392fb56165",
        "2a9e201ee0ad4e593ff9ead05e4d1ef108324863",
    ),
}
#: At most one visible finding in so many changes.
TARGET = 4
_HUNK = re.compile(r"^@@ -\S+ \+(\d+)(?:,(\d+))? @@")
_ANNOTATION = re.compile(r"^::(?:error|warning|notice) (.*?)::")
_INTRODUCTION = """\
# What a review without a model says of merged changes

`python benchmarks/review_noise.py CLONE...`: {count} merged changes of {repositories}
libraries, judged by `rlm-ci pr` at its defaults with the built-in ruff alone. Visible is what is
listed and not suppressed; an annotation is off where its line is none that the change touches.
"""


@dataclass(frozen=True)
class Judged:
    """What was said of one change."""

    name: str
    files: int
    rules: tuple[str, ...]
    suppressed: int
    annotations: int
    off: int
    code: int
    last: str


def git(clone: str, *words: str) -> str:
    told = subprocess.run(["git", "-C", clone, *words], check=True, capture_output=True)
    return told.stdout.decode("utf-8", "replace")


def changed_lines(clone: str, base: str, head: str) -> dict[str, set[int]]:
    """The lines of the new side that a change touches, by path."""
    found: dict[str, set[int]] = {}
    path = ""
    for line in git(clone, "diff", "-U0", "-M", base, head).splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ ").removeprefix("b/").rstrip("\t")
            found.setdefault(path, set())
        elif hunk := _HUNK.match(line):
            start, size = int(hunk[1]), int(hunk[2] or 1)
            # Where lines went, the two around the gap are those that the change touches.
            found[path] |= {start, start + 1} if not size else set(range(start, start + size))
    return found


def judge(program: str, clone: str, commit: str) -> Judged:
    base = git(clone, "rev-parse", f"{commit}^1").strip()
    lines = changed_lines(clone, base, commit)
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
    with tempfile.TemporaryDirectory() as folder:
        ended = subprocess.run(
            [program, "-m", "rlm_ci", "pr", "--repo", clone, "--base", base, "--head", commit,
             "--no-publish", "--out", folder],
            check=False, capture_output=True, text=True, errors="replace", cwd=folder,
            env={**kept, "GITHUB_ACTIONS": "true", "PYTHONPATH": os.environ.get("PYTHONPATH", "")},
        )  # fmt: skip
        path = Path(folder, "report.json")
        if not path.exists():
            raise SystemExit(f"{clone} {commit}: no report\n{ended.stderr}")
        report = json.loads(path.read_text())
    found = [one for one in report["findings"] if one["rule"].startswith("review/")]
    said = ended.stdout.splitlines()
    placed = [
        dict(pair.partition("=")[::2] for pair in told[1].split(","))
        for line in said
        if (told := _ANNOTATION.match(line))
    ]
    placed = [one for one in placed if "review/" in one.get("title", "").replace("%2F", "/")]
    off = sum(int(one.get("line", 1)) not in lines.get(one.get("file", ""), ()) for one in placed)
    texts = [line for line in said if line.strip() and not line.startswith("::")]
    return Judged(
        f"{Path(clone).name.partition('+')[2] or Path(clone).name} {commit[:8]}",
        len(lines),
        tuple(one["rule"] for one in found if one["suppression"] is None),
        sum(one["suppression"] is not None for one in found),
        len(placed),
        off,
        ended.returncode,
        texts[-1] if texts else "",
    )


def table(label: str, rows: list[Judged]) -> str:
    visible = sum(len(one.rules) for one in rows)
    held = "held" if visible * TARGET <= len(rows) else "missed"
    off = sum(one.off for one in rows)
    lines = [
        f"## {label}\n",
        (
            f"{visible} visible findings in {len(rows)} changes (at most one in {TARGET}: {held}); "
            f"{sum(one.annotations for one in rows)} annotations, {off} off the changed lines "
            f"({'missed' if off else 'held'}); {sum(one.suppressed for one in rows)} suppressed.\n"
        ),
        "| change | files | visible | suppressed | annotations | off | exit | last line |",
        "|---|--:|---|--:|--:|--:|--:|---|",
    ]
    for one in rows:
        rules = Counter(rule.removeprefix("review/") for rule in one.rules)
        told = ", ".join(f"{rule} × {number}" for rule, number in sorted(rules.items())) or "0"
        lines.append(
            f"| {one.name} | {one.files} | {told} | {one.suppressed} | {one.annotations} "
            f"| {one.off} | {one.code} | {one.last} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("clones", nargs="+", help="folders of clones")
    parser.add_argument("--label", default="Now", help="heading of the table")
    parser.add_argument("--python", default=sys.executable, help="interpreter that runs rlm_ci")
    options = parser.parse_args()
    rows = []
    for name, commits in CHANGES.items():
        own = name.partition("/")[2]
        clone = next((one for one in options.clones if Path(one).name.endswith(own)), None)
        if clone is None:
            print(f"{name}: no clone of it is named, left out", file=sys.stderr)
            continue
        for commit in commits:
            rows.append(judge(options.python, clone, commit))
            print(rows[-1], file=sys.stderr)
    repositories = len(CHANGES)
    text = _INTRODUCTION.format(count=sum(map(len, CHANGES.values())), repositories=repositories)
    kept = RESULTS.read_text().partition("\n## ")[2] if RESULTS.exists() else ""
    others = [f"## {one.rstrip()}\n" for one in kept.split("\n## ") if one.strip()]
    others = [one for one in others if not one.startswith(f"## {options.label}\n")]
    RESULTS.write_text("\n".join([text, *others, table(options.label, rows)]))


if __name__ == "__main__":
    main()
