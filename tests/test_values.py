"""Value: a frozen record without dataclasses."""

from __future__ import annotations

import pytest

from rlm_ci.values import Row, Value


class Point(Value):
    x: int
    y: int = 0


class Named(Point):
    name: str = "p"


def test_fields_by_place_by_name_and_by_default() -> None:
    assert Point(1) == Point(x=1) == Point(1, y=0)
    assert (Named(1, 2, "q").x, Named(1, 2, "q").name) == (1, "q")
    assert repr(Named(3)) == "Named(x=3, y=0, name='p')"


def test_equal_only_when_the_type_is_the_same() -> None:
    assert Point(1) != Point(2)
    assert Point(1) != Named(1)
    assert Point(1) != (1, 0)
    assert len({Point(1), Point(1, 0), Point(2), Named(1)}) == 3


def test_replace_makes_a_copy() -> None:
    first = Named(1, name="a")
    second = first.replace(y=5)
    assert (first.y, second) == (0, Named(1, 5, "a"))
    with pytest.raises(TypeError, match="z"):
        first.replace(z=1)


def test_nothing_can_be_set_or_deleted() -> None:
    point = Point(1)
    with pytest.raises(AttributeError, match=r"Point\.x"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match=r"Point\.x"):
        del point.x
    assert point.x == 1


@pytest.mark.parametrize(
    ("args", "fields"),
    [((), {}), ((), {"y": 1}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})],
    ids=["none", "required missing", "too many", "given twice", "unknown"],
)
def test_wrong_fields_are_refused(args: tuple[int, ...], fields: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="Point"):
        Point(*args, **fields)


class Cell(Row):
    x: int
    y: int = 0


class Wide(Cell):
    name: str = "p"

    @property
    def area(self) -> int:
        return self.x * self.y


def test_a_row_is_made_and_read_as_a_value() -> None:
    assert Cell(1) == Cell(x=1) == Cell(1, y=0) == Cell.of((1, 0))
    assert (Wide(1, 2, "q").name, Wide(3, 2).area) == ("q", 6)
    assert repr(Wide(3)) == "Wide(x=3, y=0, name='p')"
    assert Wide(1, name="a").replace(y=5) == Wide(1, 5, "a")
    with pytest.raises(AttributeError):
        Cell(1).x = 2  # type: ignore[misc]


@pytest.mark.parametrize(
    ("args", "fields"),
    [((), {}), ((), {"y": 1}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"z": 1})],
    ids=["none", "required missing", "too many", "given twice", "unknown"],
)
def test_wrong_fields_of_a_row_are_refused(args: tuple[int, ...], fields: dict[str, int]) -> None:
    with pytest.raises(TypeError, match="Cell"):
        Cell(*args, **fields)
