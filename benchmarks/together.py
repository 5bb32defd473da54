"""``rlm-ci together`` on pairs made of real commits: ``benchmarks/together.py CLONE...``.

Each pair is two branches of one base in a scratch clone. Semantic: a real commit that begins to
use a public name, beside a change that renames it everywhere, gives it one more required argument,
or moves its file. Duplicates: a real commit that adds a public name, beside one that adds the same
one elsewhere in the file; and two real commits whose messages close one issue. Lost hunks: a real
commit whose merge of a later base is clean, but for one hunk that the merge drops. Harmless: two
real commits of the same history, of which the later one can be picked onto the base of the earlier
one; every fourth has also merged the base. What is a pair is decided by git and by patterns, not by
the readers of rlm-ci. At last the time of 50 branches, beside a ``git merge-tree`` of all pairs.
Nothing is written to the clones.
"""

from __future__ import annotations

import argparse
import difflib
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rlm_ci.git.repository import Repository, discover
from rlm_ci.together.compare import compare
from rlm_ci.together.pull_requests import of_branches

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlm_ci.report.findings import Finding, Part

SEED = 22
SEMANTIC, DUPLICATES, LOST, HARMLESS, NAMED = 20, 20, 10, 40, 45
#: Branches of the measurement of time.
OPEN = 50
_ENDS = (".py", ".go", ".ts", ".tsx", ".js", ".rs")
_BESIDE = re.compile(r"(^|/)(docs?|examples?|bench(mark)?s?|vendor|scripts)/|test|spec")
#: A public definition at the top of a file, by the end of its name.
_ARGUMENTS = r"\((?P<rest>.*)"
_DEFINITIONS = {
    ".py": r"^(?:async )?def (?P<name>[a-z]\w{3,})ARGS|^class (?P<type>[A-Z]\w{3,})\b",
    ".go": r"^func (?P<name>[A-Z]\w{3,})ARGS|^type (?P<type>[A-Z]\w{3,}) (?:struct|interface)",
    ".ts": r"^export (?:async )?function (?P<name>\w{4,})ARGS|"
           r"^export (?:class|const) (?P<type>\w{4,})",
    ".rs": r"^pub fn (?P<name>\w{4,})ARGS|^pub (?:struct|enum|trait) (?P<type>\w{4,})",
}  # fmt: skip
_DEFINITIONS = {end: text.replace("ARGS", _ARGUMENTS) for end, text in _DEFINITIONS.items()}
#: Any definition of a name, at whatever depth.
_ANY_DEFINITION = (
    r"^\s*(?:export |pub |async |public |static )*"
    r"(?:def|func|function|fn|class|type|struct|const) (?:\([^)]*\) )?"
)
_DEFINITIONS[".tsx"] = _DEFINITIONS[".js"] = _DEFINITIONS[".ts"]
_FIRST = {".py": "extra", ".go": "extra int", ".ts": "extra: number", ".tsx": "extra: number",
          ".js": "extra", ".rs": "extra: u32"}  # fmt: skip


