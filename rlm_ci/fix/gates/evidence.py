"""The gate ``evidence``: a manifest with the hash of all that the verdict rests on.

It fails where something of that cannot be read, as a submodule. It has no times: a run that was
resumed, replayed or verified makes the same bytes.
"""

from __future__ import annotations

import json
from hashlib import sha256

from rlm_ci.fix.gates.gate import FAILED, PASSED, Gate, GateResult, summary
from rlm_ci.system import files
from rlm_ci.text.printable import count, encodable, first_of
from rlm_ci.workspace.tree_diff import differing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from rlm_ci.fix.gates.gate import GateView
    from rlm_ci.workspace.workspace import Workspace

FILE = "rlm/evidence.json"
VERSION = 1
#: Files that are in memory at once, and bytes of a log.
_BATCH, _LIMIT = 64, 1 << 30


class EvidenceGate(Gate):
    """Hashes what the result changes, and the files of its last iteration."""

    name = "evidence"

    def __init__(
        self, copy: Workspace, path_of: Callable[..., str], redact: Callable[[str], str]
    ) -> None:
        self._copy = copy
        self._path_of = path_of
        self._redact = redact

    def check(self, view: GateView) -> GateResult:
        changes, odd = self._changes(view)
        artifacts = []
        logs = (name for result in view.earlier for name in result.logs)
        for name in dict.fromkeys((*view.files, *logs)):
            try:
                data = files.read(self._path_of(*name.split("/")), _LIMIT)
            except files.UnreadableError:
                odd.append(name)
                continue
            artifacts.append({"path": name, **_hashed(data)})
        record = {
            "version": VERSION,
            "iteration": view.iteration,
            "base": view.base,
            "result": view.result,
            "gates": summary(view.earlier),
            "changes": changes,
            "artifacts": artifacts,
        }
        text = self._redact(json.dumps(record, indent=2)).encode()
        files.write(self._path_of(*FILE.split("/")), text + b"\n", 0o600)
        if odd:
            message = f"it cannot be read: {first_of(sorted(odd), 'file')}"
            return GateResult(self.name, FAILED, message)
        message = f"{count(len(changes), 'change')} and {count(len(artifacts), 'artifact')} hashed"
        return GateResult(self.name, PASSED, f"{message} in {FILE}", logs=(FILE,))

    def _changes(self, view: GateView) -> tuple[list[dict[str, Any]], list[str]]:
        """Each file that the result changes, and the paths of those whose content is not there."""
        sides = differing(self._copy.entries(view.base), self._copy.entries(view.result))
        rows, odd = [], []
        for at in range(0, len(paths := sorted(sides)), _BATCH):
            batch = [(path, sides[path][1]) for path in paths[at : at + _BATCH]]
            blobs = iter(self._copy.contents(new.oid for _, new in batch if new))
            for path, new in batch:
                row = {"path": encodable(path), "mode": new.mode if new else None}
                data = next(blobs) if new else None
                rows.append(row if data is None else row | _hashed(data))
                odd += [path] if new and data is None else []
        return rows, odd


def _hashed(data: bytes) -> dict[str, Any]:
    return {"sha256": sha256(data).hexdigest(), "bytes": len(data)}
