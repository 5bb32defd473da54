"""The fields of all records that are read from JSON: ``tests/data/stored_fields.txt``.

Files of earlier releases have these fields. So the file follows the code by itself only where such
files can still be read: a class is new, it gained a field that may be missing, or it has an
``_upgraded``. All else leaves the earlier lines, a test fails, and a person decides.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docs import record_schemas
from rlm_ci import decoding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    #: By the name of a class, its lines; a row is a list, and has them in order.
    Fields = Mapping[str, tuple[str, ...]]

TOP = Path(__file__).resolve().parent.parent
FILE = TOP / "tests" / "data" / "stored_fields.txt"
_HEAD = """\
# The fields of records that are read from JSON; ? may be missing, [] is a list in this order.
# `make generate` adds what older files can lack, and changes a class that has an `_upgraded`.
# Change another line by hand only if no file of a release can have the old field.
"""
_READ = re.compile(r"(?<![\w.])([A-Z]\w+)\.from_dict\b")
_NAME = re.compile(r"[A-Za-z_][\w.]*")


def text() -> str:
    """The file as it should be: the code, and lines that only a person may change."""
    earlier = parsed(FILE.read_text("utf-8")) if FILE.exists() else {}
    return written(merged(earlier, *current()))


def current() -> tuple[Fields, frozenset[str]]:
    """The fields in the code, and the classes that read older forms."""
    classes = {_title(record): record for record in records()}
    upgraded = frozenset(name for name, record in classes.items() if record._upgraded)
    return {name: _fields(classes[name]) for name in sorted(classes)}, upgraded


def records() -> set[type[Any]]:
    """The classes of which a module reads one from JSON, and those in their fields."""
    reached: set[type[Any]] = set()
    waiting = [*_roots()]
    while waiting:
        record = waiting.pop()
        if record not in reached:
            reached.add(record)
            waiting.extend(_inner(record))
    return reached


def _roots() -> Iterator[type[Any]]:
    yield from record_schemas.records()
    for path in sorted((TOP / "rlm_ci").rglob("*.py")):
        names = set(_READ.findall(path.read_text("utf-8")))
        if names:
            dotted = ".".join(path.relative_to(TOP).with_suffix("").parts)
            module = importlib.import_module(dotted.removesuffix(".__init__"))
            yield from (
                getattr(module, name)
                for name in sorted(names)
                if getattr(getattr(module, name, None), "_fields", ())
            )


def _inner(record: type[Any]) -> Iterator[type[Any]]:
    for annotation, names in decoding.annotations_of(record).values():
        for name in _NAME.findall(annotation):
            kind = decoding.kind_of(name, names)
            if getattr(kind, "_fields", ()):
                yield kind


def _title(record: type[Any]) -> str:
    return f"{record.__name__}[]" if record._is_row else record.__name__


def _fields(record: Any) -> tuple[str, ...]:
    needed = decoding.needed_of(record)
    return tuple(
        f"{name}{'' if name in needed else '?'}: {annotation}"
        for name, (annotation, _) in decoding.annotations_of(record).items()
    )


def merged(earlier: Fields, present: Fields, upgraded: frozenset[str]) -> Fields:
    """``present``, but what is ``earlier`` of classes that could not read their older files."""
    removed = {name: lines for name, lines in earlier.items() if name not in present}
    changed = {
        name: earlier[name]
        for name, lines in present.items()
        if name in earlier
        and name not in upgraded
        and not _reads(lines, earlier[name], is_row=name.endswith("[]"))
    }
    return {**present, **removed, **changed}


def _reads(lines: tuple[str, ...], earlier: tuple[str, ...], *, is_row: bool) -> bool:
    """Whether a record with ``lines`` reads one that was written with the ``earlier`` ones."""
    older, newer = ([line.replace("?: ", ": ", 1) for line in some] for some in (earlier, lines))
    has_all = newer[: len(older)] == older if is_row else {*older} <= {*newer}
    return has_all and all("?: " in line or line in earlier for line in lines)


def parsed(content: str) -> Fields:
    """The fields in the text of the file."""
    blocks = content.removeprefix(_HEAD).strip().split("\n\n")
    rows = [block.split("\n") for block in blocks if block]
    return {name: tuple(line.strip() for line in lines) for name, *lines in rows}


def written(fields: Fields) -> str:
    """The text of the file."""
    blocks = ("\n    ".join((name, *fields[name])) for name in sorted(fields))
    return _HEAD + "".join(f"\n{block}\n" for block in blocks)
