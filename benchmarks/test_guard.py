"""test-guard over the last commits of a clone: ``python benchmarks/test_guard.py CLONE...``.

Every commit that is no merge is compared with its parent. All alarms are listed. Whether one is
false stands in ``test_guard_judged.tsv``: commit, rule, path, message, true or false, why.
The result is written to ``benchmarks/results/test_guard.md``.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_ci.change import change_set
from rlm_ci.checks import test_guard
from rlm_ci.config.settings import Settings
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report.findings import Finding, Severity
from rlm_ci.runs.store import RunStore

if TYPE_CHECKING:
    from collections.abc import Sequence

FOLDER = Path(__file__).resolve().parent
JUDGED = FOLDER / "test_guard_judged.tsv"
#: Commits of a hundred that may have a false alarm.
TARGET = 3.0
METHOD = (
    "A false alarm is one that a reviewer need not have seen: what it tells of moved, was merged, "
    "renamed or narrowed, has its reason beside it, or went with the behaviour that it tested. At "
    "most {:g} % of the commits may have one; a commit counts if one of its alarms is false. An "
    "alarm without a verdict counts as false. An AI agent read the diff of each alarm, one by one, "
    "and wrote each verdict with what it saw there; no person has judged them. What the comparison "
    "does not find is not counted here."
)
#: Measured once, each with commits that had not shown what to mend.
UNSEEN = (
    "The comparison was mended on the commits below, so the table flatters it. Twelve repositories "
    "that had shown nothing before were measured once, 200 commits each, four at a time, and what "
    "they showed was mended after each four. Commits with a false alarm: tox 1, Viper 2, Vue 3, "
    "clap 6; then textual 0, Zustand 2, Prometheus' client of Go 2, tokio 6; then black 18 (15 of "
    "them for files that its tests read as text), fzf 1, Vite 7, Jiff 4: 52 of 2,400 (2.2 %), "
    "which is what to expect elsewhere. At most 1 % for each repository is not reached. Of tox the "
    "new comments for linters were counted as rightly told by their messages, and are not listed "
    "as judged."
)
_COLUMNS = 6


def commits(clone: Path, count: int, skipped: int) -> list[str]:
    command = ["git", "-C", str(clone), "rev-list", "--no-merges", f"-n{count}"]
    command += [f"--skip={skipped}", "HEAD"]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()


def alarms(repository: Repository, commit: str) -> list[Finding]:
    """The findings of a commit that are more than told."""
    change = change_set.from_commit(repository, commit)
    runs = RunStore("", "")
    part = test_guard.run(change, Settings(test_guard.OPTIONS, {}), runs)
    return [one for one in part.findings if one.severity > Severity.INFO]


def verdicts() -> dict[tuple[str, ...], tuple[str, str]]:
    """Verdict and reason by commit, rule, path and message."""
    found = {}
    for row in JUDGED.read_text(encoding="utf-8").splitlines()[1:]:
        *key, verdict, why = row.split("\t", _COLUMNS - 1)
        found[tuple(key)] = (verdict, why)
    return found


def report(table: Sequence[str], listed: Sequence[tuple[str, ...]]) -> str:
    """The page with the table, and all alarms."""
    lines = [
        "# test-guard over the commits of libraries", "", __doc__ or "", "",
        METHOD.format(TARGET), "", UNSEEN, "",
        "| library | commits | with an alarm | with a false one | median | longest |",
        "|---|---|---|---|---|---|", *table, "", "## The alarms", "",
        "| commit | rule | file | message | judged | why |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    for name, commit, rule, place, message, verdict, why in listed:
        said = message.replace("|", "\\|").replace("`", "'")
        lines.append(f"| {name} {commit} | {rule} | {place} | `{said[:150]}` | {verdict} | {why} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", nargs="+", type=Path, help="a clone that is not bare")
    parser.add_argument("-n", "--commits", type=int, default=200)
    parser.add_argument("--skip", type=int, default=0, help="commits that are left out first")
    parser.add_argument("--print", action="store_true", help="only print the alarms")
    arguments = parser.parse_args()
    judged, used, seen = verdicts(), set[tuple[str, ...]](), set[str]()
    table, listed, held = [], [], True
    for clone in arguments.clones:
        root, folder = discover(str(clone))
        repository = Repository(root, folder, {})
        wanted = commits(clone, arguments.commits, arguments.skip)
        seen.update(commit[:12] for commit in wanted)
        name = clone.resolve().parent.name.replace("+", "/") if clone.name == "repo" else clone.name
        seconds, found = [], Counter[str]()
        for commit in wanted:
            start = time.perf_counter()
            told = alarms(repository, commit)
            seconds.append(time.perf_counter() - start)
            some = set()
            for one in told:
                place = one.evidence[0].path if one.evidence else ""
                key = (commit[:12], one.rule.partition("/")[2], place, one.message)
                verdict, why = judged.get(key, ("unjudged", ""))
                some.add(verdict)
                used.add(key)
                listed.append((name, *key, verdict, why))
            found["alarmed"] += bool(told)
            found["false"] += bool(some - {"true"})
        share = 100 * found["false"] / len(wanted)
        held = held and share <= TARGET
        table.append(
            f"| {name} | {len(wanted)} | {found['alarmed']} | {found['false']} ({share:.1f} %) | "
            f"{statistics.median(seconds) * 1000:.0f} ms | {max(seconds) * 1000:.0f} ms |"
        )
        print(table[-1], flush=True)
    for lost in judged:
        if lost[0] in seen and lost not in used:
            print("no longer an alarm:", *lost)
    if arguments.print:
        for alarm in listed:
            print(*alarm, sep="\t")
        return 0 if held else 1
    result = FOLDER / "results" / "test_guard.md"
    result.write_text(report(table, listed), encoding="utf-8")
    print(f"written: {result.relative_to(FOLDER.parent)}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