class Scratch:
    """A clone that borrows the objects of another, for branches of ours."""

    def __init__(self, clone: Path, folder: Path, source: random.Random) -> None:
        self.path = folder / re.sub(r"\W", "-", str(clone))
        options = ("-q", "--shared", "--no-checkout")
        subprocess.run(["git", "clone", *options, str(clone), str(self.path)], check=True)
        self.name = clone.parent.name if clone.name == "repo" else clone.name
        self.repository = Repository(*discover(str(self.path)), {})
        self.commits = self.git("rev-list", "--no-merges", "--max-count=1500", "HEAD").split()
        self.order = {commit: at for at, commit in enumerate(self.commits)}
        self.shuffled = list(self.commits)
        source.shuffle(self.shuffled)

    def git(self, *words: str, stdin: str = "", env: Mapping[str, str] | None = None) -> str:
        """The output of git; raises CalledProcessError."""
        roles = ("AUTHOR", "COMMITTER")
        who = {f"GIT_{role}_NAME": "bench" for role in roles}
        who |= {f"GIT_{role}_EMAIL": "bench@example.invalid" for role in roles}
        ended = subprocess.run(
            ["git", "-C", str(self.path), *words], input=stdin.encode("utf-8", "surrogateescape"),
            capture_output=True, check=True, env={**os.environ, **who, **(env or {})},
        )  # fmt: skip
        return ended.stdout.decode("utf-8", "surrogateescape")

    def parent(self, commit: str) -> str:
        parents = self.git("rev-list", "--parents", "-1", commit).split()[1:]
        return parents[0] if len(parents) == 1 else ""

    def file(self, commit: str, path: str) -> str | None:
        try:
            return self.git("cat-file", "blob", f"{commit}:{path}")
        except subprocess.CalledProcessError:
            return None

    def files(self, commit: str) -> list[str]:
        """The changed paths of a commit in languages that are tried."""
        rows = self.git("diff-tree", "-r", "--no-commit-id", "--name-only", commit).split("\n")
        return [path for path in rows if path.endswith(_ENDS)]

    def added(self, commit: str, path: str) -> list[tuple[int, str]]:
        """The lines that a commit adds to a file, with their numbers; none that came with it.

        A merge follows a file that was renamed: its old lines are no new uses.
        """
        patch = self.git("show", "--format=", "-U0", "-M", commit)
        lines, number, is_it = [], 0, False
        for row in patch.split("\n"):
            if row.startswith("+++ "):
                is_it = row == f"+++ b/{path}"
            elif start := re.match(r"@@ -\S+ \+(\d+)", row):
                number = int(start[1])
            elif is_it and row.startswith("+"):
                lines.append((number, row[1:]))
                number += 1
        return lines

    def commit(
        self, files: Mapping[str, str | None], parents: list[str], message: str, tree: str = ""
    ) -> str:
        """A commit of the tree of the first parent (or ``tree``) with other files."""
        index = {"GIT_INDEX_FILE": str(self.path / "bench-index")}
        self.git("read-tree", tree or parents[0], env=index)
        for path, content in files.items():
            if content is None:
                self.git("update-index", "--force-remove", "--", path, env=index)
            else:
                blob = self.git("hash-object", "-w", "--stdin", stdin=content).strip()
                self.git("update-index", "--add", "--cacheinfo", f"100644,{blob},{path}", env=index)
        written = self.git("write-tree", env=index).strip()
        options = [word for parent in parents for word in ("-p", parent)]
        return self.git("commit-tree", written, *options, stdin=message).strip()

    def merged(self, one: str, two: str) -> str:
        """The tree of a merge, "" for a conflict."""
        try:
            return self.git("merge-tree", "--write-tree", "--no-messages", one, two).split("\n")[0]
        except subprocess.CalledProcessError:
            return ""

    def picked(self, commit: str, base: str, message: str = "") -> str:
        """``commit`` on ``base``, "" where git cannot pick it."""
        parent = self.parent(commit)
        if not parent:
            return ""
        side = self.commit({}, [parent], "Base", tree=base)
        tree = self.merged(side, commit)
        if not tree or tree == self.git("rev-parse", f"{base}^{{tree}}").strip():
            return ""
        text = message or self.git("log", "-1", "--format=%B", commit)
        return self.commit({}, [base], text, tree=tree)

    def compared(self, base: str, *commits: str) -> Part:
        for number, commit in enumerate(commits):
            self.git("update-ref", f"refs/heads/bench/{number}", commit)
        names = [f"bench/{number}" for number in range(len(commits))]
        return compare(self.repository, of_branches(self.repository, names, base, "benchmark"))


@dataclass
class Pair:
    """Two branches of a base, and what must be named: a word of the message, and some rules."""

    scratch: Scratch
    kind: str
    base: str
    sides: tuple[str, str]
    word: str
    rules: tuple[str, ...]
    #: Lines of the file ``word`` that a finding must be about; git may cut a hunk a bit elsewhere.
    lines: tuple[int, int] = (0, 0)

    def findings(self) -> tuple[Finding, ...]:
        return self.scratch.compared(self.base, *self.sides).findings

    def is_named(self) -> bool:
        return any(
            finding.rule.partition("/")[2] in self.rules
            and self.word in finding.message
            and (not self.lines[1] or self._is_about(finding.message))
            for finding in self.findings()
        )

    def _is_about(self, message: str) -> bool:
        match = re.search(rf"{re.escape(self.word)}:(\d+)(?:-(\d+))? of ", message)
        first, last = self.lines
        return match is not None and int(match[1]) <= last and int(match[2] or match[1]) >= first


def definitions(text: str, end: str) -> Iterator[tuple[int, str, re.Match[str]]]:
    """The public definitions at the top of a text: line number, name and the match."""
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(_DEFINITIONS[end], line)
        if match and not (match["name"] or match["type"]).startswith("_"):
            yield number, match["name"] or match["type"], match


def holders(scratch: Scratch, commit: str, word: str) -> list[str]:
    """The files of a commit with a word, of all languages."""
    try:
        rows = scratch.git("grep", "-l", "-w", "-F", "-I", word, commit).split("\n")
    except subprocess.CalledProcessError:
        return []
    return [row.removeprefix(f"{commit}:") for row in rows if row]


