"""The rows of ``tests/data/guard/test-guard``: changes that weaken tests, and honest ones."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from testing import guard_cases

DATA = guard_cases.DATA / "test-guard"
_KEYS = {"what", "start", "before", "write", "edit", "delete", "by", "open"}


class Row:
    """One change; ``name`` is ``<table>/weak/<row>`` or ``<table>/honest/<row>``."""

    def __init__(self, name: str) -> None:
        table, self.kind, key = name.split("/")
        content = _read(DATA / f"{table}.toml")
        row = content[self.kind][key]
        assert not row.keys() - _KEYS, (name, row.keys() - _KEYS)
        start = content["starts"][row["start"]] if "start" in row else {}
        self.before, self.after, self.deleted = guard_cases.sides(row, start)
        #: The rules that must find it, beside others.
        self.by = {f"test-guard/{rule}" for rule in row.get("by", [])}
        assert bool(self.by) == (self.kind == "weak"), name
        #: Whether the product does not do yet what the row expects.
        self.is_open: bool = row.get("open", False)


def names() -> list[str]:
    """The rows in the order of their tables."""
    return [
        f"{path.stem}/{kind}/{key}"
        for path in sorted(DATA.glob("*.toml"))
        for kind in ("weak", "honest")
        for key in _read(path)[kind]
    ]


@cache
def _read(path: Path) -> dict[str, Any]:
    return tomllib.loads(path.read_text(encoding="utf-8"))
