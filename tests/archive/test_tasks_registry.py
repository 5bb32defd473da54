"""The registry of documents: rows marked, and nothing else in the file changed."""

from __future__ import annotations

import pytest

from rlm_ci.archive.tasks import Registry
from rlm_ci.errors import ConfigError

ROW = '{"path": "a.md", "status": "active", "last_review": "2026-01-01", "cadence_days": 30}'
MARKED = '{"path": "a.md", "status": "archived", "last_review": "2026-02-01", "cadence_days": 365}'
OTHERS = '[1, {"path": ["a.md"]}, {"path": "b.md", "note": "é"}, null]'

INDENTED = '{\n\t"entries": [\n\t\t{\n\t\t\t"path": "a.md"\n\t\t}\n\t]\n}\n'.replace("\n", "\r\n")
INDENTED_AFTER = INDENTED.replace(
    '"a.md"',
    '"a.md",\r\n\t\t\t"status": "archived",\r\n\t\t\t"last_review": "2026-02-01",'
    '\r\n\t\t\t"cadence_days": 365',
)


def marked(text: str, *paths: str) -> str | None:
    found = Registry(text.encode()).marked(paths, "2026-02-01", 365)
    return None if found is None else found.decode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f'{{"entries": [{ROW}]}}', f'{{"entries": [{MARKED}]}}'),
        (f'{{"entries": [{OTHERS}, {ROW}]}}\n', f'{{"entries": [{OTHERS}, {MARKED}]}}\n'),
        (INDENTED, INDENTED_AFTER),
        (
            f'{{"entries": [{ROW}], "x": "\\ud800é"}}',
            f'{{"entries": [{MARKED}], "x": "\\ud800\\u00e9"}}',
        ),
    ],
)
def test_only_the_rows_change(before: str, after: str) -> None:
    assert marked(before, "a.md", "c.md") == after
    assert marked(after, "a.md", "c.md") is None
    assert marked(before, "c.md") is None


def test_without_a_registry_no_row_is_made() -> None:
    nothing = Registry(None)
    assert nothing.marked(["a.md"], "2026-02-01", 365) is None
    assert nothing.status("a.md") == ""


@pytest.mark.parametrize("data", [b"", b"[]", b'{"entries": {}}', b"\xff", b'{"entries":' * 99_999])
def test_what_is_no_registry_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigError, match="registry of documents is not JSON"):
        Registry(data)
