"""PHP: members are public unless they are marked otherwise."""

from __future__ import annotations

import re

from rlm_ci.source import grammars
from rlm_ci.source.grammar_walk import DefinitionScope, Dialect, Walk, namespace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Node

    from rlm_ci.source.grammar_walk import LeadingComment

_TYPES = {
    "class_declaration": "class", "interface_declaration": "interface",
    "trait_declaration": "trait", "enum_declaration": "enum",
}  # fmt: skip
_FUNCTIONS = {"function_definition": "function", "method_declaration": "method"}
_VALUES = {"const_declaration": "const_element", "property_declaration": "property_element"}
_REQUIRED = re.compile(
    r"(?:require|include)(?:_once)?\s*\(?\s*(?:(__DIR__)\s*\.\s*)?(['\"])([^'\"$\n]+)\2"
)
_DEFINED = re.compile(r"define\s*\(\s*(['\"])(\w+)\1")


def _type(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    _, since, _ = walk.modifiers(node)
    walk.declare(_TYPES[node.type], node, scope, note, since, is_public=True)


def _function(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    words, since, _ = walk.modifiers(node)
    kind, shown = _FUNCTIONS[node.type], words.isdisjoint({"private", "protected"})
    name = walk.declare(kind, node, scope, note, since, is_public=shown)
    if kind == "method" and name.startswith("test") and shown:
        walk.test(node)


def _values(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    words, _, _ = walk.modifiers(node)
    kind = "constant" if node.type == "const_declaration" else "variable"
    shown = words.isdisjoint({"private", "protected"})
    if shown or kind == "constant":
        walk.each(kind, node, _VALUES[node.type], scope, note, is_public=shown)


def _case(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    walk.each("constant", node, "", scope, note, is_public=True)


def _expression(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    text = walk.text(node)[:400]
    required = _REQUIRED.match(text)
    defined = None if required else _DEFINED.match(text)
    if required:
        walk.bring(required[3].lstrip("/") if required[1] else required[3], (), node, 1)
    elif defined:
        walk.define("constant", defined[2], node, scope, note, is_public=True)


def _if(walk: Walk, scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    for _, child in grammars.parts(node):  # ``if (!function_exists('f')) { function f ...``
        if child.type == "compound_statement":
            walk.body(child, scope)


def _use(walk: Walk, _scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    r"""``use A\\B, C\\{D, E as F};``"""
    text = " ".join(walk.text(node)[:4000].rstrip(";").split()).removeprefix("use ")
    text = re.sub(r"^(?:function|const) ", "", text)
    group = re.fullmatch(r"(.*?)\\?\s*\{(.*)\}", text)
    parts = (
        [f"{group[1]}\\{use.strip()}" for use in group[2].split(",")] if group else text.split(",")
    )
    for part in parts:
        name = re.split(r"\s+as\s+", part.strip(), maxsplit=1, flags=re.IGNORECASE)[0]
        if name.strip("\\ "):
            walk.bring(name.strip("\\ "), (), node)


DIALECT = Dialect(
    {
        "namespace_use_declaration": _use,
        "namespace_definition": namespace,
        "enum_case": _case,
        "expression_statement": _expression,
        "if_statement": _if,
        **dict.fromkeys(_TYPES, _type),
        **dict.fromkeys(_FUNCTIONS, _function),
        **dict.fromkeys(_VALUES, _values),
    },
    opening=frozenset({"namespace_definition", "namespace_use_declaration", "declare_statement"}),
)
