"""C and C++: a definition is public unless ``static``, ``private`` or ``protected``."""

from __future__ import annotations

import re

from rlm_ci.source import grammars
from rlm_ci.source.grammar_walk import DefinitionScope, Dialect, LeadingComment, Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Node

_CLASSES = {
    "class_specifier": "class", "struct_specifier": "struct", "union_specifier": "struct",
    "enum_specifier": "enum",
}  # fmt: skip
_THROUGH = frozenset({
    "preproc_ifdef", "preproc_if", "preproc_else", "preproc_elif", "preproc_elifdef",
    "linkage_specification", "declaration_list",
})  # fmt: skip
_FUNCTIONS = ("function_definition", "declaration", "field_declaration", "friend_declaration")
_DECLARATIONS = frozenset({
    *_CLASSES, *_FUNCTIONS, "type_definition", "alias_declaration", "concept_definition",
})  # fmt: skip
_HIDDEN = {"detail", "details", "internal", "impl", "_detail"}
_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".h++", ".inl", ".ipp", ".tpp", ".cppm", ".ixx")
_INLINE = re.compile(r"\A[^({;]*inline", re.IGNORECASE)
#: Declarators within others that are followed.
_NESTED = 20
_DECLARATORS = frozenset({
    "function_declarator", "pointer_declarator", "reference_declarator", "array_declarator",
    "parenthesized_declarator", "init_declarator", "attributed_declarator",
})  # fmt: skip


