"""A repository with a long log, a model that plans, and the runs that come of it."""

from __future__ import annotations

import json
import re
import sys
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from rlm_ci.resources import loader
from testing.fix_stage import TIMES, Outcome, Stage, timeless
from testing.loopback_model.replies import Answer, Raw

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from testing.loopback_model.replies import Reply
    from testing.loopback_model.server import Asked, ModelServer
    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

    #: What a planner says: a plan, or what is no plan; by what it was shown, if it likes.
    Line = Mapping[str, Any] | Reply | Callable[[str], Mapping[str, Any] | Reply]

QUESTION = "Why did the payments fail?"
LOG = "service.log"
#: Stands for the pointers' first part in what a script says.
CTX = "ctx:OBJECT"
REFUSED = "ERROR payment gateway refused the key: it was rotated and never deployed"
STUCK = "ERROR 312 orders are stuck in state pending"
#: The two lines of the log that answer the question.
TELLING = [f"2026-03-03 11:33:20 worker-7 {REFUSED}", f"2026-03-03 11:33:21 worker-7 {STUCK}"]
ANSWER = "The gateway refused the key, which was rotated and never deployed"
#: Variables that leave nobody to ask.
NOBODY: Mapping[str, str | None] = {"OPENAI_API_KEY": None, "OPENAI_BASE_URL": None}


def log(lines: int = 3000) -> bytes:
    """A service's log, in three chunks, with what the question is about on two of its lines."""
    told = [
        f"2026-03-03 11:{n // 60 % 60:02}:{n % 60:02} worker-{n % 9} INFO order {n} was settled"
        for n in range(1, lines + 1)
    ]
    told[lines * 2 // 3 - 1 : lines * 2 // 3 + 1] = TELLING
    return ("\n".join(told) + "\n").encode()


# ── what a planner says ──


def going_on(intent: str = "continue", **asked: Any) -> dict[str, Any]:
    return {"schema_version": 1, "intent": intent, **asked}


def final(answer: str = ANSWER) -> dict[str, Any]:
    return going_on("final", final_answer=answer)


def span(start: int, end: int) -> str:
    return f"{CTX}#bytes:{start}-{end}"


def chunk(number: int) -> str:
    return f"{CTX}#chunk:c{number:06d}"


def read(pointer: str, size: int = 200, **more: Any) -> dict[str, Any]:
    return {"pointer": pointer, "bytes": size, **more}


def subcall(*pointers: str, purpose: str = "summarize", size: int = 4000, **more: Any) -> Any:
    return {"purpose": purpose, "pointers": list(pointers), "max_input_bytes": size, **more}


def prompt_of(asked: Asked) -> str:
    """All that a model was shown in one request."""
    return "".join(one["content"] for one in asked.messages)


def iteration_of(asked: Asked) -> int | None:
    """Which plan is asked for; None for a sub-call."""
    if asked.messages[0]["role"] != "system":
        return None
    [found] = re.findall(r"^This is iteration (\d+)\.", prompt_of(asked), re.MULTILINE)
    return int(found)


def is_repair(asked: Asked) -> bool:
    return "Your last answer to this was no plan" in prompt_of(asked)


class Script:
    """A planner that takes its line from where the run stands, so the same is said again.

    Each of ``lines`` is what it says in one iteration, the last of them in all that follow; a
    list is of what it says first, and when it is asked to repair that. Sub-calls are answered by
    what ``subcall`` says, each with something of its own.
    """

    def __init__(
        self, *lines: Line | list[Line], subcall: Callable[[str], Reply] | None = None
    ) -> None:
        self.lines = lines
        self.subcall = subcall or _condensed

    def __call__(self, asked: Asked) -> Reply:
        number, prompt = iteration_of(asked), prompt_of(asked)
        if number is None:
            return self.subcall(prompt)
        line = self.lines[min(number, len(self.lines) - 1)]
        if isinstance(line, list):
            line = line[int(is_repair(asked))]
        if callable(line):
            line = line(prompt)
        if isinstance(line, str | Answer | Raw):
            return line
        [object_id] = set(re.findall(r"^- object id: (sha256:[0-9a-f]{64})$", prompt, re.MULTILINE))
        return json.dumps(line).replace(CTX, f"ctx:{object_id}")


def _condensed(prompt: str) -> Reply:
    return f"In short, {sha256(prompt.encode()).hexdigest()[:12]}: all orders but 312 were settled."


#: Look, look closer and let others read, answer with a citation of the two lines.
STORY = (
    going_on(
        searches=[{"query": "error", "reason": "find failures"}, {"query": "REFUSED"}],
        counts=[{"pattern": "(worker-.) ERROR", "reason": "who failed"}],
    ),
    lambda prompt: going_on(
        reads=[read(span(*_around(prompt)), 400, reason="what it says there")],
        subcalls=[
            subcall(chunk(2), purpose="extract", expected_output="one sentence"),
            subcall(chunk(1), chunk(3), purpose="verify"),
        ],
    ),
    lambda prompt: final(f"{ANSWER} [{span(*_around(prompt))}]."),
)


def _around(prompt: str) -> tuple[int, int]:
    """The two lines that tell, by the first hit that the planner was shown."""
    start = int(re.findall(r"the first at bytes (\d+)-\d+", prompt)[0]) - TELLING[0].index("ERROR")
    return start, start + len("\n".join(TELLING))


# ── runs ──


class Asking(Stage):
    """``rlm-ci`` in a repository with a long log, with a planner at ``llm``."""

    def __init__(self, repo: GitRepo, cli: Cli, llm: ModelServer) -> None:
        super().__init__(repo, cli, llm)
        repo.write(LOG, log()).commit()

    @staticmethod
    def words(*args: str, goal: str | None = QUESTION) -> list[str]:
        given = list(args)
        if "--model" not in given:
            given += ["--model", "gpt-4o-mini"]
        return ["rlm", *([] if goal is None else [goal]), *given]

    def ask(
        self,
        *args: str,
        question: str | None = QUESTION,
        context: str | None = LOG,
        **more: Any,
    ) -> tuple[Ended, Outcome]:
        """``rlm-ci rlm QUESTION --context CONTEXT ARGS``, and the run that it made."""
        given = args if context is None else ("--context", context, *args)
        ended, run = self.fixed(*given, goal=question, **more)
        require_state(run)
        return ended, run

    def prompts(self) -> list[str]:
        """What planners were shown so far, in order."""
        return [prompt_of(one) for one in self.llm.completions if iteration_of(one) is not None]

    def subcalls(self) -> list[str]:
        """What sub-calls were shown so far, in order."""
        return [prompt_of(one) for one in self.llm.completions if iteration_of(one) is None]


#: Runs a command, and writes down the most memory that it had.
_MEASURED = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[2:])
with open(sys.argv[1], "w") as stream:
    stream.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024))
