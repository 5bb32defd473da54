"""Rust: a definition marked ``pub`` without a limit is public."""

from __future__ import annotations

import re

from rlm_ci.source.grammar_walk import Dialect

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

    from rlm_ci.source.grammar_walk import DefinitionScope, LeadingComment, Walk

_KINDS = {
    "struct_item": "struct", "union_item": "struct", "enum_item": "enum", "trait_item": "trait",
    "type_item": "type", "associated_type": "type", "const_item": "constant",
    "static_item": "variable", "function_item": "function", "function_signature_item": "function",
    "macro_definition": "macro", "mod_item": "module",
}  # fmt: skip
#: A crate may be named where it is used: ``itoa::Buffer::new()``. Texts and comments are skipped;
#: one without an end reaches to the end of the file, so that each byte is read once.
_PATH = re.compile(
    r"//[^\n]*|/\*.*?(?:\*/|\Z)|b?r(#*)\".*?(?:\"\1|\Z)|\"(?:\\.|[^\"\\])*(?:\"|\\?\Z)"
    r"|'(?:\\.|[^'\\])'|(?<![\w:.$])([a-z][a-z0-9_]*)::(?=[\w<])",
    re.DOTALL,
)
#: The scope of what a type has of a trait.
_OF_TRAIT = "impl of a trait"
_PLAIN_WRITTEN = (
    "alloc bool char core crate f32 f64 i128 i16 i32 i64 i8 isize proc_macro self std str super "
    "test u128 u16 u32 u64 u8 usize"
)
_PLAIN = frozenset(_PLAIN_WRITTEN.split())
_ALIAS = re.compile(r"\s+as\s+(\w+)")


def _define(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    fields = walk.fields(node)
    if "name" not in fields:
        return
    name = walk.text(fields["name"])
    leads = "".join(walk.text(lead) for lead in note.leads)
    kind = _KINDS[node.type]
    body = fields.get("body")
    if scope.kind == _OF_TRAIT and kind != "function":
        return
    if kind == "module" and body is None:
        walk.bring(f"self::{name}", (), node)
        return
    if kind == "module" and "cfg(test)" in leads:
        walk.test(node)
        return
    if "#[test]" in leads or "::test]" in leads:
        walk.test(node)
    kind = "method" if kind == "function" and scope.kind else kind
    shown = scope.kind == "trait" or _is_marked(walk, node)
    shown = "macro_export" in leads if kind == "macro" else shown
    head = _head(walk, node, kind, body)
    inner = walk.define(kind, name, node, scope, note, head, is_public=shown)
    if body is not None and kind in ("enum", "struct", "trait", "module"):
        walk.body(body, inner.replace(kind="") if kind == "module" else inner)
    elif name == "main" and not scope.prefix and kind == "function":
        walk.enter("main", walk.path, node)


def _head(walk: Walk, node: Node, kind: str, body: Node | None) -> str:
    tuples = body is not None and body.type == "ordered_field_declaration_list"
    if kind == "macro":
        return f"macro_rules! {walk.text(walk.fields(node)['name'])}"
    if body is None or tuples or kind in ("constant", "variable", "type"):
        return walk.line(node)
    return walk.head(node, body)


def _variant(walk: Walk, scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    walk.each("constant", node, "", scope, is_public=True)


def _field(walk: Walk, scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    if _is_marked(walk, node):
        walk.each("variable", node, "", scope, is_public=True)


def _is_marked(walk: Walk, node: Node) -> bool:
    mark = walk.fields(node).get("visibility_modifier")
    return mark is not None and walk.text(mark) == "pub"


def _impl(walk: Walk, scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    """Methods of a type; of what it has of a trait, the functions, which the trait makes public."""
    fields = walk.fields(node)
    if "type" not in fields or "body" not in fields:
        return
    name = re.split(r"[<\s(]", walk.text(fields["type"]).rpartition("::")[2], maxsplit=1)[0]
    kind = _OF_TRAIT if "trait" in fields else "impl"
    if name.isidentifier():
        walk.body(fields["body"], scope.replace(prefix=f"{scope.prefix}{name}.", kind=kind))


def _foreign(walk: Walk, scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    walk.body(walk.fields(node).get("body", node), scope)


def _crate(walk: Walk, _scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    fields = walk.fields(node)
    if "name" in fields:
        walk.bring(walk.text(fields["name"]), (), node)


def _use(walk: Walk, scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    fields = walk.fields(node)
    if "argument" not in fields or len(walk.text(fields["argument"])) > 20000:
        return
    is_given = _is_marked(walk, node) and not scope.prefix
    for item in spread("".join(_ALIAS.sub(r"@\1", walk.text(fields["argument"])).split())):
        path, _, alias = item.partition("@")
        module, _, name = path.rpartition("::")
        called = (alias,) if alias else ()
        if is_given and alias != "_":
            walk.passed.add(alias or (module.rpartition("::")[2] if name == "self" else name))
        if scope.prefix and module.startswith(("super", "self")):
            continue  # from a module of the same file
        if name == "self":
            walk.bring(module, (), node)
        elif module:
            walk.bring(module, (name,), node, 0, called)
        else:
            walk.bring(name, (), node)


def spread(text: str) -> Iterator[str]:
    """``a::{b,c::{d,e}}`` as ``a::b``, ``a::c::d``, ``a::c::e``."""
    prefixes = [""]
    word = ""
    for char in f"{text},":
        if char == "{":
            prefixes.append(prefixes[-1] + word)
            word = ""
        elif char in ",}":
            if word:
                yield prefixes[-1] + word
            word = ""
            if char == "}" and len(prefixes) > 1:
                prefixes.pop()
        else:
            word += char


def _finish(walk: Walk) -> None:
    """Add the first words of paths that the file neither defines nor imports: usually crates."""
    names = set(_PLAIN) | {symbol.name.rpartition(".")[2] for symbol in walk.symbols}
    for use in walk.imports:
        names.update((*use.names, *use.called, use.module, use.module.rpartition("::")[2]))
    text = walk.content.decode("utf-8", "replace")
    line, at = 1, 0
    for match in _PATH.finditer(text):
        if match[2] and match[2] not in names:
            line, at = line + text.count("\n", at, match.start()), match.start()
            names.add(match[2])
            walk.bring(f"{match[2]}::", (), line)


DIALECT = Dialect(
    {
        "use_declaration": _use,
        "extern_crate_declaration": _crate,
        "impl_item": _impl,
        "foreign_mod_item": _foreign,
        "enum_variant": _variant,
        "field_declaration": _field,
        **dict.fromkeys(_KINDS, _define),
    },
    comments=frozenset({"line_comment", "block_comment"}),
    leads=frozenset({"attribute_item"}),
    opening=frozenset({"use_declaration", "inner_attribute_item", "extern_crate_declaration"}),
    finish=_finish,
)
