"""test-bite over real tests: ``benchmarks/test_bite.py CLONE...``.

First, real tests of each clone are made hollow by rewriting, in five ways in turn: claims compare
something with itself, or with a value taken from the code just before; a mock is asked; failures
are caught; claims are not reached. They are added as one commit on a copy of the clone, and each
must be named. Then real commits that add or change tests are judged: every finding of severity
medium is listed, and is a false alarm unless a reader says otherwise. The Python that runs tests is
that of the first environment on the PATH, or of the clone. Nothing of the clones is kept.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_ci.change import change_set
from rlm_ci.checks import test_bite
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import Settings
from rlm_ci.errors import RlmCiError
from rlm_ci.git.repository import Repository, discover
from rlm_ci.guard import weaker
from rlm_ci.report.findings import Part, Severity
from rlm_ci.runs.store import RunStore
from rlm_ci.trials import bite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rlm_ci.change.change_set import ChangeSet

SEED = 7
#: Hollow tests of a hundred that must be named, commits that may have a false alarm, runs.
NAMED, FALSE_ALARMS, RUNS = 95, 2, 4
#: Commits that are looked at, the newest, and touched tests of one.
_NEWEST, _MOST_TESTS = 250, 25
#: Ends of files whose tests are run.
_SOURCES = (".py", ".go", ".rs", ".js", ".mjs", ".cjs", ".ts", ".tsx")
_Function = ast.FunctionDef
#: What fails a test besides its claims, or makes it another kind of test.
_BESIDES = re.compile(r"\braise|\bfail\(|yield")


# ── tests made hollow ──


class _Equality(ast.NodeTransformer):
    """Rewrites each claim that two things are equal."""

    def __init__(self, way: Callable[[ast.expr, ast.expr], list[ast.stmt]]) -> None:
        self._way = way

    def visit_Assert(self, node: ast.Assert) -> list[ast.stmt]:
        sides = _sides(node)
        return self._way(*sides) if sides else [node]

    def visit_Expr(self, node: ast.Expr) -> list[ast.stmt]:
        sides = _sides(node)
        return self._way(*sides) if sides else [node]


def _sides(node: ast.stmt) -> tuple[ast.expr, ast.expr] | None:
    """The two expressions that a claim says are equal, the one with a call first."""
    pair = None
    if isinstance(node, ast.Assert) and isinstance(node.test, ast.Compare):
        if len(node.test.ops) == 1 and isinstance(node.test.ops[0], ast.Eq):
            pair = node.test.left, node.test.comparators[0]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        name = getattr(node.value.func, "attr", "")
        if (
            name in ("assertEqual", "assertListEqual", "assertDictEqual")
            and len(node.value.args) > 1
        ):
            pair = node.value.args[0], node.value.args[1]
    if pair and isinstance(pair[0], ast.Constant):
        pair = pair[1], pair[0]
    return pair


def _assert(left: str, right: str) -> ast.stmt:
    return ast.parse(f"assert {left} == {right}").body[0]


def _itself(left: ast.expr, _right: ast.expr) -> list[ast.stmt]:
    text = ast.unparse(left)
    return [_assert(text, text)]


def _of_product(left: ast.expr, _right: ast.expr) -> list[ast.stmt]:
    text = ast.unparse(left)
    return [*ast.parse(f"expected = {text}").body, _assert(text, "expected")]


def _mocked(_left: ast.expr, right: ast.expr) -> list[ast.stmt]:
    text = ast.unparse(right)
    made = f"from unittest.mock import Mock\nstand_in = Mock(return_value={text})"
    return [*ast.parse(made).body, _assert("stand_in()", text)]


def _swallowed(test: _Function) -> _Function:
    wrapped = ast.parse("try:\n    pass\nexcept Exception:\n    pass").body[0]
    assert isinstance(wrapped, ast.Try)
    wrapped.body = test.body
    test.body = [wrapped]
    return test


def _unreached(test: _Function, chance: random.Random) -> _Function:
    heads = ("for _case in ():", "if not test_cases:", "def check():", "while False:")
    head = chance.choice(heads)
    block = ast.parse(f"test_cases = [1]\n{head}\n    pass").body
    claims = [node for node in test.body if _sides(node)]
    holder = block[1]
    assert isinstance(holder, ast.For | ast.If | ast.FunctionDef | ast.While)
    holder.body = claims
    test.body = [*(node for node in test.body if node not in claims), *block]
    return test


WAYS = ("itself", "of the product", "mocked", "swallowed", "unreached")


def hollowed(test: _Function, way: str, chance: random.Random) -> _Function:
    """The test in one of five ways."""
    if way == "swallowed":
        return _swallowed(test)
    if way == "unreached":
        return _unreached(test, chance)
    if way == "mocked":  # a test of a mock does nothing else
        test.body = [node for node in test.body if _sides(node)]
    ways = {"itself": _itself, "of the product": _of_product, "mocked": _mocked}
    made = _Equality(ways[way]).visit(test)
    assert isinstance(made, _Function)
    return made


def _eligible(tree: ast.Module) -> Iterator[_Function]:
    """Functions of tests whose claims all say that two things are equal, at their top level."""
    names = Counter(node.name for node in ast.walk(tree) if isinstance(node, _Function))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for body in (tree.body, *(node.body for node in classes)):
        for node in body:
            if not isinstance(node, _Function) or not node.name.startswith("test"):
                continue
            if names[node.name] > 1:
                continue
            claims = [inner for inner in node.body if _sides(inner)]
            text = ast.unparse(node)
            others = text.count("assert") - sum(
                ast.unparse(each).count("assert") for each in claims
            )
            with_call = all(
                any(isinstance(inner, ast.Call) for inner in ast.walk(each)) for each in claims
            )
            if claims and not others and with_call and not _BESIDES.search(text):
                yield node


def make_hollow(
    clone: Path, wanted: int, first: int, chance: random.Random
) -> dict[str, tuple[str, int, str]]:
    """Rewrite so many tests of a work tree; path, line and way of each by its last name."""
    paths = [
        path
        for path in subprocess.run(["git", "ls-files", "*.py"], cwd=clone, check=True, text=True,
                                   capture_output=True).stdout.split("\n")
        if path and weaker.kind_of(path) == weaker.TEST and not path.endswith("conftest.py")
    ]  # fmt: skip
    chance.shuffle(paths)
    ways: dict[str, tuple[str, int, str]] = {}
    for path in paths:
        try:
            tree = ast.parse((clone / path).read_text("utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        tests = list(_eligible(tree))
        for test in chance.sample(tests, min(len(tests), 6)):
            if len(ways) == wanted or test.name in ways:
                continue
            way = WAYS[(first + len(ways)) % len(WAYS)]
            ways[test.name] = path, 0, way
            hollowed(test, way, chance)
        text = ast.unparse(ast.fix_missing_locations(tree))
        (clone / path).write_text(text, "utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, _Function) and ways.get(node.name, ("",))[0] == path:
                line = min([node.lineno, *(mark.lineno for mark in node.decorator_list)])
                ways[node.name] = path, line, ways[node.name][2]
        if len(ways) == wanted:
            break
    return ways


def _commit(clone: Path, message: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "core.hooksPath=/dev/null"]
    subprocess.run(["git", *who, "commit", "-qam", message], cwd=clone, check=True)


# ── judging ──


def judged(change: ChangeSet, minutes: float) -> Part:
    rows = (*CORE, *test_bite.OPTIONS)
    options = Settings(rows, {}, dict(os.environ))
    options.apply({"test_bite": {"minutes": minutes}}, "benchmark", rows)
    return test_bite.run(change, options, RunStore("", ""))


def opened(clone: Path) -> Repository:
    return Repository(*discover(os.fspath(clone)), os.environ)


def of_hollow(clones: list[Path], number: int, minutes: float, seed: int) -> tuple[int, int]:
    """How many hollow tests were named, of how many that pass."""
    chance = random.Random(seed)
    named, total = Counter[str](), Counter[str]()
    per_clone = -(-number // len(clones))
    for clone in clones:
        if total.total() >= number:
            break
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder).resolve() / clone.name
            subprocess.run(["git", "clone", "-q", clone, copy], check=True)
            for file in copy.rglob(
                "*test*.py"
            ):  # as ast writes them, so that only the rewritten tests differ
                try:
                    tree = ast.parse(file.read_text("utf-8"))
                except (SyntaxError, UnicodeDecodeError):
                    continue
                file.write_text(ast.unparse(tree), "utf-8")
            _commit(copy, "Format tests")
            ways = make_hollow(copy, per_clone, total.total(), chance)
            if not ways:
                continue
            _commit(copy, "Rework tests")
            repository = opened(copy)
            part = judged(change_set.from_commit(repository, "HEAD"), minutes)
            failing = {
                (where.path, where.line_start)
                for one in part.findings
                if "not-judged" in one.rule
                for where in one.evidence
            }
            hit = {
                (one.subject or "").rpartition("::")[2]: one.message
                for one in part.findings
                if one.rule.endswith("hollow-test")
            }
            left = Counter[str]()
            for name, (path, line, way) in ways.items():
                if (path, line) in failing:
                    left[way] += 1
                    continue
                total[way] += 1
                named[way] += name in hit
                if name not in hit:
                    print(f"  missed: {clone.name} {name} ({way})")
            print(f"{clone.name}: {part.summary}; not passing: {left.total()}", flush=True)
            if left:
                print("  ", next(one.message for one in part.findings if "judged" in one.rule))
    for way in WAYS:
        print(f"{way}: {named[way]} of {total[way]} named")
    return named.total(), total.total()


def _commits(clone: Path, chance: random.Random) -> list[str]:
    """Commits that add or change tests, in an order by chance."""
    log = subprocess.run(
        ["git", "log", "--no-merges", f"-{_NEWEST}", "--format=%x00%H", "--name-only", "HEAD"],
        cwd=clone, check=True, capture_output=True, text=True, errors="replace",
    ).stdout  # fmt: skip
    found = []
    for record in log.split("\0")[1:]:
        commit, *paths = record.split()
        kinds = {weaker.kind_of(path) for path in paths if path.endswith(_SOURCES)}
        if weaker.TEST in kinds and len(paths) < 20:
            found.append(commit)
    chance.shuffle(found)
    return found


def of_commits(
    clones: list[Path], number: int, minutes: float, seed: int, past: str = ""
) -> tuple[int, int, list[int]]:
    """Commits with a finding of medium or more, all judged ones, and the runs of each.

    Commits whose beginnings stand in ``past`` are left.
    """
    chance = random.Random(seed)
    orders = {
        clone: [commit for commit in _commits(clone, chance) if commit[:10] not in past]
        for clone in clones
    }
    alarms, done, lost = 0, 0, Counter[str]()
    runs: list[int] = []
    seconds: list[float] = []
    notes = Counter[str]()
    while done < number and any(orders.values()):
        for clone, order in orders.items():
            if not order or done >= number:
                continue
            commit, began = order.pop(), time.monotonic()
            try:
                part = judged(change_set.from_commit(opened(clone), commit), minutes)
            except RlmCiError as error:
                lost[error.what[:60]] += 1
                print(f"  left: {clone.name} {commit[:10]}: {error.what}", flush=True)
                continue
            tests, passing = part.metrics.get("tests", 0), part.metrics.get("judged", 0)
            if not passing or tests > _MOST_TESTS:
                lost["no touched test" if not tests else "no test passes here"] += 1
                why = next((one.message for one in part.findings if "judged" in one.rule), "")
                print(f"  left: {clone.name} {commit[:10]}: {why or part.summary}", flush=True)
                continue
            done += 1
            runs.append(part.metrics["runs"])
            notes.update(one.rule for one in part.findings if one.severity < Severity.MEDIUM)
            bad = [one for one in part.findings if one.severity >= Severity.MEDIUM]
            alarms += bool(bad)
            for one in bad:
                where = one.evidence[0] if one.evidence else None
                print(f"  {clone.name} {commit[:10]} {where and where.path}: {one.message}")
            seconds.append(time.monotonic() - began)
            print(f"{clone.name} {commit[:10]} {seconds[-1]:.0f} s: {part.summary}", flush=True)
    print(f"not judged: {dict(lost)}; information: {dict(notes)}")
    print(f"{statistics.median(seconds or [0]):.0f} s a commit in the median")
    return alarms, done, runs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", nargs="+", type=Path)
    parser.add_argument("-n", type=int, default=100, help="hollow tests, and commits")
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--lines", type=int, default=bite.MOST_LINES, help="that are broken")
    parser.add_argument("--only", choices=("hollow", "commits"))
    parser.add_argument("--but", nargs="+", type=Path, default=[], metavar="FILE",
                        help="what earlier runs printed: commits in there are left")  # fmt: skip
    given = parser.parse_args()
    bite.MOST_LINES = given.lines
    clones = [clone.resolve() for clone in given.clones]
    is_good = True
    if given.only != "commits":
        named, total = of_hollow(clones, given.n, given.minutes, given.seed)
        is_good = named * 100 >= NAMED * total
        print(f"hollow: {named} of {total} named (at least {NAMED} of 100)")
    if given.only != "hollow":
        past = "".join(file.read_text("utf-8") for file in given.but)
        alarms, done, runs = of_commits(clones, given.n, given.minutes, given.seed, past)
        median = statistics.median(runs or [0])
        is_good = is_good and alarms * 100 <= FALSE_ALARMS * done and median <= RUNS
        print(f"real: {alarms} of {done} commits with an alarm (at most {FALSE_ALARMS} of 100 false"
              f"); {median} runs in the median, {max(runs or [0])} at most")  # fmt: skip
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
