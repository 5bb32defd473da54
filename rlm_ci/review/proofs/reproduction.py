"""A reproduction of a claim, what came of running it, and where it is stored."""

from __future__ import annotations

import json
import os
from hashlib import sha256

from rlm_ci.errors import DamagedError
from rlm_ci.report.proof import LEVELS, Proof
from rlm_ci.system import files
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


#: The kinds of a reproduction.
TEST, SCRIPT = "test", "script"
#: How a run ended.
PASSED = "passed"
FAILED = "failed"
NOT_APPLICABLE = "not_applicable"
TIMEOUT = "timeout"
TOO_MUCH_OUTPUT = "too_much_output"
CHANGED_FILES = "changed_files"
FLAKY = "flaky"
NOT_RUN = "not_run"
#: Characters of what a run printed that a model is shown.
_SHOWN = 2_000
#: Why a reproduction shows no fault of the change.
FAILS_ALIKE = "it fails at the base, too, alike"


class ProjectUse(Value):
    """What a test does itself to the project's code: ``reads`` a file, ``replaces`` a name in it.

    ``name`` is qualified within the file, "" for the file as a whole.
    """

    how: str
    path: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.how} {f'{self.name} of ' if self.name else ''}{self.path}"


class Reproduction(Value):
    """The smallest code that shows a fault: a ``test`` of the project's framework, or a script.

    ``path`` is where a test would lie in the project. ``expects`` names the assertion or exception
    that it fails with: ``ValueError``, ``AssertionError: assert 'c' == 'b:c'``.
    """

    path: str
    content: str
    kind: str
    expects: str

    @property
    def digest(self) -> str:
        """The name under which its runs are recorded."""
        text = json.dumps(self.to_dict(), sort_keys=True)
        return sha256(text.encode("ascii")).hexdigest()[:16]


class RunOutcome(Value):
    """How a reproduction ended on one of the trees; ``output`` is bounded and has no secret.

    ``failed`` is a failure of any kind; that it is the one claimed, only the ``ProofOutcome`` says.
    """

    status: str
    reason: str = ""
    output: str = ""

    @property
    def tail(self) -> str:
        """The end of what it printed, for a prompt."""
        return encodable(self.output)[-_SHOWN:].strip("\n")


class ProofOutcome(Value):
    """What the runs say of a claim. ``level`` as in ``report/proof``; ``reason`` is one line.

    ``base`` is None where the reproduction was not run there. ``command`` is a line with which
    a person runs it. ``line`` is the statement that fails at head, "" where nothing tells which.
    ``uses`` is what it does to the project besides calling it.
    """

    _optional = ()
    _recent = ("line", "uses")

    level: str
    reason: str
    head: RunOutcome
    base: RunOutcome | None = None
    command: str = ""
    line: str = ""
    uses: tuple[ProjectUse, ...] = ()


class RepairOutcome(Value):
    """Whether a patch mends what the reproduction shows, and harms nothing; ``reason`` says why.

    ``patch`` is the one that was run, with the right counts of lines; "" if it is not ``ok``.
    ``is_run``: the reproduction ran with it.
    """

    ok: bool
    reason: str
    patch: str = ""
    is_run: bool = False


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
