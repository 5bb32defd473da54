"""The bytes that the built-in agent sends to a model: ``python benchmarks/agent_prompts.py``.

Ten bugs in modules of the standard library, each mended by a recorded series of answers: look,
reproduce, a wrong edit, the right one, the tests. Every answer is one shell command and the same
for both sides, so both see the same outputs in the same number of requests: what differs is how
each says it, and what it says again. The peer is mini-swe-agent with the configuration that it
ships. The model is one on loopback. The result is written to
``benchmarks/results/agent_prompts.md``.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import platform
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))

# The model and the repositories of the tests; they are found only now, hence the noqa.
from testing.loopback_model.replies import Answer, Call, Raw  # noqa: E402
from testing.loopback_model.server import Asked, ModelServer  # noqa: E402
from testing.repositories.git_repo import GitRepo, closed_environment  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

RLM_CI = str(Path(sys.executable).parent / "rlm-ci")
PEER = "mini-swe-agent==2.4.6"
TARGET = 0.7
#: The peer's own program asks a person at start; this is what it does afterwards.
DRIVER = """
import sys, yaml
from pathlib import Path
import minisweagent
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel
url, key, task = sys.argv[1:]
shipped = yaml.safe_load((Path(minisweagent.__file__).parent / "config/mini.yaml").read_text())
agent, model = shipped["agent"], shipped["model"]
del agent["mode"]
kwargs = {**model.pop("model_kwargs"), "api_base": url, "api_key": key}
DefaultAgent(
    LitellmModel(
        model_name="openai/m-1", model_kwargs=kwargs, cost_tracking="ignore_errors", **model
    ),
    LocalEnvironment(**shipped["environment"]),
    **agent,
).run(task)
"""


@dataclass(frozen=True)
class Bug:
    """``broken`` in a module where ``sound`` was, shown by the lines of a ``test``.

    ``topics`` are what one looks at on the way: each is searched for, and read around.
    """

    module: str
    sound: str
    broken: str
    test: str
    topics: tuple[str, ...]

    @property
    def goal(self) -> str:
        return f"The test of lib_{self.module}.py fails. Find the cause, and mend the module."

    def source(self) -> str:
        found = importlib.util.find_spec(self.module)
        assert found is not None
        assert found.origin is not None
        text = Path(found.origin).read_text(encoding="utf-8")
        assert text.count(self.sound) == 1, (self.module, text.count(self.sound))
        return text

    def answers(self) -> Iterator[str]:
        """The commands that mend it, one after the other."""
        name, whole = f"lib_{self.module}.py", self.source()
        lines = whole.split("\n")
        run = "python3 -m unittest -q 2>&1 | tail -60"
        yield "ls -la; git log --oneline | head -20; wc -l *.py"
        yield f"cat test_{name}"
        yield run
        yield f"grep -n '^class \\|^def \\|    def ' {name}"
        yield f"sed -n '1,120p' {name}"
        for topic in self.topics:
            yield f"grep -rn '{topic.split()[-1].rstrip('(')}' *.py"
            at = next(n for n, line in enumerate(lines, 1) if topic in line)
            yield f"nl -ba {name} | sed -n '{max(1, at - 20)},{at + 120}p'"
        script = f"import lib_{self.module} as lib\n{self.test}"
        yield f"cat > repro.py <<'EOF'\n{script}\nEOF\npython3 repro.py"
        yield "git log -p -1 --stat | head -60"
        at = whole[: whole.index(self.sound)].count("\n") + 1
        yield f"nl -ba {name} | sed -n '{max(1, at - 60)},{at + 60}p'"
        for guess in ("  # first", "  # second"):
            yield _replace(name, self.broken, self.broken + guess)
            yield run
            yield "git diff"
            yield _replace(name, self.broken + guess, self.broken)
        yield f"nl -ba {name} | sed -n '{max(1, at - 30)},{at + 30}p'"
        yield _replace(name, self.broken, self.sound)
        yield run
        yield "python3 repro.py && rm repro.py && git status --short"
        yield "git diff"


def _replace(name: str, old: str, new: str) -> str:
    return (
        "python3 - <<'EOF'\nfrom pathlib import Path\n"
        f"path = Path({name!r})\nold = {old!r}\nnew = {new!r}\n"
        "text = path.read_text()\nassert text.count(old) == 1\n"
        "path.write_text(text.replace(old, new))\nEOF"
    )


BUGS = (
    Bug(
        "shlex",
        """return "'" + s.replace("'", "'\\"'\\"'") + "'\"""",
        """return "'" + s.replace("'", "'\\"'") + "'\"""",
        """assert lib.split(lib.quote("it's")) == ["it's"]""",
        ("_find_unsafe", "def quote", "def join", "def read_token"),
    ),
    Bug(
        "textwrap",
        "elif margin.startswith(indent):",
        "elif indent.startswith(margin[:1]):",
        """assert lib.dedent("    a\\n  b\\n") == "  a\\nb\\n\"""",
        (
            "def dedent", "_leading_whitespace_re", "def indent",
            "def _wrap_chunks", "def _split_chunks",
        ),
    ),
    Bug(
        "configparser",
        "if value.lower() not in self.BOOLEAN_STATES:",
        "if value not in self.BOOLEAN_STATES:",
        """parser = lib.ConfigParser()
parser.read_string("[a]\\nb = Yes\\n")
assert parser.getboolean("a", "b")""",
        ("BOOLEAN_STATES", "def getboolean", "def _get_conv", "def _convert_to_boolean"),
    ),
    Bug(
        "difflib",
        "result = _nlargest(n, result)",
        "result = sorted(result)[:n]",
        """assert lib.get_close_matches("appel", ["ape", "apple"], n=1) == ["apple"]""",
        ("def get_close_matches", "def real_quick_ratio", "def quick_ratio", "def ratio"),
    ),
    Bug(
        "fractions",
        "k = (max_denominator-q0)//q1",
        "k = max_denominator//q1",
        """found = lib.Fraction("3.1415926535897932").limit_denominator(10)
assert found == lib.Fraction(22, 7)""",
        ("def limit_denominator", "def __new__", "def from_float", "def _operator_fallbacks"),
    ),
    Bug(
        "statistics",
        "return (data[i - 1] + data[i]) / 2",
        "return (data[i - 1] + data[i]) // 2",
        "assert lib.median([1, 2]) == 1.5",
        ("def median(", "def _sum", "def _convert", "def median_low", "def _ss"),
    ),
    Bug(
        "csv",
        "d[self.restkey] = row[lf:]",
        "d[self.restkey] = row[lf]",
        """rows = lib.DictReader(["a", "1,2,3"], restkey="rest")
assert next(rows) == {"a": "1", "rest": ["2", "3"]}""",
        (
            "class DictReader", "def __next__", "def fieldnames",
            "def has_header", "class DictWriter",
        ),
    ),
    Bug(
        "heapq",
        "            if elem < top:\n                _heapreplace(result, (elem, order))",
        "            if elem > top:\n                _heapreplace(result, (elem, order))",
        "assert lib.nsmallest(2, [5, 1, 4, 2]) == [1, 2]",
        ("def nsmallest", "def _heapreplace_max", "def _siftup_max"),
    ),
    Bug(
        "argparse",
        "dest = dest.replace('-', '_')",
        "dest = dest.replace('_', '-')",
        """parser = lib.ArgumentParser()
parser.add_argument("--dry-run", action="store_true")
assert parser.parse_args(["--dry-run"]).dry_run""",
        (
            "def add_argument(", "def _get_optional_kwargs", "def _parse_optional",
            "def parse_known_args", "def _get_values", "class _StoreTrueAction", "def _get_handler",
        ),
    ),
    Bug(
        "calendar",
        "return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)",
        "return year % 4 == 0 and year % 100 != 0",
        "assert lib.monthrange(2000, 2)[1] == 29",
        ("def monthrange", "def isleap", "def itermonthdates", "def monthdays2calendar"),
    ),
)  # fmt: skip


