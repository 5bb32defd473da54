"""What a template of the user's may make: texts, lists and numbers of a size that ends.

Counting lines bounds how long a template loops, not what one line does: a text doubled forty
times is forty lines. So what an operation will come to is looked at before it is done.
"""

from __future__ import annotations

from functools import wraps

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

#: The longest text or list. The largest page has nine million characters.
LENGTH = 20_000_000
#: All texts and lists of one rendering together: what is nested is counted at each level.
TOTAL = 8 * LENGTH
#: The largest number, in bits; and the finest rounding, in digits.
_BITS = 4096
_DIGITS = 400
#: What a value that is neither text, number nor a collection may print.
_OTHER = 64
_COLLECTIONS = (list, tuple, dict, set, frozenset)


class Work:
    """The work of one rendering. Every method raises OverflowError for too much of it."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """A new rendering: what was made before counts no more."""
        self._made = 0

    def made(self, value: Any) -> Any:
        """``value``, a result: counted."""
        if isinstance(value, (str, bytes, *_COLLECTIONS)):
            require(len(value))
            self._made += len(value)
            if self._made > TOTAL:
                raise OverflowError(f"texts of more than {TOTAL:,} characters in all are too long")
        else:
            _require_number(value)
        return value

    def concat(self, pieces: Iterable[str]) -> str:
        """All of a template's output, or of a block's."""
        found = []
        for piece in pieces:
            try:
                found.append(self.made(piece))
            except OverflowError as error:
                if hasattr(pieces, "throw"):
                    pieces.throw(error)  # where it stands: the error then tells the line
                raise
        return "".join(found)

    def filter(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The filter ``name`` of Jinja, bounded."""
        skipped = 1 if hasattr(function, "jinja_pass_arg") else 0
        foresee = _FILTERS.get(name)

        @wraps(function)
        def bounded(*args: Any, **named: Any) -> Any:
            if foresee is not None and len(args) > skipped:
                value = _listed(args[skipped]) if name == "join" else args[skipped]
                args = (*args[:skipped], value, *args[skipped + 1 :])
                foresee(*args[skipped:], **named)
            return self.made(function(*args, **named))

        return bounded

    def call(self, function: Any, args: Sequence[Any]) -> Sequence[Any]:
        """The arguments for a method that a template calls, looked at."""
        text, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
        if isinstance(text, (str, bytes)) and args:
            if name == "join":
                args = (_listed(args[0]), *args[1:])
                _join(args[0], text)
            elif name == "replace":
                _replace(text, *args)
        return args


def require(length: int) -> None:
    """Raise OverflowError for a text or list that is too long."""
    if length > LENGTH:
        raise OverflowError(f"a text or list of length {length:,} is too long")


def operation(operator: str, left: Any, right: Any) -> None:
    """Look at ``left operator right`` before it is done."""
    numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
    if operator == "%" and not numbers:
        raise OverflowError("formatting with % is not available; use ~")
    if operator == "**" and not (numbers and abs(left) <= 10**9 and abs(right) <= 64):
        raise OverflowError("that power is too large")
    if operator == "*" and not numbers:
        require(max(_length(left, right), _length(right, left)))
    elif operator == "+" and not numbers:
        require(sum(len(one) for one in (left, right) if hasattr(one, "__len__")))
    _require_number(left)
    _require_number(right)


def printed(*values: Any) -> int:
    """About how long these are as one text; raises OverflowError for too long."""
    total = 0
    waiting = list(values)
    while waiting:
        one = waiting.pop()
        if type(one).__name__ == "Namespace":  # Jinja's, which prints what it holds
            one = getattr(one, "_Namespace__attrs", {})
        if isinstance(one, (str, bytes)):
            total += len(one)
        elif isinstance(one, _COLLECTIONS):
            total += 2 + 4 * len(one)
            waiting += [*one, *one.values()] if isinstance(one, dict) else one
        else:
            total += one.bit_length() // 3 if isinstance(one, int) else _OTHER
        require(total)
    return total


def _require_number(value: object) -> None:
    if isinstance(value, int) and value.bit_length() > _BITS:
        raise OverflowError(f"a number of {value.bit_length():,} bits is too large")


def _length(sequence: object, times: object) -> int:
    """How long ``sequence * times`` would be; 0 when that is a product of numbers."""
    if isinstance(times, int) and isinstance(sequence, (str, bytes, list, tuple)):
        return len(sequence) * times
    return 0


def _listed(items: Any) -> Any:
    """What can be looked at and used afterwards: a generator is gone after the first time."""
    return items if hasattr(items, "__len__") else list(items)


# ── filters: the arguments of each that decide how long it gets ──


def _join(value: Any, d: Any = "", *_others: Any, **_named: Any) -> None:
    require(printed(*value) + printed(d) * len(value))


def _replace(s: Any, old: Any, new: Any, count: int | None = None) -> None:
    text, old = _text(s), _text(old)
    found = text.count(old) if count is None or count < 0 else min(count, text.count(old))
    require(len(text) + found * printed(new))


def _text(value: Any) -> Any:
    printed(value)
    return value if isinstance(value, (str, bytes)) else str(value)


def _indent(s: Any, width: int | str = 4, *_others: Any, **_named: Any) -> None:
    wide = len(width) if isinstance(width, str) else width
    text = _text(s)
    require(len(text) + (len(text.splitlines()) + 1) * (wide + 1))


def _parts(_value: Any, number: int, *_others: Any, **_named: Any) -> None:
    require(number)


def _round(value: Any, precision: int = 0, *_others: Any, **_named: Any) -> None:
    _require_number(value)
    if abs(precision) > _DIGITS:
        raise OverflowError(f"{precision:,} digits are too many")


def _tojson(value: Any, indent: int | None = None) -> None:
    require(printed(value) * (1 + (indent or 0)))


def _wrapped(value: Any, *others: Any, **named: Any) -> None:
    """Of ``wordwrap`` and ``urlize``: any text among the rest may be put in at every word."""
    more = [one for one in (*others, *named.values()) if isinstance(one, str)]
    require(printed(value) * (1 + sum(len(one) for one in more)))


def _sum(_iterable: Any, _attribute: Any = None, start: Any = 0, **_named: Any) -> None:
    if not isinstance(start, (int, float)):
        raise OverflowError("sum adds numbers only")


_FILTERS: dict[str, Callable[..., None]] = {
    "join": _join, "replace": _replace, "indent": _indent, "batch": _parts, "slice": _parts,
    "round": _round, "tojson": _tojson, "wordwrap": _wrapped, "urlize": _wrapped, "sum": _sum,
}  # fmt: skip
