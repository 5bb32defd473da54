"""Killed at any record and resumed: the same bytes, and nothing that was finished is done again."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import ConfigError, DamagedError, StorageError
from rlm_ci.models import Completion, ModelRequest
from rlm_ci.models.budget import Ledger
from rlm_ci.models.record.record import Record
from rlm_ci.recursion.journal import run_json
from rlm_ci.recursion.journal.journal import Journals
from rlm_ci.recursion.journal.node_records import NAMES
from rlm_ci.recursion.journal.run_json import ProgressWatch
from rlm_ci.recursion.nodes import COMPLETED, PARTIAL, NodeResult
from rlm_ci.recursion.scheduler import Budget, Constraints
from rlm_ci.recursion.solver import RLM
from testing import solver_cases
from testing.journal_checks import verify
from testing.killed_runs import recursion_cut, recursion_killed_after, written
from testing.solver_cases import SMALL, Counting, records, shop, solve

if TYPE_CHECKING:
    from rlm_ci.recursion.nodes import Node


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that came to its end; its records are of three journals."""
    folder = tmp_path_factory.mktemp("done") / "rlm"
    solve(folder, shop())
    return folder


def finished(folder: Path) -> Counter[str]:
    return Counter(one["node_id"] for one in records(folder, "results"))


def resumed(folder: Path) -> NodeResult:
    """Go on, and see that nothing is done twice that has a result."""
    known = finished(folder)
    log = folder / "log"
    result = solve(folder, shop(), objective=Counting())
    again = finished(folder)
    assert set(again.values()) <= {1}, "a node has two results"
    assert known <= again
    assert not log.exists()
    return result


def same(folder: Path, done: Path) -> None:
    """The results are those of a run that nobody disturbed."""
    assert known(folder) == known(done)
    assert verify(str(folder)) == []


def known(folder: Path) -> dict[str, dict[str, Any]]:
    return {one["node_id"]: {**one, "seq": 0, "crc": ""} for one in records(folder, "results")}


@pytest.mark.full
def test_cut_off_behind_any_record(done: Path, tmp_path: Path) -> None:
    expected = solve(tmp_path / "plain", shop())
    total = written(done)
    assert total > 120
    for last in range(1, total, 4):
        folder = tmp_path / f"cut-{last}"
        recursion_killed_after(done, last, folder)
        assert resumed(folder) == expected
        same(folder, done)
        shutil.rmtree(folder)


@pytest.mark.full
def test_cut_off_within_any_record(done: Path, tmp_path: Path) -> None:
    expected = solve(tmp_path / "plain", shop())
    for last in range(0, written(done), 3):
        folder = tmp_path / f"cut-{last}"
        recursion_killed_after(done, last, folder, torn=30 if last % 2 else 0)
        assert resumed(folder) == expected
        same(folder, done)
        shutil.rmtree(folder)


def test_a_torn_record_is_kept_aside(done: Path, tmp_path: Path) -> None:
    folder = tmp_path / "torn"
    recursion_killed_after(done, 60, folder, torn=10)
    with Journals.open(str(folder)) as store:
        assert store.checkpoint == 60
    [aside] = folder.glob("*.torn-*")
    assert len(aside.read_bytes()) == 10
    name = aside.name.partition(".torn-")[0]
    log = (folder / "logs" / "recursion.log").read_text()
    assert log.endswith(f"Z {name}: a torn record was cut off, kept in {aside}\n")


def test_a_disk_that_is_full_leaves_whole_records(done: Path, tmp_path: Path) -> None:
    """A record that does not fit is taken back; the run goes on when there is room."""
    folder = tmp_path / "full"
    limit = max((done / name).stat().st_size for name in NAMES) // 2
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with Journals.open(str(folder)) as store:
        rlm = RLM(solver_cases.corpus(shop()), store, name="a-run")
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            with pytest.raises(StorageError, match="File too large"):
                rlm.solve(rlm.root, Counting(), Budget(), solver_cases.USUAL)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        with pytest.raises(StorageError, match="failed before"):  # there is room again
            store.running("0" * 16, ("leaf", "small_enough", 1.0))
    assert all((folder / one).read_bytes()[-1:] in (b"", b"\n") for one in NAMES)
    solve(folder, shop())
    assert not [*folder.glob("*.torn-*")]
    same(folder, done)


