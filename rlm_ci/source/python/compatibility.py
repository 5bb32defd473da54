"""Two versions of a Python definition: what differs for those who use it."""

from __future__ import annotations

from itertools import islice

from rlm_ci.source.python.interface import (
    ARGS,
    CLASS,
    EITHER,
    FUNCTION,
    KEYWORD,
    KWARGS,
    METHOD,
    POSITIONAL,
    Parameter,
    PythonName,
)
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Differences of one definition that are told.
MOST = 20
_CALLED = (FUNCTION, METHOD)
_WORDS = {POSITIONAL: "positional only", EITHER: "positional or keyword", KEYWORD: "keyword only"}


class Difference(Value):
    """One difference in words; ``breaks`` if a use that worked before may fail now."""

    text: str
    breaks: bool


def differences(old: PythonName, new: PythonName) -> list[Difference]:
    """What differs, but for annotations; [] for versions that are used in the same way.

    At most MOST differences.
    """
    if old.kind != new.kind and not {old.kind, new.kind} <= {*_CALLED}:
        is_data = CLASS not in (old.kind, new.kind) and old.parameters is new.parameters is None
        told = f"was a {old.kind}, is a {new.kind}".replace("a attribute", "an attribute")
        return [] if is_data else [Difference(told, breaks=True)]
    if old.kind == CLASS:
        lost = [one for one in old.bases if one and one not in new.bases]
        return [Difference(f"no longer derives from `{one}`", breaks=True) for one in lost]
    if old.parameters is None or new.parameters is None:
        return []
    return list(islice(_of_parameters(old.parameters, new.parameters), MOST))


def is_retyped(old: PythonName, new: PythonName) -> bool:
    """Whether annotations differ."""
    return old.returns != new.returns or [
        one.annotation for one in old.parameters or ()
    ] != [one.annotation for one in new.parameters or ()]  # fmt: skip


def _of_parameters(old: tuple[Parameter, ...], new: tuple[Parameter, ...]) -> Iterator[Difference]:
    before, after = _named(old), _named(new)
    kinds = {one.kind for one in new}
    renamed = dict(_renamed(old, new))
    for name, one in before.items():
        other = after.get(name)
        if name in renamed:
            # By convention, two underscores mean that it is given by position.
            breaks = one.kind == EITHER and not name.startswith("__")
            yield Difference(f"`{name}` is called `{renamed[name]}`", breaks=breaks)
            continue
        if other is None:
            yield Difference(f"lost `{_starred(one)}`", breaks=not _takes(kinds, one))
            continue
        if other.is_required and not one.is_required:
            yield Difference(f"requires `{name}`", breaks=True)
        elif one.default != other.default:
            told = f"default of `{name}` is `{other.default}`, was `{one.default}`"
            if one.is_required:
                told = f"`{name}` is optional"
            yield Difference(told, breaks=False)
        if one.kind != other.kind and one.kind in _WORDS and other.kind in _WORDS:
            yield Difference(f"`{name}` is {_WORDS[other.kind]}", breaks=other.kind != EITHER)
    yield from _moved(old, new)
    for name, one in after.items():
        if name not in before and name not in renamed.values():
            told = "requires" if one.is_required else "takes"
            yield Difference(f"{told} `{_starred(one)}`", breaks=one.is_required)


def _renamed(old: tuple[Parameter, ...], new: tuple[Parameter, ...]) -> Iterator[tuple[str, str]]:
    """Required parameters of another name at the same position."""
    names = {one.name for one in old}, {one.name for one in new}
    for one, other in zip(old, new):  # noqa: B905 - as far as both go
        if one.kind > EITHER or other.kind > EITHER:
            return
        is_same = one.is_required and other.is_required
        if is_same and one.name not in names[1] and other.name not in names[0]:
            yield one.name, other.name


def _named(parameters: tuple[Parameter, ...]) -> Mapping[str, Parameter]:
    """By name; ``*args`` and ``**kwargs`` by their stars, whatever they are called."""
    stars = {ARGS: "*", KWARGS: "**"}
    return {stars.get(one.kind, one.name): one for one in parameters}


def _starred(one: Parameter) -> str:
    return {ARGS: "*", KWARGS: "**"}.get(one.kind, "") + one.name


def _takes(kinds: set[int], lost: Parameter) -> bool:
    """Whether other parameters take what was given for a ``lost`` one."""
    needed = {
        POSITIONAL: {ARGS}, EITHER: {ARGS, KWARGS}, KEYWORD: {KWARGS},
    }  # fmt: skip
    return needed.get(lost.kind, {ARGS, KWARGS, -1}) <= kinds


def _moved(old: tuple[Parameter, ...], new: tuple[Parameter, ...]) -> Iterator[Difference]:
    """Parameters that are given by position and stand at another one."""
    places = [
        {one.name: number for number, one in enumerate(side) if one.kind <= EITHER}
        for side in (old, new)
    ]
    moved = [name for name, at in places[0].items() if places[1].get(name, at) != at]
    if moved:
        names = ", ".join(f"`{name}`" for name in moved[:3])
        more = f" and {len(moved) - 3} more" if moved[3:] else ""
        yield Difference(f"position of {names}{more}", breaks=True)
