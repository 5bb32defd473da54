"""How a command ended, and what an agent did, as facts of the run's record."""

from __future__ import annotations

from collections import Counter

from rlm_ci.agents.agent import AgentOutcome
from rlm_ci.errors import DamagedError
from rlm_ci.system.process import Clipped, StreamResult
from rlm_ci.text.object_id import is_object_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Protocol

    from rlm_ci.agents.agent import Agent, Assignment
    from rlm_ci.runs import Fact
    from rlm_ci.workspace.checkout import RemovedFile

    class Copy(Protocol):
        """The copy that an agent edits; see ``Workspace``."""

        settled: str | None

        def settled_tree(self) -> str: ...
        def restore(self, tree: str) -> None: ...
        def removed_at(self, tree: str) -> tuple[RemovedFile, ...]: ...
        def recall(self, tree: str, removed: Iterable[Sequence[str]]) -> None: ...


def record_of(ended: StreamResult) -> dict[str, Any]:
    """``ended`` as JSON has it, with a replacement for what is no UTF-8."""
    output = ended.output.without_seam()
    if not output.omitted:  # a character may stand across the seam
        output = Clipped(output.head + output.tail)
    return {
        "returncode": ended.returncode,
        "reason": ended.reason,
        "seconds": round(ended.seconds, 3),
        "head": output.head.decode("utf-8", "replace"),
        "tail": output.tail.decode("utf-8", "replace"),
        "omitted": output.omitted,
    }


def ended_of(record: Mapping[str, Any]) -> StreamResult:
    """What ``record_of`` made its record of."""
    head, tail = (record[name].encode("utf-8", "replace") for name in ("head", "tail"))
    output = Clipped(head, tail, record["omitted"])
    return StreamResult(record["returncode"], record["reason"], output, record["seconds"])


class UnrecordedAgent:
    """The built-in agent: its completions are facts, and it edits the copy itself."""

    def __init__(self, agent: Agent, copy: Copy) -> None:
        self.name = agent.name
        self.metered = agent.metered
        self._agent = agent
        self._copy = copy

    def act(self, task: Assignment) -> AgentOutcome:
        """As the agent does. Raises what it raises."""
        self._copy.settled = None
        return self._agent.act(task)


class RecordedAgent:
    """An agent whose every assignment is one fact, with the tree that it left behind."""

    def __init__(self, agent: Agent, fact: Fact, copy: Copy) -> None:
        self.name = agent.name
        self.metered = agent.metered
        self._agent = agent
        self._fact = fact
        self._copy = copy
        self._acts: Counter[str] = Counter()

    def act(self, task: Assignment) -> AgentOutcome:
        """As the agent does, or did. Raises what it raises."""
        place = f"iteration-{task.iteration}/{task.role}"
        self._acts[place] += 1
        place = f"{place}-{self._acts[place]}"
        key = {"agent": self.name, "prompt": task.prompt, "tree": self._copy.settled_tree()}

        def produce() -> Mapping[str, Any]:
            outcome = self._agent.act(task)
            self._copy.settled = None
            tree = self._copy.settled_tree()
            return {
                "exit_code": outcome.exit_code,
                "summary": outcome.summary,
                "output": outcome.output,
                "reason": outcome.reason,
                "tree": tree,
                "removed": [[one.path, one.reason] for one in self._copy.removed_at(tree)],
            }

        told = self._fact("agent", place, key, produce)
        if not is_object_id(told.get("tree")):  # it is put on command lines
            raise _damaged("the agent left something that is not a tree", place)
        if self._copy.settled != told["tree"]:
            self._copy.restore(told["tree"])
            self._copy.settled = told["tree"]
        removed = told.get("removed", [])
        if any([type(one) for one in pair] != [str, str] for pair in removed):
            raise _damaged("something was taken out of the copy which has no name", place)
        self._copy.recall(told["tree"], removed)
        return AgentOutcome(told["exit_code"], told["summary"], told["output"], told["reason"])


def _damaged(what: str, place: str) -> DamagedError:
    hint = "start a new run"
    return DamagedError(f"the record says that {what}", where=f"agent, {place}", hint=hint)
