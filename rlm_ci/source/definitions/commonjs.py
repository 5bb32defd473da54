"""The names that a JavaScript file exports by ``exports`` and ``module.exports``."""

from __future__ import annotations

import re

from rlm_ci.source import grammars
from rlm_ci.source.grammar_walk import DefinitionScope, LeadingComment, Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tree_sitter import Node

    #: Defines a function or class by a name, as ``javascript._define`` does.
    Define = Callable[[Walk, DefinitionScope, Node, LeadingComment, int, str], None]

_NAMED = re.compile(r"(?:module\.)?exports(?:\.([\w$]+)|\[(['\"])([\w$-]+)\2\])")
_WHOLE = ("exports", "module.exports")
_MEMBER = re.compile(r"([\w$]+)(?:\.prototype)?\.([\w$]+)")
_CALLED = ("function_expression", "arrow_function", "generator_function", "class")
#: Assignments in a row that are followed.
_DEEPEST = 12
#: Bytes of an assigned name at most.
_SPREAD = 300


def chain(walk: Walk, node: Node) -> tuple[list[str], Node]:
    """The targets and the value of assignments such as ``a = b = 1``."""
    names: list[str] = []
    while node.type == "assignment_expression" and len(names) < _DEEPEST:
        fields = walk.fields(node)
        if "left" not in fields or "right" not in fields:
            break
        left = fields["left"]
        names.append(walk.text(left) if left.end_byte - left.start_byte < _SPREAD else "")
        node = fields["right"]
    return names, node


def is_whole(names: Sequence[str]) -> bool:
    """Whether an assignment sets all exports of the module."""
    return any(name in _WHOLE for name in names)


def give(  # noqa: PLR0917 - as ``javascript._define``, and the function that defines
    walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment,
    assigned: tuple[list[str], Node], define: Define,
) -> None:  # fmt: skip
    """Add what the statement ``node`` exports by its assignments."""
    names, value = assigned
    shown = scope.replace(state="export")
    for name in names:
        match = _NAMED.fullmatch(name)
        member = None if match else _MEMBER.fullmatch(name)
        if match:
            _export_by_name(walk, shown, node, note, (match[1] or match[3], value), define)
        elif member and value.type in _CALLED:
            walk.members.append((member[1], member[2], node, value, note))
    if not is_whole(names):
        return
    if value.type == "identifier":
        walk.exported.add(walk.text(value))
    elif value.type == "object":
        _object(walk, shown, value, define)
    elif value.type in _CALLED and node.type == "expression_statement":
        define(walk, shown, value, note, node.start_byte, "")


def _export_by_name(  # noqa: PLR0917 - as ``give``
    walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment,
    pair: tuple[str, Node], define: Define,
) -> None:  # fmt: skip
    """``exports.name = value``."""
    name, value = pair
    if value.type == "identifier":
        walk.listed.append((walk.text(value), name, node))
    elif value.type in _CALLED:
        define(walk, scope, value, note, node.start_byte, name)
    elif (
        name != "__esModule"
        and walk.text(value) not in ("undefined", "void 0")
        and f"{scope.prefix}{name}" not in walk.names
    ):
        walk.define("variable", name, node, scope, note, is_public=True)


def _object(walk: Walk, scope: DefinitionScope, value: Node, define: Define) -> None:
    """``module.exports = {a, b: c, d() {}, e: 1}``."""
    for _, node in grammars.parts(value):
        fields = walk.fields(node)
        if node.type == "shorthand_property_identifier":
            walk.listed.append((walk.text(node), walk.text(node), node))
        elif node.type == "method_definition" and "name" in fields:
            name, head = (
                walk.text(fields["name"]),
                walk.head(node, fields.get("body", node.end_byte)),
            )
            walk.define("function", name, node, scope, head=head, is_public=True)
        elif node.type == "pair" and {"key", "value"} <= fields.keys():
            name = walk.text(fields["key"]).strip("\"'")
            if re.fullmatch(r"[\w$-]+", name):
                _export_by_name(
                    walk, scope, node, LeadingComment(), (name, fields["value"]), define
                )


def finish(walk: Walk) -> None:
    """Add the listed names that the file binds elsewhere, and the members of its definitions."""
    own_names = frozenset(walk.names)
    walk.exported |= {
        symbol.name for symbol in walk.symbols if symbol.is_public and "." not in symbol.name
    }
    listed = [local for local, exported, _ in walk.listed if exported in (local, "default")]
    walk.exported |= own_names.intersection(listed)
    for local, exported, node in walk.listed:
        if exported in (local, "default") and (local in own_names or exported == "default"):
            continue
        if local in own_names and local not in walk.exported:
            _renamed(walk, local, exported)
            walk.exported.add(local)  # another exported name of it is an alias
        elif exported not in walk.names:  # imported, unpacked from an object, or exported already
            walk.define("variable", exported, node, DefinitionScope(), is_public=True)
    for owner, name, node, value, note in walk.members:
        if owner in walk.names and f"{owner}.{name}" not in walk.names:
            body = walk.fields(value).get("body", value)
            head = walk.head(node, body).removesuffix("=>").rstrip()
            walk.define(
                "method", name, node, DefinitionScope(f"{owner}."), note, head,
                is_public=not name.startswith("_"),
            )  # fmt: skip


def _renamed(walk: Walk, local_name: str, exported: str) -> None:
    """Rename the definition ``local_name``, and all in it, to its exported name ``exported``."""
    for number, symbol in enumerate(walk.symbols):
        if symbol.name == local_name:
            signature = f"{symbol.signature} as {exported}"
            walk.symbols[number] = symbol.replace(
                name=exported, signature=signature, is_public=True
            )
        elif symbol.name.startswith(f"{local_name}."):
            walk.symbols[number] = symbol.replace(name=exported + symbol.name[len(local_name) :])
    walk.names.add(exported)
