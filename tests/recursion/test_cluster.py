"""A Dask cluster on this machine does the leaves: the same bytes, also when a worker dies."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import RemoteError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from conftest import Cli
    from histories import GitRepo

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(sys.platform == "win32", reason="flock"),
    # Its own threads and sockets are ended in its own time.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning"),
]
_TEXT = "import subprocess\n\n\ndef run_{n}(word):\n    return subprocess.call(word, shell=True)\n"


@pytest.fixture
def cluster() -> Iterator[Any]:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as made:
        yield made


def artifacts(repo: GitRepo, run_id: str) -> dict[str, bytes]:
    [folder] = repo.path.glob(f".runs/*/cli/{run_id}/rlm/artifacts")
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*.*")}


def last(repo: GitRepo) -> str:
    return max(path.name for path in repo.path.glob(".runs/*/cli/*"))


def test_the_same_bytes_as_here(repo: GitRepo, cli: Cli, cluster: Any) -> None:
    for number in range(120):
        repo.write(f"part{number % 10}/mod_{number}.py", _TEXT.format(n=number))
    repo.commit()
    at = cluster.scheduler_address.removeprefix("tcp://")
    found = []
    for command in ("review", "wiki"):
        for scheduler in ("bfs", f"dask://{at}", f"dask://{at}?order=dfs"):
            ended = cli(command, "--scheduler", scheduler, cwd=repo)
            assert ended.code == 0, ended.stderr
            found.append(artifacts(repo, last(repo)))
        assert found[-3] == found[-2] == found[-1], command


def test_a_killed_worker_loses_nothing(repo: GitRepo, cli: Cli, cluster: Any) -> None:
    for number in range(200):
        repo.write(f"part{number % 20}/mod_{number}.py", _TEXT.format(n=number))
    repo.commit()
    at = cluster.scheduler_address.removeprefix("tcp://")
    here = cli("review", "--format", "json", cwd=repo).json()
    begun = cli("start", "review", "--scheduler", f"dask://{at}", "--format", "json", cwd=repo)
    run_id = begun.json()["run_id"]
    [folder] = repo.path.glob(f".runs/*/cli/{run_id}")
    results = Path(folder, "rlm", "results.jsonl")
    end = time.monotonic() + 60
    while time.monotonic() < end and not (results.exists() and results.stat().st_size):
        time.sleep(0.01)
    pids = [worker.pid for worker in cluster.workers.values()]
    os.kill(pids[0], signal.SIGKILL)
    assert cli("wait", run_id, cwd=repo).code == 0
    there = json.loads((folder / "report.json").read_text())
    assert there["findings"] == here["findings"]
    assert there["parts"] == here["parts"]


def test_nobody_is_there() -> None:
    from rlm_ci.recursion.cluster import Cluster

    with pytest.raises(RemoteError, match="the cluster does not answer"):
        Cluster("127.0.0.1:9", patience=1)
