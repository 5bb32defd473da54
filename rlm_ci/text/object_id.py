"""Ids of git's objects."""

from __future__ import annotations

_HEX = frozenset("0123456789abcdef")


def is_object_id(value: object) -> bool:
    """Whether ``value`` is the full id of an object, in either of git's hashes."""
    return isinstance(value, str) and len(value) in (40, 64) and _HEX.issuperset(value)
