"""A record reads JSON by its annotations, and says where it is not what they say."""

from __future__ import annotations

import json
from decimal import Decimal
from enum import IntEnum
from typing import TYPE_CHECKING

import pytest

from rlm_ci import decoding
from rlm_ci.decoding import DecodeError
from rlm_ci.values import Row, Value

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from rlm_ci.decoding import Count, ExitCode, Interned, ObjectId, Sha256, Text, Words

    Color = str
else:
    Color = decoding.one_of("red", "green")


class Level(IntEnum):
    LOW = 1

    @classmethod
    def from_json(cls, label: str) -> Level:
        return cls[label.upper()]


class Span(Row):
    path: Interned
    first: int
    last: int | None = None


class Cell(Row):
    _is_row = True

    name: str
    size: Count = 0


class Inner(Value):
    level: Level
    spans: tuple[Span, ...] = ()
    note: str = ""


class Outer(Value):
    _optional = ("color", "inner", "cells")
    _items = (("rows", 1, 3),)

    title: Text
    inner: Inner | None = None
    cells: tuple[Cell, ...] = ()
    color: Color | None = None
    pair: tuple[str, int] = ("", 0)
    marks: frozenset[str] = frozenset()
    by_name: Mapping[str, Inner] = {}
    data: Mapping[str, Any] = {}
    rows: Sequence[Any] = ()
    flags: Mapping[str, str | bool] = {}
    cost: Decimal | None = None
    share: float = 0.0
    is_on: bool = False


class Bounded(Value):
    words: Words = ""
    code: ExitCode = 0
    oid: ObjectId = "a" * 40
    digest: Sha256 = "0" * 64


FULL: dict[str, Any] = {
    "title": "t",
    "inner": {"level": "low", "spans": [{"path": "a", "first": 1, "last": None}], "note": "n"},
    "cells": [["c", 3], ["d"]],
    "color": "red",
    "pair": ["x", 4],
    "marks": ["m"],
    "by_name": {"k": {"level": "low"}},
    "data": {"any": [1, {"deep": None}]},
    "rows": [1, "2"],
    "flags": {"a": True, "b": "text"},
    "cost": "0.25",
    "share": 0.5,
    "is_on": True,
}


def test_a_record_is_read_by_its_annotations() -> None:
    assert Outer.from_dict(json.loads(json.dumps(FULL))) == Outer(
        "t",
        Inner(Level.LOW, (Span("a", 1),), "n"),
        (Cell("c", 3), Cell("d")),
        "red",
        ("x", 4),
        frozenset(("m",)),
        {"k": Inner(Level.LOW)},
        {"any": [1, {"deep": None}]},
        [1, "2"],
        {"a": True, "b": "text"},
        Decimal("0.25"),
        0.5,
        is_on=True,
    )


def test_what_was_written_is_read_again() -> None:
    class Node(Value):
        span: Span
        cells: tuple[Cell, ...]

    node = Node(Span("a", 1, 2), (Cell("c", 3),))
    assert node.to_dict() == {
        "span": {"path": "a", "first": 1, "last": 2}, "cells": [["c", 3]],
    }  # fmt: skip


def test_an_annotation_that_no_json_can_be_is_an_error_of_ours() -> None:
    class Lost(Value):
        one: Unknown  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypeError, match="Unknown"):
        Lost.from_dict({})


def test_optional_members_are_written_where_they_say_something() -> None:
    bare = Outer("t")
    assert {"inner", "cells", "color"}.isdisjoint(bare.to_dict())
    assert bare.replace(color="red").to_dict()["color"] == "red"


