"""What a test of Python replaces, and assertions that another one covers."""

from __future__ import annotations

import ast
import re

from rlm_ci.guard.weakened_tests.cases import words_of
from rlm_ci.source.python.claims import BROKEN, MEANINGS, reached, text_of
from rlm_ci.source.python.names import callee

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator


def replaced(function: ast.AST) -> Iterator[tuple[int, str]]:
    """What a test calls for its claims, and replaces itself: with the line where it does."""
    patched = dict(_patched(function))
    if not patched:
        return
    nodes = reached(function)
    claimed = [
        node for node in nodes if isinstance(node, ast.Assert) or callee(node).startswith("assert")
    ]
    names = {part.id for node in claimed for part in ast.walk(node) if isinstance(part, ast.Name)}
    claimed += [
        node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id in names for target in node.targets)
    ]
    called = {_last_two(text_of(call.func)) for node in claimed for call in _calls(node)}
    yield from ((line, name) for name, line in patched.items() if name in called)


def _patched(function: ast.AST) -> Iterator[tuple[str, int]]:
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
            if isinstance(node.value, ast.Lambda) or callee(node.value).endswith("Mock"):
                yield _last_two(text_of(node.targets[0])), node.lineno
        elif isinstance(node, ast.Call) and not any(
            keyword.arg == "wraps" for keyword in node.keywords
        ):
            words = [arg.value if isinstance(arg, ast.Constant) else None for arg in node.args]
            text = text_of(node.func)
            is_of = text.endswith(("setattr", "patch.object")) and len(words) > 1
            if is_of and isinstance(words[1], str):
                yield _last_two(f"{text_of(node.args[0])}.{words[1]}"), node.lineno
            if text.endswith(("setattr", "patch")) and words and isinstance(words[0], str):
                yield _last_two(words[0]), node.lineno


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (child for child in ast.walk(node) if isinstance(child, ast.Call))


def _last_two(name: str) -> str:
    return ".".join(name.split(".")[-2:])


_EQUAL = re.compile(r"assert(?:\w*Equals?)$")
#: What the claims of unittest ask for.
_FORMS = MEANINGS | {"assertNotEqual": "{0} != {1}", "assertIsInstance": "isinstance({0}, {1})"}
_DISPLAYS = (ast.List, ast.Tuple, ast.Set, ast.Dict)
#: How a claim names the exception that was raised.
_RAISED = re.compile(r"\bstr\(\w+(?:\.\w+)?\)|\.(?:args|value|exception|message)\b")


def is_said(claim: str, gained: Iterable[str], names: Collection[str]) -> bool:
    """Whether one of ``gained`` makes a claim that is gone; ``names``: the words of its test."""
    lost = _expression(claim)
    return lost is not None and any(
        _plain(lost) == _plain(new)
        or _has_values(lost, new, names)
        or _has_message(lost, claim, new)
        for new in filter(None, map(_expression, gained))
    )


def _plain(node: ast.expr) -> str:
    """A claim of unittest as one of pytest, without what ``self`` has."""
    name, text = callee(node), text_of(node)
    if isinstance(node, ast.Call) and name.startswith("assert"):
        form = _FORMS.get(name, _FORMS["assertEqual"] if _EQUAL.match(name) else "")
        if form.count("{") in range(1, len(node.args) + 1):
            text = form.format(*map(text_of, node.args))
    elif isinstance(node, ast.Call) and name == "raises":
        text = text.partition(".")[2] if text.startswith("pytest.") else text
    return text.replace("self.", "").replace("assertRaises(", "raises(")


def is_implied(claim: str, text: str) -> bool:
    """Whether a test that goes on to use something need not claim that it is there."""
    lost = _expression(claim)
    if isinstance(lost, ast.Compare) and text_of(lost).endswith(" is not None"):
        lost = lost.left
    if not isinstance(lost, ast.Name | ast.Attribute | ast.Subscript):
        return False
    used = r"[.\[]" if isinstance(lost, ast.Name) else r"(?:[.\[),]|$)"
    pattern = rf"(?m)(?<![\w.]){re.escape(text_of(lost))}{used}"
    return re.search(pattern, text) is not None


def _expression(claim: str) -> ast.expr | None:
    try:
        node = ast.parse(claim).body[0]
    except (*BROKEN, IndexError):
        return None
    if isinstance(node, ast.Assert):
        return node.test
    return node.value if isinstance(node, ast.Expr) else None


def _sides(node: ast.expr) -> list[ast.expr]:
    """Both sides of an equality."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq):
        return [node.left, node.comparators[0]]
    if isinstance(node, ast.Call) and _EQUAL.match(callee(node)) and len(node.args) > 1:
        return node.args[:2]
    return []


def _has_values(lost: ast.expr, new: ast.expr, tested_names: Collection[str]) -> bool:
    """Whether an equality with a whole value says what a claim on a part of it said."""
    sides = _sides(new)
    for subject, value in (sides, sides[::-1]) if sides else ():
        names = {node.id for node in ast.walk(subject) if isinstance(node, ast.Name)}
        is_whole = isinstance(value, _DISPLAYS) or (
            isinstance(value, ast.Call)
            and len(value.args) + len(value.keywords) > 1
            and (callee(value)[:1].isupper() or callee(value) == "dict")
        )
        if not is_whole or isinstance(subject, _DISPLAYS) or not names & set(tested_names):
            continue
        if isinstance(lost, ast.Name | ast.Attribute):  # that it is not empty
            return bool(_values(value))
        claimed = _sides(lost) or getattr(lost, "comparators", None) or getattr(lost, "args", [])
        is_size = bool(claimed) and callee(claimed[0]) == "len"
        if is_size and isinstance(value, ast.List | ast.Tuple | ast.Set):
            return text_of(claimed[-1]) == str(len(value.elts))
        parts = [part for side in claimed for part in _values(side)]
        if parts and not is_size and set(parts) <= {*_values(value), *_values(subject)}:
            return any(part in _values(value) for part in parts)
    return False


def _values(node: ast.AST) -> list[str]:
    """The literals in it, but for those that choose a part of something."""
    if isinstance(node, ast.Constant):
        return [repr(node.value)]
    if isinstance(node, ast.Subscript):
        return _values(node.value)
    return [value for child in ast.iter_child_nodes(node) for value in _values(child)]


def _has_message(lost: ast.expr, claim: str, new: ast.expr) -> bool:
    """Whether ``raises(match=)`` says that an exception is raised, or what its message has."""
    matches = [kwarg.value for kwarg in getattr(new, "keywords", ()) if kwarg.arg == "match"]
    if callee(new) not in ("raises", "warns") or not matches or not isinstance(new, ast.Call):
        return False
    if callee(lost) in ("raises", "assertRaises", "warns", "assertWarns"):
        kinds = [text_of(node.args[0]) for node in (lost, new) if isinstance(node, ast.Call)]
        return len(set(kinds)) == 1
    counts = words_of(text_of(matches[0]).replace("\\", ""))
    parts = {part for value in _values(lost) for part in re.findall(r"\w+", value)}
    words = {part for word in counts for part in re.findall(r"\w+", word)}
    return bool(_RAISED.search(claim)) and bool(parts) and parts <= words