def semantic(scratch: Scratch, commit: str, kind: str) -> Pair | None:
    """A commit that begins to use a name, beside one that takes it away."""
    base = scratch.parent(commit)
    for path in scratch.files(commit) if base else ():
        text = code("\n".join(line for _, line in scratch.added(commit, path)))
        for word in dict.fromkeys(re.findall(r"\b([A-Za-z]\w{3,})\(", text)):
            if re.search(rf"(def|func|function|fn|class|type) {word}\b", text):
                continue
            inside = holders(scratch, base, word)
            end = Path(path).suffix
            defining = []
            for other in inside:
                content = scratch.file(base, other) or ""
                pattern = rf"{_ANY_DEFINITION}{word}\b"
                defining += [other] * len(re.findall(pattern, content, re.MULTILINE))
            if len(defining) != 1 or defining[0] == path or Path(defining[0]).suffix != end:
                continue
            definer = defining[0]
            if _BESIDE.search(definer) or len(inside) > 40:
                continue
            content = scratch.file(base, definer) or ""
            target = [row for row in definitions(content, end) if row[1] == word]
            if not target or not _leads(scratch.file(commit, path) or "", path, definer, end, word):
                continue
            number, _, match = target[0]
            files = _taken(scratch, base, Target(definer, word, number, match, inside), kind)
            if files is None or (kind == "moved" and not _imports_anew(text, definer)):
                continue
            taker = scratch.commit(files, [base], f"Take {word} away")
            if scratch.merged(taker, commit):
                shown = definer if kind == "moved" else word
                return Pair(scratch, kind, base, (taker, commit), shown, ("removed", "changed"))
    return None


def code(text: str) -> str:
    """A text without what looks like strings and comments; imports keep theirs."""
    lines = (line for line in text.split("\n") if not re.match(r"\s*(#|//|\*|/\*)", line))
    return "\n".join(
        line if re.match(r"\s*(import|from|export)\b|.*\bfrom ['\"]", line)
        else re.sub(r"\"[^\"\n]*\"|'[^'\n]*'|`[^`\n]*`|\s//.*|\s# .*", '""', line)
        for line in lines
    )  # fmt: skip


def _imports_anew(text: str, definer: str) -> bool:
    """Whether new lines import a module: who moves it cannot have changed these."""
    stem = Path(definer).stem
    pattern = rf"from ['\"][^'\"]*/{stem}(\.\w+)?['\"]|from [\w.]*\b{stem} import"
    return re.search(pattern, text) is not None


def _leads(text: str, path: str, definer: str, end: str, word: str) -> bool:
    """Whether a file imports the definition, as far as a pattern can see."""
    stem = Path(definer).stem
    if end == ".go":
        same = str(Path(path).parent) == str(Path(definer).parent)
        return same or f'/{Path(definer).parent.name}"' in text
    if end == ".rs":
        return re.search(rf"\b{stem}\b|\b{word}\b", text) is not None
    pattern = rf"import[^;]*\b{word}\b|\b{stem}\.{word}\(" if end != ".py" else (
        rf"from [\w.]*\b{stem} import[^=]*?\b{word}\b|\b{stem}\.{word}\("
    )  # fmt: skip
    return re.search(pattern, text) is not None


@dataclass
class Target:
    """A definition in a file of a base, and the files that have its name."""

    definer: str
    word: str
    number: int
    match: re.Match[str]
    inside: list[str]


def _taken(scratch: Scratch, base: str, target: Target, kind: str) -> dict[str, str | None] | None:
    """The files after a name was renamed everywhere, changed, or moved with its file."""
    definer, word, number, match = target.definer, target.word, target.number, target.match
    end = Path(definer).suffix
    content = scratch.file(base, definer) or ""
    if kind == "renamed":
        texts = {path: scratch.file(base, path) or "" for path in target.inside}
        return {path: re.sub(rf"\b{word}\b", f"{word}Anew", text) for path, text in texts.items()}
    if kind == "changed":
        if not match["name"]:
            return None
        lines = content.split("\n")
        rest = match["rest"]
        comma = "" if rest.startswith(")") else ", "
        head = lines[number - 1][: len(lines[number - 1]) - len(rest)]
        lines[number - 1] = f"{head}{_FIRST[end]}{comma}{rest}"
        return {definer: "\n".join(lines)}
    if end in (".go", ".rs") or Path(definer).stem in ("__init__", "index", "mod", "lib"):
        return None
    moved = str(Path(definer).with_name(f"{Path(definer).stem}_anew{end}"))
    return {definer: None, moved: content}