@pytest.mark.parametrize(
    ("way", "value", "message"),
    [
        (("title",), 3, "title: expected a string of 1 to 65,536 characters, got an integer: 3"),
        (("title",), "", "title: expected a string of 1 to 65,536 characters, got a string: ''"),
        (("title",), "x" * 70_000, "title: expected a string of 1 to"),
        (("inner", "spans", 0, "first"), "x", "inner.spans[0].first: expected an integer, got"),
        (("inner", "spans", 0, "first"), True, "inner.spans[0].first: expected an integer, got tr"),
        (("inner", "spans", 0, "first"), 1.5, "expected an integer, got a number: 1.5"),
        (("inner", "level"), "deep", "inner.level: expected another value, got a string: 'deep'"),
        (("inner",), [], "inner: expected an object, got a list"),
        (("inner", "more"), 1, "inner.more: no such member is known"),
        (("cells", 1), ["a", "b", "c"], "cells[1]: expected a list of 2 values, got a list"),
        (("cells", 0, 1), -1, "cells[0].size: expected an integer from 0"),
        (("color",), "blue", "color: expected one of red, green, got a string: 'blue'"),
        (("color",), None, "color: expected one of red, green, got null"),
        (("color",), ["red"], "color: expected one of red, green, got a list"),
        (("pair",), ["x"], "pair: expected a list of 2 values"),
        (("pair", 1), "x", "pair[1]: expected an integer"),
        (("marks", 0), None, "marks[0]: expected a string, got null"),
        (("marks",), {}, "marks: expected a list, got an object"),
        (("by_name", "k", "level"), 1, "by_name.k.level: expected another value"),
        (("by_name",), [], "by_name: expected an object"),
        (("by_name", "\u202ek\n"), 1, r"by_name['\u202ek\n']: expected an object"),
        (("flags", "a"), None, "flags.a: expected"),
        (("cost",), "NaN", "cost: expected an amount"),
        (("cost",), "x", "cost: expected an amount"),
        (("cost",), 1, "cost: expected a string"),
        (("share",), float("nan"), "share: expected a number, got a number: nan"),
        (("share",), float("inf"), "share: expected a number"),
        (("is_on",), 1, "is_on: expected true or false, got an integer: 1"),
        (("rows",), {}, "rows: expected 1 to 3 items, got 0"),
        (("rows",), [1, 2, 3, 4], "rows: expected 1 to 3 items, got 4"),
        (("rows",), "x", "rows: expected a list"),
        (("data",), [], "data: expected an object"),
    ],
)
def test_what_is_wrong_is_named_with_its_path(
    way: tuple[Any, ...], value: Any, message: str
) -> None:
    record = json.loads(json.dumps(FULL))
    inner = record
    for step in way[:-1]:
        inner = inner[step]
    inner[way[-1]] = value
    with pytest.raises(DecodeError) as caught:
        Outer.from_dict(record)
    assert message in str(caught.value)
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("name", ["title", "pair", "data"])
def test_a_member_that_is_not_optional_must_be_there(name: str) -> None:
    record = {key: value for key, value in FULL.items() if key != name}
    with pytest.raises(DecodeError, match=f"{name}: it is missing"):
        Outer.from_dict(record)


@pytest.mark.parametrize("record", [None, [], "x", 3])
def test_no_object_is_no_record(record: object) -> None:
    with pytest.raises(DecodeError, match="expected an object"):
        Outer.from_dict(record)


@pytest.mark.parametrize(
    "record",
    [
        {"words": "x" * 65_537}, {"words": None}, {"code": 256}, {"code": True}, {"code": 1.0},
        {"oid": "A" * 40}, {"oid": "a" * 41}, {"oid": f"{'a' * 40}\n"}, {"digest": "a" * 40},
    ],
    ids=str,
)  # fmt: skip
def test_kinds_have_bounds(record: dict[str, Any]) -> None:
    assert Bounded.from_dict({}) == Bounded()
    with pytest.raises(DecodeError):
        Bounded.from_dict(record)


def test_whole_numbers_may_be_written_as_any_number() -> None:
    assert Span.from_dict({"path": "a", "first": 3.0}) == Span("a", 3)
    assert type(Span.from_dict({"path": "a", "first": 3.0}).first) is int


def test_other_members_can_be_passed_over_and_older_forms_read() -> None:
    class Lenient(Value):
        _ignores = True

        name: str

        @staticmethod
        def _upgraded(record: Any) -> Any:
            return {"name": record["title"]} if "title" in record else record

        def _require(self) -> None:
            if self.name == "odd":
                raise ValueError("the name is odd")

    assert Lenient.from_dict({"name": "a", "more": 1}) == Lenient("a")
    assert Lenient.from_dict({"title": "a"}) == Lenient("a")
    with pytest.raises(DecodeError, match="the name is odd"):
        Lenient.from_dict({"name": "odd"})
