"""A repository with a bug, a model that knows how to fix it, and the runs that come of it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rlm_ci.__main__
from testing import plain_pytest
from testing.leftovers import eventually, is_running
from testing.loopback_model.replies import Answer, Call
from testing.preforked_interpreter import nursery

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from testing.loopback_model.server import Asked, ModelServer
    from testing.preforked_interpreter import Forked
    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

#: A validator that needs no more than a shell, for whatever is not about pytest.
QUICK = "grep -q 'a + b' calc.py"
BUG = "def add(a, b):\n    return a - b\n"
MENDED = BUG.replace("-", "+")
TEST = "from calc import add\n\n\ndef test_add():\n    assert add(1, 2) == 3\n"
GOAL = "make the tests pass"
#: The keys of a state file, as the spec has them, and those that we add.
STATE_KEYS = {
    "version", "mode", "modeReason", "goal", "validator", "validatorReason", "roles", "agent",
    "model", "sandbox", "maxIterations", "maxMinutes", "iterations", "final",
}  # fmt: skip
ITERATION_KEYS = {
    "n", "startedAt", "summary", "agentExitCode", "changed", "validatorExitCode",
    "validatorPassed", "validatorReason", "validatorLogPath", "diffSummary", "tampering",
    "turns",
}  # fmt: skip


def call(name: str, **arguments: object) -> Answer:
    """The model calls one tool."""
    return Answer(calls=[Call(name, json.dumps(arguments))])


def write(path: str, content: str) -> Answer:
    return call("write", path=path, content=content)


def done(summary: str = "Summary: I did what I could.") -> Answer:
    return call("done", summary=summary)


MEND = call("edit", path="calc.py", old="a - b", new="a + b")
USELESS = call("write", path="notes.txt", content="I looked at it.\n")


class Play:
    """A model that takes its line from where the conversation stands, not from a counter.

    So it says the same when the same is asked again. Each of ``iterations`` are the lines of
    one; the last of them is also that of all that follow.
    """

    def __init__(self, *iterations: Sequence[Answer]) -> None:
        self.iterations = iterations

    def __call__(self, asked: Asked) -> Answer:
        begun = [
            (at, found[1])
            for at, one in enumerate(asked.messages)
            if one["role"] == "user"
            and (found := re.search(r"This is iteration (\d+)", one["content"]))
        ]
        assert begun, asked.messages
        at, iteration = begun[-1]
        said = sum(one["role"] == "assistant" for one in asked.messages[at:])
        number = min(int(iteration), len(self.iterations))
        line: Answer = self.iterations[number - 1][said]
        return line


#: A turn that looks and is of no use, and one that fixes it.
TWO_TURNS = Play([USELESS, done()], [call("read", path="calc.py"), MEND, done("Summary: added.")])


class Outcome:
    """A run's folder, read afresh at every look."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.id = folder.name

    def __repr__(self) -> str:
        return f"Outcome({str(self.folder)!r})"

    def json(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / name).read_text())
        return found

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The records of a journal, without a tail that is being written."""
        try:
            text = (self.folder / name).read_text()
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]

    def began(self) -> str:
        """When, to the millisecond; later than all others while there is no manifest."""
        try:
            return str(self.manifest["started_at"])
        except FileNotFoundError:
            return "~"

    @property
    def manifest(self) -> dict[str, Any]:
        return self.json("manifest.json")

    @property
    def state(self) -> dict[str, Any]:
        return self.json("rlm/state.json")

    @property
    def report(self) -> dict[str, Any]:
        return self.json("report.json")

    @property
    def final(self) -> str:
        status: str = self.state["final"]["status"]
        return status

    @property
    def rules(self) -> set[str]:
        """The rules that the tamper guard found broken."""
        return {one["rule"] for one in self.report["findings"] if one["domain"] == "tamper"}

    def facts(self, kind: str = "completion") -> list[dict[str, Any]]:
        return [
            one
            for one in self.lines("calls.jsonl")
            if one["type"] == "fact" and one["kind"] == kind
        ]

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8", errors="surrogateescape")


#: Files of a run that say when and how long, beside the report and the artifacts.
TIMES = {"manifest.json", "events.jsonl", "calls.jsonl", "request.json", "runner.log", ".lock",
         "files.sha256"}  # fmt: skip
#: Copies of the work tree, and what made them.
_PRIVATE = re.compile(r"rlm/(work|verdict|git|snapshot\.json)\b")


def alike(run: Outcome, original: Outcome | None = None) -> dict[str, str]:
    """The report and the artifacts of a run by name; times, ids and usage are taken out.

    Two runs of the same, and a run that was killed and went on, must be equal in this. A
    replay has no terms of its own, but those of the ``original``.
    """
    found = {}
    [terms] = (original or run).facts("terms")
    for path in sorted(run.folder.rglob("*")):
        name = path.relative_to(run.folder).as_posix()
        if name in TIMES or _PRIVATE.match(name) or path.is_symlink() or path.is_dir():
            continue
        if ".torn-" in name or name.endswith(".tmp"):  # kept aside, or never put in its place
            continue
        text = timeless(run, name, path.read_text(encoding="utf-8"))
        text = text.replace(terms["value"]["mark"], "MARK")
        found[name] = re.sub(r"(\[exit code -?\d+), [\d.]+ s", r"\1, TIME", text)
    return found


def timeless(run: Outcome, name: str, text: str) -> str:
    """A file of a run without its times, its id and its usage, as any run of the same has it."""
    text = text.replace(run.id, "RUN")
    text = re.sub(r'("startedAt"|"created_at"|"generated_at"): "[^"]+"', r'\1: "TIME"', text)
    text = re.sub(r'("duration_ms"|"elapsed_seconds"): [\d.]+', r"\1: 0", text)
    if name == "report.json":
        record = json.loads(text)
        del record["usage"]
        return json.dumps(record, indent=2)
    text = re.sub("<time>[^<]+</time>", "<time>TIME</time>", text)
    if name.startswith(("report.", "comment.")):
        return re.sub(r"\d+ (model )?calls?[^\n<]*", "USAGE", text)
    return text


class Stage:
    """``rlm-ci`` in a repository whose ``calc.py`` has a bug, with a model at ``llm``."""

    def __init__(self, repo: GitRepo, cli: Cli, llm: ModelServer) -> None:
        self.repo = repo
        self.llm = llm
        self._cli = cli
        self._children: list[subprocess.Popen[bytes] | Forked] = []
        repo.write(".gitignore", ".runs/\nout/\n.pytest_cache/\n__pycache__/\n")
        repo.write("calc.py", BUG).write("test_calc.py", TEST).commit()

    # ── the program ──

    def environment(self, more: Mapping[str, str | None] | None = None) -> dict[str, str | None]:
        """With the model's key and address, and a plain pytest in front."""
        return {
            "PATH": plain_pytest.search_path(),
            "OPENAI_API_KEY": self.llm.key,
            "OPENAI_BASE_URL": self.llm.url,
            "RLM_CI_MODEL": "gpt-4o",
            **(more or {}),
        }

    def cli(self, *args: str, env: Mapping[str, str | None] | None = None, **more: Any) -> Ended:
        more.setdefault("cwd", self.repo)
        return self._cli(*args, env=self.environment(env), **more)

    def rlm(
        self,
        *args: str,
        goal: str | None = GOAL,
        env: Mapping[str, str | None] | None = None,
        **more: Any,
    ) -> Ended:
        """``rlm-ci rlm GOAL ARGS``, with the quick validator unless told otherwise."""
        return self.cli(*self.words(*args, goal=goal), env=env, **more)

    @staticmethod
    def words(*args: str, goal: str | None = GOAL) -> list[str]:
        given = list(args)
        if "--validator" not in given:
            given += ["--validator", QUICK]
        return ["rlm", *([] if goal is None else [goal]), *given]

    def fixed(self, *args: str, **more: Any) -> tuple[Ended, Outcome]:
        """A run from beginning to end, and its folder."""
        before = {one.id for one in self.runs()}
        ended = self.rlm(*args, **more)
        made = [one for one in self.runs() if one.id not in before]
        assert len(made) == 1, ended
        return ended, made[0]

    def spawn(
        self,
        *args: str,
        env: Mapping[str, str | None] | None = None,
        around: Sequence[str] = (),
    ) -> Child:
        """``rlm-ci ARGS`` in a process group of its own, started by the command ``around`` it."""
        changed = {**os.environ, **self.environment(env)}
        given = {name: value for name, value in changed.items() if value is not None}
        child: subprocess.Popen[bytes] | Forked
        if not around and nursery().fits(given):
            argv: list[str | bytes] = [rlm_ci.__main__.__file__, *args]
            child = nursery().start(argv, cwd=self.repo, env=given, start_new_session=True)
        else:
            child = subprocess.Popen(
                [*around, sys.executable, "-I", "-m", "rlm_ci", *args],
                cwd=self.repo,
                env=given,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        self._children.append(child)
        return Child(child)

    def begin(
        self, *args: str, env: Mapping[str, str | None] | None = None
    ) -> tuple[Child, Callable[[], int]]:
        """``rlm-ci rlm GOAL ARGS`` under way, and how many records its journal has by now."""
        known = {one.id for one in self.runs()}
        child = self.spawn(*self.words(*args), env=env)

        def records() -> int:
            new = [one for one in self.runs() if one.id not in known]
            try:
                return (new[0].folder / "calls.jsonl").read_bytes().count(b"\n") if new else 0
            except FileNotFoundError:
                return 0

        return child, records

    def clean(self) -> None:
        for child in self._children:
            child.kill()
            child.communicate()

    # ── its runs ──

    def runs(self) -> list[Outcome]:
        """In the order in which they were made: their ids tell it to the second only."""
        found = [Outcome(folder) for folder in self.repo.path.glob(".runs/*/cli/*/")]
        return sorted(found, key=Outcome.began)

    def only(self) -> Outcome:
        [found] = self.runs()
        return found

    def source(self, name: str = "calc.py") -> str:
        return (self.repo.path / name).read_text()


class Child:
    """A process of the program that is under way."""

    def __init__(self, process: subprocess.Popen[bytes] | Forked) -> None:
        self.process = process
        self._pipes: tuple[bytes, bytes] = (b"", b"")
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        self._pipes = self.process.communicate()

    def wait(self, seconds: float = 60) -> int:
        """Its exit code, a negative signal for a death by one."""
        self._reader.join(seconds)
        assert not self._reader.is_alive(), "it does not end"
        return self.process.wait()

    @property
    def stderr(self) -> str:
        self._reader.join(10)
        return self._pipes[1].decode()

    def kill_when(self, ready: Callable[[], bool], number: int = signal.SIGKILL) -> bool:
        """Send the signal as soon as ``ready``; False when it ended before."""
        eventually(lambda: ready() or self.process.poll() is not None, 60)
        if self.process.poll() is not None:
            return False
        self.process.send_signal(number)
        return True

    def descendants(self) -> list[int]:
        """All live processes below it."""
        parents: dict[int, int] = {}
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    stat = Path(f"/proc/{name}/stat").read_text()
                except OSError:
                    continue
                parents[int(name)] = int(stat.rpartition(")")[2].split()[1])
        found, level = [], {self.process.pid}
        while level:
            level = {pid for pid, parent in parents.items() if parent in level}
            found += sorted(level)
        return [pid for pid in found if is_running(pid)]


def alive(word: str) -> bool:
    """Whether any process has ``word`` on its command line."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if word.encode() in line.split(b"\0"):
                return True
    return False


def told_plainly(ended: Ended) -> None:
    """A failure is told in one ``error:`` and one ``hint:`` line, without a traceback."""
    lines = ended.stderr.splitlines()
    assert sum(line.startswith("error: ") for line in lines) == 1, ended.stderr
    assert sum(line.startswith("hint: ") for line in lines) == 1, ended.stderr
    assert "Traceback" not in ended.stderr