def twice(scratch: Scratch, commit: str) -> Pair | None:
    """A commit that adds a public name, beside one that adds it at the other end of the file."""
    base = scratch.parent(commit)
    for path in scratch.files(commit) if base else ():
        before, after = scratch.file(base, path), scratch.file(commit, path)
        if before is None or after is None or _BESIDE.search(path):
            continue
        end = Path(path).suffix
        numbers = {number for number, _ in scratch.added(commit, path)}
        known = {name for _, name, _ in definitions(before, end)}
        for number, name, match in definitions(after, end):
            if number not in numbers or name in known or not match["name"]:
                continue
            if re.search(rf"\b{name}\b", before):
                continue
            again = _made_anew(name, end)
            lines = before.rstrip("\n").split("\n")
            text = "\n".join((*lines, "", "", again, "")) if number < len(lines) * 0.7 else ""
            if not text:
                return None
            other = scratch.commit({path: text}, [base], f"Add {name} as well")
            if scratch.merged(other, commit):
                return Pair(scratch, "twice", base, (commit, other), f"`{name}`", ("added-twice",))
    return None


def _made_anew(name: str, end: str) -> str:
    """Another definition of a name."""
    return {
        ".py": f"def {name}(value):\n    return value",
        ".go": f"func {name}(value int) int {{\n\treturn value\n}}",
        ".rs": f"pub fn {name}(value: u32) -> u32 {{\n    value\n}}",
    }.get(end, f"export function {name}(value) {{\n  return value\n}}")


def one_issue(scratch: Scratch, first: str, second: str, source: random.Random) -> Pair | None:
    """Two commits that close one issue in other words."""
    pair = harmless(scratch, first, second)
    if pair is None:
        return None
    issue = source.randrange(10_000, 99_999)
    words = source.sample(["Fixes #{}", "closes: #{}", "This resolves #{}.", "(fix #{})"], 2)
    sides = tuple(
        scratch.commit({}, [pair.base], f"{scratch.git('log', '-1', '--format=%s', side).strip()}"
                       f"\n\n{word.format(issue)}\n", tree=side)
        for side, word in zip(pair.sides, words, strict=True)
    )  # fmt: skip
    return Pair(scratch, "issue", pair.base, (sides[0], sides[1]), f"#{issue}", ("same-issue",))


def harmless(scratch: Scratch, first: str, second: str) -> Pair | None:
    """Two commits of one history, both on the base of the first, that merge cleanly."""
    base = scratch.parent(first)
    if not base or not scratch.files(first) or not scratch.files(second):
        return None
    other = scratch.picked(second, base)
    if not other or not scratch.merged(first, other):
        return None
    return Pair(scratch, "harmless", base, (first, other), "", ())


def lost(scratch: Scratch, first: str, second: str) -> Pair | None:
    """A branch whose merge of the base drops one hunk of it."""
    base = scratch.parent(first)
    trunk = scratch.picked(second, base) if base else ""
    tree = scratch.merged(trunk, first) if trunk else ""
    if not tree:
        return None
    for path in scratch.files(first):
        before, after = scratch.file(base, path), scratch.file(first, path)
        if before is None or after is None or scratch.file(trunk, path) != before:
            continue
        old, new = before.split("\n"), after.split("\n")
        opcodes = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
        for tag, start, stop, new_start, new_stop in opcodes:
            added = new[new_start:new_stop]
            telling = [line for line in added if len(re.findall(r"\w", line)) > 9]
            if tag == "equal" or not telling or any(line in old for line in telling):
                continue
            if any(new.count(line) > 1 for line in telling):
                continue
            content = "\n".join((*new[:new_start], *old[start:stop], *new[new_stop:]))
            merge = scratch.commit({path: content}, [first, trunk], "Merge the base", tree=tree)
            size = new_stop - new_start
            lines = new_start + 1 - size, new_stop + size
            return Pair(scratch, "lost", trunk, (merge, trunk), path, ("lost-hunk",), lines)
    return None


def with_merge(pair: Pair) -> Pair:
    """A harmless pair, of which one branch has merged a base that went on."""
    scratch = pair.scratch
    trunk = scratch.commit({"bench-base.txt": "on\n"}, [pair.base], "The base goes on")
    tree = scratch.merged(pair.sides[0], trunk)
    merge = scratch.commit({}, [pair.sides[0], trunk], "Merge the base", tree=tree)
    return Pair(scratch, "harmless", trunk, (merge, pair.sides[1]), "", ())


def later(scratch: Scratch, commit: str, source: random.Random) -> str:
    """A commit up to 30 after another one, "" for the last."""
    at = scratch.order[commit]
    return scratch.commits[max(0, at - source.randint(1, 30))] if at else ""


