"""The states of a session as bytes: what each block has changed, in numbered parts.

What a part holds is known in the sandbox alone; here it is bytes.
"""

from __future__ import annotations

import json
import sys

from rlm_ci.environments.repl.worker_process import is_count
from rlm_ci.errors import ConfigError, DamagedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_SIGN = b"rlm-ci-repl 1 "
#: What can read the parts: a pickle holds code of one version of Python.
CPYTHON = f"cpython-{sys.version_info[0]}.{sys.version_info[1]}"


def packed(maker: str, parts: Mapping[int, bytes], removed: Sequence[int]) -> bytes:
    """One state; empty if nothing has changed."""
    if not parts and not removed:
        return b""
    sizes = [[number, len(data)] for number, data in parts.items()]
    head = json.dumps({"maker": maker, "parts": sizes, "removed": list(removed)})
    return b"".join((_SIGN, head.encode("ascii"), b"\n", *parts.values()))


def merged(maker: str, states: Iterable[bytes]) -> dict[int, bytes]:
    """The parts that are left after ``states``. Raises DamagedError, ConfigError."""
    parts: dict[int, bytes] = {}
    for state in states:
        at = 0
        while at < len(state):
            end = state.find(b"\n", at)
            head = _head(state[at:end]) if end > 0 else None
            if head is None:
                raise DamagedError(
                    "the state of a session is damaged", hint="start the session anew"
                )
            made_by, sizes, removed = head
            if made_by != maker:
                raise ConfigError(
                    f"the state of the session was made by {made_by}, and this is {maker}",
                    hint="go on with the same sandbox and Python, or start the session anew",
                )
            at = end + 1
            for number, size in sizes:
                parts[number] = state[at : at + size]
                at += size
            for number in removed:
                parts.pop(number, None)
            if at > len(state):
                raise DamagedError("the state of a session is cut", hint="start the session anew")
    return parts


def _head(line: bytes) -> tuple[str, list[tuple[int, int]], list[int]] | None:
    if not line.startswith(_SIGN):
        return None
    try:
        record = json.loads(line[len(_SIGN) :])
        sizes = [(number, size) for number, size in record["parts"]]
        numbers = [*(value for pair in sizes for value in pair), *record["removed"]]
        if not all(map(is_count, numbers)):
            return None
        return str(record["maker"])[:100], sizes, record["removed"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
