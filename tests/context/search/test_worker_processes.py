"""One search on several cores: the same result, and nothing left behind, whoever dies.

A process with threads does not fork, and those that run the tests have some: so each test here is
a script in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems use one core")

BEGIN = """
import os, random, signal, sys, threading, time
sys.path.insert(0, sys.argv[1])
from rlm_ci.errors import DamagedError
from rlm_ci.context.search.worker_processes import PIECES, processes, share
from rlm_ci.context.search.occurrences import PLAIN
from rlm_ci.context.search.search import BlockSizes, search

forks = []
os.register_at_fork(after_in_parent=lambda: forks.append(1))
here = os.getpid()
opened = sorted(os.listdir("/proc/self/fd"))

def clean():
    "No descriptor is left open, and no child, dead or alive."
    assert sorted(os.listdir("/proc/self/fd")) == opened
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return
    raise AssertionError("a child is left")

class Sum:
    "What a process has done; `told` is what the others say."
    def __init__(self):
        self.mine = []
    def work(self, number):
        time.sleep(0.002)  # so that everybody gets some
        self.mine.append(number)
    def result(self):
        return [os.getpid(), self.mine]
"""


def run(script: str, *arguments: str) -> str:
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        [sys.executable, "-c", BEGIN + script, root, *arguments],
        capture_output=True, check=False, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_several_processes_find_what_one_finds(tmp_path: Path) -> None:
    script = """
some = random.Random(5)
alone = open(sys.argv[2], "wb+", buffering=0)
opened = sorted(os.listdir("/proc/self/fd"))
needles = [b"a", b"aa", b"abab", b"ba", b"aab" * 9, b"A" * 100, b"zz", b"b", b"aa"]
for turn in range(30):
    parts = [some.choice([b"ab", b"a" * some.randrange(900), b"aab", b"b"]) for _ in range(999)]
    source = b"".join(some.choices(parts, k=20)) if turn % 3 else b"a" * some.randrange(4000)
    alone.truncate(0)
    os.pwrite(alone.fileno(), source, 0)
    target = some.randrange(2, 300)
    how = dict(target=target, overlap=some.randrange(target), top_k=some.randrange(30),
               engine=some.choice([PLAIN, None]),
               grain=BlockSizes(some.randrange(1, 200), some.randrange(1, 200)))
    one = search(alone.fileno(), len(source), needles, workers=1, **how)
    before = len(forks)
    three = search(alone.fileno(), len(source), needles, workers=3, **how)
    assert one == three, (how, source)
    for needle, matches in zip(needles, one):
        assert matches.total == source.count(needle.lower()), needle
    clean()
print(len(forks))
"""
    assert int(run(script, str(tmp_path / "source"))) >= 20


def test_every_piece_is_done_once_and_by_all() -> None:
    run("""
mine = Sum()
told = share(PIECES, mine.work, mine.result, 3)
assert len(told) == 2 and len(forks) == 2
done = sorted(mine.mine + [number for _, theirs in told for number in theirs])
assert done == list(range(PIECES))
assert mine.mine and all(theirs for _, theirs in told)
assert {here, *(pid for pid, _ in told)} != {here}
clean()
""")


def test_what_a_dead_worker_had_taken_is_done_again() -> None:
    run("""
class Mortal(Sum):
    def work(self, number):
        super().work(number)
        if os.getpid() != here and len(self.mine) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
mine = Mortal()
assert share(40, mine.work, mine.result, 3) == []
assert sorted(mine.mine) == list(range(40)) and len(forks) == 2
clean()
""")


def test_an_error_of_the_work_is_raised_here_whoever_met_it() -> None:
    run("""
class Failing(Sum):
    def work(self, number):
        super().work(number)
        if number == 25:
            raise DamagedError("25 is damaged")
for _ in range(4):
    mine = Failing()
    try:
        share(40, mine.work, mine.result, 3)
    except DamagedError as error:
        assert str(error) == "25 is damaged"
    else:
        raise AssertionError("no error")
    clean()
