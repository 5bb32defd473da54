"""A sample of a wiki's calls, to be judged: ``python benchmarks/wiki_edges.py REPO``.

REPO is a clone, whose wiki is made without a model in a temporary folder. Of all calls on its page
of flows, at most 200 are drawn by a seed (``-n``, ``--seed``), and printed: where the call stands,
its source line, and each definition that the page says it means, with its first line. A person, or
a resolver of the language, says of each whether it is true.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))

from testing.repositories.git_repo import closed_environment  # noqa: E402 - the path comes first

_STEP = re.compile(r"(\d+)\. (.*)")
_LINK = re.compile(r"[`\[]([^`\[\]()]+?)#L(\d+)")
_CALL = re.compile(r"\s+- (?:.*?: )?calls `([^`]*)`(?: \(step (\d+)\))? ")
Place = tuple[str, int]


def edges(page: str) -> list[tuple[Place, str, tuple[Place, ...], str]]:
    """Each call of a page of flows, once: its place, its name, its targets, and the row."""
    found: dict[tuple[Place, tuple[Place, ...]], tuple[str, str]] = {}
    for flow in page.split("\n## ")[1:]:
        rows = flow.splitlines()
        steps = {
            match[1]: (link[1], int(link[2]))
            for row in rows
            if (match := _STEP.match(row)) and (link := _LINK.search(match[2]))
        }
        for row in rows:
            call = _CALL.match(row)
            behind = row[call.end() :] if call else ""  # what is before it are its conditions
            links = [(one[1], int(one[2])) for one in _LINK.finditer(behind)]
            if call and links:
                place, *targets = links
                targets = [steps[call[2]]] if call[2] else targets
                found.setdefault((place, tuple(targets)), (call[1], row))
    return [(place, name, targets, row) for (place, targets), (name, row) in found.items()]


def page_of(repo: Path) -> str:
    """The page of flows of a repository, made here."""
    with tempfile.TemporaryDirectory() as folder:
        env = closed_environment() | {"PATH": os.environ["PATH"], "PYTHONPATH": str(TOP)}
        argv = [sys.executable, "-m", "rlm_ci", "wiki", "--no-prose", "--quiet"]
        argv += ["--out", f"{folder}/wiki"]
        subprocess.run(argv, env=env, cwd=repo, check=True, capture_output=True, text=True)
        path = Path(folder, "wiki", "flows.md")
        return path.read_text() if path.exists() else ""


def shown(repo: Path, place: Place) -> str:
    """A place with its line."""
    path, line = place
    rows = (repo / path).read_text(errors="replace").split("\n")
    return f"{path}:{line} {rows[line - 1].strip()[:110]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("repo", type=Path)
    parser.add_argument("-n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    given = parser.parse_args()
    every = edges(page_of(given.repo))
    chosen = random.Random(given.seed).sample(every, min(given.n, len(every)))
    print(f"{len(chosen)} of {len(every)} calls")
    for place, name, targets, row in sorted(chosen, key=lambda one: one[:1]):
        count = re.search(r"one of (\d+)", row)
        kind = f" [one of {count[1]}]" if count else ""
        print(f"{shown(given.repo, place)}  ({name}){kind}")
        for target in targets:
            print(f"    -> {shown(given.repo, target)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
