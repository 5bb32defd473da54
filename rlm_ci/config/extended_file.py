"""A config file with one more entry in a list of tables; its comments, order and layout stay.

The entry is put where the file then says what it said before, and the entry: that is compared, by
reading the file again.
"""

from __future__ import annotations

import json

from rlm_ci.config.settings import parse_config
from rlm_ci.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

#: Places in a list in brackets that are tried.
_TRIES = 500


def extended(
    data: bytes, keys: Sequence[str], entry: Mapping[str, str], *, remark: str, source: str
) -> bytes:
    """``data`` with ``entry`` at the end of the list ``keys``, below a comment ``remark``.

    Raises ConfigError for a file that is not valid, or that takes no such entry.
    """
    before = parse_config(data, source, None)
    expected = _with(before, keys, dict(entry))
    for candidate in _candidates(data, keys, entry, remark) if expected else ():
        try:
            if parse_config(candidate, source, None) == expected:
                return candidate
        except ConfigError:
            continue
    raise ConfigError(
        f"the list {'.'.join(keys)} is written so that no entry can be added to it",
        where=source,
        hint=f"add it by hand: {_inline(entry)}",
    )


def _with(record: Any, keys: Sequence[str], entry: dict[str, str]) -> dict[str, Any] | None:
    """The record with ``entry``; None where something else has a name of ``keys``."""
    first, *deeper = keys
    if not isinstance(record, dict):
        return None
    if not deeper:
        entries = record.get(first, [])
        return {**record, first: [*entries, entry]} if isinstance(entries, list) else None
    below = _with(record.get(first, {}), deeper, entry)
    return None if below is None else {**record, first: below}


def _candidates(
    data: bytes, keys: Sequence[str], entry: Mapping[str, str], remark: str
) -> Iterator[bytes]:
    end = b"\r\n" if b"\r\n" in data else b"\n"
    lines = [f"# {remark}", f"[[{'.'.join(keys)}]]"]
    lines += [f"{name} = {_text(value)}" for name, value in entry.items()]
    gap = b"" if not data.strip(b"\xef\xbb\xbf \t\r\n") else end
    gap = gap if data.endswith(b"\n") or not data else end + gap
    yield data + gap + b"".join(line.encode() + end for line in lines)
    inline = _inline(entry).encode()
    at = data.find(keys[-1].encode())
    for _ in range(_TRIES):  # the list may be one in brackets
        at = data.find(b"]", at + 1)
        if at < 0:
            return
        for comma in (b", ", b""):
            yield data[:at] + comma + inline + data[at:]


def _inline(entry: Mapping[str, str]) -> str:
    return f"{{ {', '.join(f'{name} = {_text(value)}' for name, value in entry.items())} }}"


def _text(value: str) -> str:
    """A basic string of TOML."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
