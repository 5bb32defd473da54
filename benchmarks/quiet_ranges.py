"""Is rlm-ci as quiet as before? ``benchmarks/quiet_ranges.py BEFORE CLONE...``.

``BEFORE`` is a checkout of an earlier commit. Of each clone, merged pull requests are taken, spread
over its history. ``check`` and ``pr`` run on each with the code of both checkouts, without a
model. What was quiet before (nothing to fix, exit 0) may have one line more now, in the terminal
and in the comment. Nothing is posted, and nothing of the clones is kept.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

NOW = Path(__file__).resolve().parents[1]
#: Lines that a quiet range may have more.
_MORE = 1
_QUIET = "nothing to fix"


@dataclass
class Told:
    """Lines that are not blank, in the terminal of both commands and in the comment."""

    check: list[str]
    pr: list[str]
    comment: list[str]
    is_quiet: bool


def git(clone: Path, *words: str) -> str:
    argv = ["git", "-C", str(clone), *words]
    printed = subprocess.run(argv, capture_output=True, check=True).stdout
    return printed.decode("utf-8", "replace").strip()


def merged(clone: Path, number: int) -> list[dict[str, object]]:
    """The events of merged pull requests, spread over the history."""
    rows = git(clone, "log", "--merges", "--format=%H %s").splitlines()
    commits = [row.partition(" ")[0] for row in rows if " Merge pull request #" in row]
    events = []
    for at in range(min(number, len(commits))):
        commit = commits[at * len(commits) // number]
        base, head = (git(clone, "rev-parse", f"{commit}^{side}") for side in "12")
        _, _, title, *body = [*git(clone, "log", "-1", "--format=%B", commit).split("\n"), "", ""]
        subjects = git(clone, "log", "--format=- %s", f"{base}..{head}")
        repository = {"full_name": f"acme/{clone.name}"}
        pull = {
            "number": 7, "title": title, "body": "\n".join(body).strip() or subjects, "labels": [],
            "user": {"login": "ada", "type": "User"}, "draft": False,
            "base": {"sha": base, "ref": "main", "repo": repository},
            "head": {"sha": head, "ref": "feature", "repo": repository},
        }  # fmt: skip
        events.append({
            "action": "synchronize", "number": 7, "pull_request": pull, "repository": repository
        })  # fmt: skip
    return events


def told(package: Path, clone: Path, event: dict[str, object], folder: Path) -> Told:
    """What the code at ``package`` prints about a pull request."""
    path, out = folder / "event.json", folder / "out"
    path.write_text(json.dumps(event), "utf-8")
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder), "PYTHONPATH": str(package)}
    environ |= {"NO_COLOR": "1", "RLM_CI_REVIEW_ENABLED": "off"}

    def lines(*words: str) -> tuple[int, list[str]]:
        ended = subprocess.run(
            [sys.executable, "-m", "rlm_ci", *words], cwd=clone, env=environ,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return ended.returncode, shown(f"{ended.stdout}{ended.stderr}")

    pull = event["pull_request"]
    assert isinstance(pull, dict)
    base, head = pull["base"]["sha"], pull["head"]["sha"]
    code, check = lines("check", "--base", base, "--head", head)
    code_of_pr, pr = lines("pr", "--no-publish", "--event", str(path), "--out", str(out))
    comment = (out / "comment.md").read_text("utf-8") if (out / "comment.md").exists() else ""
    is_quiet = code == code_of_pr == 0 and any(_QUIET in line for line in check)
    return Told(check, pr, shown(comment), is_quiet)


def shown(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.strip()]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", type=Path, help="a checkout of an earlier commit")
    parser.add_argument("clones", nargs="+", type=Path)
    parser.add_argument("-n", "--merges", type=int, default=5, help="of each clone")
    arguments = parser.parse_args()
    quiet = louder = ranges = 0
    differences: dict[str, Counter[int]] = {name: Counter() for name in ("check", "pr", "comment")}
    with TemporaryDirectory() as name:
        for clone in arguments.clones:
            for event in merged(clone, arguments.merges):
                ranges += 1
                before = told(arguments.before.resolve(), clone, event, Path(name))
                if not before.is_quiet:
                    continue
                quiet += 1
                now = told(NOW, clone, event, Path(name))
                more = {
                    kind: len(getattr(now, kind)) - len(getattr(before, kind))
                    for kind in differences
                }
                for kind, number in more.items():
                    differences[kind][number] += 1
                if max(more.values()) > _MORE or not now.is_quiet:
                    louder += 1
                    pull = event["pull_request"]
                    print(f"louder: {clone.name} {pull}: {more}", *now.pr, sep="\n    ")
    print(f"{ranges} ranges, {quiet} quiet before, {louder} of them louder now")
    for kind, counts in differences.items():
        print(f"{kind}: " + ", ".join(f"{more:+} lines: {n}" for more, n in sorted(counts.items())))
    return 1 if louder else 0


if __name__ == "__main__":
    sys.exit(main())
