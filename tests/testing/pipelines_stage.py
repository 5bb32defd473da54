"""A repository with pipelines, the program in it, and the processes that it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testing.leftovers import eventually, processes_of

if TYPE_CHECKING:
    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo


class Stage:
    """``cli`` runs in ``repo``; whatever runs it has started are ended by ``clean``."""

    def __init__(self, repo: GitRepo, cli: Cli) -> None:
        self.repo = repo
        self._cli = cli
        self._spawned: list[subprocess.Popen[str]] = []
        repo.write(".gitignore", "said\ngo\nchild\n").write("README.md", "x").commit()

    def cli(self, *args: str, **options: Any) -> Ended:
        return self._cli(*args, cwd=self.repo, **options)

    def pipelines(self, tables: list[dict[str, Any]]) -> None:
        record = json.dumps({"pipelines": [
            table | {"stages": [{"kind": "command", **stage} for stage in table["stages"]]}
            for table in tables
        ]})  # fmt: skip
        self.repo.write("codex.orchestrator.json", record).commit()

    def pipeline(self, name: str, *commands: str) -> None:
        stages = [{"title": f"Stage {n}", "command": text} for n, text in enumerate(commands, 1)]
        self.pipelines([{"id": name, "stages": stages}])

    def start(self, *args: str, env: dict[str, str] | None = None) -> dict[str, Any]:
        ended = self.cli("start", *args, "--format", "json", env=env)
        assert ended.code == 0, ended
        told: dict[str, Any] = ended.json()
        return told

    def spawn(self, *args: str, pass_fds: tuple[int, ...] = ()) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [sys.executable, "-I", "-m", "rlm_ci", *args], cwd=self.repo, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            pass_fds=pass_fds,
        )  # fmt: skip
        self._spawned.append(child)
        return child

    def ids(self) -> list[str]:
        return sorted(path.name for path in self.repo.path.glob(".runs/*/cli/*"))

    def only(self) -> str:
        [run_id] = self.ids()
        return run_id

    def folder(self, run_id: str) -> Path:
        [found] = self.repo.path.glob(f".runs/*/cli/{run_id}")
        return found

    def manifest(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder(run_id) / "manifest.json").read_text())
        return found

    def read(self, name: str) -> bytes:
        path = self.repo.path / name
        return path.read_bytes() if path.exists() else b""

    def wait_for(self, run_id: str, status: str) -> None:
        assert eventually(lambda: self.manifest(run_id)["status"] == status)

    def holder(self, run_id: str) -> int:
        pid: int = json.loads((self.folder(run_id) / ".lock").read_text())["pid"]
        return pid

    def clean(self) -> None:
        """End the processes of all runs here, and those that were spawned."""
        for run_id in self.ids():
            try:
                held = json.loads((self.folder(run_id) / ".lock").read_text())["pid"]
            except (OSError, ValueError):
                held = 0
            runner = Path(f"/proc/{held}/cmdline")
            if held and runner.exists() and run_id.encode() in runner.read_bytes():
                os.kill(held, signal.SIGKILL)
            for pid in processes_of(run_id):
                os.kill(pid, signal.SIGKILL)
        for child in self._spawned:
            child.kill()
            child.communicate()
