"""Puts the tests of a Rust file into another version of it."""

from __future__ import annotations

from rlm_ci.canary.rust.source import attribute_name, is_for_tests, is_test
from rlm_ci.canary.splicing import Edit, encoded, spliced
from rlm_ci.source.grammars import field, named_children, parse, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tree_sitter import Node

_HOLDERS = {"mod_item", "impl_item", "trait_item"}


class _Item:
    """An item with its attributes; ``key`` is its type with its name, or its head."""

    def __init__(self, node: Node, attributes: list[Node]) -> None:
        body, name = field(node, "body"), field(node, "name")
        #: The node with the items in it.
        self.inside = body if node.type in _HOLDERS and body != node else None
        self.start = min([node.start_byte, *(attribute.start_byte for attribute in attributes)])
        self.end = node.end_byte
        head = (node.text or b"")[: body.start_byte - node.start_byte if self.inside else None]
        self.key = (node.type, head if name == node else name.text or b"")
        self.conditions = sorted(
            text_of(attribute) for attribute in attributes if attribute_name(attribute) == "cfg"
        )
        self.is_test = any(map(is_for_tests, attributes)) or (
            node.type == "function_item" and any(map(is_test, attributes))
        )


def _items(holder: Node) -> list[_Item]:
    items: list[_Item] = []
    attributes: list[Node] = []
    for node in named_children(holder):
        if node.type == "attribute_item":
            attributes.append(node)
            continue
        if node.type != "inner_attribute_item":
            items.append(_Item(node, attributes))
        attributes = []
    return items


def _is_whole(holder: Node) -> bool:
    """Whether all of a file or module is for tests: ``#![cfg(test)]``."""
    return any(
        node.type == "inner_attribute_item" and is_for_tests(node)
        for node in named_children(holder)
    )


def _has_tests(holder: Node) -> bool:
    waiting = [holder]
    while waiting:
        items = _items(waiting.pop())
        if any(item.is_test for item in items):
            return True
        waiting += [item.inside for item in items if item.inside is not None]
    return False


def restored(start: str, result: str) -> str | None:
    """The text of ``result`` with the tests of ``start`` instead of its own.

    None if one of them is not Rust, or a module with tests is gone.
    """
    before, after = encoded(start), encoded(result)
    old, new = parse("Rust", before), parse("Rust", after)
    if old is None or new is None or old.has_error or new.has_error:
        return None
    if _is_whole(old) or _is_whole(new):
        return start if _is_whole(old) else None
    edits: list[Edit] = []
    waiting: list[tuple[list[_Item], Node]] = [(_items(old), new)]
    while waiting:
        items, holder = waiting.pop()
        more = _merged(before, after, items, holder, edits)
        if more is None:
            return None
        waiting += more
    return spliced(after, edits)


def _matched(items: list[_Item], others: list[_Item]) -> list[tuple[_Item, _Item | None]]:
    """Each item with its match in the other version: the same, or the only one of its name."""
    named_so: dict[tuple[str, bytes], list[_Item]] = {}
    same: dict[tuple[tuple[str, bytes], tuple[str, ...]], list[_Item]] = {}
    for item in reversed(others):
        named_so.setdefault(item.key, []).append(item)
        same.setdefault((item.key, tuple(item.conditions)), []).append(item)
    matches: list[tuple[_Item, _Item | None]] = []
    taken: set[int] = set()
    for item in items:
        alike = named_so.get(item.key, [])
        if (left := same.get((item.key, tuple(item.conditions)))) is None and len(alike) == 1:
            left = [other for other in alike if other.start not in taken]
        match = left.pop() if left else None
        matches.append((item, match))
        taken |= {match.start} if match is not None else set()
    return matches


def _merged(
    before: bytes, after: bytes, items: list[_Item], holder: Node, edits: list[Edit]
) -> list[tuple[list[_Item], Node]] | None:
    """Add the edits of one module; return the modules in it, None if one has no match."""
    others = _items(holder)
    left = {item.start: item for item in others}
    at = others[0].start if others else holder.end_byte - (holder.type == "declaration_list")
    more: list[tuple[list[_Item], Node]] = []
    for item, match in _matched(items, others):
        if match is not None:
            del left[match.start]
            at = match.end
        if item.is_test:
            written = before[item.start : item.end].decode("utf-8", "surrogateescape")
            edits.append(
                Edit(at, at, f"\n{written}\n")
                if match is None
                else Edit(match.start, match.end, written)
            )
        elif item.inside is not None:
            if match is not None and match.inside is not None:
                more.append((_items(item.inside), match.inside))
            elif _has_tests(item.inside):
                return None
    for item in left.values():  # new in this version
        if item.is_test:
            lines = after.count(b"\n", item.start, item.end)
            edits.append(Edit(item.start, item.end, "\n" * lines))
        elif item.inside is not None:
            more.append(([], item.inside))
    return more
