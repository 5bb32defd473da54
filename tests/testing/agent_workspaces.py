"""A folder that an agent may work in: real files, real processes, a note of each start."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING

from rlm_ci.system import process_stream

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from rlm_ci.system.process import StreamResult
    from rlm_ci.workspace.checkout import RemovedFile
    from rlm_ci.workspace.sandboxed_commands import Launch


class Folder:
    """An ``AgentWorkspace`` over one folder, without a sandbox around it."""

    def __init__(self, path: Path, programs: Path | None = None) -> None:
        self.path = path
        self.launches: list[Launch] = []
        self.settled: str | None = None
        self._programs = programs
        self._trees: dict[str, dict[str, bytes]] = {}

    def removed_at(self, _tree: str) -> tuple[RemovedFile, ...]:
        return ()

    def recall(self, _tree: str, removed: Iterable[Sequence[str]]) -> None:
        assert list(removed) == []

    @property
    def root(self) -> str:
        return str(self.path)

    def run(self, launch: Launch) -> StreamResult:
        self.launches.append(launch)
        path = os.pathsep.join(filter(None, (str(self._programs or ""), "/usr/bin", "/bin")))
        return process_stream.stream(
            launch.argv,
            env={"PATH": path, "HOME": str(self.path.parent), **launch.env},
            stdin=launch.stdin,
            cwd=self.root,
            timeout=launch.timeout,
            errors=process_stream.Clip() if launch.on_output else None,
            on_output=launch.on_output,
        )

    def tree(self) -> str:
        files = {
            str(one.relative_to(self.path)): one.read_bytes()
            for one in sorted(self.path.rglob("*"))
            if one.is_file()
        }
        digest = hashlib.sha256(repr(files).encode()).hexdigest()
        self._trees[digest] = files
        return digest

    def restore(self, tree: str) -> None:
        for one in self.path.rglob("*"):
            if one.is_file():
                one.unlink()
        for name, data in self._trees[tree].items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_bytes(data)

    def settled_tree(self) -> str:
        return self.tree()

    def status(self, before: str, after: str) -> str:
        old, new = self._trees[before], self._trees[after]
        names = sorted(old.keys() | new.keys())
        return "\n".join(name for name in names if old.get(name) != new.get(name))

    def write(self, name: str, text: str) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path
