"""Something killed between any two steps of its own process."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable

#: What a step begins with: a program, or a file that takes the place of another.
MOVES = frozenset(("os.rename",))
STEPS = MOVES | {"subprocess.Popen", "os.posix_spawn"}


def run_until(act: Callable[[], object], last: int, steps: frozenset[str] = STEPS) -> int:
    """``act`` in a process of its own, killed before step ``last``; 0 if it ends well earlier."""
    with tempfile.TemporaryDirectory() as folder:
        child = os.fork()
        if not child:
            tempfile.tempdir = folder  # what the killed one would leave
            _act_until(act, last, steps)
        status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "it failed by itself"
    return os.WTERMSIG(status)


def _act_until(act: Callable[[], object], last: int, steps: frozenset[str]) -> NoReturn:
    seen = 0

    def count(event: str, _args: tuple[object, ...]) -> None:
        nonlocal seen
        seen += event in steps
        if seen == last and event in steps:
            os.kill(os.getpid(), signal.SIGKILL)

    code = 1
    try:
        sys.addaudithook(count)
        act()
        code = 0
    finally:
        os._exit(code)
