"""A reproduction of a claim, what its runs at head and base show, and where it is stored."""

from __future__ import annotations

import ast
import json
import os
import re
from hashlib import sha256

from rlm_ci.errors import DamagedError
from rlm_ci.report.proof import LEVELS, Proof
from rlm_ci.source.python.syntax import parsed
from rlm_ci.system import files
from rlm_ci.text.printable import encodable, printable
from rlm_ci.validators import test_file_names
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator


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
_OUTPUT_SHOWN = 2_000
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
        return encodable(self.output)[-_OUTPUT_SHOWN:].strip("\n")


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


_NAME = re.compile(r"[A-Za-z_][\w.]{0,200}")
#: What Python raises where a name is not there.
_MISSING = frozenset(("ImportError", "AttributeError", "NameError"))
#: What other languages say then: JavaScript, Go, Rust.
MISSING = re.compile(
    r"is not (?:a function|a constructor|defined)\b|does not provide an export named"
    r"|Cannot find (?:module|package) |Failed to (?:load url|resolve import) |: undefined: \w"
    r"|(?:too many|not enough) arguments in call| has no field or method "
    r"|error\[E0(?:061|405|412|422|423|425|432|433|531|560|599|609)\]"
)
_LINE_SHOWN = 160
#: How runners of other languages show an assertion.
_ASSERTS = re.compile(r"\bexpect\(received\)|\bassertion ")
#: Characters of an assertion that names no class: a letter is part of every message.
_ENOUGH = 8

#: What tells how code is written, and not what it does, and no hook of Python hears of.
_WRITTEN = frozenset(("__annotations__", "__doc__", "__signature__"))
#: What a test does to the project's code, as ``inside/watch`` reports it.
READS, INSPECTS, REPLACES, BLINDS = "reads", "inspects", "replaces", "stops the watch on"
_PYTHON = (".py", ".pyi", ".pyx")


class ClaimFailure(Value):
    """An exception that a test or script ended with.

    ``kinds`` are the names of its classes; ``line`` is the line of the reproduction that it passed
    through last, and ``is_own`` says that it was raised there.
    """

    _ignores = True

    kinds: tuple[str, ...]
    message: str
    line: str = ""
    is_own: bool = False
    errno: int = 0

    @property
    def summary(self) -> str:
        """In a line, for people."""
        first = self.message.strip().partition("\n")[0]
        return printable(f"{(*self.kinds, 'an exception')[0]}: {first}"[:_LINE_SHOWN]).rstrip(": ")

    @property
    def says_missing(self) -> bool:
        """Whether it says that a name or a parameter is not there."""
        if not self.kinds:
            return MISSING.search(self.message.partition("\n")[0]) is not None
        # A call that is refused raises in the caller: the parameters do not fit.
        is_refused = self.is_own and "TypeError" in self.kinds
        return is_refused or not _MISSING.isdisjoint(self.kinds)

    def is_like(self, other: ClaimFailure) -> bool:
        """Whether both end alike at the same line; a message may say whatever the code returns."""
        return (self.kinds, self.line) == (other.kinds, other.line)


class ReproductionRun(Value):
    """One run: its outcome, the exceptions that it ended with, and what it did to the project."""

    outcome: RunOutcome
    failures: tuple[ClaimFailure, ...] = ()
    uses: tuple[ProjectUse, ...] = ()

    def fails_as(self, expects: str) -> ClaimFailure | None:
        """The first failure that is the one claimed."""
        return next((failure for failure in self.failures if is_expected(expects, failure)), None)


def is_expected(expects: str, failure: ClaimFailure) -> bool:
    """Whether ``failure`` is the assertion or exception that ``expects`` names.

    It names a class, a class and part of its message, or the assertion itself. ``Exception`` names
    nothing: every failure is one.
    """
    text = _plain(expects)
    name, colon, detail = (part.strip() for part in text.partition(":"))
    printed = _plain(f"{failure.message}\n{failure.line}")
    if not failure.kinds:  # of another language, whose runner prints what it likes
        is_named = name in printed or (name == "AssertionError" and _ASSERTS.search(printed))
        return bool(len(text) >= _ENOUGH and is_named and detail in printed)
    if _NAME.fullmatch(name) and (colon or " " not in text):
        last = name.rpartition(".")[2]
        is_kind = name in failure.kinds or ("." in name and last in failure.kinds)
        return is_kind and detail in printed
    return len(text) >= _ENOUGH and text in printed


def expected_warning(expects: str) -> str:
    """The class of warning that ``expects`` names first, "" for none."""
    name = _plain(expects).partition(":")[0].rpartition(".")[2].strip()
    return name if name.isidentifier() and name.endswith("Warning") else ""


def looks_at(content: str, claim: str) -> str:
    """What a reproduction in Python looks at that no run can tell; "" if it looks at nothing.

    A claim may be about just that, and then names it.
    """
    if (module := parsed(content)) is None:
        return ""
    nodes = list(ast.walk(module))
    names = [node.attr for node in nodes if isinstance(node, ast.Attribute)]
    # For getattr.
    names += [node.value for node in nodes if isinstance(node, ast.Constant)
              and isinstance(node.value, str)]  # fmt: skip
    text = claim.lower()
    return next((
        name for name in names if name in _WRITTEN and name.strip("_").rstrip("s") not in text
    ), "")  # fmt: skip


def shows_nothing(
    uses: Iterable[ProjectUse], subject: Container[tuple[str, str]], claim: str
) -> str:
    """Why a test shows nothing, by what it does to the code of a claim; "" if it may show it.

    ``subject`` are the definitions that the claim is about: path, and name within the file, "" for
    the file as a whole. A claim
    about how code is written may be shown by looking at that. Others than ``subject`` may be
    replaced: a network, a clock.
    """
    text = claim.lower()
    for use in uses:
        name = printable(use.name or use.path)[:_LINE_SHOWN]
        if use.how == REPLACES and (use.path, use.name) in subject:
            return f"it replaces `{name}`, which the claim is about"
        if use.how == BLINDS and "trace" not in text and "profile" not in text:
            return "it turns off what sees how it treats the project's code"
        is_read = use.how == READS and use.path.endswith(_PYTHON) and not _is_of_tests(use.path)
        is_seen = is_read or use.how == INSPECTS
        about = "default" if "defaults__" in use.name else "comment"
        if is_seen and not any(word in text for word in ("signature", "source", about)):
            return f"it looks at `{name}`, which shows how the code is written, not what it does"
    return ""


def _is_of_tests(path: str) -> bool:
    folders = path.split("/")[:-1]
    return test_file_names.is_file(path) or any(map(test_file_names.is_folder, folders))


def _plain(text: str) -> str:
    return " ".join(text.replace("`", " ").split())
