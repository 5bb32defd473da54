"""Where a file calls and raises, and what it says of the types of its names, by its tree."""

from __future__ import annotations

import re

from rlm_ci.source import grammars
from rlm_ci.source.definitions.rust import spread
from rlm_ci.source.uses.file_calls import (
    EXPRESSION,
    MACRO,
    CallSite,
    FileCalls,
    RaiseSite,
    TakenName,
    agreed,
    called,
    grown,
    shown,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tree_sitter import Node

    from rlm_ci.source.uses.file_calls import Chain

#: Characters of a callee, and of what is raised, that are read; of a type and of an import.
_LONGEST, _LONG = 200, 20_000
#: Expressions within expressions that are followed.
_DEEPEST = 40
#: Kinds of nodes that call, and the fields with what they call and what that belongs to.
_CALLS = frozenset((
    "call", "call_expression", "function_call_expression", "invocation_expression",
    "macro_invocation", "member_call_expression", "method_invocation", "new_expression",
    "nullsafe_member_call_expression", "object_creation_expression", "scoped_call_expression",
))  # fmt: skip
_CALLED = ("function", "method", "name", "macro", "constructor", "type")
_BASES = ("object", "receiver", "scope")
_THROWS = frozenset(("throw_statement", "throw_expression"))
#: Calls that end a function as an exception does.
_RAISING = {
    "Go": frozenset(("panic",)),
    "Ruby": frozenset(("raise",)),
    "Rust": frozenset(("panic", "bail", "unreachable", "todo", "unimplemented")),
}
_GENERIC = re.compile(r"<[^<>]*>")
_SIGN = re.compile(r"\?\.|::|->|!\.")
_CALLEE = re.compile(r"(?:(.+)\.)?\s*(#?[^\W\d][\w$]*|\$\w+)[!?]?")
_CHAIN = re.compile(r"[\w$]+(?:\.[\w$]+)*")
_THROWN = re.compile(r"(?:throw\s+|raise[\s(]+)?(?:new\s+)?([A-Za-z_][\w.:\\]{0,119})")
#: Nodes whose names are seen inside of them alone.
_SCOPES = re.compile(
    r"(?:block|function|_function|lambda\w*|closure_expression|(?:function|method|constructor)_\w+"
    r"|function_item|func_literal|class_body|(?:if|for|while|switch|match|with|try|do)_\w+"
    r"|\w*switch\w*_statement|enhanced_for_statement|\w+_clause|\w+_case|match_arm|singleton_method"
    r"|method|do_block|statement_block|local_function_statement)"
)
#: Nodes that bind the names of a pattern, with the fields of the pattern, and of its value.
_BINDS = {
    "parameter_declaration": ("name", "declarator"), "formal_parameter": ("name",),
    "variadic_parameter_declaration": ("name",), "spread_parameter": (),
    "parameter": ("pattern", "name"),
    "required_parameter": ("pattern",), "optional_parameter": ("pattern",),
    "short_var_declaration": ("left",), "var_spec": ("name",), "range_clause": ("left",),
    "receive_statement": ("left",), "type_switch_statement": ("alias",),
    "let_declaration": ("pattern",), "let_condition": ("pattern",), "closure_parameters": (),
    "for_expression": ("pattern",), "match_pattern": (), "tuple_struct_pattern": (),
    "variable_declarator": ("name",), "init_declarator": ("declarator",),
    "catch_clause": ("parameter",), "for_in_statement": ("left",), "for_each_statement": ("left",),
    "arrow_function": ("parameter",), "formal_parameters": (), "lambda_expression": ("parameters",),
    "inferred_parameters": (), "enhanced_for_statement": ("name",), "resource": ("name",),
    "catch_formal_parameter": ("name",), "instanceof_expression": ("name",),
    "method_parameters": (), "block_parameters": (), "assignment": ("left",),
}  # fmt: skip
#: Those whose value is made of parts that are bound.
_OF_PARTS = frozenset(("let_condition", "range_clause", "for_in_statement", "receive_statement",
                       "match_pattern", "enhanced_for_statement", "for_expression"))  # fmt: skip
_NAMES = frozenset((
    "identifier", "shorthand_property_identifier_pattern", "shorthand_field_identifier",
))  # fmt: skip
_SELVES = frozenset(("self", "this", "super"))
#: Nodes that stand for what is inside of them, and those that give a value of a type.
_AWAIT = "await_expression"
_SAME = frozenset((
    "parenthesized_expression", "non_null_expression", "unary_expression", "reference_expression",
    "expression_list", "satisfies_expression", "generic_function", "try_expression", _AWAIT,
))  # fmt: skip
_LITERALS = frozenset(("string", "integer_literal", "number"))
_OF_TYPE = {"composite_literal": "type", "struct_expression": "name", "cast_expression": "type",
            "type_assertion_expression": "type", "new_expression": "constructor",
            "object_creation_expression": "type"}  # fmt: skip
_MEMBERS = {
    "selector_expression": ("operand", "field"), "member_expression": ("object", "property"),
    "field_expression": ("value", "field"), "field_access": ("object", "field"),
}  # fmt: skip
#: Definitions of types, and their fields.
_OWNERS = frozenset(("class_declaration", "class", "interface_declaration", "enum_declaration",
                     "record_declaration", "struct_item", "mod_item", "type_spec",
                     "abstract_class_declaration", "class_definition"))  # fmt: skip
_FIELDS = frozenset(("field_declaration", "public_field_definition", "property_signature",
                     "field_definition"))  # fmt: skip
_EMBEDS = ("impl_item", "type_elem")
_SCRIPTS = ("JavaScript", "TypeScript", "TSX")
_IMPORTS = ("export_statement", "import_spec", "import_statement", "use_declaration")
_AS = re.compile(r"\s+as\s+")


def tree_calls(root: Node, language: str) -> FileCalls:
    """The calls of a file, in the order of its lines."""
    reader = _Reader(language)
    for path in grammars.paths(root):
        reader.visit(path)
    return FileCalls(
        tuple(sorted(reader.calls, key=lambda call: call.line)),
        tuple(sorted(reader.raises, key=lambda raise_site: raise_site.line)),
        reader.fields,
        {name: tuple(types) for name, types in reader.embedded.items()},
        reader.taken,
    )


class _Reader:
    """Reads the nodes of a tree in the order of the text."""

    def __init__(self, language: str) -> None:
        self.calls: list[CallSite] = []
        self.raises: list[RaiseSite] = []
        self.fields: dict[str, Chain] = {}
        self.embedded: dict[str, list[str]] = {}
        self.taken: dict[str, TakenName] = {}
        self._language = language
        self._raising = _RAISING.get(language, frozenset())
        #: The names of each scope around a node, with its depth in the tree.
        self._scopes: list[tuple[int, dict[str, Chain]]] = [(0, {})]

    def visit(self, path: Sequence[tuple[Node, str]]) -> None:
        node, depth = path[-1][0], len(path)
        if not node.is_named:
            return
        while self._scopes[-1][0] >= depth:
            self._scopes.pop()
        kind = node.type
        if kind in _CALLS and not (depth > 1 and path[-2][0].type in _THROWS):
            self._call(node)
        elif kind in _THROWS and (name := _thrown(node)):
            self.raises.append(RaiseSite.of((node.start_point.row + 1, name)))
        elif kind in _FIELDS:
            self._field(node, path)
        elif kind in _EMBEDS:
            self._embed(node, path)
        elif kind == "assignment_expression":
            self._assigned(node, path)
        elif kind in _IMPORTS:
            self._import(node)
        if kind.startswith("function_") and len(self._scopes) > 1:
            self._hide(grammars.field(node, "name"))
        if _SCOPES.fullmatch(kind):
            self._scopes.append((depth, {}))
        if kind in _BINDS:
            self._bind(node, path)

    # ── calls ──

    def _call(self, node: Node) -> None:
        site = self._site(node)
        if site is None:
            return
        if site.name in self._raising and site.base in ("", MACRO):
            name = _thrown(node) if self._language == "Ruby" else site.name
            if name[:1].isupper() or self._language != "Ruby":  # neither a variable nor `raise`
                self.raises.append(RaiseSite.of((site.line, name or site.name)))
        else:
            self.calls.append(site)

    def _site(self, node: Node) -> CallSite | None:
        fields = _fields(node)
        callee = next((fields[name] for name in _CALLED if name in fields), None)
        if callee is None or (match := _CALLEE.fullmatch(_text(callee))) is None:
            return None
        name = match[2].lstrip("$")
        outer = next((fields[field] for field in _BASES if field in fields), None)
        written = _text(outer) if outer is not None else (match[1] or "").strip()
        chain: Chain = ()
        if node.type == "macro_invocation":
            chain = (MACRO,) if not written else None
        elif outer is not None:
            chain = self._chain(outer)
        elif written:
            chain = before_last(self._chain(callee))
        elif self._language != "Java" and self._names_of(name) is not None and not _makes(node):
            chain = None
        written = written.replace("$", "") if _CHAIN.fullmatch(written) else EXPRESSION
        base = "" if chain == () or not (outer or match[1]) else shown(written, chain)
        line = callee.end_point.row + 1
        return CallSite.of((line, base, name, chain, _arguments(fields)))

    def _chain(self, node: Node, deep: int = 0) -> Chain:
        """What an expression leads through."""
        kind, fields = node.type, _fields(node)
        if deep > _DEEPEST or kind in _SELVES:
            return (kind,) if kind in _SELVES else None
        if kind in _SAME:
            inner = [
                child
                for child in grammars.named_children(node)
                if child.type != "mutable_specifier"
            ]
            chain = self._chain(inner[0], deep + 1) if inner else None
            is_unwrapped = kind == "try_expression" or (kind == _AWAIT and self._is_script)
            return _unwrapped(chain) if is_unwrapped else chain
        if kind in _OF_TYPE and _OF_TYPE[kind] in fields:
            return _typed(fields[_OF_TYPE[kind]])
        if kind == "as_expression":
            return _typed(grammars.named_children(node)[-1])
        if kind in _MEMBERS:
            outer, last = (fields.get(name) for name in _MEMBERS[kind])
            if outer is None or last is None or last.child_count:
                return None
            return grown(self._chain(outer, deep + 1), _text(last))
        if kind == "scoped_identifier" and self._language == "Rust":
            text = _GENERIC.sub("", _raw(node)).replace("::::", "::")
            return ("".join(text.split()),)
        if kind in _CALLS:
            return self._call_of(fields, deep)
        return self._chain_of(node)

    def _call_of(self, fields: dict[str, Node], deep: int) -> Chain:
        """What the result of a call leads through."""
        if "name" in fields and ("object" in fields or "arguments" in fields):  # of Java
            name = _text(fields["name"])
            if "object" not in fields:
                return (f"{name}()",)
            return called(grown(self._chain(fields["object"], deep + 1), name))
        return called(self._chain(fields["function"], deep + 1)) if "function" in fields else None

    def _chain_of(self, node: Node) -> Chain:
        text = _text(node)
        first, _, tail = text.partition(".")
        if not _CHAIN.fullmatch(text) or node.type in _LITERALS:
            return None
        names = self._names_of(first.lstrip("$"))
        if names is None:
            first = "this" if first == "$this" else first
            return (first, *tail.split(".")) if tail else (first,)
        return None if tail else names[first.lstrip("$")]

    @property
    def _is_script(self) -> bool:
        return self._language in _SCRIPTS

    def _names_of(self, name: str) -> dict[str, Chain] | None:
        """The names of the nearest scope that has ``name``; None if none has it."""
        return next((names for _, names in reversed(self._scopes) if name in names), None)

    # ── what names are bound to ──

    def _bind(self, node: Node, path: Sequence[tuple[Node, str]]) -> None:
        """Bind the names of a pattern to what the text says of them."""
        kind, fields = node.type, _fields(node)
        above = path[-2][0] if len(path) > 1 else node
        patterns = [
            child
            for field, child in grammars.parts(node)
            if field in _BINDS[kind] and child.is_named
        ]
        typed, value = fields.get("type"), fields.get("value", fields.get("right"))
        if kind == "variable_declarator":
            if above.type == "field_declaration":  # of Java: a field, and no variable
                return
            if above.type == "local_variable_declaration":
                typed = _fields(above).get("type")
            if (
                value is not None
                and len(self._scopes) == 1
                and self._is_definition(patterns, value)
            ):
                return
        elif kind == "instanceof_expression":
            typed, value = fields.get("right"), None
        elif kind in _OF_PARTS:
            value = None
        if not _BINDS[kind]:
            patterns = [
                pattern for pattern in grammars.named_children(node) if pattern.type not in _BINDS
            ]
            typed = value = None
        if kind == "short_var_declaration" and patterns and value is not None:
            self._pairs(grammars.named_children(patterns[0]), grammars.named_children(value))
            return
        chain = _typed(typed) if typed is not None and _raw(typed) != "var" else None
        if chain is None and value is not None:
            chain = self._chain(value)
        if "accessibility_modifier" in fields and patterns:  # a field, too
            agreed(self.fields, f"{_owner(path)}.{_text(patterns[0])}", chain)
        for number, pattern in enumerate(patterns):
            self._name(pattern, chain if typed is not None or not number else None)

    def _pairs(self, names: Sequence[Node], values: Sequence[Node]) -> None:
        """``a, b := x, y``, and ``a, err := x()``, where the first is what counts."""
        for number, name in enumerate(names):
            is_given = len(names) == len(values) or not number
            self._name(
                name, self._chain(values[min(number, len(values) - 1)]) if is_given else None
            )

    def _is_definition(self, patterns: Sequence[Node], value: Node) -> bool:
        """Whether what the top of a file binds is a function, or a module that is required."""
        if self._is_script and (module := _required(value)) and patterns:
            self._require(patterns[0], module)
            return True
        return value.type in ("arrow_function", "function_expression", "function", "class")

    def _name(self, pattern: Node, chain: Chain) -> None:
        if pattern.type in ("identifier", "variable_name"):
            agreed(self._scopes[-1][1], _text(pattern).lstrip("$"), chain)
        elif pattern.type == "mut_pattern":
            self._name(grammars.named_children(pattern)[-1], chain)
        else:
            self._hide(pattern)

    def _hide(self, pattern: Node) -> None:
        """The names of a pattern are variables, of which nothing is known."""
        for path in grammars.paths(pattern):
            node, field = path[-1]
            if node.type in _NAMES and field not in ("type", "key", "default", "right"):
                name = _text(node)
                if self._language != "Rust" or name[:1].islower() or name[:1] == "_":
                    self._scopes[-1][1][name] = None

    def _field(self, node: Node, path: Sequence[tuple[Node, str]]) -> None:
        """Note the types of the fields that a class or struct declares."""
        owner = _owner(path)
        fields = _fields(node)
        kind = fields.get("type")
        names = [child for field, child in grammars.parts(node) if field in ("name", "property")]
        names += [
            _fields(child).get("name", child)
            for field, child in grammars.parts(node)
            if field == "declarator"
        ]
        chain = _typed(kind) if kind is not None else None
        if chain is None and "value" in fields:
            chain = self._chain(fields["value"])
        if not owner:
            return
        if not names and chain and self._language == "Go":
            self.embedded.setdefault(owner, []).append(chain[0][1:])
            names = [kind] if kind is not None else []
        for name in names:
            last = re.split(r"[.*]", _text(name))[-1]
            agreed(self.fields, f"{owner}.{last}", chain)

    def _embed(self, node: Node, path: Sequence[tuple[Node, str]]) -> None:
        """Note what an interface of Go has in it, or the trait that a type of Rust has."""
        fields = _fields(node)
        if node.type == "type_elem" and (owner := _owner(path)):
            self.embedded.setdefault(owner, []).append(_raw(node))
        elif "trait" in fields and "type" in fields:
            name = _GENERIC.sub("", _raw(fields["type"])).rpartition("::")[2]
            self.embedded.setdefault(name, []).append(_GENERIC.sub("", _raw(fields["trait"])))

    def _assigned(self, node: Node, path: Sequence[tuple[Node, str]]) -> None:
        """``this.x = new Shop()`` says what the field of a class is."""
        fields = _fields(node)
        text = _text(fields["left"]) if "left" in fields else ""
        owner = _owner(path)
        if owner and self._is_script and re.fullmatch(r"this\.#?\w+", text):
            chain = self._chain(fields["right"]) if "right" in fields else None
            name = f"{owner}.{text.removeprefix('this.')}"
            if name not in self.fields or self.fields[name] is None:
                agreed(self.fields, name, chain)

    # ── imports ──

    def _import(self, node: Node) -> None:
        text = _raw(node) if node.end_byte - node.start_byte < _LONG else ""
        fields = _fields(node)
        if self._language == "Go" and "name" in fields and "path" in fields:
            self.taken[_raw(fields["name"])] = TakenName(_raw(fields["path"]).strip('"`'), "")
        elif self._language == "Rust" and "argument" in fields:
            written = "".join(_AS.sub("@", _raw(fields["argument"])).split())
            for item in spread(written) if text else ():
                module, _, alias = item.partition("@")
                outer, _, name = module.rpartition("::")
                if name == "self":
                    outer, _, name = outer.rpartition("::")
                if name == "*":
                    self.taken[f"*{len(self.taken)}"] = TakenName(outer, "*")
                else:
                    self.taken.setdefault(alias or name, TakenName(outer, name))
        elif self._is_script:
            self._of_script(node, fields)

    def _of_script(self, node: Node, fields: dict[str, Node]) -> None:
        """What a statement of a script imports, or gives as its default."""
        value = fields.get("value")
        if node.type == "export_statement" and value is not None and value.type == "identifier":
            self.taken["default"] = TakenName("", _raw(value))
        if node.type == "export_statement" or "source" not in fields:
            return
        module = _raw(fields["source"]).strip("\"'`")
        for path in grammars.paths(node):
            last, _ = path[-1]
            inner = _fields(last)
            if last.type == "import_specifier" and "name" in inner:
                self.taken[_raw(inner.get("alias", inner["name"]))] = TakenName(
                    module, _raw(inner["name"])
                )
            elif last.type == "identifier" and path[-2][0].type == "import_clause":
                self.taken[_raw(last)] = TakenName(module, "default")
            elif last.type == "namespace_import":
                self.taken[_raw(grammars.named_children(last)[-1])] = TakenName(module, "")

    def _require(self, pattern: Node, module: str) -> None:
        if pattern.type == "identifier":
            self.taken[_raw(pattern)] = TakenName(module, "")
            return
        for node in grammars.named_children(pattern):
            inner = _fields(node)
            key, value = inner.get("key", node), inner.get("value", node)
            self.taken[_raw(value)] = TakenName(module, _raw(key))


def before_last(chain: Chain) -> Chain:
    """What stands before the last name of a chain."""
    if chain and len(chain) == 1 and "::" in chain[0]:
        return (chain[0].rpartition("::")[0],)
    return chain[:-1] if chain and len(chain) > 1 else None


def _unwrapped(chain: Chain) -> Chain:
    return (*chain[:-1], f"{chain[-1]}?") if chain else None


def _makes(node: Node) -> bool:
    return node.type in ("new_expression", "object_creation_expression")


def _arguments(fields: dict[str, Node]) -> int:
    node = fields.get("arguments")
    if node is None:
        return -1
    every = grammars.named_children(node)
    return (
        -1 if any("spread" in node.type or "splat" in node.type for node in every) else len(every)
    )


def _required(value: Node) -> str:
    match = re.fullmatch(r"require\(\s*[\"']([^\"']+)[\"']\s*\)", _raw(value))
    return match[1] if match else ""


def _owner(path: Sequence[tuple[Node, str]]) -> str:
    names = [_fields(node).get("name") for node, _ in path if node.type in _OWNERS]
    return ".".join(_text(name) for name in names if name is not None)


def _fields(node: Node) -> dict[str, Node]:
    fields: dict[str, Node] = {}
    for field, child in grammars.parts(node):
        fields.setdefault(field or child.type, child)
    return fields


def _typed(node: Node) -> Chain:
    text = " ".join(_raw(node).removeprefix(":").split())
    return (f":{text}",) if text else None


def _raw(node: Node) -> str:
    if node.end_byte - node.start_byte > _LONG:
        return ""
    return (node.text or b"").decode("utf-8", "replace")


def _text(node: Node) -> str:
    """A callee with its separators as dots, and without type arguments."""
    if node.end_byte - node.start_byte > _LONGEST:
        return EXPRESSION
    bare = _SIGN.sub(".", _GENERIC.sub("", _raw(node)))
    return "".join(bare.split()).replace("..", ".")


def _thrown(node: Node) -> str:
    text = (node.text or b"")[:_LONGEST].decode("utf-8", "replace")
    match = _THROWN.match(text)
    return match[1].replace("\\", ".") if match and match[1] != "throw" else ""