sys.exit(code)
"""


def measured(stage: Asking, *words: str, seconds: float = 120) -> tuple[int, str, int]:
    """The exit code of a question, its stderr, and the most bytes of memory that it had."""
    note = stage.repo.path.parent / "peak"
    around = (sys.executable, "-I", "-c", _MEASURED, str(note))
    child = stage.spawn(*stage.words(*words), around=around)
    code = child.wait(seconds)
    return code, child.stderr, int(note.read_text())


def require_state(run: Outcome) -> None:
    """The state of a run follows its schema."""
    assert not loader.misfit(run.state, "state.schema.json"), run.state


def left(run: Outcome) -> dict[str, str]:
    """The report and the artifacts of a run by name; times, ids and usage are taken out."""
    found = {}
    for path in sorted(run.folder.rglob("*")):
        name = path.relative_to(run.folder).as_posix()
        if path.is_dir() or name in TIMES or ".torn-" in name or name.endswith(".tmp"):
            continue
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        found[name] = timeless(run, name, text)
    return found


def texts(ended: Ended, run: Outcome) -> Iterator[tuple[str, str]]:
    """Everything that a run wrote anywhere, its copy of the source apart."""
    yield from (("stdout", ended.stdout), ("stderr", ended.stderr))
    for path in run.folder.rglob("*"):
        if path.is_file() and path.name != "source.txt":
            yield str(path), path.read_bytes().decode("utf-8", "surrogateescape")
