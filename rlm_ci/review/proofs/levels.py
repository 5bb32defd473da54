"""What runs at head and base say of a claim: a comparison, and no judgement of the code."""

from __future__ import annotations

import ast
import re

from rlm_ci.source.python.syntax import parsed
from rlm_ci.text.printable import printable
from rlm_ci.validators import test_file_names
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from rlm_ci.review.proofs.reproduction import ProjectUse, RunOutcome

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
_SHOWN = 160
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
        return printable(f"{(*self.kinds, 'an exception')[0]}: {first}"[:_SHOWN]).rstrip(": ")

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
        name = printable(use.name or use.path)[:_SHOWN]
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
