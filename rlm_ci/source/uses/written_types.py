"""What the text of a type, or of the head of a function, says in each language."""

from __future__ import annotations

import ast
import re

from rlm_ci.source.uses.python_calls import annotated

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: What dereferences to its argument, and what a ``?`` or an ``await`` unwraps.
_POINTERS = frozenset(("Box", "Arc", "Rc", "Ref", "RefMut", "MutexGuard", "RwLockReadGuard"))
_WRAPPERS = frozenset(("Option", "Result", "Promise", "Awaitable", "Coroutine"))
_GENERIC = re.compile(r"([\w.:$]+)\s*(?:[<\[](.*)[>\]])?")
_LIFETIME = re.compile(r"'\w+\s*,?\s*")
_PREFIX = re.compile(r"(?:[&*]+|mut\b|dyn\b|impl\b|readonly\b|final\b|const\b|@\w+|\s)+")
_NULLS = re.compile(r"\s*\|\s*(?:null|undefined)\b")
#: A package before a type of Go.
_QUALIFIER = re.compile(r"\b\w+\.")
#: The name of a parameter of Go before its type.
_GO_NAMED = re.compile(r"(?!(?:chan|func|struct|interface|map)\b)\w+\s+(?=\S)")
_OPEN, _CLOSE = "([{<", ")]}>"


class WrittenType:
    """``name`` of a type, dotted, and whether an unwrapping has to come first."""

    def __init__(self, name: str = "", *, is_wrapped: bool = False) -> None:
        self.name, self.is_wrapped = name, is_wrapped


def read_type(text: str, language: str) -> WrittenType:
    """What a type names: "" for a list, a function, and all else that is no class alone."""
    text = text.strip()
    if language == "Rust":
        text = _LIFETIME.sub("", text).partition(" + ")[0].replace("<>", "")
    text = _PREFIX.sub("", text, count=1) if _PREFIX.match(text) else text
    text = _NULLS.sub("", text)
    match = _GENERIC.fullmatch(text)
    if match is None:
        return WrittenType()
    name, inner = match[1].replace("::", "."), match[2] or ""
    last = name.rpartition(".")[2]
    if last in _POINTERS and inner:
        return read_type(split(inner)[0], language)
    if last in _WRAPPERS and inner:
        written_type = read_type(split(inner)[0], language)
        return WrittenType(written_type.name, is_wrapped=not written_type.is_wrapped)
    if language == "Go" and text.startswith("map["):
        return WrittenType()
    return WrittenType(match[1] if language == "Rust" else name)


def returned(signature: str, name: str, language: str) -> str:
    """The type that the head of a function says it returns, "" if it says none."""
    if language == "Python":
        _, arrow, text = signature.rpartition("->")
        try:
            return annotated(ast.parse(text.strip().rstrip(":"), mode="eval").body) if arrow else ""
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ""
    match = re.search(rf"(?<![\w$]){re.escape(name)}\s*(?=[(<\[]|=)", signature)
    if match is None:
        return ""
    if language in ("Java", "C#"):
        before = re.search(r"([\w.]+(?:<.*>)?)\s*$", signature[: match.start()])
        return before[1] if before else ""
    result = results(signature, name)
    if language == "Rust":
        return result.removeprefix("->").partition(" where ")[0].strip() if "->" in result else ""
    if language == "Go":
        # Of several results, the first.
        return split(result[1:-1])[0] if result.startswith("(") else result
    return result.removeprefix(":").strip() if result.startswith(":") else ""


def results(signature: str, name: str) -> str:
    """What stands behind the parameters of a function."""
    match = re.search(rf"(?<![\w$]){re.escape(name)}\s*(?=[(<\[]|=)", signature)
    start = signature.find("(", match.end() - 1) if match else -1
    return signature[_past(signature, start) :].strip() if start >= 0 else ""


def shape(signature: str, name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What tells methods of Go of one name apart: the types that it takes and returns."""
    text = results(signature, name)
    parts = split(text[1:-1]) if text.startswith("(") else [text] if text else []
    types = tuple(_QUALIFIER.sub("", part.rpartition(" ")[2]) for part in parts)
    return _taken(_written_parameters(signature, name) or []), types


def _taken(parts: Sequence[str]) -> tuple[str, ...]:
    """The types of the parameters of Go, which may have names, one type for several of them."""
    matches = [_GO_NAMED.match(part) for part in parts]
    types: list[str] = []
    for part, match in zip(reversed(parts), reversed(matches), strict=True):
        written = part[match.end() :] if match else part
        if not match and any(matches):  # a name alone has the type of the next
            types.append(types[-1] if types else part)
            continue
        # Within a function's type names may differ.
        is_function = written.startswith("func")
        plain = _QUALIFIER.sub("", written).replace("interface{}", "any")
        types.append("func" if is_function else plain)
    return tuple(reversed(types))


def parameters(signature: str, name: str) -> tuple[int, int]:
    """The fewest and the most arguments of a function; -1 for no limit."""
    every = _written_parameters(signature, name)
    if every is None:
        return 0, -1
    is_open = any("..." in parameter or parameter.startswith("params ") for parameter in every)
    optional = sum("=" in parameter or "?:" in parameter for parameter in every)
    return len(every) - optional - is_open, -1 if is_open else len(every)


def _written_parameters(signature: str, name: str) -> list[str] | None:
    """The parameters as they are written; None for what has no list of them."""
    match = re.search(rf"(?<![\w$]){re.escape(name)}\s*(?=[(<])", signature)
    start = signature.find("(", match.end() - 1) if match else -1
    return split(signature[start + 1 : _past(signature, start) - 1]) if start >= 0 else None


def split(text: str, between: str = ",") -> list[str]:
    """The parts between commas, or another sign, that are in no brackets."""
    parts, depth, begin = [], 0, 0
    for at, sign in enumerate(text):
        if sign in _OPEN:
            depth += 1
        elif sign in _CLOSE and text[at - 1 : at] not in ("-", "="):
            depth -= 1
        elif sign == between and not depth:
            parts.append(text[begin:at].strip())
            begin = at + 1
    last = text[begin:].strip()
    return [*parts, last] if last else parts or ([""] if parts else [])


def _past(text: str, start: int) -> int:
    """The index after the bracket that closes the one at ``start``."""
    depth = 0
    for at in range(max(0, start), len(text)):
        depth += text[at] in "([{"
        depth -= text[at] in ")]}"
        if not depth:
            return at + 1
    return len(text)
