"""What a job may have left on this machine."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def sleepers(seconds: str) -> list[int]:
    """The live processes of this machine that sleep for just so long."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
                state = Path(f"/proc/{name}/stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue
            if words[:1] == [b"sleep"] and seconds.encode() in words and state not in "ZX":
                found.append(int(name))
    return found


def eventually(ask: Callable[[], bool], seconds: float = 10) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if ask():
            return True
        time.sleep(0.01)
    return ask()
