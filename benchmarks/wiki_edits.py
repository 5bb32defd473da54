"""What ten edits in a row cost a wiki: ``python benchmarks/wiki_edits.py [FOLDER]``.

``python benchmarks/wiki_edits.py --first CLONE...`` prints instead what the first wiki of each
clone costs, and which share of the tokens of its program that is.

FOLDER is a Python package, by default the installed ``click``. It becomes a repository with a
README and a CI file. Its wiki is written with a scripted model, which says a sentence of each
definition that it is shown, as many as a prompt asks for, and one of each flow of calls, and finds
all of them supported. Then each edit is committed, and the wiki is written again as in a fresh
checkout: without the runs folder. Tokens are bytes of the requests by 4. The result is written to
``benchmarks/results/wiki_edits.md``.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))

from testing.loopback_model.replies import Answer  # noqa: E402 - the path comes first
from testing.loopback_model.server import ModelServer  # noqa: E402
from testing.repositories.git_repo import closed_environment  # noqa: E402
from testing.wiki_sentences import numbered, of_flows, sentence, supports  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from testing.loopback_model.server import Asked

BYTES, TELLING = 4, 8
MOST = re.compile(r"at most (\d+) sentences, and")
WIKI = "docs/wiki"
DEFINITION = re.compile(
    r"^\s*(?:\w+(?:\([^)]*\))? )*?(?:def|class|func|fn|function|struct|interface|trait)\s+"
    r"(?:\([^)]*\)\s*)?(\w+).*$"
)
SIMPLE = re.compile(r"^( *def \w+\([^()*]+)(\)(?: -> [^:]+)?:)$")
CONDITION = re.compile(r"^( +)if ([^:]+):$")
README = "# A package\n\nIt is measured.\n"
CI = "on: push\njobs:\n  test:\n    runs-on: ubuntu-24.04\n    steps:\n      - run: pytest\n"
NEW = (
    '"""Keeps accounts."""\n\n\ndef balance(rows):\n    """What is left."""\n    return sum(rows)\n'
)


class Speaker:
    """Says the same of the same prompt; counts calls, and tokens of prompts.

    Calls and tokens of the question whether quotes support sentences are counted apart.
    """

    def __init__(self) -> None:
        self.counts = {kind: [0, 0] for kind in ("told", "judged")}

    def __call__(self, asked: Asked) -> Answer:
        prompt = str(asked.messages[-1]["content"])
        size = len(json.dumps(asked.messages, ensure_ascii=False).encode()) // BYTES
        counted = self.counts["judged" if '"unsupported"' in prompt else "told"]
        counted[0] += 1
        counted[1] += size
        return Answer(json.dumps(self._answer(prompt)), usage=(size, 100))

    def spent(self) -> list[list[int]]:
        """Calls and tokens since the last time, of both kinds of questions."""
        found, self.counts = self.counts, {kind: [0, 0] for kind in self.counts}
        return list(found.values())

    def _answer(self, prompt: str) -> object:
        if '"unsupported"' in prompt:
            return supports(prompt)
        whole = [{"text": "It is a package.", "rests_on": [1, 2]}]
        if '"quotes"' not in prompt:
            return {"sentences": whole}
        found: list[dict[str, Any]] = []
        asked = MOST.search(prompt)
        for (path, at), line in numbered(prompt).items() if asked else ():
            row = DEFINITION.match(line)
            if row and sum(map(str.isalnum, line)) > TELLING:
                found.append(sentence(f"`{row[1]}` is defined here.", path, (at, at), line))
        most = int(asked[1]) if asked else 1
        said = [*found[:: max(1, len(found) // most)][:most], *of_flows(prompt)]
        return {"sentences": said, **({"whole": whole} if '"rests_on"' in prompt else {})}


class Package:
    """The repository under ``root``; its sources are the files of ``folder``."""

    def __init__(self, root: Path, folder: Path) -> None:
        self.root, self.folder = root, folder
        self.env = closed_environment() | {"PATH": os.environ["PATH"]}

    def git(self, *words: str) -> str:
        argv = ["git", "-C", str(self.root), *words]
        return subprocess.run(argv, env=self.env, check=True, capture_output=True, text=True).stdout

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)

    def files(self) -> list[Path]:
        """The modules, the largest first."""
        found = (one for one in self.folder.rglob("*.py") if one.name != "__init__.py")
        return sorted(found, key=lambda one: (-one.stat().st_size, one.name))

    # -- the edits --

    def moved_lines(self) -> None:
        path = self.files()[0]
        path.write_text("# A comment.\n" * 9 + path.read_text())

    def renamed_file(self) -> None:
        path = self.files()[len(self.files()) // 2]
        new = f"{path.stem}_renamed"
        self.git("mv", str(path), str(path.with_name(f"{new}.py")))
        for one in self.folder.rglob("*.py"):
            text = one.read_text()
            one.write_text(re.sub(rf"from \.{path.stem}\b", f"from .{new}", text))

    def changed_signature(self) -> None:
        self._edit(SIMPLE, r"\1, strict=False\2")

    def changed_behaviour(self) -> None:
        self._edit(CONDITION, r"\1if not (\2):")

    def _edit(self, pattern: re.Pattern[str], new: str) -> None:
        """Change the first such line of a long function of the largest file."""
        path = self.files()[0]
        lines = path.read_text().split("\n")
        for first, last in _functions(path.read_text()):
            for at in range(first, last):
                if pattern.match(lines[at]):
                    lines[at] = pattern.sub(new, lines[at])
                    path.write_text("\n".join(lines))
                    return
        raise SystemExit(f"no line of {path} can be edited so: {pattern.pattern}")

    def deleted_file(self) -> None:
        self.files()[-1].unlink()

    def new_module(self) -> None:
        (self.folder / "ledger.py").write_text(NEW)

    def reformatting(self) -> None:
        ruff = str(Path(sys.executable).with_name("ruff"))
        argv = [ruff, "format", "--isolated", "--line-length", "60", "-q", str(self.files()[1])]
        subprocess.run(argv, check=True)

    def readme(self) -> None:
        (self.root / "README.md").write_text(f"{README}\nNow with more words.\n")

    def ci_file(self) -> None:
        (self.root / ".github/workflows/ci.yml").write_text(CI.replace("pytest", "tox"))

    def nothing(self) -> None:
        """An empty commit."""


EDITS: tuple[tuple[str, Callable[[Package], None]], ...] = (
    ("moved lines: nine comment lines on top of the largest file", Package.moved_lines),
    ("renamed file, and its imports", Package.renamed_file),
    ("changed signature of one function", Package.changed_signature),
    ("changed behaviour: one condition", Package.changed_behaviour),
    ("deleted file", Package.deleted_file),
    ("new module of six lines", Package.new_module),
    ("reformatting of the second largest file", Package.reformatting),
    ("README", Package.readme),
    ("CI file", Package.ci_file),
    ("nothing: an empty commit", Package.nothing),
)


def _functions(text: str) -> Iterator[tuple[int, int]]:
    """First and last line, from 0, of the functions of more than 20 lines."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            last = node.end_lineno or node.lineno
            if last - node.lineno > 20:
                yield node.lineno - 1, last


