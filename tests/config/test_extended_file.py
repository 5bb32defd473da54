"""An entry added to a config file, whose comments, order and layout stay."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest

from rlm_ci.config.extended_file import extended
from rlm_ci.errors import ConfigError

ENTRY = {"rule": "review/x", "fingerprint": "0" * 32, "reason": 'a "quote" \\ and \x7f, ä'}
OURS, SHARED = ("suppressions",), ("tool", "rlm-ci", "suppressions")
FILES = {
    "nothing": (OURS, b""),
    "no end of line": (OURS, b'fail_level = "low" # why'),
    "comments": (OURS, b"# top\nchecks = [ 'a',  # one\n]\n\n\n# the end\n"),
    "CRLF": (OURS, b'fail_level = "low"\r\n[review]\r\nruff = "off"\r\n'),
    "BOM": (OURS, b'\xef\xbb\xbffail_level = "low"\n'),
    "one before": (OURS, b'[[suppressions]]\nrule = "a"\nreason = "b"\n\n[review]\nruff="on"\n'),
    "indented": (OURS, b"  [[ suppressions ]]\n    rule='a'\n    reason='b'\n"),
    "text of a table": (OURS, b'[review]\nx = """\n[[suppressions]]\nrule = 1\n"""\n'),
    "empty list": (OURS, b"suppressions = []\nfail_level = 'low' # ] }\n"),
    "list": (OURS, b"suppressions = [ {rule='[a]', reason='x ]'}, # ]\n ] # ]\n[review]\n"),
    "list that ends with a comma": (OURS, b"suppressions = [\n  {rule='a', reason='b'},\n]\n"),
    "pyproject": (SHARED, b"[tool.ruff]\nselect = ['E']\n[tool.rlm-ci]\n[tool.other]\nx = 1\n"),
    "pyproject with a list": (SHARED, b"[tool.rlm-ci]\nsuppressions = []\n[tool.x]\na = [1]\n"),
    "dotted": (SHARED, b"tool.rlm-ci.suppressions = [{rule='a', reason='b'}]\n"),
    "quoted": (SHARED, b'[tool."rlm-ci"]\nfail_level = "low"\n'),
}


@pytest.mark.parametrize(("keys", "data"), FILES.values(), ids=FILES)
def test_the_rest_stays_to_the_letter(keys: tuple[str, ...], data: bytes) -> None:
    made = extended(data, keys, ENTRY, remark="src/a.py:1: why", source="x.toml")
    before, after = (tomllib.loads(one.decode("utf-8-sig")) for one in (data, made))
    assert _at(after, keys).pop() == ENTRY
    assert after == before or (not _at(before, keys) and _bare(after) == _bare(before))
    # Only something was added, at one place.
    start = next((at for at, (a, b) in enumerate(zip(data, made, strict=False)) if a != b),
                 len(data))  # fmt: skip
    assert made.endswith(data[start:])
    assert made.startswith(data[:start])
    if b"\r\n" in data:
        assert made.count(b"\n") == made.count(b"\r\n")
    if made.startswith(data) and data:
        assert b"# src/a.py:1: why" in made


def _at(record: Any, keys: tuple[str, ...]) -> list[Any]:
    for key in keys:
        record = record.get(key, {})
    return record or []


def _bare(record: Any) -> Any:
    """Without what is empty."""
    if not isinstance(record, dict):
        return record
    bare = {name: _bare(value) for name, value in record.items()}
    return {name: value for name, value in bare.items() if value not in ({}, [])}


@pytest.mark.parametrize(
    ("keys", "data", "why"),
    [
        (OURS, b"suppressions = 3\n", "add it by hand: { rule ="),
        (SHARED, b"[tool]\nrlm-ci = { checks = ['a'] }\n", "add it by hand"),
        (SHARED, b"tool = 3\n", "add it by hand"),
        (OURS, b"a = \n", "fix the file"),
        (OURS, b"\xff\xfe", "fix the file"),
    ],
)
def test_a_file_that_takes_no_entry_is_told(keys: tuple[str, ...], data: bytes, why: str) -> None:
    with pytest.raises(ConfigError) as raised:
        extended(data, keys, ENTRY, remark="x", source="x.toml")
    assert raised.value.where == "x.toml"
    assert why in raised.value.hint
