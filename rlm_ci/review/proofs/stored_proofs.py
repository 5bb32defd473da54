"""``proofs/ID/`` in the artifacts of a review: what was run for a finding, and what came of it."""

from __future__ import annotations

import json
import os

from rlm_ci.errors import DamagedError
from rlm_ci.report.proof import LEVELS, Proof
from rlm_ci.review.proofs.reproduction import ProofOutcome, Reproduction  # noqa: TC001 - to read it
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rlm_ci.review.proofs.reproduction import RunOutcome

#: The folder in the artifacts of a review, and the file that has all of a proof.
FOLDER, RECORD = "proofs", "proof.json"
#: Where the folder lies in a run.
PLACE = ("rlm", "artifacts", "review", FOLDER)
_LIMIT = 1 << 20
#: Folders that are read again.
_MOST = 1000


class StoredProof(Value):
    """A reproduction, what its runs said, and the patch that mended it, "" for none.

    ``repair_reason`` says what speaks for the patch, or why there is none.
    """

    _optional = ()
    _recent = ("repair_reason",)

    reproduction: Reproduction
    outcome: ProofOutcome
    repair: str = ""
    repair_reason: str = ""

    def proof(self, finding: str) -> Proof:
        """As a report has it; ``finding`` is the id of the finding."""
        outcome = self.outcome
        return Proof(
            outcome.level,
            outcome.reason,
            outcome.command,
            "/".join((*PLACE, finding)),
            self.reproduction.content,
            outcome.head.output,
            outcome.base.output if outcome.base else "",
            self.repair,
            self.repair_reason,
        )

    def write(self, finding: str, write: Callable[[str, str], object]) -> None:
        """Write the files by ``write(name, text)``."""
        outcome = self.outcome
        _, dot, ending = self.reproduction.path.rpartition("/")[2].rpartition(".")
        code = f"reproduction{dot}{ending}" if ending.isalnum() and dot else "reproduction"
        texts = {
            code: self.reproduction.content,
            "head.txt": _run_summary(outcome.head),
            "base.txt": _run_summary(outcome.base) if outcome.base else "",
            "repair.patch": self.repair,
            RECORD: json.dumps(self.to_dict(), indent=1) + "\n",
        }
        for name, text in texts.items():
            if text:
                write(f"{FOLDER}/{finding}/{name}", text)


def _run_summary(run: RunOutcome) -> str:
    """How a run ended, on a line, and what it printed."""
    reason = f": {run.reason}" if run.reason else ""
    return f"{run.status}{reason}\n{run.output}"


def read(folder: str) -> Iterator[tuple[str, StoredProof]]:
    """All that the folder ``proofs`` of a review holds, by id. Raises DamagedError."""
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return
    for name in names[:_MOST]:
        path = os.path.join(folder, name, RECORD)
        try:
            stored = StoredProof.from_dict(json.loads(files.read(path, _LIMIT)))
        except (files.UnreadableError, ValueError, KeyError, TypeError, RecursionError) as error:
            raise _damaged(path, printable(str(error))[:200]) from None
        if stored.outcome.level not in LEVELS:
            raise _damaged(path, "its level is none")
        yield name, stored


def _damaged(step: str, why: str) -> DamagedError:
    return DamagedError(f"a proof cannot be read: {why}", where=printable(step))
