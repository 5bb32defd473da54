"""What a recursion comes to, and what it does when something goes wrong."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import LimitError, RemoteError, StorageError
from rlm_ci.models import Completion
from rlm_ci.recursion import coverage
from rlm_ci.recursion.corpus.corpus import CorpusFile
from rlm_ci.recursion.journal.journal import Journals
from rlm_ci.recursion.journal.run_json import ProgressWatch
from rlm_ci.recursion.nodes import COMPLETED, FAILED, PARTIAL, NodeResult
from rlm_ci.recursion.process_pool import ProcessPool
from rlm_ci.recursion.scheduler import DFS, HYBRID, ORDERS, Budget, Constraints, Frontier
from rlm_ci.recursion.solver import RLM
from rlm_ci.recursion.tree_split import PromptPart, TreeShape
from rlm_ci.redaction.redactor import Redactor
from testing.journal_checks import verify
from testing.solver_cases import SMALL, UNLIMITED, USUAL, Counting, corpus, records, shop, solve

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rlm_ci.recursion.nodes import LeafTask, Node

LINES = sum(content.count(b"\n") for content in shop().values())


@pytest.fixture(scope="module")
def workers() -> Iterator[ProcessPool]:
    made = ProcessPool(2)
    yield made
    made.shutdown(wait=True, cancel_futures=True)


class Saying:
    """A model that answers at once, or raises what it is told to; who asks at once is counted."""

    model = "saying"
    max_bytes = 10_000
    is_taught = False
    repair = 100

    def __init__(
        self, answer: Callable[[str, str], str] = lambda path, place: path + place
    ) -> None:
        self._answer = answer
        self._lock = threading.Lock()
        self._now = 0
        self.most = 0
        self.count = 0
        self.pause = 0.0

    def calls_left(self) -> int | None:
        return None

    def __call__(self, step: str, messages: Any, **_: Any) -> Completion:
        with self._lock:
            self._now += 1
            self.count += 1
            self.most = max(self.most, self._now)
        try:
            time.sleep(self.pause)
            return Completion(self._answer(messages[0]["content"], step), (), "stop", "saying")
        finally:
            with self._lock:
                self._now -= 1

    def of(self, _node: Node) -> Saying:
        return self


def test_all_files_are_looked_at(tmp_path: Path) -> None:
    result = solve(tmp_path, shop())
    assert (result.status, result.data["lines"]) == (COMPLETED, LINES)
    assert result.confidence == 0.9
    assert [one.finding.evidence[0].path for one in result.findings] == ["shop/cart/__init__.py"]
    assert verify(str(tmp_path)) == []
    nodes = records(tmp_path, "nodes")
    reasons = {one["reason"] for one in nodes if one["status"] == "running"}
    assert reasons == {"too_large", "too_many_files", "small_enough"}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("how", ["alone", "threads", "processes", "model"])
@pytest.mark.full
def test_order_and_executor_change_nothing(
    tmp_path: Path, order: str, how: str, workers: ProcessPool
) -> None:
    constraints = Constraints(order=order, concurrency=3, shape=SMALL)
    with ThreadPoolExecutor(3) as threads:
        executor = {"threads": threads, "processes": workers}.get(how)
        ask = Saying().of if how == "model" else None
        result = solve(tmp_path / "a", shop(), constraints=constraints, executor=executor, ask=ask)
    plain = solve(tmp_path / "b", shop(), ask=ask)
    assert result == plain
    assert verify(str(tmp_path / "a")) == []
    known = [
        {
            one["node_id"]: {**one, "seq": 0, "crc": ""}
            for one in records(tmp_path / name, "results")
        }
        for name in "ab"
    ]
    assert known[0] == known[1]


def test_no_more_are_asked_at_once_than_allowed(tmp_path: Path) -> None:
    saying = Saying()
    saying.pause = 0.01
    result = solve(
        tmp_path, shop(), constraints=Constraints(concurrency=3, shape=SMALL), ask=saying.of
    )
    assert result.status == COMPLETED
    assert saying.most == 3
    assert "sum" in result.data["said"][-1]


def flat(number: int) -> dict[str, bytes]:
    return {f"f{place}": b"x\n" for place in range(number)}


#: One leaf for each of ``flat``, one call at a time.
ALONE = Constraints(concurrency=1, shape=TreeShape(leaf_files=1, most_parts=8))


def test_a_thread_does_not_wait_for_the_next_leaf_to_be_made_ready(tmp_path: Path) -> None:
    """A call is answered only when the next leaf is ready to be asked about."""
    files = [*flat(6)]
    ready = {path: threading.Event() for path in files}

    class Ahead(Counting):
        def __init__(self) -> None:
            super().__init__()
            self.analyse = self.look  # of this process alone

        def look(self, task: LeafTask) -> dict[str, Any]:
            paths = [text.path for text in task.texts]
            ready[paths[0]].set()
            return {"lines": 1, "paths": paths}

    def answer(_path: str, _place: str) -> str:
        assert all(ready[path].wait(20) for path in files[: saying.count + 1])
        return ""

    saying = Saying(answer)
    result = solve(tmp_path, flat(6), objective=Ahead(), constraints=ALONE, ask=saying.of)
    assert (result.status, saying.most) == (COMPLETED, 1)
    assert verify(str(tmp_path)) == []


def test_what_waits_for_a_thread_is_not_asked_after_the_end(tmp_path: Path) -> None:
    def full(_path: str, _place: str) -> str:
        raise StorageError("the disk is full")

    saying = Saying(full)
    with pytest.raises(StorageError):
        solve(tmp_path, flat(6), constraints=ALONE, ask=saying.of)
    assert saying.count == 1


@pytest.mark.full
def test_what_waits_for_a_thread_is_not_asked_after_the_deadline(tmp_path: Path) -> None:
    saying = Saying()
    saying.pause = 0.7
    result = solve(tmp_path, flat(6), constraints=ALONE, budget=Budget(minutes=0.01), ask=saying.of)
    assert saying.count <= 2  # a leaf, and what it comes to with the others
    assert {text.partition(":")[0] for _, text in result.uncovered} <= {
        "budget", "deadline_exceeded"
    }  # fmt: skip
    assert verify(str(tmp_path)) == []
    again = solve(tmp_path, flat(6), ask=Saying().of, constraints=ALONE)
    assert (again.status, again.data["lines"]) == (COMPLETED, 6)


# -- why a node is a leaf -----------------------------------------------------------------------


def decisions(folder: Path) -> set[tuple[str, str]]:
    return {
        (one["decision"], one["reason"])
        for one in records(folder, "nodes")
        if one["status"] == "running"
    }


@pytest.mark.parametrize(
    ("reason", "budget", "constraints"),
    [
        ("max_depth_reached", Budget(max_depth=1), Constraints(shape=SMALL)),
        ("max_depth_reached", Budget(max_depth=0), Constraints(shape=SMALL)),
        ("budget_below_reserve", Budget(reserve=3, calls_left=lambda: 2), Constraints(shape=SMALL)),
        ("split_confidence_low", Budget(), Constraints(shape=SMALL, min_confidence=0.6)),
    ],
)
def test_a_node_must_be_a_leaf(
    tmp_path: Path, reason: str, budget: Budget, constraints: Constraints
) -> None:
    result = solve(tmp_path, shop(), budget=budget, constraints=constraints)
    assert ("leaf", reason) in decisions(tmp_path)
    assert (result.status, result.data["lines"]) == (COMPLETED, LINES)
    assert verify(str(tmp_path)) == []


def test_a_node_is_split_for_its_bytes_or_its_files(tmp_path: Path) -> None:
    solve(tmp_path, {f"f{number}": b"" for number in range(9)})
    assert decisions(tmp_path) == {("split", "too_many_files"), ("leaf", "small_enough")}


def test_after_the_deadline_nothing_is_looked_at(tmp_path: Path) -> None:
    result = solve(tmp_path, shop(), budget=Budget(minutes=0))
    assert result.status == FAILED
    assert {reason for _, reason in result.uncovered} == {"deadline_exceeded"}
    assert [path for path, _ in result.uncovered] == [f.path for f in corpus(shop()).files]
    assert decisions(tmp_path) == {("leaf", "deadline_exceeded")}
    assert verify(str(tmp_path)) == []
    again = solve(tmp_path, shop())
    assert (again.status, again.data["lines"]) == (COMPLETED, LINES)


def test_what_has_begun_is_done_when_the_deadline_comes(tmp_path: Path) -> None:
    result = solve(tmp_path, shop(), objective=Counting(sleep=0.1), budget=Budget(minutes=0.004))
    assert result.status == PARTIAL
    assert {reason for _, reason in result.uncovered} == {"deadline_exceeded"}
    assert 0 < result.data["lines"] < LINES
    assert verify(str(tmp_path)) == []


def test_nothing_is_a_corpus_too(tmp_path: Path) -> None:
    assert solve(tmp_path, {}).status == COMPLETED
    assert verify(str(tmp_path)) == []


# -- when something fails -----------------------------------------------------------------------


def broken() -> dict[str, bytes]:
    return shop() | {"shop/till/b.py": b"RAISE\n" * 9}


def test_a_leaf_that_fails_is_tried_again_and_then_left_out(tmp_path: Path) -> None:
    result = solve(tmp_path, broken())
    assert result.status == PARTIAL
    left_out = dict(result.uncovered)
    assert left_out["shop/till/b.py"] == "failed: it cannot be counted"
    assert len(left_out) < 4
    assert 0.5 < result.confidence < 0.9
    ended = [one for one in records(tmp_path, "nodes") if one["status"] == "failed"]
    assert [len(one["errors"]) for one in ended] == [2]
    assert ended[0]["errors"][0]["message"] == "it cannot be counted"
    events = [one["event"] for one in records(tmp_path, "queue")]
    assert (events.count("node_requeued"), events.count("node_failed")) == (1, 1)
    assert verify(str(tmp_path)) == []
    assert ProgressWatch(str(tmp_path)).look().errors == (("it cannot be counted", 2),)  # type: ignore[union-attr]  # it is there


def test_the_run_fails_when_nothing_is_left(tmp_path: Path) -> None:
    result = solve(tmp_path, {f"f{number}": b"RAISE" * 60 for number in range(5)})
    assert (result.status, result.confidence) == (FAILED, 0.0)
    assert len(result.uncovered) == 5
    assert verify(str(tmp_path)) == []


def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path, workers: ProcessPool) -> None:
    files = shop() | {"shop/till/b.py": b"DIE\n" * 9}
    once = str(tmp_path / "died")
    result = solve(tmp_path / "a", files, objective=Counting(once=once), executor=workers)
    assert result.status == COMPLETED
    assert result == solve(tmp_path / "b", files, objective=Counting(once=once))


def test_a_leaf_that_kills_its_worker_is_alone(tmp_path: Path, workers: ProcessPool) -> None:
    files = shop() | {"shop/till/b.py": b"DIE\n" * 9}
    result = solve(tmp_path, files, executor=workers)
    assert result.status == PARTIAL
    assert dict(result.uncovered)["shop/till/b.py"].startswith("failed: the process")
    assert len(result.uncovered) < 4


def refused(word: str) -> Callable[[str, str], str]:
    def answer(path: str, place: str) -> str:
        if word == "limit":
            raise LimitError("no call is left", budget="max_calls")
        if word == "remote" and "till" in path:
            raise RemoteError("nobody is there")
        return path + place

    return answer


@pytest.mark.parametrize(("word", "reason"), [("limit", "budget"), ("remote", "remote")])
def test_what_was_found_without_the_model_is_never_lost(
    tmp_path: Path, word: str, reason: str
) -> None:
    result = solve(tmp_path, shop(), ask=Saying(refused(word)).of)
    assert (result.status, result.data["lines"]) == (PARTIAL, LINES)
    assert {text.partition(":")[0] for _, text in result.uncovered} == {reason}
    assert [one.finding.evidence[0].path for one in result.findings] == ["shop/cart/__init__.py"]
    assert result.confidence < 0.9
    assert verify(str(tmp_path)) == []
    again = solve(tmp_path, shop(), ask=Saying().of)
    assert again == solve(tmp_path / "fresh", shop(), ask=Saying().of)
    assert verify(str(tmp_path)) == []


def test_a_disk_that_fails_ends_the_run(tmp_path: Path) -> None:
    def full(_path: str, _place: str) -> str:
        raise StorageError("the disk is full")

    with pytest.raises(StorageError):
        solve(tmp_path, shop(), ask=Saying(full).of)
    assert solve(tmp_path, shop()).status == COMPLETED


class Wrong(Counting):
    """Its result is no JSON."""

    def judge(self, node: Any, task: Any, analysis: Any, ask: Any) -> NodeResult:
        found = super().judge(node, task, analysis, ask)
        is_one = any(text.path == "README.md" for text in task.texts)
        return found.replace(data={"lines": float("nan")}) if is_one else found


def test_a_result_that_is_no_json_fails_its_node(tmp_path: Path) -> None:
    result = solve(tmp_path, shop(), objective=Wrong())
    assert result.status == PARTIAL
    assert "README.md" in dict(result.uncovered)


class Telling(Counting):
    """Repeats what it has read."""

    def judge(self, node: Any, task: Any, analysis: Any, ask: Any) -> NodeResult:
        found = super().judge(node, task, analysis, ask)
        texts = [text.content.decode() for text in task.texts]
        return found.replace(summary="".join(texts), data={**found.data, "texts": [texts]})


def test_secrets_are_in_no_journal(tmp_path: Path) -> None:
    secret = "sk-proj-Zq7Xw2Rt9Lm4Kp8Vb3Nc"
    files = shop() | {"README.md": f"key = {secret}\n".encode(), "bad": b"RAISE" + b"x" * 400}
    with Journals.open(str(tmp_path), redactor=Redactor({"OPENAI_API_KEY": secret})) as store:
        rlm = RLM(corpus(files), store)
        result = rlm.solve(rlm.root, Telling(), UNLIMITED, USUAL)
    assert result.status == PARTIAL
    for path in filter(Path.is_file, tmp_path.rglob("*")):
        assert secret.encode() not in path.read_bytes()
    assert verify(str(tmp_path)) == []


# -- confidence, and whose turn it is -----------------------------------------------------------


@pytest.mark.parametrize(
    ("whys", "told"),
    [
        ([], None),
        (["remote: no such key"], "no such key"),
        (["remote: no such key", "remote: no such model"], "no such key"),
        (["remote"], "the model's service did not answer"),
        (["remote: no such key", "budget: all calls are used"], None),
    ],
)
def test_the_service_is_the_cause_where_nothing_else_is(whys: list[str], told: str | None) -> None:
    uncovered = tuple((f"{number}.py", why) for number, why in enumerate(whys))
    error = coverage.refusal(NodeResult("0", COMPLETED, "", 1.0, uncovered=uncovered))
    assert (error and error.what) == told


@pytest.mark.parametrize(
    ("why", "hint"),
    [
        ("no such key", "look at the key"),
        ("the limit of 50 requests a day is reached (429): …", "what was done is kept: resume"),
        ("the prompt is too long for the model", "models.context_tokens"),
    ],
)
def test_what_to_do_about_the_service(why: str, hint: str) -> None:
    uncovered = (("a.py", f"remote: {why}"),)
    error = coverage.refusal(NodeResult("0", COMPLETED, "", 1.0, uncovered=uncovered))
    assert error is not None
    assert hint in error.hint


def test_confidence_is_what_was_looked_at() -> None:
    files = corpus({"a": b"x" * 99, "b": b"x" * 299}).files
    half = NodeResult("", COMPLETED, "", 0.8, uncovered=(("a", "budget: spent"),))
    leaf = coverage.of_leaf("1", half, files)
    assert (leaf.status, leaf.confidence) == (PARTIAL, 0.7)
    lost = coverage.failed("2", files[:1], "failed", "it broke")
    whole = coverage.of_split("0", NodeResult("", COMPLETED, "", 1.0), (leaf, lost), (398, 99))
    assert whole.status == PARTIAL
    assert whole.confidence == round(0.7 * 399 / 499, 6)
    assert whole.uncovered == (("a", "budget: spent"), ("a", "failed: it broke"))


class Placed:
    def __init__(self, name: str, depth: int) -> None:
        self.name = name
        self.depth = depth


def turns(order: str) -> str:
    """The order of a tree with two children each, two levels deep, and c the largest."""
    frontier = Frontier(order, lambda item: {"c": 9, "c2": 5}.get(item.name, 0))
    frontier.add((Placed("r", 0),))
    said = []
    while frontier:
        item = frontier.pop()
        said.append(item.name)
        inner = {"r": "ab", "a": "cd", "b": "ef"}.get(item.name, "")
        if item.name in ("c", "e"):
            inner = "12"
        frontier.add(
            [Placed(f"{item.name}{n}" if n.isdigit() else n, item.depth + 1) for n in inner]
        )
    return " ".join(said)


def test_orders() -> None:
    assert turns("bfs") == "r a b c d e f c1 c2 e1 e2"
    assert turns(DFS) == "r a c c1 c2 d b e e1 e2 f"
    assert turns(HYBRID) == "r a b c c2 c1 d e e1 e2 f"


def test_prompts_are_leaves_beside_the_files_and_answer_for_theirs(tmp_path: Path) -> None:
    """A prompt gets the texts that are there; if it fails, all that it is about is uncovered."""
    files = {one.path: one for one in corpus(shop()).files}
    gone = CorpusFile("gone.py", "", 0)
    prompts = [
        PromptPart("part 1", (files["README.md"], gone), (files["large.txt"],), 100),
        PromptPart("part 2", (files["lib/only/one/down.py"],), (), 50),
    ]

    def answer(path: str, place: str) -> str:
        if path == "part 1":
            raise LimitError("no more", budget="max_calls")
        return path + place

    results = []
    for folder in ("one", "two"):
        with Journals.open(str(tmp_path / folder)) as store:
            made = RLM(
                corpus(shop()), store, ask=lambda _node: Saying(answer), prompts=prompts, name="a"
            )
            results.append(made.solve(made.root, Counting(), UNLIMITED, USUAL))
    assert results[0] == results[1]
    assert {path for path, _ in results[0].uncovered} == {"README.md", "gone.py"}
    assert "part 2count" in results[0].data["said"]
    assert results[0].data["lines"] == LINES + 1 + 90 + 1
    assert verify(str(tmp_path / "one")) == []
    scopes = [
        one for one in records(tmp_path / "one", "nodes") if one.get("scope_type") == "prompt"
    ]
    assert [one["scope_ref"] for one in scopes] == ["part 1", "part 2"]
