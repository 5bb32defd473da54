"""The public names of a file, in any language that the readers know, in one form."""

from __future__ import annotations

from rlm_ci.source import UNPARSED
from rlm_ci.source.grammars import LANGUAGES
from rlm_ci.source.languages import language
from rlm_ci.source.outline import outline
from rlm_ci.source.python import compatibility
from rlm_ci.source.python.interface import interface
from rlm_ci.source.test_files import is_trial
from rlm_ci.text.neutralise import clip
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.source.python.interface import PythonInterface, PythonName

#: Files that tools run, and folders that nothing is imported from.
SCRIPTS = frozenset(("setup.py", "conftest.py", "noxfile.py", "tasks.py", "fabfile.py"))
_BESIDE = frozenset(("benchmark", "benchmarks", "doc", "docs", "example", "examples"))
#: Kinds that are no names of an interface.
_MODULE = "module"
#: The end of a signature that is cut.
_CUT = "…"
#: Characters of a signature in a note.
_SIGNATURE = 64


class PublicName(Value):
    """``path`` is where it is defined; ``signature`` one line of source, but for Python."""

    path: str
    name: str
    kind: str
    line_start: int
    line_end: int
    signature: str = ""
    python: PythonName | None = None


class FileNames(Value):
    """The public names of one side of a file; ``is_read``: a reader knows the file."""

    path: str
    names: Mapping[str, PublicName]
    python: PythonInterface | None = None
    is_read: bool = True


class NameDifference(Value):
    """What differs between two versions of a name; ``retyped``: annotations alone."""

    notes: tuple[str, ...] = ()
    breaks: bool = False
    retyped: bool = False


def has_names(path: str) -> bool:
    """Whether a file may have public names: source code, no test, no example."""
    *folders, file = path.split("/")
    is_beside = file in SCRIPTS or not _BESIDE.isdisjoint(folders)
    return language(path) in LANGUAGES and not is_beside and not is_trial(path)


def names_of(path: str, content: bytes | None) -> FileNames:
    """The public names in ``content``; none where there is no file."""
    if content is None:
        return FileNames(path, {})
    if language(path) == "Python":
        python_interface = interface(path, content)
        if python_interface is None:
            return FileNames(path, {}, is_read=False)
        public = {
            name: PublicName(
                path,
                name,
                python_name.kind,
                python_name.line_start,
                python_name.line_end,
                python=python_name,
            )
            for name, python_name in python_interface.names.items()
            if python_name.is_public
        }
        return FileNames(path, public, python_interface)
    read = outline(path, content)
    return FileNames(
        path,
        {
            symbol.name: PublicName(
                path, symbol.name, symbol.kind, symbol.line_start, symbol.line_end, symbol.signature
            )
            for symbol in read.symbols
            if symbol.is_public and symbol.kind != _MODULE
        },
        is_read=read.state != UNPARSED,
    )


def difference(old: PublicName, new: PublicName) -> NameDifference | None:
    """What differs for those who use the name; None for nothing."""
    if old.python is not None and new.python is not None:
        differences = compatibility.differences(old.python, new.python)
        if differences:
            notes = tuple(difference.text for difference in differences)
            return NameDifference(notes, any(difference.breaks for difference in differences))
        is_retyped = compatibility.is_retyped(old.python, new.python)
        return NameDifference(retyped=True) if is_retyped else None
    if old.kind in ("constant", "variable", "field") or _agree(old.signature, new.signature):
        return None
    is_now, was = _excerpts(_bare(new.signature), _bare(old.signature))
    return NameDifference((f"is `{is_now}`, was `{was}`",), breaks=True)


def _agree(left: str, other: str) -> bool:
    """Whether two signatures are the same as far as they are known: one of several lines is cut."""
    sizes = [len(text.removesuffix(_CUT).rstrip()) for text in (left, other) if text.endswith(_CUT)]
    return left[: min(sizes)] == other[: min(sizes)] if sizes else left == other


def _bare(text: str) -> str:
    return text.replace("`", "'")


def _excerpts(left: str, other: str) -> list[str]:
    """Two texts, short enough for a line: each from shortly before they differ."""
    start = 0
    if max(len(left), len(other)) > _SIGNATURE:
        pairs = enumerate(zip(left, other, strict=False))
        same = next((at for at, (a, b) in pairs if a != b), min(len(left), len(other)))
        start = max(0, same - _SIGNATURE // 3)
        start = max(start, left.find(" ", start, same) + 1) if start else 0
    return [("…" if start else "") + clip(text[start:], _SIGNATURE) for text in (left, other)]
