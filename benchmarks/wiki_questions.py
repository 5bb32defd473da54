"""Ten questions to the wiki of a clone: ``python benchmarks/wiki_questions.py CLONE NAME …``.

NAME is a table of ``tests/wiki/questions/``; CLONE is a clone of its repository. Its commit is
checked out in a temporary folder, and the wiki is made there without a model. Of each question,
the result says whether one passage of the page that the table names has all phrases of the
answer. More pairs may follow. It is written to ``benchmarks/results/wiki_questions.md``, where the
section of a NAME that is not given stays.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))

from testing.repositories.git_repo import closed_environment  # noqa: E402 - the path comes first
from testing.wiki_questions import KINDS, answering, elsewhere, read_questions  # noqa: E402

RESULT = TOP / "benchmarks" / "results" / "wiki_questions.md"
HEAD = """\
What the wikis of five repositories answer, made without a model.

`python benchmarks/wiki_questions.py CLONE NAME …`

An answer counts if one passage of the page named has all of its phrases. Whether the passage is
well said, or a reader finds it, is not measured.
"""


def pages_of(clone: Path, commit: str) -> dict[str, str]:
    """The pages of the wiki by name, made in a checkout of that commit."""
    env = closed_environment() | {"PATH": os.environ["PATH"]}
    with tempfile.TemporaryDirectory() as root:
        checkout = Path(root) / clone.name
        git = ["git", "-c", "advice.detachedHead=false"]
        wiki = [sys.executable, "-m", "rlm_ci", "wiki", "--no-prose", "--quiet"]
        for argv, folder in (
            ([*git, "clone", "-q", "--no-checkout", str(clone), str(checkout)], clone),
            ([*git, "checkout", "-q", commit], checkout),
            ([*wiki, "--out", "docs/wiki"], checkout),
        ):
            subprocess.run(argv, env=env, cwd=folder, check=True, capture_output=True, text=True)
        out = checkout / "docs/wiki"
        return {str(path.relative_to(out)): path.read_text() for path in out.rglob("*.md")}


def section(clone: Path, name: str) -> str:
    """What the wiki of one clone answers, as a section of the result."""
    table = read_questions(TOP / "tests/wiki/questions" / f"{name}.toml")
    pages = pages_of(clone, table.commit)
    rows, answered = [], 0
    for one in table.questions:
        found = answering(one, pages)
        answered += bool(found)
        others = elsewhere(one, pages)
        verdict = "yes" if found else f"elsewhere: {', '.join(others)}" if others else "**no**"
        rows.append(f"| {one.kind} | {one.ask.replace('|', ' ')} | {one.page} | {verdict} |")
    head = [
        f"## {name}: {answered} of {len(table.questions)}",
        "",
        f"{table.repository} at `{table.commit[:12]}`",
        "",
        "| kind | question | page | answered |",
        "|---|---|---|---|",
    ]
    rows.sort(key=lambda row: KINDS.index(row.split(" | ")[0].removeprefix("| ")))
    return "\n".join([*head, *rows, ""])


def main(words: list[str]) -> int:
    if not words or len(words) % 2:
        raise SystemExit(__doc__.partition("\n")[0])
    kept = re.split(r"(?m)^(?=## )", RESULT.read_text())[1:] if RESULT.exists() else []
    sections = {one.removeprefix("## ").partition(":")[0]: one.strip() + "\n" for one in kept}
    for clone, name in zip(words[::2], words[1::2], strict=True):
        sections[name] = section(Path(clone).resolve(), name)
        print(sections[name], flush=True)
    RESULT.write_text("\n".join([HEAD, *(sections[name] for name in sorted(sections))]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
