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
TARGET = 1.0
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
    "The comparison was mended on the commits below, so the table is better than what to expect. "
    "What to expect elsewhere comes from repositories that had shown nothing before: each was "
    "measured once, 200 commits, four repositories at a time, and what they showed was mended "
    "after each four. "
    "Commits with a false alarm, of 800 each: attrs 9, axios 2, gin 4, ripgrep 0 (15, 1.9 %); "
    "werkzeug 6, redux-toolkit 11, chi 1, serde_json 3 (21, 2.6 %); rich 0, zod 4, urfave/cli 0, "
    "hyper 3 (7, 0.9 %); django-rest-framework 2, got 6, testify 4, regex 0 (12, 1.5 %); "
    "pytest-asyncio 2, date-fns 2, zerolog 5, rayon 4 (13, 1.6 %); marshmallow 1, execa 9, pflag "
    "0, reqwest 3 (13, 1.6 %); immer 5, jsonschema 3, mux 8, toml 11 (27, 3.4 %); packaging 4, "
    "jotai 5, echo 7, http 3 (19, 2.4 %): 127 of 6,400 (2.0 %). Before these, twelve others showed "
    "52 of 2,400 (2.2 %). Since what people wrote is told where another part of the change speaks "
    "for it: anyio 2, commander.js 4, logrus 9, chrono 1 (16, 2.0 %); uvicorn 2, hono 0, zap 2, "
    "axum 1 (5, 0.6 %); arrow 8, valtio 2, validator 0, itertools 1 (11, 1.4 %); yarl 2, yargs 2, "
    "websocket 4, indexmap 2 (10, 1.3 %); typeguard 5, h3 3, prometheus/common 0, uuid 4 (12, "
    "1.5 %): 54 of 4,000 (1.4 %), of the last four sets 38 of 3,200 (1.2 %). Since settings are "
    "compared by what they ask for, and checks by what they do: fsnotify 10, jsoup 3, koa 3, "
    "structlog 1 (17, 2.1 %); bytes 1, gson 4, nanostores 3, pydantic-settings 2 (10, 1.3 %); "
    "crossbeam 6, filelock 8, resty 1, signals 4 (19, 2.4 %); afero 1, commons-csv 3, nanoid 1, "
    "platformdirs 1 (6, 0.8 %); anyhow 0, cast 7, loguru 3, p-queue 1 (11, 1.4 %); avvio 4, "
    "bitflags 1, kong 2, more-itertools 3 (10, 1.3 %): 73 of 4,800 (1.5 %). The first of these "
    "sets was measured before any of that, each other with what the sets before it had shown "
    "mended, but for the fifth, which had the program of the fourth. The target of 1 % is met by "
    "one set, and not reached by all: repositories differ, and thirteen of these twenty-four had "
    "more than 1 %. Of the 73, 41 are about tests that are gone or ask for less. What was mended "
    "costs six of the 407 true alarms on the 39 libraries before: five are comments for pyright in "
    "one commit, which was set up before and starts it. Two more, of a commit in which "
    "golangci-lint is new, are judged anew. With that program, unchanged: caarlos0/env 2, "
    "pypa/build 5, qs 0, semver 2 (9, 1.1 %); lo 2, pexpect 2, node-lru-cache 7, rand 3 (14, "
    "1.8 %); gjson 2, humanize 4, pino 3, smallvec 0 (9, 1.1 %): 32 of 2,400 (1.3 %). With what "
    "these showed mended, without a true alarm of theirs lost: pytest-mock 2, postcss 0, "
    "mapstructure 0, thiserror 2 (4 of 800, 0.5 %)."
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
