"""description over real commits, true and made false: ``benchmarks/description.py CLONE...``.

For as many commits as ``-n`` says, spread over the clones, each message is judged as it is, and
once more after it was made false: an invented name, less than the change does, or a placeholder, in
turn. A false one counts as named if the check has any remark; a true one must have none. All
remarks on true ones are listed. Nothing of the clones is kept.
"""

from __future__ import annotations

import argparse
import random
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_ci.change import change_set
from rlm_ci.change.commit_messages import CommitMessage
from rlm_ci.checks import description
from rlm_ci.config.settings import Settings
from rlm_ci.git.repository import Repository, discover
from rlm_ci.runs.store import RunStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.report.findings import Finding

SEED = 22
#: False messages of a hundred that must be named, and true ones that may be.
NAMED, FALSE_ALARMS = 80, 1
#: Lines of code outside of tests from which on a message that speaks of little is false.
_MUCH = 20
_CODE = (".py", ".js", ".mjs", ".ts", ".tsx", ".go", ".rs", ".java", ".rb", ".c", ".h", ".cpp")
_LITTLE = (
    "Fix typo", "docs: fix typo in README", "Update documentation", "Minor cleanup", "Reformat",
    "style: fix lint", "Fix a few typos in comments", "Docs only", "Bump version to 2.4.1",
    "chore: documentation only changes", "Small wording changes", "Update README.md",
)  # fmt: skip
_PLACEHOLDERS = (
    "update", "fix", "wip", "Changes", "fix bug", "Update code", "misc", "minor changes", "...",
    "Describe your changes here", "TODO", "bug fixes", "[Title]\n\n<!-- Describe your changes -->",
    "Various fixes", "Work in progress", "small fix",
)  # fmt: skip
_FIRST = ("adaptive", "nested", "lazy", "stale", "shadow", "rolling", "warm", "pending", "orphan")
_SECOND = ("retry", "ledger", "shard", "beacon", "quorum", "courier", "harbor", "lantern", "pivot")
_THIRD = ("window", "budget", "policy", "gate", "registry", "probe", "bridge", "mapper", "guard")


def invented(source: random.Random, name: str = "") -> str:
    """A name in the style of ``name`` that no repository has."""
    words = [source.choice(group) for group in (_FIRST, _SECOND, _THIRD)]
    if "/" in name:
        return f"{name.rpartition('/')[0]}/{'_'.join(words)}.{name.rpartition('.')[2] or 'py'}"
    if name[:1].isupper() and "_" not in name:
        return "".join(word.title() for word in words)
    return "_".join(words)


def with_invented_name(text: str, source: random.Random) -> str:
    """``text`` with its first name in backticks replaced, or with a claim of one more."""
    ticked = re.search(r"`([\w./]{4,60})`", text)
    if ticked:
        name = ticked[1]
        return text.replace(f"`{name}`", f"`{invented(source, name)}`")
    name = invented(source)
    claim = source.choice((
        f"Add `{name}` and use it in the new code path", f"Introduce {name}() for the slow case",
        f"Adds the option `{name}`", f"Rename `{invented(source)}` to `{name}`",
        f"- Added tests in `tests/test_{name}.py`", f"Remove the unused helper `{name}`",
        f"Fix `{name}` when the input is empty",
    ))  # fmt: skip
    subject, _, body = text.partition("\n")
    return source.choice((f"{claim}\n{body}", f"{subject}\n\n{claim}\n{body}"))


def lines_of_code(clone: Path, commit: str) -> int:
    """The changed lines in source files outside of tests, as git counts them."""
    command = ["git", "-C", str(clone), "show", "--numstat", "--format=", "--no-renames", commit]
    printed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    rows = [row.split("\t") for row in printed.splitlines() if row.count("\t") == 2]
    return sum(
        int(added) + int(deleted)
        for added, deleted, path in rows
        if added != "-" and path.endswith(_CODE) and not re.search(r"test|spec", path)
    )


def judged(change: ChangeSet, text: str | None = None) -> tuple[Finding, ...]:
    """The remarks on a commit, with ``text`` as its message if that is another."""
    if text is not None:
        (original,) = change.messages
        other = change.replace()
        other.__dict__["messages"] = (
            CommitMessage(original.commit, original.author, original.email, text),
        )
        change = other
    return description.run(change, Settings((), {}), RunStore("", "")).findings


def sampled(clones: list[Path], number: int, source: random.Random) -> Iterator[tuple[Path, str]]:
    """Commits of the clones in turn, at random."""
    pools = []
    for clone in clones:
        command = ["git", "-C", str(clone), "rev-list", "--no-merges", "HEAD"]
        commits = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split()
        source.shuffle(commits)
        pools.append((clone, commits))
    at = 0
    while number and any(commits for _, commits in pools):
        clone, commits = pools[at % len(pools)]
        at += 1
        if commits:
            number -= 1
            yield clone, commits.pop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", nargs="+", type=Path)
    parser.add_argument("-n", "--commits", type=int, default=100)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument(
        "--missed", action="store_true", help="list false messages without a remark"
    )
    arguments = parser.parse_args()
    source = random.Random(arguments.seed)
    repositories = {clone: Repository(*discover(str(clone)), {}) for clone in arguments.clones}
    alarms, seconds = 0, []
    totals, hits = Counter[str](), Counter[str]()
    kinds = ("invented", "undersaid", "placeholder")
    true = 0
    pool = sampled(arguments.clones, 20 * arguments.commits, source)
    for clone, commit in pool:
        if true >= arguments.commits and totals.total() >= arguments.commits:
            break
        change = change_set.from_commit(repositories[clone], commit)
        text = change.messages[0].text
        if true < arguments.commits:
            true += 1
            start = time.perf_counter()
            remarks = judged(change)
            seconds.append(time.perf_counter() - start)
            alarms += bool(remarks)
            for remark in remarks:
                subject = text.partition("\n")[0][:60]
                print(f"true: {clone.name} {commit[:12]} {subject!r}: {remark.message}")
        kind = kinds[totals.total() % len(kinds)]
        if totals.total() >= arguments.commits:
            continue
        if kind == "undersaid":
            if lines_of_code(clone, commit) < _MUCH:
                continue
            false = source.choice(_LITTLE)
        elif kind == "placeholder":
            false = source.choice(_PLACEHOLDERS)
        else:
            false = with_invented_name(text, source)
        totals[kind] += 1
        is_named = bool(judged(change, false))
        hits[kind] += is_named
        if arguments.missed and not is_named:
            print(f"missed: {clone.name} {commit[:12]} {kind}: {false[:200]!r}")
    for kind in kinds:
        print(f"{kind}: {hits[kind]} of {totals[kind]} named")
    total = totals.total()
    print(f"false messages: {hits.total()} of {total} named (target {NAMED} of 100)")
    print(f"true messages: {alarms} of {true} with a remark (target {FALSE_ALARMS} of 100)")
    print(f"median {sorted(seconds)[len(seconds) // 2] * 1000:.0f} ms a commit")
    is_good = hits.total() * 100 >= NAMED * total and alarms * 100 <= FALSE_ALARMS * true
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
