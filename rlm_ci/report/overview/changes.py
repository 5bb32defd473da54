"""What a change changes, beside what is wrong with it: names, dependencies, places.

Machines read it from both sides of the change, but for the words of a model. It holds texts from
outside, and no verdict rests on it. The JSON form is ``overview`` in
``schemas/report.schema.json``.
"""

from __future__ import annotations

from rlm_ci.text.printable import encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

#: What became of a name, a package, a file.
ADDED, REMOVED, CHANGED, MOVED = "added", "removed", "changed", "moved"


class Caller(Value):
    """A use of a name at the base: the first line in the definition ``within``, "" at the top.

    ``in_change``: the change edits it.
    """

    path: str
    line: int
    within: str = ""
    in_change: bool = False


class NameChange(Value):
    """A public name. ``path`` and ``line`` are of the new side, of the old one if it is removed.

    ``notes`` say what differs; ``exported``: users of the package can reach it; ``breaking``: what
    they have written may fail now. ``callers`` are some of ``caller_count``, which is None where
    nobody looked; ``outside`` of them the change does not edit. ``by_name``: other definitions
    have this name too, so some callers may mean those.
    """

    change: str
    name: str
    kind: str
    path: str
    line: int
    notes: tuple[str, ...] = ()
    exported: bool = False
    breaking: bool = False
    callers: tuple[Caller, ...] = ()
    caller_count: int | None = None
    outside: int = 0
    by_name: bool = False


class DependencyChange(Value):
    """A package that the manifest or lock file ``path`` names; versions are as it has them.

    It is ``direct`` if a manifest names it; ``group`` is "" for what the program itself needs.
    ``script``: at an installation it runs a script that it did not run before. With the group
    ``script`` it is a script or a file of the project itself.
    """

    change: str
    name: str
    ecosystem: str
    path: str
    before: str = ""
    after: str = ""
    direct: bool = True
    group: str = ""
    script: bool = False


class PermissionChange(Value):
    """A permission that a workflow's token gets; ``job`` is "" for all jobs.

    The scope ``default`` stands for a workflow that no longer names any permission.
    """

    path: str
    job: str
    scope: str
    before: str
    after: str


class Migration(Value):
    """A file that changes the shape of stored data."""

    path: str
    change: str


class Dependent(Value):
    """The file or folder ``source`` imports ``target``, which the change touches."""

    source: str
    target: str
    count: int = 1


class Area(Value):
    """A folder, "" for the top level, and what changes below it; binary files have no lines."""

    path: str
    files: int
    added: int
    deleted: int


class SaidLines(Value):
    """Lines that a sentence quotes: at the head, or on the side ``old`` at the merge base."""

    path: str
    line_start: int
    line_end: int
    side: str
    quote: str


class SaidSentence(Value):
    """A sentence of a model with the lines that it rests on; ``files`` are those it is about.

    ``since`` is the earlier head that it was said of, "" for this one.
    """

    text: str
    lines: tuple[SaidLines, ...]
    files: tuple[str, ...] = ()
    since: str = ""


class ModelWords(Value):
    """What a model says that the change does: of the whole, and of groups of files.

    A machine has found every quote. ``dropped`` sentences had one that was not found. ``note``
    says why there is none.
    """

    model: str
    about: tuple[SaidSentence, ...] = ()
    groups: tuple[SaidSentence, ...] = ()
    dropped: int = 0
    note: str = ""

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] = _encodable(super().to_dict())
        return record


class Overview(Value):
    """All of it. ``counts`` are of all names by change, where ``names`` has only some.

    Names that only annotations differ in are counted as ``retyped``. ``limits`` say what was not
    read, and why. ``said`` is a model's; the rest is read by machines.
    """

    _optional = ("said",)

    names: tuple[NameChange, ...] = ()
    counts: Mapping[str, int] = {}
    dependencies: tuple[DependencyChange, ...] = ()
    permissions: tuple[PermissionChange, ...] = ()
    migrations: tuple[Migration, ...] = ()
    areas: tuple[Area, ...] = ()
    dependents: tuple[Dependent, ...] = ()
    limits: tuple[str, ...] = ()
    said: ModelWords | None = None

    def to_dict(self) -> dict[str, Any]:
        record: dict[str, Any] = _encodable(super().to_dict())
        return record


def _encodable(value: Any) -> Any:
    """JSON with texts that can be written."""
    if isinstance(value, dict):
        return {name: _encodable(item) for name, item in value.items()}
    if isinstance(value, list):
        return [*map(_encodable, value)]
    return encodable(value) if isinstance(value, str) else value