def collected(scratches: list[Scratch], source: random.Random) -> Iterator[Pair]:
    """The pairs of all kinds, the clones in turn."""
    left = Counter(semantic=SEMANTIC, twice=DUPLICATES // 2, issue=DUPLICATES // 2, lost=LOST,
                   harmless=HARMLESS)  # fmt: skip
    at, empty = 0, 0
    used = Counter[tuple[str, str]]()
    while left.total() and empty < 6000:
        scratch = scratches[at % len(scratches)]
        at += 1
        empty += 1
        if not scratch.shuffled:
            continue
        first = scratch.shuffled.pop()
        second = later(scratch, first, source)
        for name in [name for name in left if left[name]]:
            share = {"semantic": SEMANTIC, "harmless": HARMLESS}.get(name, 10) / len(scratches)
            if used[scratch.name, name] > 2 * share:
                continue
            try:
                pair = _made(name, scratch, (first, second), left[name], source)
            except subprocess.CalledProcessError:  # a submodule, or a path that is no file
                pair = None
            if pair is not None:
                left[name] -= 1
                used[scratch.name, name] += 1
                empty = 0
                yield pair
                break


def _made(
    name: str, scratch: Scratch, commits: tuple[str, str], left: int, source: random.Random
) -> Pair | None:
    """A pair of a kind, of which ``left`` are still to be made; None for none of these commits."""
    first, second = commits
    kind = ("renamed", "changed", "moved")[left % 3]
    if name == "semantic":
        return semantic(scratch, first, kind) or semantic(scratch, first, "renamed")
    if name == "twice":
        return twice(scratch, first)
    if not second:
        return None
    if name == "issue":
        return one_issue(scratch, first, second, source)
    if name == "lost":
        return lost(scratch, first, second)
    pair = harmless(scratch, first, second)
    return with_merge(pair) if pair and left % 4 == 0 else pair


def timed(scratch: Scratch, source: random.Random) -> tuple[int, float, float]:
    """How many branches; seconds of the comparison, and of a merge of each pair by git alone."""
    base = scratch.commits[min(150, len(scratch.commits) - 1)]
    picked: list[str] = []
    candidates = scratch.commits[: scratch.order[base]]
    source.shuffle(candidates)
    for commit in candidates:
        if len(picked) < OPEN and (branch := scratch.picked(commit, base)):
            picked.append(branch)
    start = time.perf_counter()
    scratch.compared(base, *picked)
    ours = time.perf_counter() - start
    start = time.perf_counter()
    for number, one in enumerate(picked):
        for two in picked[number + 1 :]:
            scratch.merged(one, two)
    return len(picked), ours, time.perf_counter() - start


def _short(commit: str) -> str:
    return commit[:10]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("clones", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--no-time", action="store_true", help="leave the measurement of time out")
    arguments = parser.parse_args()
    source = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="rlm-ci-bench-") as folder:
        scratches = [Scratch(clone, Path(folder), source) for clone in arguments.clones]
        totals, hits = Counter[str](), Counter[str]()
        for pair in collected(scratches, source):
            group = "duplicate" if pair.kind in ("twice", "issue") else pair.kind
            group = "semantic" if group in ("renamed", "changed", "moved") else group
            totals[group] += 1
            where = " ".join((pair.scratch.name, *map(_short, (pair.base, *pair.sides))))
            if group == "harmless":
                findings = pair.findings()
                hits[group] += bool(findings)
                for finding in findings:
                    print(f"alarm: {where}: {finding.rule}: {finding.message}")
            elif pair.is_named():
                hits[group] += 1
            else:
                print(f"missed ({pair.kind}): {where}: {pair.word}")
        for group in ("semantic", "duplicate", "lost", "harmless"):
            print(f"{group:<10} {hits[group]:>3} of {totals[group]}")
        if not arguments.no_time:
            for scratch in scratches:
                number, ours, peer = timed(scratch, source)
                pairs = number * (number - 1) // 2
                print(f"{scratch.name}: {number} branches in {ours:.1f} s")
                print(f"  git merge-tree of all {pairs:,} pairs {peer:.1f} s: {ours / peer:.2f}")
    named = hits["semantic"] + hits["duplicate"] + hits["lost"]
    is_full = totals == {"semantic": SEMANTIC, "duplicate": DUPLICATES, "lost": LOST,
                         "harmless": HARMLESS}  # fmt: skip
    return int(not is_full or named < NAMED or hits["harmless"] > 0)


if __name__ == "__main__":
    sys.exit(main())
