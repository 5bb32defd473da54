"""The registry of documents, ``docs/docs-freshness-registry.json``: status and last review."""

from __future__ import annotations

import json
import re

from rlm_ci.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

REGISTRY = "docs/docs-freshness-registry.json"
ARCHIVED = "archived"
_INDENT = re.compile(r"\{\r?\n([ \t]+)")


class Registry:
    """The rows by path; ``data`` is the file, None where there is none."""

    def __init__(self, data: bytes | None) -> None:
        """Raises ConfigError for a file that is not ``{"entries": [...]}``."""
        self._data = data
        self._record: dict[str, Any] = {"entries": []} if data is None else _parsed(data)
        self._rows: dict[str, dict[str, Any]] = {}
        for row in self._record["entries"]:
            if path := _path_of(row):
                self._rows.setdefault(path, row)

    def row(self, path: str) -> Mapping[str, Any]:
        """The row of a document; empty without one."""
        return self._rows.get(path, {})

    def status(self, path: str) -> str:
        """The status of a document; "" without one."""
        status = self.row(path).get("status")
        return status if isinstance(status, str) else ""

    def unmarked(self, paths: Collection[str]) -> list[str]:
        """Those of ``paths`` that have a row which does not say that they are archived."""
        return [path for path in paths if path in self._rows and self.status(path) != ARCHIVED]

    def marked(self, paths: Collection[str], day: str, cadence: int) -> bytes | None:
        """The file with ``paths`` marked as archived on ``day``; None where nothing changes.

        Documents without a row get none: their owner is not known.
        """
        changed = self.unmarked(paths)
        if not changed or self._data is None:
            return None
        mark = {"status": ARCHIVED, "last_review": day, "cadence_days": cadence}
        unmarked = frozenset(changed)
        entries = [
            {**row, **mark} if _path_of(row) in unmarked else row for row in self._record["entries"]
        ]
        return _written({**self._record, "entries": entries}, self._data)


def _path_of(row: object) -> str:
    path = row.get("path") if isinstance(row, dict) else None
    return path if isinstance(path, str) else ""


def _parsed(data: bytes) -> dict[str, Any]:
    try:
        record = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not isinstance(record.get("entries"), list):
        raise ConfigError(
            'the registry of documents is not JSON of the form {"entries": [...]}',
            where=REGISTRY,
            hint="correct it",
        )
    return record


def _written(record: Mapping[str, Any], before: bytes) -> bytes:
    """``record`` in the form that the file had before: indents, line ends, escapes, last line."""
    text = before.decode("utf-8")
    match = _INDENT.search(text)
    is_ascii = text.isascii() or "\\ud" in text.lower()  # half a character has no other form
    written = json.dumps(record, indent=match[1] if match else None, ensure_ascii=is_ascii)
    written += "\n" if text.endswith("\n") else ""
    return written.replace("\n", "\r\n" if "\r\n" in text else "\n").encode("utf-8")
