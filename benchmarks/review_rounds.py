"""Do reviews end? Ten real branches, pushed one commit at a time to a reviewer who never tires.

``benchmarks/review_rounds.py CLONE...``: a branch is what a merge commit of a clone brought in.
After each commit a scripted reviewer finds faults at random in the files that were pushed, on lines
of the change new and old, some of them shown by a run. What of it counts is decided as in ``rlm-ci
pr``, with the state that the summary comment would have. Which lines a push touched, this script
asks git by itself. Nothing of the clones is kept.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_ci.change import change_set
from rlm_ci.git.repository import Repository, discover
from rlm_ci.github.posting.summary_comment import Checkpoint
from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.report.proof import ARGUED, PROVEN, Proof
from rlm_ci.review.change import review_rounds
from rlm_ci.review.change.carry_over import pack
from rlm_ci.review.model.reproduce import EarlierClaim

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED, ROUNDS = 22, 3
#: Commits of a branch, at least and at most; faults that the reviewer finds in each review.
_SHORTEST, _LONGEST, _FAULTS = 4, 12, 6


def git(clone: Path, *words: str) -> str:
    command = ["git", "-C", str(clone), *words]
    ended = subprocess.run(command, capture_output=True, check=True)
    return ended.stdout.decode("utf-8", "replace")


def branches(clone: Path) -> Iterator[tuple[str, list[str]]]:
    """The merge base and the commits of each branch that a merge brought in."""
    for merge in git(clone, "rev-list", "--merges", "HEAD").split():
        first, second = git(clone, "rev-list", "--parents", "-1", merge).split()[1:3]
        commits = git(clone, "rev-list", "--no-merges", "--reverse", second, f"^{first}").split()
        if _SHORTEST <= len(commits) <= _LONGEST and _has_base(clone, first, second):
            yield git(clone, "merge-base", first, second).strip(), commits


def _has_base(clone: Path, first: str, second: str) -> bool:
    command = ["git", "-C", str(clone), "merge-base", first, second]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def touched(clone: Path, old: str, new: str) -> dict[str, set[int]]:
    """The lines of the new side that differ, with those beside what was deleted."""
    lines: dict[str, set[int]] = {}
    path = ""
    for row in git(clone, "diff", "-U0", "--no-color", "--no-ext-diff", old, new).splitlines():
        if row.startswith("+++ "):
            path = row[6:] if row.startswith("+++ b/") else ""
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", row):
            start, number = int(hunk[1]), int(hunk[2] or 1)
            lines.setdefault(path, set()).update(range(start, start + (number or 2)))
    return lines


def faults(clone: Path, base: str, since: str, head: str, source: random.Random) -> list[Finding]:
    """What the reviewer says: of files that were pushed, on lines of the whole change."""
    pushed, whole = touched(clone, since, head), touched(clone, base, head)
    paths = sorted(path for path in pushed if path and path in whole)
    found = []
    for number in range(_FAULTS if paths else 0):
        path = source.choice(paths)
        rows = git(clone, "show", f"{head}:{path}").split("\n")
        lines = sorted(line for line in whole[path] if 0 < line <= len(rows))
        if not lines:
            continue
        line = source.choice(lines)
        level = PROVEN if source.random() < 0.1 else ARGUED
        place = Location(path, line, line, quote=rows[line - 1])
        found.append(
            Finding(
                f"review/fault-{number}", source.choice((Severity.MEDIUM, Severity.HIGH)), "wrong",
                evidence=(place,), domain="quality", confidence=0.8, source="model:scripted",
                proof=Proof(level, "scripted"),
            )
        )  # fmt: skip
    return found


def replayed(
    clone: Path, base: str, commits: list[str], source: random.Random
) -> tuple[int, int, int]:
    """Rounds with new findings but those that are proven high; late ones; all that counted."""
    repository = Repository(*discover(str(clone)), {})
    last: Checkpoint | None = None
    rounds = late = counted = 0
    for head in commits:
        change = change_set.from_range(repository, base, head, "benchmark")
        this = review_rounds.begin(last, change, ROUNDS)
        since = last.head if last else base
        found = faults(clone, base, since, head, source)
        marked, _ = review_rounds.parted(found, this, change)
        new = [one for one in marked if one.suppression is None]
        pushed = touched(clone, since, head)
        # What lies on lines of an earlier claim is that claim again, and not new.
        for one in new:
            place = one.evidence[0]
            lines = pushed.get(place.path, set())
            is_proven = one.proof is not None and one.proof.level == PROVEN
            is_old = not is_proven and place.line_start not in lines
            late += bool(last) and is_old and not _is_earlier(one, this, change)
        fresh = [
            one for one in new
            if not (one.proof and one.proof.level == PROVEN and one.severity >= Severity.HIGH)
            and not (last and _is_earlier(one, this, change))
        ]  # fmt: skip
        rounds += bool(fresh)
        counted += len(new)
        packed = pack([EarlierClaim(one, None) for one in new], (), "0" * 32, str)
        number = this.number
        last = Checkpoint(
            1, head, base, base, "findings", "", "run", review=packed.text or "", round=number
        )
    return rounds, late, counted


def _is_earlier(
    one: Finding, this: review_rounds.ReviewRound, change: change_set.ChangeSet
) -> bool:
    over = this.replace(number=10**6, limit=1)
    plain = one.replace(proof=None, suppression=None)
    return review_rounds.LateFindings(over, change).reason(plain) == ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", nargs="+", type=Path)
    parser.add_argument("-n", "--branches", type=int, default=10)
    parser.add_argument("--seed", type=int, default=SEED)
    arguments = parser.parse_args()
    source = random.Random(arguments.seed)
    pool = [(clone, *branch) for clone in arguments.clones for branch in branches(clone)]
    source.shuffle(pool)
    worst = lost = 0
    for clone, base, commits in pool[: arguments.branches]:
        rounds, late, counted = replayed(clone, base, commits, source)
        worst, lost = max(worst, rounds), lost + late
        print(
            f"{clone.name} {base[:10]}..{commits[-1][:10]}: {len(commits)} pushes, {counted} "
            f"findings counted, new ones in {rounds} rounds, {late} on untouched lines"
        )
    print(f"{len(pool[: arguments.branches])} branches: at most {worst} rounds (target {ROUNDS}), "
          f"{lost} new findings on untouched lines (target 0)")  # fmt: skip
    return 0 if worst <= ROUNDS and not lost and len(pool) >= arguments.branches else 1


if __name__ == "__main__":
    sys.exit(main())
