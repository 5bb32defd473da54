"""Whether a test in JavaScript, TypeScript, Go or Rust uses nothing of the project.

It uses only what it makes, what its file declares with nothing of the project in it, its runner,
mocks, and the language. A name that nothing explains counts as the project's.
"""

from __future__ import annotations

import re

from rlm_ci.canary.rust.source import is_for_tests
from rlm_ci.source.grammars import below, text_of
from rlm_ci.source.languages import language

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tree_sitter import Node

_NAMES = frozenset((
    "identifier", "shorthand_property_identifier", "type_identifier", "package_identifier",
    "shorthand_field_identifier", "this", "super", "crate",
))  # fmt: skip
#: Where a language binds names: the field that has them, "" for the node itself.
_BINDERS = {
    "variable_declarator": "name", "formal_parameters": "", "arrow_function": "parameter",
    "catch_clause": "parameter", "for_in_statement": "left", "function_declaration": "name",
    "class_declaration": "name", "short_var_declaration": "left", "var_spec": "name",
    "const_spec": "name", "parameter_declaration": "name", "range_clause": "left",
    "type_spec": "name", "field_declaration": "name", "let_declaration": "pattern",
    "closure_parameters": "", "for_expression": "pattern", "let_condition": "pattern",
    "match_pattern": "", "parameter": "pattern", "function_item": "name", "struct_item": "name",
}  # fmt: skip
_SCRIPT_WORDS = """
expect assert vi jest sinon mock test it describe console Promise setTimeout clearTimeout
setInterval clearInterval setImmediate undefined NaN Infinity JSON Object Array Math Number String
Boolean Error TypeError RangeError Date Map Set Symbol BigInt RegExp Buffer structuredClone
"""
_GO_WORDS = """
testing errors fmt strings strconv reflect sort bytes assert require t len cap append make new panic
recover copy delete print println nil true false iota int int8 int16 int32 int64 uint uint8 uint16
uint32 uint64 uintptr byte rune string bool float32 float64 complex64 complex128 error any _
"""
_RUST_WORDS = """
std core alloc assert assert_eq assert_ne debug_assert panic vec format println eprintln matches
dbg Vec String Option Some None Ok Err Result Box Rc Arc Default Clone test cfg allow derive Debug
PartialEq Eq Copy iter i8 i16 i32 i64 i128 isize u8 u16 u32 u64 u128 usize f32 f64 bool char str
self Self
"""
_WORDS = {"Go": _GO_WORDS, "Rust": _RUST_WORDS}
#: Methods of Rust's own types.
_METHODS = frozenset((
    "iter", "into_iter", "map", "filter", "for_each", "collect", "unwrap", "expect", "is_some",
    "is_none", "is_ok", "is_err", "len", "is_empty", "clone", "to_string", "to_owned", "into",
    "push", "as_str", "contains", "get", "insert", "sum", "count", "join",
))  # fmt: skip
#: Packages that are no project's: runners, claims and mocks.
_RUNNERS = re.compile(
    r"[\"'](?:node:)?(?:vitest|@jest/globals|test|assert(?:/strict)?|sinon|chai|jest-mock)[\"']"
)
#: Methods of ``expect`` that everybody has: others may be what is tested.
_MATCHERS = re.compile(
    r"not|resolves|rejects|to(?:Be|Equal|StrictEqual|BeTruthy|BeFalsy|BeDefined|BeUndefined|BeNull"
    r"|BeNaN|BeCloseTo|Be(?:Greater|Less)Than(?:OrEqual)?|BeInstanceOf|Contain(?:Equal)?|HaveLength"
    r"|HaveProperty|Match|MatchObject|Throw(?:Error)?|HaveBeenCalled\w*|BeCalled\w*"
    r"|HaveBeen(?:Last|Nth)CalledWith|HaveReturned\w*)"
)
#: What leads to the project without a name of it.
_LEADS = re.compile(
    r"\bimport\(|\brequire\(|(?:Actual|Mock|FromModule)\(|\bglobalThis\b|\bprocess\b"
)
_ITEMS = frozenset(("function_item", "struct_item", "enum_item", "impl_item"))
_FUNCTIONS = frozenset(("arrow_function", "function_expression", "class"))


def uses_project(path: str, root: Node, inside: Sequence[Node]) -> bool:
    """Whether the nodes of a test may use the project; True for a language that is not read."""
    name = language(path)
    is_script = name in ("JavaScript", "TypeScript", "TSX")
    if not inside or (name not in _WORDS and not is_script):
        return True
    words = set(_WORDS.get(name, _SCRIPT_WORDS).split())
    declared, taken = _declared(root, inside, is_script=is_script)
    if declared is None:
        return True
    words -= taken
    seen: set[str] = set()
    waiting = [list(inside)]
    while waiting:
        nodes = waiting.pop()
        bound = set(_bound(nodes))
        if is_script and any(map(_is_special, nodes)):
            return True
        if name == "Rust" and not _METHODS.union(declared).issuperset(_called_methods(nodes)):
            return True
        for used in set(_used(nodes)) - bound - words - seen:
            if used not in declared:
                return True
            seen.add(used)
            waiting += [list(below(node)) for node in declared[used]]
    return False


