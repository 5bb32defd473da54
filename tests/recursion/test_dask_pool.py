"""A Dask cluster on this machine does the leaves: the same bytes, also when a worker dies."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import RemoteError
from testing.solver_cases import Counting, solve

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.recursion.nodes import NodeResult
    from testing.program import Cli
    from testing.repositories.git_repo import GitRepo

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform == "win32", reason="flock"),
    # Its own threads and sockets are ended in its own time.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
]
_TEXT = "import subprocess\n\n\ndef run_{n}(word):\n    return subprocess.call(word, shell=True)\n"


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    from distributed import LocalCluster

    # A worker finds the objective of the tests as the tests do.
    tests = Path(__file__).parents[1]
    monkeypatch.setenv("PYTHONPATH", f"{tests}{os.pathsep}{tests.parent}")
    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as made:
        yield made


def artifacts(repo: GitRepo, run_id: str) -> dict[str, bytes]:
    [folder] = repo.path.glob(f".runs/*/cli/{run_id}/rlm/artifacts")
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}


def test_the_same_bytes_as_here(repo: GitRepo, cli: Cli, cluster: Any) -> None:
    for number in range(120):
        repo.write(f"part{number % 10}/mod_{number}.py", _TEXT.format(n=number))
    repo.commit()
    at = cluster.scheduler_address.removeprefix("tcp://")
    found = []
    for command in ("review", "wiki"):
        for scheduler in ("bfs", f"dask://{at}", f"dask://{at}?order=dfs"):
            ended = cli(command, "--format", "json", "--scheduler", scheduler, cwd=repo)
            assert ended.code == 0, ended.stderr
            found.append(artifacts(repo, ended.json()["run_id"]))
        assert found[-3] == found[-2] == found[-1], command


def test_a_worker_that_is_killed_with_a_leaf_in_its_hands_loses_nothing(
    tmp_path: Path, cluster: Any
) -> None:
    """The leaf tells whose process it is in, and waits there until it is dead."""
    from rlm_ci.recursion.dask_pool import DaskPool

    contents = {f"part/mod_{n}.py": b"x = 1\n" * 40 for n in range(40)}
    contents["part/mod_7.py"] = b"HOLD\n" * 40
    hold = tmp_path / "hold"
    hold.mkdir()
    found: list[NodeResult] = []
    executor = DaskPool(cluster.scheduler_address.removeprefix("tcp://"))
    objective = Counting(hold=str(hold))
    solving = threading.Thread(
        target=lambda: found.append(
            solve(tmp_path / "there", contents, objective=objective, executor=executor)
        )
    )
    solving.start()
    end = time.monotonic() + 60
    while time.monotonic() < end and not [*hold.iterdir()]:
        time.sleep(0.01)
    [held] = [int(path.name) for path in hold.iterdir()]
    assert held in [worker.pid for worker in cluster.workers.values()]
    results = tmp_path / "there" / "results.jsonl"
    before = results.read_bytes() if results.exists() else b""
    assert b"mod_7" not in before
    os.kill(held, signal.SIGKILL)
    while time.monotonic() < end and len([*hold.iterdir()]) < 2:
        time.sleep(0.01)
    others = {int(path.name) for path in hold.iterdir()} - {held}
    assert len(others) == 1, "it was given to nobody else"
    (hold / "go").touch()
    solving.join(60)
    executor.shutdown()
    here = solve(tmp_path / "here", contents, objective=objective)
    assert found[0] == here


def test_nobody_is_there() -> None:
    from rlm_ci.recursion.dask_pool import DaskPool

    with pytest.raises(RemoteError, match="the cluster does not answer"):
        DaskPool("127.0.0.1:9", patience=1)
