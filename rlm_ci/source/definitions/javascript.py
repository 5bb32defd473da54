"""JavaScript and TypeScript: an exported definition is public."""

from __future__ import annotations

import re

from rlm_ci.source import grammars
from rlm_ci.source.definitions import commonjs
from rlm_ci.source.grammar_walk import DefinitionScope, Dialect, LeadingComment, Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from tree_sitter import Node

_KINDS = {
    "class_declaration": "class", "abstract_class_declaration": "class", "class": "class",
    "interface_declaration": "interface", "enum_declaration": "enum",
    "type_alias_declaration": "type", "internal_module": "module", "module": "module",
    "function_declaration": "function", "generator_function_declaration": "function",
    "function_signature": "function", "function_expression": "function",
    "generator_function": "function", "arrow_function": "function",
}  # fmt: skip
_MEMBERS = {
    "method_definition": "method", "abstract_method_signature": "method",
    "method_signature": "method", "field_definition": "variable",
    "public_field_definition": "variable", "property_signature": "variable",
}  # fmt: skip
_VALUES = {"function_expression", "arrow_function", "generator_function", "class"}
#: Types that are shown on one line, however many they have.
_SHORT_TYPES = {"function_type", "union_type"}
#: A complete string literal, neither joined from several nor part of a template.
_LOADED = re.compile(
    r"\b(?:require|import)\s*\(\s*(['\"])((?:(?!\$\{)[^'\"\n]){1,300})\1\s*(?=[,)/]|$)",
    re.MULTILINE,
)
_ROUTE = re.compile(
    r"(?:app|router|server|api|fastify|routes?)\.(get|post|put|delete|patch|head|options|all)\("
    r"\s*(['\"`])(/[^'\"`\n]{0,200})\2"
)
#: The signs of a script that exports only some of its names.
_GIVES = re.compile(r"^export\b|\bmodule\.exports\b|^\s*exports[.\[]", re.MULTILINE)
#: The longest line of a handwritten script.
_LINE_LIMIT = 500
#: Patterns within patterns that are followed.
_DEEPEST = 4
_TRIALS = ("describe(", "it(", "test(", "suite(")


