"""Which tests cargo builds and runs, by Cargo.toml: its targets, and its default features."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import lru_cache

from rlm_ci.guard.protected import config_sections

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from rlm_ci.guard.collected.tree_side import TreeSide
    from rlm_ci.guard.weakening import TextChange

_MANIFEST = "Cargo.toml"
_FEATURE = re.compile(r"\bfeature\s*=\s*\"([^\"]+)\"")
_HAS_TESTS = re.compile(r"#\[(?:\w+::)*test\b|#\[cfg\(test\)\]")


def collects(path: str, tree: TreeSide) -> tuple[bool | None, str]:
    """Whether cargo runs the tests of an integration test, or of a library's own file."""
    folder = tree.nearest_folder(_MANIFEST, path)
    manifest = _read(tree.read(folder + _MANIFEST))
    inner = path.removeprefix(folder)
    name = inner.removeprefix("tests/").removesuffix(".rs").removesuffix("/main")
    if manifest is None:
        return None, ""
    if inner == "src/lib.rs":
        targets = [{key: manifest.get(f"lib.{key}") for key in ("test", "harness")}]
    elif inner.startswith("tests/") and "/" not in name:
        listed: list[dict[str, Any]] = manifest.get("test") or []
        targets = [row for row in listed if inner == row.get("path") or row.get("name") == name]
        if not targets and manifest.get("package.autotests") is False:
            return False, "cargo"
    else:
        return None, ""
    needed = {feature for target in targets for feature in target.get("required-features") or ()}
    has_tests = _HAS_TESTS.search(tree.read(path)) is not None
    is_off = any(
        target.get("test") is False or target.get("harness") is False for target in targets
    )
    return not (has_tests and is_off) and needed <= _defaults(manifest), "cargo"


def is_default(text: str, path: str, tree: TreeSide) -> bool:
    """Whether an attribute only asks for features that are on by default."""
    needed = _FEATURE.findall(text)
    manifest = _read(tree.nearest(_MANIFEST, path))
    return (
        bool(needed and manifest) and "not(" not in text and {*needed} <= _defaults(manifest or {})
    )


def gated(code: Iterable[TextChange]) -> frozenset[str]:
    """The features that code of Rust asks for more often than before."""
    counts = Counter[str]()
    for change in code:
        if change.path.endswith(".rs"):
            counts.update(_FEATURE.findall(change.after or ""))
            counts.subtract(_FEATURE.findall(change.before or ""))
    return frozenset(+counts)


def is_gated(text: str, features: frozenset[str]) -> bool:
    """Whether an attribute only asks for some of these features."""
    needed = _FEATURE.findall(text)
    return bool(needed) and "not(" not in text and features.issuperset(needed)


def _defaults(manifest: dict[str, Any]) -> set[str]:
    features, waiting = set[str](), ["default"]
    while waiting:
        feature = waiting.pop()
        if feature not in features:
            features.add(feature)
            waiting += manifest.get(f"features.{feature}") or []
    return features


@lru_cache(maxsize=16)
def _read(text: str) -> dict[str, Any] | None:
    """The settings by dotted names; None if there are none, or they cannot be read."""
    settings = config_sections.settings(_MANIFEST, text.encode("utf-8", "surrogateescape"))
    return {name: json.loads(value) for name, value in settings.items()} if settings else None
