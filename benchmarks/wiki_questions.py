"""Questions of newcomers to wikis: ``python benchmarks/wiki_questions.py QUESTIONS CLONES``.

QUESTIONS is a folder of tables ``NAME.toml`` like those in ``tests/wiki/questions/``, and may be
anywhere: a question that the makers of the wiki have read is no measure of it. CLONES is a folder
with a clone of each table's repository, under the table's name. The table's commit is checked out
in a temporary folder, and the wiki is made there without a model; with ``--model NAME`` after the
folders, with one. What is printed says of each question which pages have all phrases of its answer
in one passage, and that passage. For the tables of this repository the result is also written to
``benchmarks/results/wiki_questions.md``, where the section of a table without a clone stays.
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
from testing.wiki_questions import KINDS, answering, passage, read_questions  # noqa: E402

RESULT = TOP / "benchmarks" / "results" / "wiki_questions.md"
OWN = TOP / "tests" / "wiki" / "questions"
HEAD = """\
What the wikis of five repositories answer, made without a model. The wiki was written with these
repositories at hand, so it does better here than elsewhere.

`python benchmarks/wiki_questions.py tests/wiki/questions CLONES`

An answer counts if one passage of a page has all of its phrases. Whether the passage is well said,
or a reader finds it, is not measured.
"""
#: Characters of a passage that are printed.
SHOWN = 300


def pages_of(clone: Path, commit: str, model: list[str]) -> dict[str, str]:
    """The pages of the wiki by name, made in a checkout of that commit."""
    env = closed_environment() | {"PATH": os.environ["PATH"]}
    if model:
        env |= {name: value for name, value in os.environ.items() if name.startswith("OPENAI_")}
    with tempfile.TemporaryDirectory() as root:
        checkout = Path(root) / clone.name
        git = ["git", "-c", "advice.detachedHead=false"]
        wiki = [sys.executable, "-m", "rlm_ci", "wiki", *(model or ["--no-prose"]), "--quiet"]
        for argv, folder in (
            ([*git, "clone", "-q", "--no-checkout", str(clone), str(checkout)], clone),
            ([*git, "checkout", "-q", commit], checkout),
            ([*wiki, "--out", "docs/wiki"], checkout),
        ):
            subprocess.run(argv, env=env, cwd=folder, check=True, capture_output=True, text=True)
        out = checkout / "docs/wiki"
        return {str(path.relative_to(out)): path.read_text() for path in out.rglob("*.md")}


def section(clone: Path, table_path: Path, model: list[str]) -> tuple[str, list[str]]:
    """What the wiki of one clone answers, as a section of the result; the passages that do."""
    table = read_questions(table_path)
    pages = pages_of(clone, table.commit, model)
    rows, passages = [], []
    for one in table.questions:
        found = answering(one, pages)
        verdict = ", ".join(found[:3]) or "**no**"
        rows.append(f"| {one.kind} | {one.ask.replace('|', ' ')} | {verdict} |")
        passages += [f"{one.ask}\n    {passage(one, pages[found[0]])[:SHOWN]}"] if found else []
    head = [
        f"## {table_path.stem}: {len(passages)} of {len(table.questions)}",
        "",
        f"{table.repository} at `{table.commit[:12]}`",
        "",
        "| kind | question | answered on |",
        "|---|---|---|",
    ]
    rows.sort(key=lambda row: KINDS.index(row.split(" | ")[0].removeprefix("| ")))
    return "\n".join([*head, *rows, ""]), passages


def main(words: list[str]) -> int:
    if len(words) < 2 or (words[2:] and words[2] != "--model"):
        raise SystemExit(__doc__.partition("\n")[0])
    questions, clones = Path(words[0]).resolve(), Path(words[1]).resolve()
    tables = [one for one in sorted(questions.glob("*.toml")) if (clones / one.stem).is_dir()]
    if not tables:
        raise SystemExit(f"{clones} has no clone for a table of {questions}")
    kept = re.split(r"(?m)^(?=## )", RESULT.read_text())[1:] if RESULT.exists() else []
    sections = {one.removeprefix("## ").partition(":")[0]: one.strip() + "\n" for one in kept}
    for table in tables:
        sections[table.stem], passages = section(clones / table.stem, table, words[2:])
        print(sections[table.stem], *passages, sep="\n", flush=True)
    if questions == OWN and not words[2:]:
        RESULT.write_text("\n".join([HEAD, *(sections[name] for name in sorted(sections))]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