def made(root: Path, source: Path) -> Package:
    folder = root / "src" / source.name
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("__pycache__", "*.so", "*.pyc"))
    (root / ".github/workflows").mkdir(parents=True)
    (root / ".github/workflows/ci.yml").write_text(CI)
    (root / "README.md").write_text(README)
    (root / ".gitignore").write_text(".runs/\n")
    package = Package(root, folder)
    package.git("init", "-q", "-b", "main")
    package.commit("The package")
    return package


def refreshed(package: Package, server: ModelServer, speaker: Speaker) -> list[str]:
    """Calls, tokens, pages changed, and what became of sentences, of one refresh."""
    shutil.rmtree(package.root / ".runs", ignore_errors=True)
    argv = [sys.executable, "-m", "rlm_ci", "wiki", "--out", WIKI, "--model", "m"]
    env = package.env | {"OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key}
    ended = subprocess.run(
        [*argv, "--format", "json", "--quiet"],
        env=env, cwd=package.root, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if ended.returncode:
        raise SystemExit(f"exit {ended.returncode}: {ended.stderr}")
    report = json.loads(ended.stdout)
    (told, shown), (judged, quoted) = speaker.spent()
    if report["usage"]["calls"] != told + judged:
        raise SystemExit(f"not all calls are counted: {report['usage']}")
    listed = package.git("status", "--porcelain", "-uall", "--", f"{WIKI}/*.md")
    package.commit("The wiki")
    prose = report["parts"][0]["metrics"]["prose"]
    calls, tokens = f"{told} + {judged}", f"{shown:,} + {quoted:,}"
    return [calls, tokens, f"{len(listed.splitlines())}", prose]


def first(clones: list[str]) -> int:
    """Print what the first wiki of each clone costs."""
    for clone in clones:
        speaker = Speaker()
        with tempfile.TemporaryDirectory() as root, ModelServer(speaker) as server:
            package = Package(Path(root) / "repository", Path(root))
            argv = ["git", "clone", "-q", clone, str(package.root)]
            subprocess.run(argv, env=package.env, check=True)
            calls, tokens, _, prose = refreshed(package, server, speaker)
            record = json.loads((package.root / WIKI / "wiki.json").read_text())
            paths = [
                path
                for path, entry in record["prose"].items()
                if entry.get("shown") and path != "/"
            ]
            sizes = ((package.root / path).stat().st_size for path in paths)
            size = sum(sizes) // BYTES
            share = sum(int(part) for part in tokens.replace(",", "").split(" + ")) / size
        print(f"{clone}: {len(paths)} files, {size:,} tokens; {calls} calls, {tokens} tokens,"
              f" {share:.2f} of the program; {prose}")  # fmt: skip
    return 0


def main(words: list[str]) -> int:
    if words[:1] == ["--first"]:
        return first(words[1:])
    if words:
        source, name = Path(words[0]).resolve(), Path(words[0]).name
    else:
        found = importlib.util.find_spec("click")
        if found is None or found.origin is None:
            raise SystemExit("click is not installed: name the folder of a package")
        source, name = Path(found.origin).parent, f"click {importlib.metadata.version('click')}"
    size = sum(one.stat().st_size for one in source.rglob("*.py"))
    about = f"{size // 1000} KB of sources, about {size // BYTES:,} tokens"
    rows = [
        f"Ten edits in a row of {name} ({about}), with a scripted model, each in a fresh checkout.",
        "",
        f"`python benchmarks/wiki_edits.py{' FOLDER' if words else ''}`",
        "",
        "Of `1 + 1` calls, the first shows code (one of the first wiki: sentences of all files),",
        "the second asks whether the quotes of new sentences support them.",
        "",
        "| edit | calls | tokens of prompts | pages changed | sentences |",
        "|---|---|---|---|---|",
    ]
    speaker = Speaker()
    with tempfile.TemporaryDirectory() as root, ModelServer(speaker) as server:
        package = made(Path(root) / "repository", source)
        for edit, change in (("the first wiki", Package.nothing), *EDITS):
            change(package)
            package.commit(edit)
            rows.append(f"| {edit} | {' | '.join(refreshed(package, server, speaker))} |")
            print(rows[-1], flush=True)
    (TOP / "benchmarks" / "results" / "wiki_edits.md").write_text("\n".join(rows) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
