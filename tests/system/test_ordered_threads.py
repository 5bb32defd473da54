"""The caller of threads hears a signal, whichever thread the kernel gives it to."""

from __future__ import annotations

import subprocess
import sys

_PROGRAM = """
import signal, threading, time
from rlm_ci.system.ordered_threads import in_order

ended = []

def task():
    time.sleep(0.1)  # until the caller waits for this thread
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
    threading.Event().wait(10)
    ended.append(1)

try:
    in_order([task], 1)
except KeyboardInterrupt:
    print("late" if ended else "at once", flush=True)
"""


def test_a_signal_that_a_thread_takes_ends_the_wait() -> None:
    """The main thread sleeps in the join meanwhile, and no system call of its own is broken off."""
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.stdout, ended.returncode) == ("at once\n", 0), ended.stderr
