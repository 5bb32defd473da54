"""A recursion over files in memory, with an objective that counts; in processes of its own, too."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from rlm_ci.recursion.journal import node_records
from rlm_ci.recursion.nodes import COMPLETED, NodeResult, TracedFinding
from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.runs.journal.reader import to_line
from testing.killed_runs import OrderedJournals

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafTask, Node

    Records = list[dict[str, Any]]

import os
import signal
import sys
import time
from hashlib import sha1
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rlm_ci.recursion.corpus.corpus import Corpus, CorpusFile, order
from rlm_ci.recursion.nodes import FAILED
from rlm_ci.recursion.scheduler import Budget, Constraints
from rlm_ci.recursion.solver import RLM
from rlm_ci.recursion.tree_split import TreeShape

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from rlm_ci.models.json_question import Ask
    from rlm_ci.recursion.nodes import LeafTask, Node

SMALL = TreeShape(leaf_bytes=400, leaf_files=3, most_parts=4)
USUAL = Constraints(shape=SMALL)
UNLIMITED = Budget()


def corpus(contents: Mapping[str, bytes]) -> Corpus:
    """Files that are nowhere but here."""
    files = tuple(
        CorpusFile(path, sha1(content).hexdigest(), len(content))
        for path, content in sorted(contents.items(), key=lambda pair: order(pair[0]))
    )
    return Corpus(None, files, (), lambda some: [contents[file.path] for file in some])


def shop() -> dict[str, bytes]:
    """Folders, packages, chains of folders, a file that is too large for a leaf."""
    found = {
        f"shop/{place}/{name}.py": f"{name} = {place!r}\n".encode() * 9
        for place in ("cart", "cart/api", "till", "stock/deep/er")
        for name in ("a", "b", "c", "d")
    }
    found["shop/cart/__init__.py"] = b""
    found["README.md"] = b"# Shop\n"
    found["lib/only/one/down.py"] = b"x = 1\n"
    found["large.txt"] = b"".join(b"line %d of a long text\n" % number for number in range(90))
    return found


def analyse(task: LeafTask) -> dict[str, Any]:
    """Count lines; what the texts ask for is done, to this process or to the attempt."""
    texts = b"".join(text.content for text in task.texts)
    once = task.options.get("once")
    if b"DIE" in texts and not (once and os.path.exists(once)):
        if once:
            Path(once).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    if b"RAISE" in texts:
        raise ValueError("it cannot be counted")
    hold = task.options.get("hold")
    if hold and b"HOLD" in texts:
        Path(hold, str(os.getpid())).touch()
        while not Path(hold, "go").exists():
            time.sleep(0.01)
    log = task.options.get("log")
    if log:
        with Path(log).open("a") as stream:
            stream.write(f"{task.node.id}\n")
    if task.options.get("sleep"):
        time.sleep(task.options["sleep"])
    return {"lines": texts.count(b"\n"), "paths": [text.path for text in task.texts]}


class Counting:
    """Lines of all files; with a model, what it says of each leaf, too."""

    name = "counting"
    domain = None
    analyse = staticmethod(analyse)

    def __init__(self, **options: Any) -> None:
        self.options: Mapping[str, Any] = options

    def judge(
        self, node: Node, task: LeafTask, analysis: Mapping[str, Any], ask: Ask | None
    ) -> NodeResult:
        data = {"lines": analysis["lines"], "said": []}
        if ask is not None:
            data["said"] = [ask("count", [{"role": "user", "content": node.scope.path}]).text]
        findings = tuple(
            TracedFinding(
                Finding(
                    "counting/empty",
                    Severity.LOW,
                    "nothing is in it",
                    evidence=(Location(text.path, blob=text.blob),),
                ),
                (node.id,),
            )
            for text in task.texts
            if not text.content
        )
        summary = f"{analysis['lines']} lines in {', '.join(analysis['paths'])}"
        return NodeResult(node.id, COMPLETED, summary, 0.9, findings, data=data)

    def aggregate(self, node: Node, children: Sequence[NodeResult], ask: Ask | None) -> NodeResult:
        said = [text for child in children for text in child.data.get("said", [])]
        if ask is not None:
            said.append(ask("sum", [{"role": "user", "content": node.scope.path}]).text)
        lines = sum(child.data.get("lines", 0) for child in children)
        findings = tuple(one for child in children for one in child.findings)
        failed = sum(child.status == FAILED for child in children)
        return NodeResult(
            node.id, COMPLETED, f"{lines} lines, {failed} failed", 1.0, findings,
            data={"lines": lines, "said": said},
        )  # fmt: skip


def solve(
    folder: str | Path,
    contents: Mapping[str, bytes],
    *,
    objective: Any = None,
    constraints: Constraints = USUAL,
    budget: Budget = UNLIMITED,
    executor: Executor | None = None,
    ask: Callable[[Node], Ask] | None = None,
) -> NodeResult:
    with OrderedJournals.open(str(folder)) as store:
        rlm = RLM(corpus(contents), store, executor=executor, ask=ask, name="a-run")
        return rlm.solve(rlm.root, objective or Counting(), budget, constraints)


def records(folder: Path, name: str) -> list[dict[str, Any]]:
    path = folder / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]


def main() -> None:
    """``solving_cases.py FOLDER LOG SLEEP``: a run in a process that can be killed."""
    folder, log, sleep = sys.argv[1:]
    solve(folder, shop(), objective=Counting(log=log, sleep=float(sleep)))


if __name__ == "__main__":
    main()


def rewritten(done: Path, folder: Path, change: Callable[[Records], None]) -> None:
    shutil.copytree(done, folder)
    found = records(folder, "results")
    for one in found:
        del one["crc"]
    change(found)
    (folder / node_records.RESULTS).write_bytes(b"".join(map(to_line, found)))