def _ambient(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    for child in grammars.named_children(node):
        walk.visit(scope.replace(state="export"), child, note)


def _script(walk: Walk, _scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    walk.enter("script", walk.path, node)


def _if(walk: Walk, _scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    if "require.main" in walk.text(node)[:80]:
        walk.enter("main", walk.path, node)


def _define(  # noqa: PLR0917 - a handler's parameters, and two of its own
    walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment,
    since: int | None = None, name: str = "",
) -> None:  # fmt: skip
    since = node.start_byte if since is None else since
    fields = walk.fields(node)
    kind = _KINDS[node.type]
    name = name or (walk.text(fields["name"]).strip("\"'`") if "name" in fields else "default")
    body = fields.get("body")
    if kind == "type":
        value = fields.get("value")
        is_whole = value is not None and value.type in _SHORT_TYPES
        head = walk.head(node, node.end_byte) if is_whole else walk.line(node)
    elif body is None:
        head = walk.head(since, node.end_byte)
    else:
        head = walk.head(since, body)
        head = head.removesuffix("=>").rstrip() if node.type == "arrow_function" else head
    shown = scope.state == "export"
    inner = walk.define(kind, name, node, scope, note, head, is_public=shown)
    value = fields.get("value")
    if kind == "type" and value is not None and value.type == "object_type":
        walk.body(value, inner)  # the same as an interface, in other words
    if body is None:
        return
    if kind == "enum":
        for field, child in grammars.parts(body):
            name_node = child if field == "name" else walk.fields(child).get("name")
            if name_node is not None and child.is_named:
                walk.define("constant", walk.text(name_node), child, inner, is_public=True)
    elif kind == "module":
        # All declarations of a module are public; of a namespace, only its exports.
        walk.body(body, inner.replace(kind="", state="export" if node.type == "module" else ""))
    elif kind in ("class", "interface"):
        walk.body(body, inner)


def _member(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    fields = walk.fields(node)
    name_node = fields.get("name") or fields.get("property")
    if name_node is None:
        return
    name = walk.text(name_node)
    access = fields.get("accessibility_modifier")
    hidden = name.startswith(("#", "_")) or (access is not None and walk.text(access) != "public")
    kind = _MEMBERS[node.type]
    if kind == "variable":
        value = fields.get("value")
        if value is not None and value.type in _VALUES:
            kind = "method"
        head = walk.line(node)
    else:
        head = walk.head(node, fields.get("body", node.end_byte))
    walk.define(kind, name, node, scope, note, head, is_public=not hidden)


def _variables(
    walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment, since: int | None = None
) -> None:
    start = node.start_byte if since is None else since
    constant = walk.text(node).startswith("const")
    for _, child in grammars.parts(node):
        fields = walk.fields(child) if child.type == "variable_declarator" else {}
        name, value = fields.get("name"), fields.get("value")
        if name is not None and scope.state == "export":
            for variable in map(walk.text, _taken(walk, name)):
                line = walk.line(node, start)
                walk.define("variable", variable, node, scope, note, line, is_public=True)
        if name is None or name.type != "identifier":
            continue
        text = walk.text(name)
        if value is not None and value.type == "assignment_expression":
            assigned = commonjs.chain(walk, value)
            commonjs.give(walk, scope, node, note, assigned, _define)
            value = assigned[1]
            if commonjs.is_whole(assigned[0]):
                walk.exported.add(text)
        if value is not None and value.type in _VALUES:
            body = walk.fields(value).get("body", value)
            head = walk.head(start, body).removesuffix("=>").rstrip()
            kind = "class" if value.type == "class" else "function"
        elif value is not None and re.match(r"require\s*\(", walk.text(value)[:40]):
            continue
        else:
            head = walk.line(node, start)
            kind = "constant" if constant and text.isupper() else "variable"
        inner = walk.define(kind, text, node, scope, note, head, is_public=scope.state == "export")
        if kind == "class" and value is not None and "body" in walk.fields(value):
            walk.body(walk.fields(value)["body"], inner)


def _taken(walk: Walk, pattern: Node, depth: int = 0) -> Iterator[Node]:
    """The names that ``{a, b: c}`` or ``[a, b]`` binds."""
    if pattern.type not in ("object_pattern", "array_pattern") or depth > _DEEPEST:
        return
    for field, node in grammars.parts(pattern):
        is_pair = node.type == "pair_pattern"
        inner = walk.fields(node).get("value", node) if is_pair else node
        if inner.type in ("shorthand_property_identifier_pattern", "identifier"):
            yield inner
        elif is_pair or not field:
            yield from _taken(walk, inner, depth + 1)


def _export(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    scope = scope.replace(state="export")
    since = node.start_byte
    for field, child in grammars.parts(node):
        if child.type == "export":
            since = child.start_byte
        elif field == "source":
            _pass_on(walk, node, walk.text(child).strip("\"'"))
        elif field == "declaration":
            if child.type in ("lexical_declaration", "variable_declaration"):
                _variables(walk, scope, child, note, since)
            elif child.type in _KINDS:
                _define(walk, scope, child, note, since)
            else:
                walk.visit(scope, child, note)
        elif field == "value":
            if child.type == "identifier":
                walk.exported.add(walk.text(child))
            elif child.type in _KINDS:
                _define(walk, scope, child, note, since, "default")
        elif child.type == "export_clause" and "source" not in walk.fields(node):
            walk.listed += _specifiers(walk, child)


def _pass_on(walk: Walk, node: Node, source: str) -> None:
    """``export {a as b} from "source"``, ``export * from "source"``."""
    pairs: list[tuple[str, str]] = []
    for _, clause in grammars.parts(node):
        if clause.type == "namespace_export":
            nodes = [part for _, part in grammars.parts(clause) if part.type == "identifier"]
            pairs += [("*", walk.text(node)) for node in nodes]
        elif clause.type == "export_clause":
            pairs += [(local, exported) for local, exported, _ in _specifiers(walk, clause)]
    pairs = pairs or [("*", "*")]
    names, called = tuple(local for local, _ in pairs), tuple(exported for _, exported in pairs)
    walk.passed.update(called)
    walk.bring(source, names, node, 0, called if called != names else ())


def _specifiers(walk: Walk, clause: Node) -> Iterator[tuple[str, str, Node]]:
    """The specifiers of ``{a, b as c}``: the own name, the given name, and the node."""
    for _, node in grammars.parts(clause):
        fields = walk.fields(node) if node.type == "export_specifier" else {}
        if "name" in fields:
            local = fields["name"]
            yield walk.text(local), walk.text(fields.get("alias", local)), node


def _names(walk: Walk, node: Node) -> tuple[str, ...]:
    """The names that an import takes, as its source calls them."""
    names = []
    for _, child in grammars.parts(walk.fields(node).get("import_clause", node)):
        if child.type == "identifier":
            names.append("default")
        elif child.type == "namespace_import":
            names.append("*")
        for inner in grammars.named_children(child) if child.type == "named_imports" else ():
            name = walk.fields(inner).get("name")
            if name is not None:
                names.append(walk.text(name))
    return tuple(names)


def _import(walk: Walk, _scope: DefinitionScope, node: Node, _note: LeadingComment) -> None:
    fields = walk.fields(node)
    source = fields.get("source")
    if source is None and "import_require_clause" in fields:
        source = walk.fields(fields["import_require_clause"]).get("source")
    if source is not None:
        names = _names(walk, node)
        # ``* as name`` takes all of the module, and none of its names.
        called = tuple("* as" if name == "*" else name for name in names) if "*" in names else ()
        walk.bring(walk.text(source).strip("\"'"), names, node, 0, called)


def _expression(walk: Walk, scope: DefinitionScope, node: Node, note: LeadingComment) -> None:
    text = walk.text(node)
    route = _ROUTE.match(text)
    if route:
        walk.enter("route", f"{route[1].upper()} {route[3]}", node)
    elif text.startswith(_TRIALS):
        walk.test(node)
    for _, child in grammars.parts(node):
        if child.type in ("internal_module", "module"):  # a namespace is parsed as an expression
            walk.visit(scope, child, note)
        elif child.type == "assignment_expression" and not scope.prefix:
            commonjs.give(walk, scope, node, note, commonjs.chain(walk, child), _define)


def _finish(walk: Walk) -> None:
    """Add imports in the middle of the code, and the public names of a script without modules."""
    commonjs.finish(walk)
    text = walk.content.decode("utf-8", "replace")
    places = {(imported.line, imported.module) for imported in walk.imports}
    line, at = 1, 0
    for match in _LOADED.finditer(text):
        line, at = line + text.count("\n", at, match.start()), match.start()
        first = text.rfind("\n", max(0, at - _LINE_LIMIT), at) + 1
        end = text.find("\n", at, at + _LINE_LIMIT)
        bundled = (not first and at > _LINE_LIMIT) or (end < 0 and len(text) > at + _LINE_LIMIT)
        before = text[first:at].lstrip() if not bundled else ""
        if bundled or before.startswith(("*", "//", "/*")) or (line, match[2]) in places:
            continue  # a bundle contains what it requires
        places.add((line, match[2]))
        walk.bring(match[2], (), line)
    if not walk.imports and not walk.exported and not _GIVES.search(text):
        walk.exported |= {symbol.name for symbol in walk.symbols if not symbol.name.startswith("_")}


DIALECT = Dialect(
    {
        "import_statement": _import,
        "export_statement": _export,
        "ambient_declaration": _ambient,
        **dict.fromkeys(_KINDS, _define),
        **dict.fromkeys(_MEMBERS, _member),
        **dict.fromkeys(("lexical_declaration", "variable_declaration"), _variables),
        "expression_statement": _expression,
        "hash_bang_line": _script,
        "if_statement": _if,
    },
    leads=frozenset({"decorator"}),
    opening=frozenset({"import_statement", "expression_statement", "hash_bang_line"}),
    finish=_finish,
)