def repository(folder: Path, bug: Bug) -> GitRepo:
    """The module with its bug, and a test that fails."""
    repo = GitRepo(folder)
    name = f"lib_{bug.module}.py"
    body = "\n".join(f"        {line}" for line in bug.test.split("\n"))
    repo.write(
        f"test_{name}",
        f"import unittest\n\nimport lib_{bug.module} as lib\n\n\n"
        f"class ModuleTest(unittest.TestCase):\n    def test_it(self) -> None:\n{body}\n",
    )
    sound = bug.source()
    repo.write(name, sound)
    repo.commit("Add the module")
    repo.write(name, sound.replace(bug.sound, bug.broken))
    repo.commit("Simplify")
    return repo


class Tolerant(ModelServer):
    """A model for the peer, whose client adds a field that OpenAI does not know."""

    def reply(self, asked: Asked) -> Answer | Raw:
        for message in asked.messages:
            message.pop("provider_specific_fields", None)
        return super().reply(asked)


@dataclass(frozen=True)
class Side:
    """How one side is started, the tool that runs commands, and the call that ends its work."""

    server: type[ModelServer]
    tool: str
    last: Call
    argv: list[str]


def asked(side: Side, bug: Bug, folder: Path) -> list[Asked]:
    """The requests of one side, which must have used every answer."""
    calls = [Call(side.tool, json.dumps({"command": one})) for one in bug.answers()]
    answers = [Answer("", calls=[call]) for call in [*calls, side.last]]
    with side.server(answers) as model:
        given = {
            "OPENAI_BASE_URL": model.url,
            "OPENAI_API_KEY": model.key,
            "HOME": str(folder.parent),
        }
        argv = [one.replace("URL", model.url).replace("KEY", model.key) for one in side.argv]
        done = subprocess.run(
            argv,
            check=False,
            cwd=repository(folder, bug).path,
            env=closed_environment() | given | {"MSWEA_SILENT_STARTUP": "1"},
            capture_output=True,
            timeout=600,
        )
        made = model.completions
    if len(made) != len(answers):
        raise SystemExit(
            f"{bug.module}: {len(made)} requests for {len(answers)} answers\n"
            f"{done.stdout.decode()[-2000:]}{done.stderr.decode()[-4000:]}"
        )
    return made


