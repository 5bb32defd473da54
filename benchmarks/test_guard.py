"""test-guard over the last commits of a clone: ``python benchmarks/test_guard.py CLONE...``.

Every commit that is no merge is compared with its parent. All alarms are listed. Whether one is
false stands in ``test_guard_judged.tsv``: commit, rule, true or false, why.
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

from rlm_ci.change import change_set
from rlm_ci.checks import test_guard
from rlm_ci.config.settings import Settings
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report.findings import Finding, Severity
from rlm_ci.runs.store import RunStore

FOLDER = Path(__file__).resolve().parent
JUDGED = FOLDER / "test_guard_judged.tsv"
#: Commits of a hundred that may have a false alarm.
TARGET = 3.0
METHOD = (
    "A false alarm is one that a reviewer need not have seen; at most {:g} % of the commits may "
    "have one. An alarm without a verdict counts as false. Alarms with the same reason for true "
    "were entered together: most of their diffs were read, not all. So the share of false alarms "
    "is at least the one shown."
)


def commits(clone: Path, count: int) -> list[str]:
    command = ["git", "-C", str(clone), "rev-list", "--no-merges", f"-n{count}", "HEAD"]
    return subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()


def alarms(repository: Repository, commit: str) -> list[Finding]:
    """The findings of a commit that are more than told."""
    change = change_set.from_commit(repository, commit)
    runs = RunStore("", "")
    part = test_guard.run(change, Settings(test_guard.OPTIONS, {}), runs)
    return [one for one in part.findings if one.severity > Severity.INFO]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", nargs="+", type=Path, help="a clone, bare or not")
    parser.add_argument("-n", "--commits", type=int, default=200)
    parser.add_argument("--print", action="store_true", help="only print the alarms")
    arguments = parser.parse_args()
    judged = {}
    if JUDGED.exists():
        for row in JUDGED.read_text(encoding="utf-8").splitlines()[1:]:
            commit, rule, verdict, why = row.split("\t")
            judged[commit, rule] = (verdict, why)
    table, listed, held = [], [], True
    for clone in arguments.clones:
        root, folder = discover(str(clone))
        repository = Repository(root, folder, {})
        wanted = commits(clone, arguments.commits)
        name = clone.resolve().parent.name.replace("+", "/") if clone.name == "repo" else clone.name
        seconds, found = [], Counter[str]()
        for commit in wanted:
            start = time.perf_counter()
            told = alarms(repository, commit)
            seconds.append(time.perf_counter() - start)
            verdicts = set()
            for one in told:
                rule = one.rule.partition("/")[2]
                verdict, why = judged.get((commit[:12], rule), ("unjudged", ""))
                verdicts.add(verdict)
                place = one.evidence[0].path if one.evidence else ""
                listed.append((name, commit[:12], rule, place, one.message, verdict, why))
            found["alarmed"] += bool(told)
            found["false"] += bool(verdicts - {"true"})
        share = 100 * found["false"] / len(wanted)
        held = held and share <= TARGET
        table.append(
            f"| {name} | {len(wanted)} | {found['alarmed']} | {found['false']} ({share:.1f} %) | "
            f"{statistics.median(seconds) * 1000:.0f} ms | {max(seconds) * 1000:.0f} ms |"
        )
        print(table[-1], flush=True)
    if arguments.print:
        for alarm in listed:
            print(*alarm, sep="\t")
        return 0 if held else 1
    lines = [
        "# test-guard over the commits of libraries", "", __doc__ or "", "",
        METHOD.format(TARGET), "",
        "| library | commits | with an alarm | with a false one | median | longest |",
        "|---|---|---|---|---|---|", *table, "", "## The alarms", "",
        "| commit | rule | message | judged | why |", "|---|---|---|---|---|",
    ]  # fmt: skip
    for name, commit, rule, _, message, verdict, why in listed:
        said = message.replace("|", "\\|").replace("`", "'")
        lines.append(f"| {name} {commit} | {rule} | `{said[:150]}` | {verdict} | {why} |")
    result = FOLDER / "results" / "test_guard.md"
    result.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"written: {result.relative_to(FOLDER.parent)}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
