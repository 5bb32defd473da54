"""Tests that ran before a change, and do not run after it: not collected, skipped, not chosen."""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.guard.collected import collected
from rlm_ci.guard.weakened_tests.cases import UNSET_TAG
from rlm_ci.guard.weakening import Weakening
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlm_ci.guard.collected.tree_side import TreeSide
    from rlm_ci.guard.weakened_tests.cases import Case, CaseFile, Skip

    Pairs = Sequence[tuple[str, Case, str, Case]]
    Files = Mapping[str, CaseFile]

REMOVED = "test-removed"
SKIPPED = "test-skipped"
FOCUSED = "test-focused"
#: The kind of a note: a test that is left out, and says why.
REASONED = "reasoned"

_SHOWN = 120
#: A test that runs only under a condition which is a name, or its opposite.
_CONDITION = re.compile(r"\.(run|skip)If\((!?)([A-Za-z_$][\w$]*)\)")


def not_collected(
    pairs: Pairs, before: Files, after: Files, sides: tuple[TreeSide, TreeSide]
) -> Iterator[Weakening]:
    """Tests that moved to where no runner looks."""
    from rlm_ci.guard.collected import pytest_tests

    old_tree, new_tree = sides
    moved = Counter((origin, path) for origin, _, path, _ in pairs if origin != path)
    lost = set[str]()
    for (origin, path), number in moved.items():
        if runner := collected.lost_by(origin, path, old_tree, new_tree):
            what = f"{runner} does not collect {path}: {count(number, 'test')} of {origin}"
            yield Weakening(REMOVED, f"{what} no longer run", path)
            lost.add(path)
    parts: dict[tuple[str, str], list[Case]] = {}
    for origin, test, path, test_now in pairs:
        old, new = before[origin], after[path]
        is_same = (origin, test.name, old.classes) == (path, test_now.name, new.classes)
        if is_same or path in lost or not path.endswith(".py"):
            continue
        part = pytest_tests.unnamed(path, new, test_now.name, new_tree)
        if part and not pytest_tests.unnamed(origin, old, test.name, old_tree):
            parts.setdefault((path, part), []).append(test_now)
    for (path, part), tests in parts.items():
        what = f"pytest does not collect {part[:_SHOWN]}: {count(len(tests), 'test')}"
        yield Weakening(REMOVED, f"{what} no longer run", path, tests[0].line)


def left_out(
    pairs: Pairs, before: Files, after: Files, tree: TreeSide | None = None
) -> Iterator[Weakening]:
    """Tests that ran before, and are left out now; a test that is new was never run.

    The reason of a mark that has a name may stand in another file of ``tree``.
    """
    earlier: dict[str, str] = {}
    for _, test, _, test_now in pairs:
        names = (reversed(skip.name.split(".")) for skip in (test_now, test))
        earlier.update(zip(*names, strict=False))
    ran = {path for _, _, path, _ in pairs}
    earlier_skips: Counter[tuple[str, str]] = Counter()
    same = {(path, skip.owner, skip.text) for path, file in before.items() for skip in file.skips}
    gates = Counter[str]()
    for file in before.values():
        gates.update(skip.text for skip in file.skips if "cfg(" in skip.text)
        earlier_skips.update((skip.owner, "" if skip.owner else skip.text) for skip in file.skips)
    for path, file in after.items():
        old = before[path].skips
        known_first = sorted(
            file.skips, key=lambda skip: (path, earlier.get(skip.owner), skip.text) not in same
        )
        for skip in known_first:
            gates[skip.text] -= 1
            is_global = skip.is_global or path.endswith("conftest.py")
            if (
                gates[skip.text] >= 0  # it gated another part of the tests
                or (skip.owner and skip.owner not in earlier)
                or not (skip.owner or path in ran or is_global)
            ):
                continue
            key = (earlier[skip.owner], "") if skip.owner else ("", skip.text)
            earlier_skips[key] -= 1
            if earlier_skips[key] >= 0 or _is_gate_as_wide(skip, old, file.skips):
                continue
            if (tags := _tags(skip.text)) and {*tags} <= {*re.split(r"[._]", path)}:
                continue  # the compiler reads the name of the file as well
            what = f"{skip.owner}: {skip.text}" if skip.owner else skip.text
            has_reason = skip.has_reason or _has_named_reason(skip, tree)
            if has_reason or _is_of_a_mode(skip, old, file.skips):
                yield Weakening(REASONED, what[:_SHOWN], path, skip.line)
            else:
                message = f"a test is left out, with no reason: {what[:_SHOWN]}"
                yield Weakening(SKIPPED, message, path, skip.line)