""")


def test_an_interrupt_ends_the_workers_too() -> None:
    run("""
class Interrupted(Sum):
    def work(self, number):
        if os.getpid() == here:
            os.kill(here, signal.SIGINT)
        time.sleep(60)
mine = Interrupted()
start = time.monotonic()
try:
    share(40, mine.work, mine.result, 3)
except KeyboardInterrupt:
    pass
assert time.monotonic() - start < 30 and len(forks) == 2
clean()
""")


def test_our_signal_handlers_are_not_run_by_a_worker() -> None:
    """It ends at once, and what it had taken is done here."""
    said = run("""
def handler(*_):
    os.write(1, b"this is for the parent")
signal.signal(signal.SIGTERM, handler)
class Terminated(Sum):
    def work(self, number):
        super().work(number)
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(5)
mine = Terminated()
assert share(20, mine.work, mine.result, 2) == []
assert sorted(mine.mine) == list(range(20)) and forks
clean()
""")
    assert not said


def test_a_worker_does_not_write_what_its_parent_has_in_its_buffers() -> None:
    assert run("""
print("once", end="")
mine = Sum()
share(20, mine.work, mine.result, 3)
assert forks
""") == "once"  # fmt: skip


def test_workers_without_a_parent_stop() -> None:
    script = (
        BEGIN
        + """
class Slow(Sum):
    def work(self, number):
        os.write(1, b"%d\\n" % os.getpid())
        time.sleep(0.2)
mine = Slow()
share(1000, mine.work, mine.result, 3)
"""
    )
    root = str(Path(__file__).parents[3])
    argv = [sys.executable, "-c", script, root]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        seen: set[int] = set()
        while len(seen) < 3:
            seen.add(int(parent.stdout.readline()))
        parent.kill()
        start = time.monotonic()
        parent.stdout.read()  # it ends when nobody is left who could write
        assert time.monotonic() - start < 30  # and not after a hundred seconds, with the pieces


def test_a_process_with_threads_does_not_fork(tmp_path: Path) -> None:
    run("""
path = sys.argv[2]
with open(path, "wb") as stream:
    stream.write(b"Needle in a stack. " * 500)
how = dict(target=100, overlap=10, top_k=3, grain=BlockSizes(window=50, block=100))
size = os.path.getsize(path)
assert processes(3) == 3
source = os.open(path, os.O_RDONLY)
several = search(source, size, [b"needle"], workers=3, **how)
assert len(forks) == 2
stop = threading.Event()
thread = threading.Thread(target=stop.wait)
thread.start()
assert processes() == processes(3) == 1
assert search(source, size, [b"needle"], workers=3, **how) == several
assert len(forks) == 2
stop.set()
thread.join()
""", str(tmp_path / "source"))  # fmt: skip


def test_without_descriptors_or_processes_it_works_alone() -> None:
    run("""
import resource
mine = Sum()
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
for spare in range(6):
    mine.mine.clear()
    held = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        while True:
            held.append(os.open("/dev/null", os.O_RDONLY))
    except OSError:
        pass
    for _ in range(spare):
        os.close(held.pop())
    told = share(10, mine.work, mine.result, 3)
    for one in held:
        os.close(one)
    assert sorted(mine.mine + [n for _, theirs in told for n in theirs]) == list(range(10)), spare
    clean()
""")


def test_a_source_that_became_shorter_is_named(tmp_path: Path) -> None:
    run("""
path = sys.argv[2]
with open(path, "wb") as stream:
    stream.write(b"Needle in a stack. " * 500)
try:
    with open(path, "rb") as stream:
        search(stream.fileno(), 10_000, [b"needle"], workers=3, target=100, overlap=10, top_k=3,
               grain=BlockSizes(window=50, block=100), name="source")
except DamagedError as error:
    assert "source" in str(error) and forks
else:
    raise AssertionError("no error")
clean()
""", str(tmp_path / "source"))  # fmt: skip
