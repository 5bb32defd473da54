"""The variables of a session as pickles: made, and read, in the sandbox alone.

Variables that share what can change are one part, so that they still share it when restored.
"""

from __future__ import annotations

import sys
from _operator import is_
from functools import cache
from types import ModuleType

from .host import HostCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Protocol

    class LiveVariables(Protocol):
        """What a session has of variables; ``own`` are those that its blocks made."""

        answer: dict[str, Any]
        reserved: dict[str, Any]
        namespace: dict[str, Any]
        limits: dict[str, int]

        def own_variables(self) -> Iterator[tuple[str, Any]]: ...


#: In a part: the state of ``random``.
_RANDOM = "random state"
#: The variables and the context of this process, for what is restored.
HELD: dict[str, Any] = {"namespace": {}, "context": None}
#: Values that cannot change; of a container of these, only which it holds matters.
_ATOMS = frozenset({int, float, complex, bool, type(None), str, bytes})
#: Above so many bytes, what a variable shares with others is not looked for.
_LARGE = 4 << 20
_FunctionType = type(lambda: None)


class Namespace:
    """Stands in a pickle for the variables of the session: the globals of its functions."""

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        return namespace, ()


class ContextMark:
    """Stands in a pickle for the context, which every session has."""

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        return context, ()


def namespace() -> object:
    return HELD["namespace"]


def context() -> object:
    return HELD["context"]


def dumped(values: dict[str, Any]) -> tuple[bytes, Any]:
    """A pickle of ``values``, and the objects in it by their ids. Raises what their code raises."""
    from io import BytesIO

    stream = BytesIO()
    pickler = _pickler()(stream, 5)
    pickler.dump(values)
    data = stream.getvalue()
    return data, pickler.memo.copy() if len(data) <= _LARGE else {}


@cache
def _pickler() -> Any:
    """The kind of pickler that takes the variables for what the globals of functions are."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, value: object) -> Any:
            found = super().reducer_override(value)
            if type(value) is not _FunctionType or found is NotImplemented:
                return found
            if value.__globals__ is not HELD["namespace"]:
                return found
            # What it uses of the variables is kept with those.
            make, (code, _, *rest), (state, slots), *more = found
            return make, (code, Namespace(), *rest), (state, {**slots, "__globals__": {}}), *more

    return Pickler


def leaves(value: Any) -> tuple[object, ...] | None:
    """All that makes up a value without depth; None for others."""
    kind = type(value)
    if kind in _ATOMS or kind is ModuleType:
        return (value,)
    if kind in (list, tuple, set, frozenset):
        found = (*value,)
    elif kind is dict:
        found = (*value, *value.values())
    elif kind is _FunctionType and value.__globals__ is HELD["namespace"]:
        if value.__closure__ or value.__dict__ or value.__kwdefaults__:
            return None
        found = value.__defaults__ or ()
        return (value, value.__code__, *found) if _ATOMS.issuperset(map(type, found)) else None
    else:
        return None
    return (value, *found) if _ATOMS.issuperset(map(type, found)) else None


#: Others of which only what they hold can change.
_UNCHANGING = frozenset({tuple, frozenset, ModuleType, HostCall, type(leaves.__code__)})


def _can_change(value: object) -> bool:
    """Whether two variables that hold it must be kept together."""
    kind = type(value)
    if kind in _ATOMS or kind in _UNCHANGING:
        return False
    if isinstance(value, (type, _FunctionType, type(len))):
        return value.__module__ == "__main__"
    return True


class Group:
    """Variables that share objects: as they are now."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.leaves: tuple[object, ...] | None = None
        self.pickled: bytes | None = None


