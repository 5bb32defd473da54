"""What a file calls and raises, and what its text says of the types of its names: records."""

from __future__ import annotations

import re

from rlm_ci.source.python.names import is_class
from rlm_ci.values import Row, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    #: Names from a name on, each called (``make()``) or not, unwrapped (``?``) or not. The first
    #: may be a type that is written (``:Box<Shop>``), a path of Rust (``a::b``), or ``!`` for a
    #: macro. None: it is more than names, or begins with a variable of no known type.
    Chain = tuple[str, ...] | None

#: The base of a call on the result of an expression.
EXPRESSION = "?"
#: The base of a macro.
MACRO = "!"
#: The class in a type, apart from signs, and from what it is a list of.
_CLASS = re.compile(r":[&*\s]*(?:'\w+\s+)?(?:mut\s+|dyn\s+)?([\w.:$]+)(?:<.*>)?")
#: Methods of the languages' own values: a call of such a name alone says nothing.
COMMON = frozenset((
    "add", "append", "apply", "bind", "call", "capitalize", "casefold", "catch", "center",
    "clear", "clone", "close", "concat", "copy", "count", "debug", "decode", "delete",
    "difference", "discard", "encode", "endswith", "entries", "error", "every", "exec", "exists",
    "expandtabs", "extend", "filter", "find", "flush", "forEach", "format", "fromkeys", "get",
    "has", "includes", "index", "info", "insert", "intersection", "isalnum", "isalpha", "isdigit",
    "islower", "isspace", "isupper", "items", "iter", "join", "keys", "len", "length", "ljust",
    "log", "lower", "lstrip", "map", "match", "next", "open", "parse", "partition", "pop",
    "popitem", "print", "push", "read", "readline", "reduce", "remove", "removeprefix",
    "removesuffix", "replace", "reverse", "rfind", "rindex", "rjust", "rpartition", "rsplit",
    "rstrip", "run", "seek", "send", "set", "setdefault", "shift", "slice", "some", "sort",
    "splice", "split", "splitlines", "start", "startswith", "stop", "strip", "swapcase", "test",
    "then", "title", "toString", "translate", "trim", "union", "unwrap", "update", "upper",
    "values", "warn", "warning", "write", "zfill",
))  # fmt: skip
#: Names of a chain that are followed.
_LONGEST = 8


class CallSite(Row):
    """A call of ``name`` at a 1-based ``line``, with so many ``arguments``, -1 if it is not known.

    ``base`` is what stands before the last dot, as it is written or the class of a variable: ""
    for a bare call, EXPRESSION for more than names. ``chain`` is what it leads through.
    """

    line: int
    base: str
    name: str
    chain: Chain = ()
    arguments: int = -1


class RaiseSite(Row):
    """An error that is raised at a ``line``; ``name`` is its type, as it is written."""

    line: int
    name: str


class TakenName(Row):
    """What an import binds: ``name`` of ``module``, "" for the module, ``*`` for all its names."""

    module: str
    name: str

    @property
    def path(self) -> list[str]:
        """The names of a path of Rust."""
        return [part for part in (*self.module.split("::"), self.name) if part]


class FileCalls(Value):
    """The calls and raises of one file, in the order of its lines.

    ``fields`` are the types of ``Class.field``, ``embedded`` those that a class has the methods of,
    ``taken`` the names that imports bind, in languages whose outline does not have all of them.
    """

    calls: tuple[CallSite, ...] = ()
    raises: tuple[RaiseSite, ...] = ()
    fields: Mapping[str, Chain] = {}
    embedded: Mapping[str, tuple[str, ...]] = {}
    taken: Mapping[str, TakenName] = {}


def grown(chain: Chain, name: str) -> Chain:
    """``chain`` with one more name; None if it is too long to follow."""
    return (*chain, name) if chain is not None and len(chain) < _LONGEST else None


def called(chain: Chain) -> Chain:
    """What a call of ``chain`` gives."""
    if not chain or chain[-1].startswith(":") or chain[-1].endswith(("()", "?")):
        return None
    return (*chain[:-1], f"{chain[-1]}()")


def shown(written: str, chain: Chain) -> str:
    """How the base of a call is shown: as it is written, or as the class of a variable."""
    if chain and len(chain) == 1:
        name = chain[0].removesuffix("()")
        typed = _CLASS.fullmatch(name) if name.startswith(":") else None
        if typed or (name != chain[0] and is_class(name) and "::" not in name):
            return typed[1].replace("::", ".") if typed else name
    return written or EXPRESSION


def agreed(bindings: dict[str, Chain], name: str, chain: Chain) -> None:
    """Bind ``name``, to nothing that is known if it was bound to something else before."""
    bindings[name] = chain if bindings.get(name, chain) == chain else None
