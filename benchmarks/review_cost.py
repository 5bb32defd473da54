"""What a review costs beside one plain prompt: ``python benchmarks/review_cost.py CLONE...``.

Each change is that of a release of a project, with eight faults of ``review_cost_faults.toml``
planted into its head. The repositories are clones that exist already, whose folders end with the
repository's name; they are not changed, and nothing is fetched but the packages of their tests:

    python benchmarks/review_cost.py /tmp/click /tmp/flask ...

``rlm-ci pr`` judges a pull request on a loopback GitHub, at its defaults. A scripted model looks
around with a few calls, claims the faults, writes a reproduction of each, which runs on both sides,
and repairs. It judges the same commit again, then a push that mends one of the faults. All is
beside the bytes of one prompt with ``git diff -U12``, without documents and lock files.

A token is four bytes of the text of a request. Cached are those that an earlier request began with,
in whole blocks of 128 tokens, at least 1,024, as providers keep them. The targets are for the
tokens that are not cached.

Last, the most that a review asks: a model takes all that it is given, claims a severe fault on each
new line, and writes reproductions that show nothing. Without clones only this is measured. The
result is written to ``benchmarks/results/review_cost.md``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any

TOP = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TOP), str(TOP / "tests")]

# They are found only now, hence the noqa.
from testing.loopback_github.server import GitHub  # noqa: E402
from testing.loopback_model.replies import Answer, Call  # noqa: E402
from testing.loopback_model.server import ModelServer  # noqa: E402
from testing.repositories import events  # noqa: E402
from testing.repositories.git_repo import GitRepo, closed_environment  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from testing.loopback_model.server import Asked

RESULTS = TOP / "benchmarks" / "results" / "review_cost.md"
#: Base and head of each change, and the packages that its code needs.
CHANGES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "click": ("8.2.1", "8.3.0", ()),
    "flask": ("3.0.0", "3.1.0", ("werkzeug", "jinja2", "itsdangerous", "click", "blinker")),
    "requests": ("v2.32.3", "v2.32.4", ("charset_normalizer", "idna", "urllib3", "certifi")),
    "httpx": ("0.28.0~20", "0.28.0", ("httpcore", "anyio", "certifi", "idna")),
}
#: What no plain prompt shows.
PLAIN = ("diff", "-M", "-U12", "main", "feature", "--", ".", *(
    f":(exclude,glob)**/{one}" for one in ("*.md", "*.rst", "docs/**", "*.lock", "*-lock.json")
))  # fmt: skip
#: The most times the tokens of the plain prompt.
TARGETS = {"first reading": 1.3, "whole review": 2.0, "same commit": 0.0, "next push": 0.3}
BYTES, BLOCK, LEAST = 4, 128, 1_024
#: How each kind of question begins, or what is in it.
KINDS = {
    "Write the smallest reproduction": "reproduction",
    "Your reproduction did not show": "reproduction",
    "A test was written": "judgement",
    "A program has a fault": "repair",
    "Somebody claims": "refutation",
    "review of a whole repository": "architecture",
    "Say what a change": "what changes",
}
#: Limits of a change of 500 lines, for a model that takes all that it may.
LINES, FILES = 500, 10
MOST_CALLS, MOST_TOKENS = 60, 400_000
HEAD = re.compile(r"^=== (\S+)")
ROW = re.compile(r"^ *(\d+)\+ ?(.*)$")


def git(clone: Path, *words: str) -> str:
    ended = subprocess.run(
        ["git", "-C", str(clone), *words], env=closed_environment(), check=True, capture_output=True
    )
    return ended.stdout.decode("utf-8", "replace")


# ── counting ──


@dataclass
class Meter:
    """Tokens of requests by the kind of question, and how many of them a provider had cached."""

    calls: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    new: Counter[str] = field(default_factory=Counter)
    known: set[bytes] = field(default_factory=set)

    def take(self, kind: str, asked: Asked) -> dict[str, Any]:
        """The usage of a request, which is counted."""
        texts = [json.dumps(asked.body.get("tools") or "", ensure_ascii=False)]
        for one in asked.messages:
            calls = json.dumps(one.get("tool_calls") or "", ensure_ascii=False)
            texts.append(f"{one['role']}\n{one.get('content') or ''}\n{calls}")
        data = "\n".join(texts).encode("utf-8", "replace")
        digest, size, cached = hashlib.sha256(), BLOCK * BYTES, 0
        for start in range(0, len(data) - size + 1, size):
            digest.update(data[start : start + size])
            mark = digest.digest()
            if mark in self.known and cached == start:
                cached = start + size
            self.known.add(mark)
        cached = cached // BYTES if cached >= LEAST * BYTES else 0
        tokens = -(-len(data) // BYTES)
        self.calls[kind] += 1
        self.sent[kind] += tokens
        self.new[kind] += tokens - cached
        return {
            "prompt_tokens": tokens, "completion_tokens": 100, "total_tokens": tokens + 100,
            "prompt_tokens_details": {"cached_tokens": cached},
        }  # fmt: skip

    def take_out(self) -> Meter:
        """What was counted since the last time; the cache stays."""
        found = Meter(self.calls, self.sent, self.new)
        self.calls, self.sent, self.new = Counter(), Counter(), Counter()
        return found


def kind_of(asked: Asked) -> str:
    last = next(one for one in reversed(asked.messages) if one["role"] == "user")
    text = " ".join(str(last["content"]).split())
    found = next((name for begins, name in KINDS.items() if begins in text), "")
    if not found and any(one["role"] == "tool" for one in asked.messages):
        return "looking around"
    return found or "reading"


# ── a model that answers well ──


class Reviewer:
    """Looks around, claims the planted faults that a prompt shows, and shows each by a script."""

    def __init__(self, faults: Sequence[Mapping[str, str]]) -> None:
        self.meter = Meter()
        self._faults = faults
        self._conversations = 0

    def __call__(self, asked: Asked) -> Answer:
        kind = kind_of(asked)
        usage = {"usage": self.meter.take(kind, asked)}
        text = "\n".join(str(one.get("content")) for one in asked.messages)
        if kind in ("reading", "looking around"):
            if calls := self._looks(asked, text):
                return Answer("", calls, more=usage)
            return Answer(json.dumps({"findings": self._claims(text)}), more=usage)
        return Answer(json.dumps(self._answer(kind, text)), more=usage)

    def _answer(self, kind: str, text: str) -> dict[str, Any]:
        if kind == "what changes":
            return self._description(text)
        if kind == "architecture":
            return {"claims": []}
        number = int(re.findall(r"[Pp]lanted fault (\d+)", text)[0])
        fault = self._faults[number]
        # One reproduction misses the fault at first.
        is_missed = number == len(self._faults) - 1 and "did not show" not in text
        shows = "import json\n\nassert json.loads('1') == 1" if is_missed else fault["shows"]
        answers: dict[str, dict[str, Any]] = {
            "reproduction": {
                "kind": "script", "path": "shows.py", "content": f"{shows}\n",
                "expects": fault.get("expects", "AssertionError"),
                "breaks": "a caller gets another value than before",
            },
            "judgement": {
                "verdict": "fault", "line": fault["shows"].split("\n")[-1], "shown": "",
                "severity": _severity(number), "reason": "the value is documented",
            },
            "repair": {
                "edits": [{"path": fault["path"], "old": fault["new"], "new": fault["old"]}]
            },
            "refutation": {"verdict": "upheld", "reason": "the lines show it"},
        }  # fmt: skip
        return answers[kind]

    @staticmethod
    def _description(text: str) -> dict[str, Any]:
        """A sentence on the whole, and one on each of six groups of the files that are shown."""
        quotes: dict[str, dict[str, Any]] = {}
        path = ""
        for row in text.split("\n"):
            if head := HEAD.match(row):
                path = head[1]
            elif (new := re.match(r"^(\d+)\+(.*\w{3}.*)$", row)) and path:
                place = {"line_start": int(new[1]), "line_end": int(new[1]), "quote": new[2]}
                quotes.setdefault(path, {"path": path, "side": "new", **place})
        size = -(-len(quotes) // 6) or 1
        groups = [[*quotes][at : at + size][:8] for at in range(0, len(quotes), size)]
        return {
            "about": [{"text": "It is a release.", "quotes": [*quotes.values()][:2]}],
            "groups": [
                {"text": "They work otherwise.", "files": some, "quotes": [quotes[some[0]]]}
                for some in groups
            ],
        }

    def _looks(self, asked: Asked, text: str) -> list[Call]:
        """Calls of two answers in the first conversation, of one in each other; then none."""
        turn = sum(one["role"] == "assistant" for one in asked.messages)
        if not asked.body.get("tools") or "nothing is left" in text:
            return []
        self._conversations += not turn
        if turn > (self._conversations == 1):
            return []
        shown = [one for _, one, _ in self._shown(text)]
        if turn:
            paths = dict.fromkeys(one["path"] for one in shown)
            told = [("outline", {"path": path}) for path in [*paths][:2]]
        else:
            names = re.findall(r"^\d+\+\s*def (\w+)", text, re.MULTILINE)[:2]
            scripts = (
                f"try:\n{indent(one['shows'], ' ')}\nexcept Exception as e:\n    print(repr(e))"
                for one in shown
            )
            told = [
                *(("references", {"name": name}) for name in names),
                *([("compare", {"script": "\n".join(scripts)})] if shown else []),
                ("search", {"text": names[0] if names else "import"}),
            ]
        return [Call(name, json.dumps(arguments)) for name, arguments in told]

    def _shown(self, text: str) -> list[tuple[int, Mapping[str, str], int]]:
        """Number, fault and line of the planted faults that a prompt shows as new."""
        found, path = [], ""
        for row in text.split("\n"):
            if head := HEAD.match(row):
                path = head[1]
            elif new := re.match(r"^(\d+)\+(.*)$", row):
                found += [
                    (number, one, int(new[1]))
                    for number, one in enumerate(self._faults)
                    if one["path"] == path and one["new"] == new[2]
                ]
        return found

    def _claims(self, text: str) -> list[dict[str, Any]]:
        return [
            {
                "domain": "quality", "severity": _severity(number), "confidence": 0.9,
                "rule": f"wrong-value-{number}", "path": fault["path"], "quote": fault["new"],
                "message": f"Planted fault {number}: this gives another value than before.",
                "line_start": line, "line_end": line,
                "suggested_fix": None if number % 2 else f"```suggestion\n{fault['old']}\n```",
            }
            for number, fault, line in self._shown(text)
        ]  # fmt: skip


def _severity(number: int) -> str:
    return "medium" if number % 3 == 2 else "high"


# ── a pull request ──


@dataclass
class Measured:
    """A change: tokens of the plain prompt, and a meter for each run."""

    name: str
    plain: int
    runs: dict[str, Meter]
    proven: int

    def ratios(self, run: str) -> tuple[float, float]:
        """Tokens sent, and those that were not cached, in plain prompts."""
        meter = self.runs[run]
        return meter.sent.total() / self.plain, meter.new.total() / self.plain


class PullRequest:
    """acme/shop #12 on a loopback GitHub: a change of a clone with planted faults."""

    def __init__(self, name: str, clone: Path, folder: Path) -> None:
        base, head, needs = CHANGES[name]
        faults = tomllib.loads((TOP / "benchmarks" / "review_cost_faults.toml").read_text())
        self.faults: list[dict[str, str]] = faults[name]
        self.folder = folder
        self.clone = folder / "job"
        git(TOP, "clone", "-q", "--no-checkout", str(clone), str(self.clone))
        git(self.clone, "remote", "remove", "origin")  # its main has the change already
        git(self.clone, "checkout", "-q", "-B", "main", base)
        git(self.clone, "checkout", "-q", "-B", "feature", head)
        for fault in self.faults:
            self._replace(fault["path"], fault["old"], fault["new"])
        self._commit()
        venv = self.clone / ".venv"
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        pip = [str(venv / "bin/pip"), "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, "pytest", *needs], check=True, stderr=subprocess.DEVNULL)
        with (self.clone / ".git/info/exclude").open("a") as file:
            file.write(".venv/\n")

    def mend(self, fault: Mapping[str, str]) -> None:
        """Push a commit that takes one fault back."""
        self._replace(fault["path"], fault["new"], fault["old"])
        self._commit()

    def judge(self, github: GitHub, model: ModelServer) -> dict[str, Any]:
        """The report of a run, which posts."""
        github.push("acme/shop", 12, "feature")
        sides = [git(self.clone, "rev-parse", name).strip() for name in ("main", "feature")]
        event = events.write_event(self.folder, events.pull_request(*sides))
        variables = events.actions_environment(
            "pull_request", event, GITHUB_API_URL=github.url, GITHUB_TOKEN="t-bot",
            OPENAI_BASE_URL=model.url, OPENAI_API_KEY=model.key, RLM_CI_MODEL="m",
            RLM_CI_REVIEW_ENABLED="auto", RLM_CI_CHECKS="doc-archive",
        )  # fmt: skip
        out = self.folder / "out"
        ended = subprocess.run(
            [sys.executable, "-m", "rlm_ci", "pr", "--out", str(out)], cwd=self.clone, check=False,
            env={**closed_environment(), **variables, "PATH": os.environ["PATH"]},
            capture_output=True, text=True,
        )  # fmt: skip
        if not (out / "report.json").exists():
            raise SystemExit(f"no report: {ended.stderr}")
        report: dict[str, Any] = json.loads((out / "report.json").read_text())
        told = next(one["summary"] for one in report["parts"] if one["id"] == "review")
        print(told, report["usage"], report["publication"], file=sys.stderr)
        return report

    def _replace(self, path: str, old: str, new: str) -> None:
        text = (self.clone / path).read_text()
        if text.count(old) != 1:
            raise SystemExit(f"{path} has this {text.count(old)} times: {old}")
        (self.clone / path).write_text(text.replace(old, new))

    def _commit(self) -> None:
        git(self.clone, "commit", "-qam", "More")


def measure(name: str, clone: Path, folder: Path) -> Measured:
    pull = PullRequest(name, clone, folder)
    plain = len(git(pull.clone, *PLAIN).encode()) // BYTES
    reviewer = Reviewer(pull.faults)
    runs: dict[str, Meter] = {}
    with GitHub() as github, ModelServer(reviewer) as model:
        github.repository("acme/shop", GitRepo(pull.clone))
        github.pull("acme/shop", 12, head="feature")
        github.token("t-bot")
        report = pull.judge(github, model)
        runs["whole review"] = whole = reviewer.meter.take_out()
        if report["usage"]["prompt_tokens"] != whole.sent.total():
            raise SystemExit(f"not all tokens are counted: {report['usage']}, {whole.sent}")
        first = Meter(sent=Counter(a=whole.sent["reading"]), new=Counter(a=whole.new["reading"]))
        runs["first reading"] = first
        pull.judge(github, model)
        runs["same commit"] = reviewer.meter.take_out()
        pull.mend(pull.faults[0])
        pull.judge(github, model)
        runs["next push"] = reviewer.meter.take_out()
    levels = Counter((one.get("proof") or {}).get("level") for one in report["findings"])
    return Measured(name, plain, runs, levels["proven"])


def measured(known: tuple[str, Path]) -> Measured:
    with tempfile.TemporaryDirectory() as folder:
        found = measure(*known, Path(folder))
    print("\n".join(told([found])[0]), flush=True)
    return found


# ── a model that takes all that it may ──


class Greedy:
    """Takes all that it may; counts calls, and tokens of prompts, by the kind of question."""

    def __init__(self) -> None:
        self.meter = Meter()

    def __call__(self, asked: Asked) -> Answer:
        kind = kind_of(asked)
        usage = {"usage": self.meter.take(kind, asked)}
        last = str(asked.messages[-1]["content"])
        is_reading = kind in ("reading", "looking around")
        if is_reading and asked.body.get("tools") and "nothing is left" not in last:
            number = len(asked.messages)
            looks = [("read", {"path": f"shop/part{at}.py"}) for at in range(FILES)]
            looks.append(("search", {"pattern": f"def f{number}"}))
            calls = [Call(name, json.dumps(told)) for name, told in looks[number % 8 :][:3]]
            return Answer("", calls, more=usage)
        answers: dict[str, dict[str, Any]] = {
            "reproduction": {
                "kind": "script", "path": "a.py", "expects": "ValueError", "breaks": "x",
                "content": f"raise TypeError({len(asked.messages)})\n",
            },
            "judgement": {"verdict": "fault", "line": "", "reason": "x"},
            "repair": {"edits": []},
            "refutation": {"verdict": "unsure", "reason": "x"},
            "architecture": {"claims": []},
        }  # fmt: skip
        claims = {"findings": _claims(str(asked.messages[0]["content"]))}
        return Answer(json.dumps(answers.get(kind) or claims), more=usage)


def _claims(prompt: str) -> list[dict[str, Any]]:
    found, path = [], ""
    for row in prompt.split("\n"):
        if head := HEAD.match(row):
            path = head[1]
        elif path and (new := ROW.match(row)) and new[2].strip():
            line = int(new[1])
            found.append({
                "domain": "quality", "severity": "high", "confidence": 0.9, "rule": f"r{line}",
                "message": f"Line {line} of {path} is wrong.", "path": path, "line_start": line,
                "line_end": line, "quote": new[2], "suggested_fix": None,
            })  # fmt: skip
    return found[:: max(1, len(found) // 60)][:60]


def together(part: int, number: int) -> list[str]:
    """Lines of a file: ``number`` of them new, in functions of ten lines."""
    rows = [f"def old{at}(value):\n    return value + {at}\n" for at in range(200)]
    for at in range(number // 10):
        body = [f"    value = value * {line} + old{line}(value)  # of {part}" for line in range(8)]
        rows += [f"def new{part}_{at}(value):", *body, "    return value"]
    return rows


def scattered(part: int, number: int) -> list[str]:
    """Lines of a file: ``number`` of them changed, each in a long function of its own."""
    rows = []
    for at in range(LINES // FILES):
        rows.append(f"def f{part}_{at}(value, other=None, more=()):")
        for line in range(26):
            wrong = f" - {part}" if line == 13 and at < number else ""
            rows.append(f"    value = value * {line} + len(more){wrong}  # step {line} of {at}")
        rows.append("    return value, other, more")
    return rows


def at_most(kind: Callable[[int, int], list[str]], folder: Path) -> Meter:
    """A review of the change that ``kind`` makes, by a greedy model."""
    repository = GitRepo(folder / "repository")
    for branch, number in (("base", 0), ("head", LINES // FILES)):
        repository.checkout(branch, new=True)
        for part in range(FILES):
            text = "\n".join(kind(part, number)) + "\n"
            repository.write(f"shop/part{part}.py", text)
        repository.commit(branch)
    model = Greedy()
    with ModelServer(model) as server:
        env = closed_environment() | {
            "OPENAI_BASE_URL": server.url, "OPENAI_API_KEY": server.key, "PATH": os.environ["PATH"],
        }  # fmt: skip
        argv = [sys.executable, "-m", "rlm_ci", "review", "--base", "base", "--head", "head"]
        ended = subprocess.run(
            [*argv, "--model", "m", "--format", "json", "--quiet"],
            env=env, cwd=repository, capture_output=True, check=False,
        )  # fmt: skip
    report = json.loads(ended.stdout)
    if report["usage"]["calls"] != model.meter.calls.total():
        raise SystemExit(f"not all calls are counted: {report['usage']}")
    if "reproduction" not in model.meter.calls:
        print(f"nothing was tried: {report['parts']}", file=sys.stderr)
    return model.meter


# ── the result ──


def told(found: Sequence[Measured]) -> tuple[list[str], bool]:
    """The table of real changes, and whether a target is missed."""
    rows = [
        "| change | plain | first reading | whole review | same commit | next push | proven |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    is_missed = False
    for one in found:
        cells = []
        for run, most in TARGETS.items():
            sent, new = one.ratios(run)
            is_missed |= new > most
            cells.append(f"{new:.2f} ({sent:.2f}){' missed' if new > most else ''}")
        base, head, _ = CHANGES[one.name]
        cells = [f"{one.name} `{base}..{head}`", f"{one.plain:,}", *cells, str(one.proven)]
        rows.append(f"| {' | '.join(cells)} |")
    rows += [
        "",
        "| change | question | calls | tokens sent | not cached |",
        "|---|---|--:|--:|--:|",
    ]
    for one in found:
        for run in ("whole review", "next push"):
            meter = one.runs[run]
            rows += [
                f"| {one.name}, {run} | {kind} | {number} | {meter.sent[kind]:,} "
                f"| {meter.new[kind]:,} |"
                for kind, number in meter.calls.items()
            ]
    return rows, is_missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("clones", nargs="*", type=Path, help="folders of clones")
    parser.add_argument("--skip-most", action="store_true", help="leave out the greedy model")
    options = parser.parse_args()
    clones: dict[str, Path] = {}
    for name in CHANGES:
        clone = next((one for one in options.clones if name in one.parts[-1]), None)
        if clone is None:
            print(f"{name}: no clone of it is named, left out", file=sys.stderr)
        else:
            clones[name] = clone.absolute()
    with ThreadPoolExecutor() as pool:
        found = [*pool.map(measured, clones.items())]
    table, is_missed = told(found)
    most: list[str] = []
    for name, kind in (("lines together", together), ("each line on its own", scattered)):
        if options.skip_most:
            break
        with tempfile.TemporaryDirectory() as folder:
            meter = at_most(kind, Path(folder))
        calls, tokens = meter.calls.total(), meter.sent.total()
        is_missed |= calls > MOST_CALLS or tokens > MOST_TOKENS
        kinds = ", ".join(f"{one} {number}" for one, number in sorted(meter.calls.items()))
        most.append(f"| {name} | {calls} | {tokens:,} | {meter.new.total():,} | {kinds} |")
        print(most[-1], flush=True)
    if len(found) == len(CHANGES) and most:
        text = RESULT.format(table="\n".join(table), most="\n".join(most))
        RESULTS.write_text(f"{text}\n")
    return int(is_missed)


RESULT = f"""\
# What a review costs

`python benchmarks/review_cost.py CLONE...`: `rlm-ci pr` at its defaults on releases with eight
planted faults, with a scripted model that looks around, claims the faults, shows and repairs them.
The figures are in plain prompts: one prompt with `git diff -U12`, without documents and lock files,
whose tokens stand in the second column. First the tokens that are not covered by a cached prefix,
in parentheses all that were sent. Targets for the first: reading {TARGETS["first reading"]}, whole
review {TARGETS["whole review"]}, the same commit again {TARGETS["same commit"]:g}, a push that
mends one fault {TARGETS["next push"]}.

{{table}}

## At most

{LINES} changed lines, and a model that takes all that it may. At most: {MOST_CALLS} calls,
{MOST_TOKENS:,} tokens of prompts.

| change | calls | tokens sent | not cached | calls by kind |
|---|--:|--:|--:|---|
{{most}}"""

if __name__ == "__main__":
    sys.exit(main())
