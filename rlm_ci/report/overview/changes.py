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
        found: dict[str, Any] = _plain(self)
        return found

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> ModelWords:
        """Read what is valid under the schema."""
        parts = {name: tuple(map(_said, record[name])) for name in ("about", "groups")}
        return cls(**{**record, **parts})


class Overview(Value):
    """All of it. ``counts`` are of all names by change, where ``names`` has only some.

    Names that only annotations differ in are counted as ``retyped``. ``limits`` say what was not
    read, and why. ``said`` is a model's; the rest is read by machines.
    """

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
        found: dict[str, Any] = _plain(self)
        if self.said is None:
            del found["said"]
        return found

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Overview:
        """Read what is valid under the schema."""
        return cls(
            tuple(map(_name, record["names"])),
            dict(record["counts"]),
            tuple(DependencyChange(**one) for one in record["dependencies"]),
            tuple(PermissionChange(**one) for one in record["permissions"]),
            tuple(Migration(**one) for one in record["migrations"]),
            tuple(Area(**one) for one in record["areas"]),
            tuple(Dependent(**one) for one in record["dependents"]),
            tuple(record["limits"]),
            ModelWords.from_dict(record["said"]) if "said" in record else None,
        )

    @classmethod
    def of_report(cls, record: Mapping[str, Any]) -> Overview | None:
        """The overview in a whole report, if it has one."""
        return cls.from_dict(record["overview"]) if "overview" in record else None


def _name(record: Mapping[str, Any]) -> NameChange:
    callers = tuple(Caller(**one) for one in record["callers"])
    return NameChange(**{**record, "notes": tuple(record["notes"]), "callers": callers})


def _said(record: Mapping[str, Any]) -> SaidSentence:
    lines = tuple(SaidLines(**one) for one in record["lines"])
    return SaidSentence(record["text"], lines, tuple(record["files"]), record.get("since", ""))


def _plain(value: Any) -> Any:
    """A value, and the values in it, as JSON knows them."""
    if isinstance(value, Value):
        return {name: _plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return encodable(value) if isinstance(value, str) else value
