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
        change = f"was a {old.kind}, is a {new.kind}".replace("a attribute", "an attribute")
        return [] if is_data else [Difference(change, breaks=True)]
    if old.kind == CLASS:
        lost = [base for base in old.bases if base and base not in new.bases]
        return [Difference(f"no longer derives from `{base}`", breaks=True) for base in lost]
    if old.parameters is None or new.parameters is None:
        return []
    return list(islice(_of_parameters(old.parameters, new.parameters), MOST))


def is_retyped(old: PythonName, new: PythonName) -> bool:
    """Whether annotations differ."""
    return old.returns != new.returns or [
        parameter.annotation for parameter in old.parameters or ()
    ] != [parameter.annotation for parameter in new.parameters or ()]  # fmt: skip


def _of_parameters(old: tuple[Parameter, ...], new: tuple[Parameter, ...]) -> Iterator[Difference]:
    before, after = _parameters_by_name(old), _parameters_by_name(new)
    kinds = {parameter.kind for parameter in new}
    renamed = dict(_renamed(old, new))
    for name, parameter in before.items():
        other = after.get(name)
        if name in renamed:
            # By convention, two underscores mean that it is given by position.
            breaks = parameter.kind == EITHER and not name.startswith("__")
            yield Difference(f"`{name}` is called `{renamed[name]}`", breaks=breaks)
            continue
        if other is None:
            yield Difference(f"lost `{_starred(parameter)}`", breaks=not _takes(kinds, parameter))
            continue
        if other.is_required and not parameter.is_required:
            yield Difference(f"requires `{name}`", breaks=True)
        elif parameter.default != other.default:
            change = f"default of `{name}` is `{other.default}`, was `{parameter.default}`"
            if parameter.is_required:
                change = f"`{name}` is optional"
            yield Difference(change, breaks=False)
        if parameter.kind != other.kind and parameter.kind in _WORDS and other.kind in _WORDS:
            yield Difference(f"`{name}` is {_WORDS[other.kind]}", breaks=other.kind != EITHER)
    yield from _moved(old, new)
    for name, parameter in after.items():
        if name not in before and name not in renamed.values():
            change = "requires" if parameter.is_required else "takes"
            yield Difference(f"{change} `{_starred(parameter)}`", breaks=parameter.is_required)


def _renamed(old: tuple[Parameter, ...], new: tuple[Parameter, ...]) -> Iterator[tuple[str, str]]:
    """Required parameters of another name at the same position."""
    names = {parameter.name for parameter in old}, {parameter.name for parameter in new}
    for parameter, other in zip(old, new):  # noqa: B905 - as far as both go
        if parameter.kind > EITHER or other.kind > EITHER:
            return
        is_same = parameter.is_required and other.is_required
        if is_same and parameter.name not in names[1] and other.name not in names[0]:
            yield parameter.name, other.name


def _parameters_by_name(parameters: tuple[Parameter, ...]) -> Mapping[str, Parameter]:
    """By name; ``*args`` and ``**kwargs`` by their stars, whatever they are called."""
    stars = {ARGS: "*", KWARGS: "**"}
    return {stars.get(parameter.kind, parameter.name): parameter for parameter in parameters}


def _starred(parameter: Parameter) -> str:
    return {ARGS: "*", KWARGS: "**"}.get(parameter.kind, "") + parameter.name


def _takes(kinds: set[int], lost: Parameter) -> bool:
    """Whether other parameters take what was given for a ``lost`` one."""
    needed = {
        POSITIONAL: {ARGS}, EITHER: {ARGS, KWARGS}, KEYWORD: {KWARGS},
    }  # fmt: skip
    return needed.get(lost.kind, {ARGS, KWARGS, -1}) <= kinds


def _moved(old: tuple[Parameter, ...], new: tuple[Parameter, ...]) -> Iterator[Difference]:
    """Parameters that are given by position and stand at another one."""
    places = [
        {
            parameter.name: number
            for number, parameter in enumerate(side)
            if parameter.kind <= EITHER
        }
        for side in (old, new)
    ]
    moved = [name for name, at in places[0].items() if places[1].get(name, at) != at]
    if moved:
        names = ", ".join(f"`{name}`" for name in moved[:3])
        more = f" and {len(moved) - 3} more" if moved[3:] else ""
        yield Difference(f"position of {names}{more}", breaks=True)
