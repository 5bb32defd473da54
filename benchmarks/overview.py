"""What the overview calls removed or changed between two releases, beside griffe's own verdict.

Each release is a folder with its source package, as pip downloads and tar unpacks it; or a clone
and two of its refs. Nothing is fetched, and nothing of them is run. griffe is no dependency of
this project: it must be installed where the script runs.

    pip download --no-binary :all: --no-deps click==8.1.7 click==8.2.1
    uv run --with griffe python benchmarks/overview.py click click-8.1.7 click-8.2.1 \
        flask flask-2.3.3 flask-3.1.0 requests requests-2.31.0 requests-2.32.4
    uv run --with griffe python benchmarks/overview.py --clone /tmp/click click 8.1.7 8.2.1

The result goes to ``benchmarks/results/overview.md``. Exit 1: a difference without an explanation.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from rlm_ci.change import change_set
from rlm_ci.git.repository import Repository, discover
from rlm_ci.overview.overview import overview
from rlm_ci.report.overview.changes import ADDED, REMOVED

TOP = Path(__file__).resolve().parent.parent
RESULTS = TOP / "benchmarks" / "results" / "overview.md"
#: Why the two differ: who says it, a pattern of the name, the reason.
EXPLAINED = (
    ("griffe", r"flask\.(app\.Flask|blueprints\.Blueprint)\.(?!got_first_request)\w+",
     "inherited from `flask/sansio`, which has no `__init__.py`: griffe does not read it"),
    ("griffe", r"click\.core\.(Group|CommandCollection)\.__init__",
     "`**attrs` is called `**kwargs`: no call can tell"),
    ("griffe", r"[\w.]+\.__(version|getattr)__",
     "a special name of a module, of which the overview has none"),
    ("griffe", r"click\.core\.(Group|CommandCollection)\.resultcallback",
     "inherited: both say it of `MultiCommand`, the overview only there"),
    ("ours", r"flask\.scaffold\.Scaffold\.\w+",
     "griffe says it of the whole module `flask.scaffold`"),
    ("ours", r"click\.core\.(Group|CommandCollection)",
     "its base `MultiCommand` became another one; griffe compares the number of bases"),
    ("ours", r"click\.core\.Context\.(invoke|forward)",
     "a parameter that is given by position has another name; griffe says that one is required"),
    ("ours, no break", r".*", "a new optional parameter or another default: no call fails"),
)  # fmt: skip


@dataclass
class Comparison:
    """One pair of releases: names by what each side says of them."""

    package: str
    old: str
    new: str
    seconds: float = 0.0
    both: set[str] = field(default_factory=set)
    only: dict[str, set[str]] = field(default_factory=dict)
    unexplained: list[str] = field(default_factory=list)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--clone", help="a clone; OLD and NEW are its refs")
    parser.add_argument("names", nargs="+", metavar="PACKAGE OLD NEW")
    given = parser.parse_args()
    if len(given.names) % 3:
        parser.error("give PACKAGE OLD NEW, once or more")
    triples = [tuple(given.names[at : at + 3]) for at in range(0, len(given.names), 3)]
    found = []
    for package, old, new in triples:
        with tempfile.TemporaryDirectory(prefix="overview-") as scratch:
            found.append(compared(package, old, new, given.clone, Path(scratch)))
    RESULTS.write_text(page(found), encoding="utf-8")
    print(page(found))
    return int(any(one.unexplained for one in found))


def compared(package: str, old: str, new: str, clone: str | None, work: Path) -> Comparison:
    """Both verdicts of one pair."""
    folders = [Path(old), Path(new)]
    if clone:
        folders = [work / "old", work / "new"]
        for folder, ref in zip(folders, (old, new), strict=True):
            packed = git(Path(clone), "archive", "--format=tar", ref)
            folder.mkdir()
            subprocess.run(["tar", "-x", "-C", os.fspath(folder)], input=packed, check=True)
    repository = work / "repository"
    repository.mkdir()
    git(repository, "init", "-q")
    commits = [committed(repository, folder) for folder in folders]
    opened = Repository(*discover(os.fspath(repository)), os.environ)
    began = time.perf_counter()
    made = overview(change_set.from_range(opened, commits[0], commits[1], "benchmark"))
    result = Comparison(package, Path(old).name, Path(new).name)
    result.seconds = time.perf_counter() - began
    ours: dict[str, bool] = {}
    for one in made.names:
        if one.change == ADDED or not one.exported:
            continue
        moved = re.match(r"from `(.*)`", one.notes[0]) if one.notes else None
        path = moved[1] if moved else one.path
        name = one.name if one.kind == "module" else f"{dotted(path)}.{one.name}"
        ours[name] = one.breaking or one.change == REMOVED
    theirs = verdict(package, *folders)
    breaking = {name for name, breaks in ours.items() if breaks}
    result.both = breaking & theirs | (ours.keys() - breaking) & theirs
    result.only = {
        "griffe": theirs - ours.keys(),
        "ours": breaking - theirs,
        "ours, no break": ours.keys() - breaking - theirs,
    }
    for side, names in result.only.items():
        result.unexplained += [name for name in sorted(names) if not reason(side, name)]
    return result


def git(folder: Path, *args: str) -> bytes:
    who = ("-c", "user.name=benchmark", "-c", "user.email=benchmark@example.com")
    return subprocess.run(
        ["git", "-C", os.fspath(folder), *who, *args], check=True, capture_output=True
    ).stdout


def committed(repository: Path, folder: Path) -> str:
    for inside in repository.iterdir():
        if inside.name != ".git":
            shutil.rmtree(inside) if inside.is_dir() else inside.unlink()
    shutil.copytree(folder, repository, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".git"))
    git(repository, "add", "-A", "-f")
    git(repository, "commit", "-q", "--allow-empty", "-m", folder.name)
    return git(repository, "rev-parse", "HEAD").decode().strip()


def verdict(package: str, old: Path, new: Path) -> set[str]:
    """The names that griffe calls removed or changed: it reads the sources, and runs none."""
    griffe: Any = import_module("griffe")
    sides = [
        griffe.load(
            package, search_paths=[folder / "src", folder], allow_inspection=False,
            resolve_aliases=True,
        )
        for folder in (old, new)
    ]  # fmt: skip
    return {one.obj.path for one in griffe.find_breaking_changes(*sides)}


def dotted(path: str) -> str:
    bare = path.removesuffix(".py").removesuffix("/__init__").removeprefix("src/")
    return bare.replace("/", ".")


def reason(side: str, name: str) -> str:
    return next(
        (why for who, pattern, why in EXPLAINED if who == side and re.fullmatch(pattern, name)), ""
    )


def page(found: list[Comparison]) -> str:
    lines = [
        "# The public interface between two releases, beside griffe", "",
        "`python benchmarks/overview.py PACKAGE OLD NEW...`: source packages of two releases.",
        "griffe's verdict is that of `griffe.find_breaking_changes`. The overview was made from",
        "two commits, with the callers of each name. Alone: what the other does not say.", "",
        "| releases | both | griffe alone | breaking alone | others alone | open | seconds |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]  # fmt: skip
    for one in found:
        only = " | ".join(str(len(names)) for names in one.only.values())
        lines.append(
            f"| {one.old} → {one.new} | {len(one.both)} | {only} | {len(one.unexplained)} | "
            f"{one.seconds:.1f} |"
        )
    for one in found:
        lines += ["", f"## {one.old} → {one.new}", ""]
        lines.append("Both: " + (", ".join(f"`{name}`" for name in sorted(one.both)) or "nothing"))
        for side, names in one.only.items():
            by_reason: dict[str, list[str]] = {}
            for name in sorted(names):
                by_reason.setdefault(reason(side, name) or "**not explained**", []).append(name)
            for why, those in by_reason.items():
                shown = ", ".join(f"`{name}`" for name in those[:6])
                more = f" and {len(those) - 6} more" if those[6:] else ""
                lines += ["", f"Only {side}: {shown}{more}: {why}."]
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    sys.exit(main())