class VariableGroup:
    """The same as they were when the host got them, by its number for them."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.leaves: tuple[object, ...] | None = None
        self.digest = 0
        self.size = 0

    def is_same(self, leaves: tuple[object, ...] | None) -> bool:
        if self.leaves is None or leaves is None or len(self.leaves) != len(leaves):
            return False
        return all(map(is_, self.leaves, leaves))


class Saved:
    """What the host has of the variables: parts, of which only those are sent that change."""

    def __init__(self, session: LiveVariables, parts: list[list[int]], payload: memoryview) -> None:
        self._session = session
        self._parts: dict[tuple[str, ...], VariableGroup] = {}
        self._count = 0
        self._problems: list[str] = []
        self._known: list[str] = []
        #: Those of the parts that are one value, which cannot change.
        self._single: dict[str, object] = {}
        at = 0
        for number, size in parts:
            self._restore(number, payload[at : at + size])
            at += size

    def _restore(self, number: int, data: memoryview) -> None:
        import pickle

        self._count = max(self._count, number)
        names: tuple[str, ...] = ("?", str(number))
        try:
            values = pickle.loads(data)  # noqa: S301 - made here, and read where it can do no more
            names = tuple(values)
            self._take(values)
        except BaseException as error:  # noqa: BLE001
            self._miss("a variable of before", error)
        part = self._parts[names] = VariableGroup(number)
        part.size = len(data)

    def _take(self, values: dict[str, Any]) -> None:
        state = values.pop(_RANDOM, None)
        if state is not None:
            import random

            random.setstate(state)
        if "answer" in values:
            self._session.answer = self._session.reserved["answer"] = values["answer"]
        self._session.namespace.update(values)

    def _groups(self, values: dict[str, Any]) -> Iterable[tuple[tuple[str, ...], Group]]:
        """The variables by groups that share what can change."""
        leader: dict[str, str] = {}
        groups: dict[str, Group] = {}
        owners: dict[int, str] = {}
        memos = []  # held: an id stands for one object as long as that is there

        def lead(name: str) -> str:
            while leader[name] != name:
                name = leader[name]
            return name

        for name, value in values.items():
            group = Group({name: value})
            memo: dict[int, tuple[int, object]] = {}
            try:
                group.leaves = leaves(value)
                if group.leaves is None:
                    group.pickled, memo = dumped(group.values)
                elif type(value) not in _ATOMS:
                    memo = {id(value): (0, value)}
            except BaseException as error:  # noqa: BLE001
                self._miss(name, error)
                continue
            leader[name], groups[name] = name, group
            memos.append(memo)
            for owner in owners.keys() & memo.keys():
                if _can_change(memo[owner][1]):
                    leader[lead(name)] = lead(owners[owner])
            owners.update(dict.fromkeys(memo, name))
        joined: dict[str, Group] = {}
        for name, group in groups.items():
            if lead(name) in joined:
                group.values = {**joined[lead(name)].values, **group.values}
                group.leaves = group.pickled = None
            joined[lead(name)] = group
        return ((tuple(group.values), group) for group in joined.values())

    def _values(self) -> dict[str, Any]:
        found = {**dict(self._session.own_variables()), "answer": self._session.answer}
        if "random" in sys.modules:
            found[_RANDOM] = sys.modules["random"].getstate()
        if (text := HELD["context"]) is not None:
            found = {name: ContextMark() if one is text else one for name, one in found.items()}
        return found

    def changes(self) -> tuple[dict[str, Any], list[bytes]]:
        """What has changed since the last time, as the host gets it; whatever stands in it."""
        before, self._parts = self._parts, {}
        sent: list[list[int]] = []
        data: list[bytes] = []
        room = self._session.limits["state"]
        values = self._values()
        same = [name for name, one in self._single.items() if values.get(name, self) is one]
        for name in same:  # what cannot change is as it was
            del values[name]
            self._parts[name,] = before[name,]
            room -= before[name,].size
        self._single = {name: self._single[name] for name in same}
        for names, group in self._groups(values):
            part = before.get(names)
            if part is None or not part.is_same(group.leaves):
                try:
                    pickled = group.pickled or dumped(group.values)[0]
                    if len(pickled) > room:
                        raise ValueError(f"it has {len(pickled):,} bytes; {room:,} are left")
                except BaseException as error:  # noqa: BLE001
                    self._miss(", ".join(names), error)
                    continue
                if part is None or part.digest != hash(pickled):
                    if part is None:
                        self._count += 1
                        part = VariableGroup(self._count)
                    part.digest, part.size = hash(pickled), len(pickled)
                    sent.append([part.number, part.size])
                    data.append(pickled)
                part.leaves = group.leaves
            room -= part.size
            self._parts[names] = part
            one = group.values[names[0]]
            if type(one) in _ATOMS:
                self._single[names[0]] = one
        kept = {part.number for part in self._parts.values()}
        removed = [part.number for part in before.values() if part.number not in kept]
        new = [problem for problem in self._problems if problem not in self._known]
        self._known, self._problems = self._problems, []
        return {"parts": sent, "removed": removed, "problem": "\n".join(new[:20])}, data

    def _miss(self, names: str, error: BaseException) -> None:
        try:
            why = str(error)[:200]
        except BaseException:  # noqa: BLE001 - of the block's own making
            why = type(error).__name__
        self._problems.append(f"{names[:200]} is not kept: {why}")