def _bound(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        field = _BINDERS.get(node.type)
        if field is None:
            continue
        for holder in node.children_by_field_name(field) if field else [node]:
            yield from _pattern_names(holder)


def _pattern_names(pattern: Node) -> Iterator[str]:
    """The names that a pattern binds, without those of types and of defaults."""
    waiting = [pattern]
    while waiting:
        node = waiting.pop()
        if node.type == "assignment_pattern":
            waiting += node.named_children[:1]
        elif node.type not in ("type_annotation", "type_parameters"):
            waiting += node.named_children
            if not node.named_children:
                yield text_of(node)


def _used(nodes: Iterable[Node]) -> Iterator[str]:
    return (text_of(node) for node in nodes if node.type in _NAMES and not _is_member(node))


def _is_member(node: Node) -> bool:
    """Whether a name is that of a part: of a package's type, a field in Go or a macro of Rust."""
    before, above = node.prev_sibling, node.parent
    if above is not None and above.type in ("qualified_type", "nested_type_identifier"):
        return node != above.named_children[0]
    if before is not None and before.type == ".":
        return above is not None and above.type == "token_tree"
    key = above.parent if above is not None and above.type == "literal_element" else None
    return key is not None and key.type == "keyed_element" and key.named_children[0] == above


def _called_methods(nodes: Iterable[Node]) -> Iterator[str]:
    for node in nodes:
        after = node.next_sibling
        is_call = node.type == "identifier" and after is not None and after.type == "token_tree"
        if node.type == "field_identifier" or (is_call and _is_member(node)):
            yield text_of(node)


def _is_special(node: Node) -> bool:
    """Whether a call in a script may reach the project without a name of it."""
    if node.type.startswith("jsx_"):  # what makes the element may be the project's
        return True
    if node.type not in ("call_expression", "new_expression"):
        return False
    function = node.child_by_field_name("function")
    if function is None:
        return False
    if _LEADS.match(f"{text_of(function).rpartition('.')[2]}("):
        return True
    subject = function
    while subject.type == "member_expression":
        inner = subject.child_by_field_name("object")
        if inner is None:
            return True
        subject = inner
    called = subject.child_by_field_name("function") if subject.type == "call_expression" else None
    if called is not None and text_of(called) == "expect" and function.type == "member_expression":
        return _MATCHERS.fullmatch(text_of(function).rpartition(".")[2]) is None
    return False


def _declared(
    root: Node, inside: Sequence[Node], *, is_script: bool
) -> tuple[dict[str, list[Node]] | None, set[str]]:
    """What a file declares by name, and names of it that are the project's.

    None in the place of the first for a file that loads something without a name.
    """
    declared: dict[str, list[Node]] = {}
    taken: set[str] = set()
    for node in _top(root, inside):
        if node.type == "import_statement" and is_script:
            names = [text_of(each) for each in below(node) if each.type == "identifier"]
            if _RUNNERS.search(text_of(node)):
                declared.update((each, []) for each in names)
            elif not names:
                return None, taken
            taken.update(() if _RUNNERS.search(text_of(node)) else names)
        elif node.type == "expression_statement" and text_of(node).startswith("require("):
            return None, taken
        elif node.type in ("lexical_declaration", "variable_declaration"):
            for each in node.named_children:
                _declare(each, declared, taken)
        elif node.type in ("function_declaration", "class_declaration", "function_item",
                           "struct_item", "enum_item", "type_declaration", "method_declaration",
                           "impl_item"):  # fmt: skip
            # That a type has a trait of the project is no use of it; its own methods are followed.
            body = node.child_by_field_name("body") if node.type == "impl_item" else node
            for called in _names_of(node):
                declared.setdefault(called, []).extend([body] if body is not None else [])
    return declared, taken


def _declare(declarator: Node, declared: dict[str, list[Node]], taken: set[str]) -> None:
    """Note a variable at the top of a script: a function, a class, or of a runner."""
    name, value = map(declarator.child_by_field_name, ("name", "value"))
    if name is None:
        return
    names = list(_pattern_names(name))
    is_constant = declarator.parent is not None and text_of(declarator.parent).startswith("const")
    text = text_of(value) if value is not None else ""
    if text.startswith("require(") and _RUNNERS.search(text):
        declared.update((each, []) for each in names)
    elif value is not None and is_constant and value.type in _FUNCTIONS:
        declared.update((each, [value]) for each in names)
    else:
        taken.update(names)


def _top(root: Node, inside: Sequence[Node]) -> Iterator[Node]:
    """The declarations of a file that belong to tests: in Rust those of a module of tests."""
    is_for_test = False
    modules = [node for node in root.named_children if node.type == "mod_item"]
    for node in root.named_children:
        if node.type == "attribute_item":
            is_for_test = is_for_test or is_for_tests(node)
            continue
        body = node.child_by_field_name("body") if node.type == "mod_item" else None
        if body is not None:
            yield from body.named_children if is_for_test else ()
        elif not (node.type in _ITEMS and any(_is_around(each, inside[0]) for each in modules)):
            yield node
        is_for_test = False


def _is_around(node: Node, inner: Node) -> bool:
    return node.start_byte <= inner.start_byte and inner.end_byte <= node.end_byte


def _names_of(node: Node) -> Iterator[str]:
    """The names by which a declaration is used: a method by its own, and by that of its type."""
    if node.type == "type_declaration":
        specs = (spec.child_by_field_name("name") for spec in node.named_children)
        yield from (text_of(name) for name in specs if name is not None)
    elif node.type == "method_declaration":
        receiver = node.child_by_field_name("receiver")
        kinds = below(receiver) if receiver is not None else ()
        yield from (text_of(each) for each in kinds if each.type == "type_identifier")
    elif node.type == "impl_item":
        kind, body = map(node.child_by_field_name, ("type", "body"))
        yield from () if kind is None else (text_of(kind),)
        for each in body.named_children if body is not None else ():
            name = each.child_by_field_name("name")
            yield from () if name is None else (text_of(name),)
    elif (name := node.child_by_field_name("name")) is not None:
        yield text_of(name)