def prompt_bytes(requests: list[Asked]) -> int:
    """All that the model reads: messages and tools, as JSON."""
    parts = ({key: one.body.get(key) for key in ("messages", "tools")} for one in requests)
    return sum(
        len(json.dumps(part, ensure_ascii=False, separators=(",", ":")).encode()) for part in parts
    )


def measure(bug: Bug, folder: Path, peer: str) -> tuple[int, int, int]:
    """The number of requests, our bytes and the peer's."""
    start = [RLM_CI, "rlm", bug.goal, "--model", "m-1", "--quiet"]
    start += ["--validator", "python3 -m unittest -q"]
    done = Call("done", json.dumps({"summary": "Mended."}))
    ending = Call("bash", json.dumps({"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}))
    us = Side(ModelServer, "run", done, start)
    them = Side(Tolerant, "bash", ending, [peer, "-c", DRIVER, "URL", "KEY", bug.goal])
    ours, theirs = (asked(side, bug, folder / f"{bug.module}-{side.tool}") for side in (us, them))
    return len(ours), prompt_bytes(ours), prompt_bytes(theirs)


def install(folder: Path) -> str:
    """The peer in an environment of its own; its Python."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", PEER, "mcp"], check=True)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer", help=f"a Python that has {PEER}; else it is installed")
    parser.add_argument("--only", help="one module")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        peer = args.peer or install(Path(name) / "peer")
        bugs = [bug for bug in BUGS if args.only in (None, bug.module)]
        rows = {bug.module: measure(bug, Path(name), peer) for bug in bugs}
    ours, theirs = (sum(row[at] for row in rows.values()) for at in (1, 2))
    requests = sum(row[0] for row in rows.values())
    found = f"**{ours / theirs:.2f}×**, target {TARGET}×"
    text = "\n".join([
        "# The bytes of all prompts of ten recorded tasks\n",
        (
            f"`benchmarks/agent_prompts.py`, beside {PEER}: the same answers, one shell command "
            "each. Messages and tools as JSON, over all requests of a task.\n"
        ),
        f"{platform.machine()}, Python {platform.python_version()}.\n",
        "| bug in | requests | ours | mini-swe-agent | ratio |",
        "|---|--:|--:|--:|--:|",
        *(
            f"| `{module}` | {number} | {us:,} | {them:,} | {us / them:.2f}× |"
            for module, (number, us, them) in rows.items()
        ),
        f"| all | {requests} | {ours:,} | {theirs:,} | {found} |\n",
    ])  # fmt: skip
    print(text)
    if not args.only:
        (TOP / "benchmarks" / "results" / "agent_prompts.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
