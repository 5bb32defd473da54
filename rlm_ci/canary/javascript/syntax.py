"""The syntax tree of JavaScript or TypeScript, and chains of calls in it."""

from __future__ import annotations

from rlm_ci.canary.forms import UnparsableError
from rlm_ci.canary.splicing import Edit, encoded, spliced
from rlm_ci.source.grammars import parse
from rlm_ci.values import Row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tree_sitter import Node

#: The grammars to try for a file, by its suffix: types of Flow look like TypeScript's.
DIALECTS = {
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx"), ("JavaScript", "TSX")),
    **dict.fromkeys((".ts", ".mts", ".cts"), ("TypeScript",)),
    ".tsx": ("TSX",),
}
FUNCTIONS = frozenset({"arrow_function", "function_expression", "generator_function"})
#: Nodes with statements of their own, to which ``return`` and ``await`` in them belong.
SCOPES = FUNCTIONS | {
    "function_declaration", "generator_function_declaration", "method_definition",
    "class_static_block",
}  # fmt: skip
#: The longest chain of an assertion.
_LONGEST = 40
_DEEPEST = 1000


class SyntaxNode:
    """A node of a tree, with its parent."""

    __slots__ = ("above", "end", "field", "is_named", "kind", "last", "line", "parts", "start")

    def __init__(self, node: Node, field: str, above: SyntaxNode | None) -> None:
        self.kind, self.field, self.above, self.is_named = node.type, field, above, node.is_named
        self.start, self.end = node.start_byte, node.end_byte
        self.line, self.last = node.start_point[0] + 1, node.end_point[0] + 1
        self.parts: list[SyntaxNode] = []

    def part(self, field: str) -> SyntaxNode | None:
        return next((part for part in self.parts if part.field == field), None)

    def inner(self) -> list[SyntaxNode]:
        """The children without brackets, commas and comments."""
        return [part for part in self.parts if part.is_named and part.kind != "comment"]

    def parameters(self) -> list[SyntaxNode]:
        """The parameters of a function."""
        listed, single = self.part("parameters"), self.part("parameter")
        return listed.inner() if listed is not None else [single] if single is not None else []

    def identifier(self) -> SyntaxNode | None:
        """The name of a parameter, if it has one."""
        node = self if self.kind == "identifier" else self.part("pattern")
        return node if node is not None and node.kind == "identifier" else None

    def child(self, kind: str) -> SyntaxNode | None:
        return next((part for part in self.parts if part.kind == kind), None)

    def has(self, kind: str) -> bool:
        return self.child(kind) is not None

    def up(self) -> Iterator[SyntaxNode]:
        """The nodes around it, from the nearest."""
        above = self.above
        for _ in range(_DEEPEST):
            if above is None:
                return
            yield above
            above = above.above

    def below(self, without: frozenset[str] = frozenset()) -> Iterator[SyntaxNode]:
        """All nodes below in the order of the text, but for those within the kinds ``without``."""
        waiting = self.parts[::-1]
        while waiting:
            node = waiting.pop()
            yield node
            if node.kind not in without:
                waiting += node.parts[::-1]


class ChainLink(Row):
    """A step of a chain: a member by its name, or a call with its arguments (and no name)."""

    name: str
    node: SyntaxNode
    arguments: tuple[SyntaxNode, ...] = ()


class JavaScriptSource:
    def __init__(self, path: str, text: str) -> None:
        self.content = encoded(text)
        ending = path[path.rfind(".") :].lower()
        self.is_typed = "TypeScript" in DIALECTS[ending] or ending == ".tsx"
        for dialect in DIALECTS[ending]:
            root = parse(dialect, self.content)
            if root is not None and not root.has_error:
                self.root = _grown(root)
                return
        raise UnparsableError(f"{path}: this is not {DIALECTS[ending][0]} that can be read")

    def text(self, node: SyntaxNode, edits: Iterable[Edit] = ()) -> str:
        moved = [Edit(edit.start - node.start, edit.end - node.start, edit.text) for edit in edits]
        return spliced(self.content[node.start : node.end], moved)

    def chain(self, node: SyntaxNode) -> tuple[SyntaxNode, list[ChainLink]]:
        """The root ``a`` of ``a.b(c)``, and the steps from there."""
        links: list[ChainLink] = []
        while len(links) < _LONGEST:
            if node.kind == "call_expression":
                syntax_node, inner = node.part("arguments"), node.part("function")
                nodes = () if syntax_node is None else tuple(syntax_node.inner())
                is_list = syntax_node is not None and syntax_node.kind == "arguments"
                links.append(ChainLink("", node, nodes if is_list else ()))
            elif node.kind == "member_expression":
                member, inner = node.part("property"), node.part("object")
                links.append(ChainLink("" if member is None else self.text(member), node))
            elif node.kind == "non_null_expression":
                inner = node.parts[0]
            else:
                inner = None
            if inner is None:
                break
            node = inner
        return node, links[::-1]


def _grown(root: Node) -> SyntaxNode:
    """The tree below ``root``, with the parents, for which the library needs a search."""
    cursor = root.walk()
    top = current = SyntaxNode(root, "", None)
    while True:
        if cursor.goto_first_child():
            above = current
        elif cursor.goto_next_sibling():
            above = current.above or current
        else:
            while cursor.goto_parent():
                current = current.above or current
                if cursor.goto_next_sibling():
                    break
            else:
                return top
            above = current.above or current
        current = SyntaxNode(cursor.node or root, cursor.field_name or "", above)
        above.parts.append(current)
