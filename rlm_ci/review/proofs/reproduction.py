"""A reproduction of a claim, and what came of running it."""

from __future__ import annotations

import json
from hashlib import sha256

from rlm_ci.text.printable import encodable
from rlm_ci.values import Value

TYPE_CHECKING = False

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