def cut_apart(done: Path, place: Path, share: tuple[int, ...]) -> None:
    """Leave so many fifths of each journal."""
    sizes = {name: len((done / name).read_bytes().splitlines()) for name in NAMES}
    counts = {name: sizes[name] * fifths // 5 for name, fifths in zip(NAMES, share, strict=True)}
    recursion_cut(done, place, counts)


@pytest.mark.parametrize("share", [(5, 0, 1), (0, 5, 5), (1, 4, 0), (4, 1, 5)])
def test_no_order_among_the_journals_matters(
    done: Path, tmp_path: Path, share: tuple[int, ...]
) -> None:
    """A failure of power may keep more of one than of another."""
    folder = tmp_path / "cut"
    cut_apart(done, folder, share)
    assert resumed(folder) == solve(tmp_path / "plain", shop())
    assert known(folder) == known(done)


@pytest.mark.full
def test_cut_off_anywhere_in_each_journal(done: Path, tmp_path: Path) -> None:
    expected = solve(tmp_path / "plain", shop())
    for share in product(range(6), repeat=3):
        folder = tmp_path / "-".join(map(str, share))
        cut_apart(done, folder, share)
        assert resumed(folder) == expected
        assert known(folder) == known(done)
        shutil.rmtree(folder)


def test_a_gap_is_damage(done: Path, tmp_path: Path) -> None:
    for name in NAMES:
        folder = tmp_path / name
        shutil.copytree(done, folder)
        whole = (folder / name).read_bytes().splitlines(keepends=True)
        (folder / name).write_bytes(b"".join(whole[:3] + whole[4:]))
        with pytest.raises(DamagedError, match="damaged at record 4"):
            Journals.open(str(folder))
        assert any("damaged at record 4" in problem for problem in verify(str(folder)))


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_byte_is_damage(done: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "changed"
    shutil.copytree(done, folder)
    content = bytearray((folder / name).read_bytes())
    content[len(content) // 2] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(DamagedError, match=r"damaged at record \d+, byte \d+"):
        Journals.open(str(folder))
    assert "damaged at record" in verify(str(folder))[0]


def test_a_recovery_that_is_killed_is_done_again(done: Path, tmp_path: Path) -> None:
    """The torn file is cut last: what else was cut is never taken for damage."""
    folder = tmp_path / "torn"
    shutil.copytree(done, folder)
    content = (folder / NAMES[0]).read_bytes()
    (folder / NAMES[0]).write_bytes(content[: len(content) // 2 + 3])
    torn = (folder / NAMES[0]).read_bytes()
    Journals.open(str(folder)).close()
    (folder / NAMES[0]).write_bytes(torn)
    Journals.open(str(folder)).close()
    solve(folder, shop())
    same(folder, done)


# -- a process that is killed -------------------------------------------------------------------


def child(folder: Path, log: Path, sleep: str) -> subprocess.Popen[bytes]:
    argv = [sys.executable, solver_cases.__file__, str(folder), str(log), sleep]
    top = Path(__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": f"{top}:{top.parent}"}
    return subprocess.Popen(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
@pytest.mark.full
def test_a_process_is_killed_in_the_middle(tmp_path: Path, how: signal.Signals, done: Path) -> None:
    folder, log = tmp_path / "rlm", tmp_path / "log"
    process = child(folder, log, "0.02")
    while not (log.exists() and len(log.read_text().splitlines()) > 6):
        assert process.poll() is None, process.communicate()[0].decode()
        time.sleep(0.01)
    process.send_signal(how)
    process.communicate(timeout=60)
    before = set(finished(folder)) if (folder / NAMES[0]).exists() else set()
    log.unlink()
    objective = Counting(log=str(log), sleep=0.02)
    solve(folder, shop(), objective=objective)
    assert not before & set(log.read_text().split()), "a finished node was done again"
    same(folder, done)


def test_progress_of_a_run_at_work(tmp_path: Path) -> None:
    folder, log = tmp_path / "rlm", tmp_path / "log"
    process = child(folder, log, "0.05")
    watch = ProgressWatch(str(folder))
    seen: list[int] = []
    try:
        while process.poll() is None and len(seen) < 2:
            found = watch.look()
            if found is not None and found.solved and found.solved not in seen:
                seen.append(found.solved)
                assert found.status == "running"
                assert found.branch[0] == "."
            time.sleep(0.02)
    finally:
        process.kill()
        process.communicate()
    assert seen
    assert ProgressWatch(str(tmp_path)).look() is None


# -- what is done again -------------------------------------------------------------------------


def test_a_finished_run_is_only_read(done: Path, tmp_path: Path) -> None:
    folder = tmp_path / "again"
    shutil.copytree(done, folder)
    assert solve(folder, shop(), objective=Never()) == solve(tmp_path / "plain", shop())
    for name in NAMES[:2]:
        assert (folder / name).read_bytes() == (done / name).read_bytes()
    assert [one["event"] for one in records(folder, "queue")][-1] == "run_resumed"
    assert ProgressWatch(str(folder)).look().solved == len(known(folder))  # type: ignore[union-attr]  # it is there


class Never(Counting):
    def judge(self, *_: Any) -> NodeResult:
        raise AssertionError("a finished leaf is judged again")


class Mending(Counting):
    """Raises for what stands in ``bad``, and counts what it is asked."""

    def __init__(self) -> None:
        super().__init__()
        self.bad = "till"
        self.judged: list[str] = []

    def judge(self, node: Any, task: Any, analysis: Any, ask: Any) -> NodeResult:
        if self.bad and any(self.bad in text.path for text in task.texts):
            raise ValueError("not today")
        self.judged.append(node.id)
        return super().judge(node, task, analysis, ask)


def test_only_what_failed_is_done_again(tmp_path: Path, done: Path) -> None:
    objective = Mending()
    assert solve(tmp_path / "rlm", shop(), objective=objective).status == PARTIAL
    first = set(objective.judged)
    objective.bad, objective.judged = "", []
    assert solve(tmp_path / "rlm", shop(), objective=objective).status == COMPLETED
    assert objective.judged
    assert not first & set(objective.judged)
    same(tmp_path / "rlm", done)


class Counted:
    """A model that answers at once; ``asked`` are the prompts that it got."""

    name = "counted"

    def __init__(self) -> None:
        self.asked: list[str] = []

    def complete(self, request: ModelRequest) -> Completion:
        text = str(request.messages[0]["content"])
        self.asked.append(text)
        return Completion(f"said of {text}", (), "stop", "counted")


def recorded(folder: Path, model: Counted, calls: int) -> NodeResult:
    """Solve with so many calls, each a fact of the run in ``folder``."""
    folder.mkdir(exist_ok=True)
    ledger = Ledger(max_calls=calls, max_tokens=10**9)
    with Record.open(str(folder / "calls.jsonl"), redact=str) as record:

        def of(node: Node) -> Any:
            def ask(step: str, messages: Any, **_: Any) -> Completion:
                request = ModelRequest("m-1", tuple(messages), 100)
                return record.complete(model, ledger, request, f"{node.id}/{step}")

            return ask

        constraints = Constraints(concurrency=1, shape=SMALL)
        return solve(folder / "rlm", shop(), objective=Naming(), ask=of, constraints=constraints)


class Naming(Counting):
    """Asks about each node by its id."""

    def judge(self, node: Node, task: Any, analysis: Any, ask: Any) -> NodeResult:
        return super().judge(node, task, analysis, ask and _about(node, ask))

    def aggregate(self, node: Node, children: Any, ask: Any) -> NodeResult:
        return super().aggregate(node, children, ask and _about(node, ask))


def _about(node: Node, ask: Any) -> Any:
    return lambda place, _: ask(place, [{"role": "user", "content": f"{node.id} {place}"}])


def test_what_the_budget_left_out_is_done_with_more_of_it(tmp_path: Path) -> None:
    """No call is made twice: those of split nodes, which are made again, are facts."""
    model = Counted()
    assert recorded(tmp_path / "a", model, 5).status == PARTIAL
    assert len(model.asked) == 5
    second = recorded(tmp_path / "a", model, 10_000)
    assert second.status == COMPLETED
    assert len(model.asked) == len(set(model.asked)), "what was answered is not asked again"
    assert second == recorded(tmp_path / "b", Counted(), 10_000)
    assert verify(str(tmp_path / "a" / "rlm")) == []


@pytest.mark.full
def test_killed_anywhere_no_call_is_made_twice(tmp_path: Path) -> None:
    model = Counted()
    whole = recorded(tmp_path / "done", model, 10_000)
    done = tmp_path / "done" / "rlm"
    for stop in range(0, written(done), 5):
        place = tmp_path / f"cut-{stop}"
        place.mkdir()
        shutil.copy(tmp_path / "done" / "calls.jsonl", place)
        recursion_killed_after(done, stop, place / "rlm")
        again = Counted()
        assert recorded(place, again, 10_000) == whole
        assert again.asked == []
        shutil.rmtree(place)


def test_nobody_goes_on_with_something_else(done: Path, tmp_path: Path) -> None:
    folder = tmp_path / "other"
    shutil.copytree(done, folder)
    with pytest.raises(ConfigError, match="files are not what it was"):
        solve(folder, shop() | {"new.py": b"x"})
    with pytest.raises(ConfigError, match="options is not what it was"):
        solve(folder, shop(), objective=Counting(more=1))
    with pytest.raises(ConfigError, match="shape is not what it was"):
        solve(folder, shop(), constraints=Constraints(shape=SMALL.replace(leaf_files=2)))
    (folder / run_json.NAME).unlink()
    with pytest.raises(DamagedError, match="what they are of is not"):
        solve(folder, shop())


def test_cancelled_nodes_are_marked_and_go_on_when_resumed(done: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cut"
    recursion_killed_after(done, 100, folder)
    active = run_json.cancel(str(folder))
    assert active > 3
    assert run_json.read(str(folder))["status"] == "cancelled"  # type: ignore[index]  # it is there
    assert verify(str(folder)) == []
    event = records(folder, "queue")[-1]
    assert (event["event"], len(event["nodes"])) == ("run_cancelled", active)
    solve(folder, shop())
    same(folder, done)


def test_outputs_are_noted(done: Path, tmp_path: Path) -> None:
    folder = tmp_path / "noted"
    shutil.copytree(done, folder)
    run_json.index(str(folder), [("markdown", "artifacts/review/report.md")])
    assert verify(str(folder)) == []
    found = run_json.read(str(folder))
    assert found is not None
    assert found["output_index"] == [{"kind": "markdown", "path": "artifacts/review/report.md"}]


# -- what verify finds --------------------------------------------------------------------------


def rewritten(done: Path, folder: Path, name: str, change: Any) -> list[str]:
    """What is wrong after ``change`` was made to the records of one file."""
    from rlm_ci.runs.journal.reader import to_line

    shutil.copytree(done, folder)
    found = records(folder, name)
    for one in found:
        del one["crc"]
    change(found)
    (folder / f"{name}.jsonl").write_bytes(b"".join(map(to_line, found)))
    return verify(str(folder))


def _unknown_field(found: list[dict[str, Any]]) -> None:
    found[5]["extra"] = 1


def _another_parent(found: list[dict[str, Any]]) -> None:
    next(one for one in found if one.get("depth") == 2)["parent_id"] = "0" * 16


def _a_smaller_scope(found: list[dict[str, Any]]) -> None:
    leaf = next(one["node_id"] for one in found if one.get("decision") == "leaf")
    one = next(one for one in found if one["node_id"] == leaf)
    one["scope"]["last"] -= 1


def _no_evidence(found: list[dict[str, Any]]) -> None:
    one = next(one for one in found if one["findings"])
    one["findings"][0]["finding"]["evidence"] = []


def _another_status(found: list[dict[str, Any]]) -> None:
    found[-1]["status"] = "failed"


def _another_child(found: list[dict[str, Any]]) -> None:
    """Two splits have each named a child of the other."""
    one, other = [one["child_ids"] for one in found if one.get("child_ids")][-2:]
    one[0], other[0] = other[0], one[0]


@pytest.mark.parametrize(
    ("name", "change", "told"),
    [
        ("queue", _unknown_field, "extra"),
        ("nodes", _another_child, "was to be a child of"),
        ("nodes", _another_parent, "has no parent"),
        ("nodes", _a_smaller_scope, "leaves"),
        ("results", _no_evidence, "evidence"),
        ("results", _another_status, "is completed, its result failed"),
    ],
)
def test_verify_names_what_is_wrong(
    done: Path, tmp_path: Path, name: str, change: Any, told: str
) -> None:
    problems = rewritten(done, tmp_path / "wrong", name, change)
    assert any(told in problem for problem in problems), problems


def test_a_node_says_of_which_run_it_is_and_what_is_asked(done: Path) -> None:
    found = records(done, "nodes")
    queued = [one for one in found if one["status"] == "queued"]
    whole = {(one["run_id"], one["objective"], one["domain"]) for one in queued}
    assert whole == {("a-run", Counting.name, Counting.domain)}
    assert {one["scope_type"] for one in queued} >= {"repo", "dir"}
    assert "shop" in {one["scope_ref"] for one in queued}
    below: dict[str | None, list[str]] = {}
    for one in queued:
        below.setdefault(one["parent_id"], []).append(one["node_id"])
    for one in found:
        if one["status"] == "running":
            assert one["child_ids"] == below.get(one["node_id"], [])
            depth = next(node["depth"] for node in queued if node["node_id"] == one["node_id"])
            budgets = {"depth": Budget().max_depth - depth, "calls": None, "seconds": None}
            assert one["budgets"] == budgets


def test_a_node_says_what_is_left_for_it(tmp_path: Path) -> None:
    budget = Budget(max_depth=5, minutes=10, calls_left=lambda: 7)
    solve(tmp_path, shop(), budget=budget)
    found = [one["budgets"] for one in records(tmp_path, "nodes") if one["status"] == "running"]
    assert {one["calls"] for one in found} == {7}
    assert found[0]["depth"] == 5
    assert all(0 < one["seconds"] <= 600 for one in found)


def test_an_ended_node_has_the_evidence_and_the_metrics_of_what_it_found(tmp_path: Path) -> None:
    class Measuring(Counting):
        def judge(self, *args: Any) -> NodeResult:
            return super().judge(*args).replace(metrics={"files": 1})

    solve(tmp_path, shop(), objective=Measuring())
    ended = [one for one in records(tmp_path, "nodes") if one["status"] == "completed"]
    place = {"path": "shop/cart/__init__.py", "line_start": None, "line_end": None}
    assert [one["evidence"] for one in ended if one["evidence"]] == [[place]], "no node above"
    leaves = {one["node_id"] for one in records(tmp_path, "nodes") if one.get("child_ids") == []}
    assert {one["node_id"] for one in ended if one["metrics"] == {"files": 1}} == leaves
    assert verify(str(tmp_path)) == []


def test_a_result_says_what_became_of_its_parts(tmp_path: Path) -> None:
    files = shop() | {"shop/till/e.py": b"", "shop/till/f.py": b"RAISE\n" * 70}
    solve(tmp_path, files)
    found = {one["node_id"]: one["aggregation_notes"] for one in records(tmp_path, "results")}
    root = records(tmp_path, "nodes")[0]["node_id"]
    assert found[root] == ["4 parts: 3 completed, 1 partial", "2 findings, of 2 in the parts"]
    leaf = next(one for one in records(tmp_path, "nodes") if one.get("decision") == "leaf")
    assert found[leaf["node_id"]] == []


def test_the_log_says_how_a_run_went(tmp_path: Path) -> None:
    objective = Mending()
    solve(tmp_path, shop(), objective=objective)
    objective.bad = ""
    solve(tmp_path, shop(), objective=objective)
    lines = (tmp_path / "logs" / "recursion.log").read_text().splitlines()
    told = [line.partition("Z ")[2] for line in lines]
    assert (told[0], told[-1]) == ("begun: counting, 20 files", "ended: completed")
    assert "resumed, with 26 nodes" in told
    failed = next(one for one in records(tmp_path, "results") if one["status"] == "failed")
    assert f"node {failed['node_id']}: not today" in told


def _as_before(found: list[dict[str, Any]]) -> None:
    """Records as they were written until 2026-11."""
    for one in found:
        if one["status"] == "queued":
            del one["run_id"], one["objective"], one["domain"]
            one["scope"] |= {"kind": one.pop("scope_type"), "path": one.pop("scope_ref")}
        elif one["status"] == "running":
            one["children"] = len(one.pop("child_ids"))


def test_a_run_of_before_is_shown_and_verified_and_goes_on(done: Path, tmp_path: Path) -> None:
    before = tmp_path / "before"
    assert rewritten(done, before, "nodes", _as_before) == []
    assert ProgressWatch(str(before)).look() == ProgressWatch(str(done)).look()
    problems = rewritten(before, tmp_path / "wrong", "nodes", _a_smaller_scope)
    assert any("leaves" in problem for problem in problems)
    nodes = (before / "nodes.jsonl").read_bytes().splitlines(keepends=True)
    assert solve(before, shop()).status == COMPLETED
    assert (before / "nodes.jsonl").read_bytes() == b"".join(nodes)


def test_verify_says_that_there_is_nothing(tmp_path: Path) -> None:
    assert verify(str(tmp_path)) == ["run.json is missing"]


def test_a_run_is_held_by_whoever_opened_it_and_its_root_is_that_of_the_corpus(
    tmp_path: Path,
) -> None:
    with Journals.open(str(tmp_path)) as store:
        rlm = RLM(solver_cases.corpus(shop()), store)
        assert rlm.root.scope.kind == "repo"
        assert rlm.solve(rlm.root, Counting(), Budget(), Constraints()).status == COMPLETED