def _has_named_reason(skip: Skip, tree: TreeSide | None) -> bool:
    """Whether a mark is a name of Python that some file gives a mark with a reason."""
    name = skip.text.rpartition("=")[2].strip()
    if tree is None or not re.fullmatch(r"[A-Za-z_]\w{3,}", name):
        return False
    pattern = rf"^{name}\b[^\n]*=[^\n]*\bmark\.(?:skip|xfail)\w*\((?:[^\n]|\n[ \t)])*?\breason="
    return any(re.search(pattern, text, re.MULTILINE) for _, text in tree.naming(name))


def _is_of_a_mode(gate: Skip, before: Sequence[Skip], after: Sequence[Skip]) -> bool:
    """Whether tests are run in the one mode or in the other, or a mode has another name."""
    conditions, old, new = (
        [match.groups() for skip in skips if (match := _CONDITION.search(skip.text))]
        for skips in ([gate], before, after)
    )
    if not conditions:
        return False
    kind, sign, name = conditions[0]
    others = [each for each in new if each[2] == name and each[:2] != (kind, sign)]
    was, now = {each[2] for each in old}, {each[2] for each in new}
    return bool(others) or (len(new) <= len(old) and bool(was - now))


def focused(before: Files, after: Files) -> Iterator[Weakening]:
    """Tests that are chosen, so that the others of their file do not run."""
    chosen = Counter(text for file in before.values() for _, text in file.focused)
    for path, file in after.items():
        for line, text in file.focused:
            chosen[text] -= 1
            if chosen[text] < 0:
                what = f"no other test of the file runs beside: {text[:_SHOWN]}"
                yield Weakening(FOCUSED, what, path, line)


def _is_gate_as_wide(gate: Skip, before: Sequence[Skip], after: Sequence[Skip]) -> bool:
    """Whether a gate for no single test asks for no more than one that it replaced.

    That is a ``cfg`` of Rust, or a constraint of a build in Go, which may be written anew.
    """
    if gate.text.startswith("//"):
        tags = {tag for skip in before for tag in _tags(skip.text)}
        return bool(tags) and set(_tags(gate.text)) <= tags
    texts = {skip.text for skip in after}
    return "cfg(" in gate.text and any(
        all(map(set.issubset, _cfg_features(gate.text), _cfg_features(skip.text)))
        for skip in before
        if not skip.owner and "cfg(" in skip.text and skip.text not in texts
    )


def _tags(gate: str) -> list[str]:
    """The tags of a constraint of Go that leave something out, with their signs."""
    tags = re.findall(r"!?\w+", gate[gate.find("build") + 5 :]) if gate.startswith("//") else []
    return [tag for tag in tags if not re.fullmatch(UNSET_TAG, tag)]


def _cfg_features(gate: str) -> tuple[set[str], set[str]]:
    """What a ``cfg`` of Rust asks for, but for alternatives; and what it rules out."""
    demands, depth = (set[str](), set[str]()), list[str]()
    for part in re.findall(r"\w+\(|\)|[\w=\"-]+", gate):
        if part == ")":
            depth = depth[:-1]
        elif part[-1] == "(":
            depth.append(part)
        elif "not(" in depth or "any(" not in depth:
            demands["not(" in depth].add(part)
    return demands
