"""The gate ``approval``: a person must approve the result, in a file of the work tree.

The run pauses; a resume reads the file. Only what was written after the run asked counts, and if it
names a result, only for that one. The agent cannot write it: it works on a copy, of which this file
is no part. What came with a checkout is older than the question.
"""

from __future__ import annotations

import json
import os

from rlm_ci.errors import LimitError
from rlm_ci.fix.gates.gate import FAILED, NOT_ASKED, PASSED, WAITING, Gate, GateResult
from rlm_ci.runs.state import PAUSED
from rlm_ci.system import files
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.fix.gates.gate import GateView
    from rlm_ci.runs import Fact

APPROVED, REJECTED = "approved", "rejected"
#: The approval that a person can copy, if the result is right.
FILE = "rlm/approval.json"
_LIMIT = 64 << 10
_SAID, _REASON = 200, 2_000


class ApprovalGate(Gate):
    """``path`` is the file, below ``root``, the user's work tree."""

    name = "approval"

    def __init__(self, path: str, root: str, fact: Fact, path_of: Callable[..., str]) -> None:
        self._path = path
        self._root = root
        self._fact = fact
        self._path_of = path_of
        #: What a person has rejected: the same is not offered again.
        self._rejected: dict[str, GateResult] = {}
        self.line = "approval: a person looks at the result. You cannot give it"

    def check(self, view: GateView) -> GateResult:
        if any(result.verdict != PASSED for result in view.earlier):
            return GateResult(self.name, NOT_ASKED, "another gate does not pass")
        if view.result == view.base:
            return GateResult(self.name, PASSED, "there is no change to approve")
        step, key = f"iteration-{view.iteration}/approval", {"result": view.result}
        if view.result in self._rejected:
            return self._rejected[view.result]
        request = json.dumps({"status": APPROVED, "result": view.result}) + "\n"
        files.write(self._path_of(*FILE.split("/")), request.encode(), 0o600)
        request_fact = self._fact("approval-asked", step, key, lambda: {"file": self._identity()})

        def produce() -> Mapping[str, Any]:
            return self._decided(str(request_fact["file"]), view.result)

        try:
            decision = self._fact("approval", step, key, produce)
        except LimitError as error:
            if error.budget != PAUSED:
                raise
            return GateResult(self.name, WAITING, error.what)
        comment = printable(str(decision["said"]))
        if decision["approved"]:
            return GateResult(self.name, PASSED, f"approved{comment and f': {comment}'}"[:_SAID])
        reason = f"a person rejected the result{comment and f': {comment}'}"
        rejected = GateResult(self.name, FAILED, reason[:_SAID], feedback=reason)
        self._rejected[view.result] = rejected
        return rejected

    def _decided(self, digest: str, result: str) -> Mapping[str, Any]:
        """What a person has decided. Raises LimitError as long as there is nothing."""
        now = self._identity()  # before the content: that may only be newer
        try:
            data = files.read_inside(self._root, self._path, _LIMIT)
        except files.UnreadableError as error:
            raise self._waiting("" if error.missing else str(error)) from None
        if now == digest:
            raise self._waiting("it was there before the run asked: write it anew")
        try:
            record = json.loads(data)
        except (ValueError, RecursionError):
            raise self._waiting("it is no JSON") from None
        status = record.get("status") if isinstance(record, dict) else None
        if status not in (APPROVED, REJECTED):
            raise self._waiting("its status is neither approved nor rejected")
        if record.get("result", result) != result:
            raise self._waiting("it is for another result")
        comment = record.get("reason", "")
        return {
            "approved": status == APPROVED,
            "said": comment[:_REASON] if isinstance(comment, str) else "",
        }

    def _waiting(self, why: str) -> LimitError:
        message = (
            f"look at the patch; to approve it, copy {FILE} of the run to"
            f" {printable(self._path)}, and resume"
        )
        return LimitError(f"{message}{why and f' ({printable(why)})'}", budget=PAUSED)

    def _identity(self) -> str:
        """What tells one writing of the file from another; "" without a file."""
        try:
            status = os.lstat(os.path.join(self._root, self._path))
        except OSError:
            return ""
        return f"{status.st_mtime_ns}-{status.st_ino}-{status.st_size}"