def _include(walk: Walk, _scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    path = walk.fields(node).get("path")
    if path is not None:
        text = walk.text(path)
        walk.bring(text.strip('<>"'), (), node, 1 if text.startswith('"') else 0)


def _template(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    for child in grammars.named_children(node):
        if child.type in _DECLARATIONS:
            _declared(walk, scope, child, note, node)


def _declared(
    walk: Walk,
    scope: DefinitionScope,
    node: Node,
    note: LeadingComment,
    template: Node | None = None,
) -> None:
    """A declaration; ``template`` is the template around it, if any."""
    kind, template = node.type, template or node
    if kind in _CLASSES:
        _class(walk, scope, node, note, template)
    elif kind in _FUNCTIONS:
        fields = walk.fields(node)
        inner = fields.get("type")
        if inner is not None and inner.type in _CLASSES and "body" in walk.fields(inner):
            _class(walk, scope, inner, note, template)
        if kind != "friend_declaration":
            _function(walk, scope, node, note, template)
    elif kind == "type_definition":
        _typedef(walk, scope, node, note)
    else:
        name = walk.fields(node).get("name")
        if name is not None:
            text = walk.head(template, node.end_byte)
            shown = _is_shown(walk, walk.text(name))
            walk.define("type", walk.text(name), template, scope, note, text, is_public=shown)


def _access(walk: Walk, _scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    walk.access = walk.text(node).strip(" :")


def _body(walk: Walk, scope: DefinitionScope, body: Node, access: str) -> None:
    outside, walk.access = walk.access, access
    walk.body(body, scope)
    walk.access = outside


def _is_shown(walk: Walk, name: str, text: str = "") -> bool:
    if name.rpartition("::")[2].startswith("_"):  # such names are private to the implementation
        return False
    if walk.access:
        return walk.access == "public"
    return not re.match(r"(?:\w+\s+)*?static\b", text)


def _macro(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    fields = walk.fields(node)
    if "name" not in fields or ("value" not in fields and "parameters" not in fields):
        return  # a guard, or a flag
    name = walk.text(fields["name"])
    head = ""
    if "parameters" in fields:
        head = f"#define {name}{' '.join(walk.text(fields['parameters']).split())}"
    shown = walk.path.endswith(_HEADERS) and not name.startswith("_")
    walk.define("macro", name, node, scope.replace(prefix=""), note, head, is_public=shown)


def _namespace(walk: Walk, scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    fields = walk.fields(node)
    body = fields.get("body")
    if body is None:
        return
    if "name" not in fields:
        _body(walk, scope, body, "private")
        return
    name = walk.text(fields["name"]).replace("::", ".").replace(" ", "")
    shown = walk.access != "private" and _HIDDEN.isdisjoint(name.split("."))
    head = walk.head(node, body)
    inner = walk.define("module", name, node, scope, head=head, is_public=shown)
    walk.body(body, inner.replace(kind=""))


def _class(
    walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment, declaration: Node
) -> None:
    fields = walk.fields(node)
    body = fields.get("body")
    if "name" not in fields or body is None:
        return
    name = walk.text(fields["name"]).partition("<")[0].replace("::", ".")
    kind = _CLASSES[node.type]
    head = walk.head(declaration, body)
    shown = _is_shown(walk, name)
    inner = walk.define(kind, name, declaration, scope, note, head, is_public=shown)
    if kind != "enum" and walk.language != "C":
        _body(walk, inner, body, "private" if kind == "class" else "public")


def _function(
    walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment, declaration: Node
) -> None:
    fields = walk.fields(node)
    header = walk.path.endswith(_HEADERS)
    text = walk.text(node)[:400]
    for field, child in grammars.parts(node):
        if field != "declarator" and child.type != "operator_cast":
            continue
        name, is_function = _declared_name(walk, child)
        if not name or (text.startswith("extern") and not header and not is_function):
            continue
        if is_function and node.type == "declaration" and not (header or scope.kind):
            continue  # the definition counts
        owner, _, last = name.rpartition("::")
        full = f"{owner}::{last}".strip(":").replace("::", ".") if owner else last
        full = re.sub(r"<[^<>]*>", "", full)
        if owner and scope.prefix + full in walk.names:
            continue  # it was declared in its class
        end = fields.get("field_initializer_list") or fields.get("body")
        head = walk.head(declaration, end if end is not None else node.end_byte)
        member = bool(owner) or scope.kind in ("class", "struct")
        kind = ("method" if member else "function") if is_function else "variable"
        if kind == "variable" and walk.access in ("private", "protected"):
            continue
        if kind == "variable" and re.search(r"\b(?:constexpr|const)\b", text):
            kind = "constant" if "*" not in text else kind
        # Inline functions of a header are for all files that include it, also static ones.
        visible = "" if header and is_function and _INLINE.search(text[:200]) else text
        shown = _is_shown(walk, name, visible) and not (owner and not header)
        walk.define(kind, full, declaration, scope, note, head, is_public=shown)
        if full == "main" and kind == "function" and not scope.prefix:
            walk.enter("main", walk.path, node)


def _declared_name(walk: Walk, node: Node) -> tuple[str, bool]:
    """The name that a declarator declares, and whether it is a function's."""
    is_function = False
    for _ in range(_NESTED):
        if node.type == "operator_cast":
            return walk.head(node, walk.fields(node).get("declarator", node)) or "operator", True
        if node.type not in _DECLARATORS:
            break
        inner = next(
            (child for field, child in grammars.parts(node) if field == "declarator" or
             (node.type in ("parenthesized_declarator", "reference_declarator",
                            "attributed_declarator") and child.is_named)), None,
        )  # fmt: skip
        if node.type == "function_declarator":
            # A pointer to a function is a variable: ``int (*f)(void)``.
            pointer = inner is not None and inner.type == "parenthesized_declarator"
            is_function = not pointer or is_function
        if inner is None:
            return "", False
        if node.type == "parenthesized_declarator" and inner.type == "pointer_declarator":
            nested = walk.text(inner)
            is_function = "(" in nested
        node = inner
    text = walk.text(node)
    return (text if len(text) < 300 else ""), is_function


def _typedef(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    fields = walk.fields(node)
    inner = fields.get("type")
    kind = "type"
    head = walk.line(node)
    if inner is not None and inner.type in _CLASSES and "body" in walk.fields(inner):
        kind = _CLASSES[inner.type]
        head = walk.head(node, walk.fields(inner)["body"])
    for field, child in grammars.parts(node):
        if field == "declarator":
            name, _ = _declared_name(walk, child)
            if name:
                shown = _is_shown(walk, name)
                text = f"{head} {name}" if kind != "type" else head
                walk.define(kind, name, node, scope, note, text, is_public=shown)


DIALECT = Dialect(
    {
        "preproc_include": _include,
        **dict.fromkeys(("preproc_def", "preproc_function_def"), _macro),
        "namespace_definition": _namespace,
        "template_declaration": _template,
        "access_specifier": _access,
        **dict.fromkeys(_DECLARATIONS, _declared),
    },
    through=_THROUGH,
    opening=frozenset({
        "preproc_include", "preproc_ifdef", "preproc_if", "preproc_def", "preproc_call",
        "namespace_definition", "using_declaration",
    }),
)  # fmt: skip
