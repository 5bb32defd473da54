"""A real process that writes a journal, and what can befall it: the harness of the fault tests.

As a program it takes the lock, opens the journal, and appends; each thing that it may be believed
about is said on stdout at once: ``0`` when the journal is open, then the number of each record
that is durable. It ends with the exit code of whatever went wrong.
"""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rlm_ci
from rlm_ci.errors import RlmCiError
from rlm_ci.runs.journal.journal import Journal, replay
from rlm_ci.system.lock import Lock

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def record(number: int) -> dict[str, Any]:
    return {"number": number, "text": "x" * (number * 7 % 40), "inner": {"é": [number, None]}}


# -- the program --------------------------------------------------------------------------------


def write(path: str, count: int, threads: int, *, hold: bool) -> None:
    def say(number: int) -> None:
        os.write(1, b"%d\n" % number)

    with Lock.take(f"{path}.lock"), Journal.open(path) as journal:
        say(0)

        def append(numbers: range) -> None:
            for number in numbers:
                say(journal.append(record(number)))

        if threads == 1:
            append(range(journal.seq + 1, journal.seq + count + 1))
        else:
            workers = [
                threading.Thread(target=append, args=(range(first, count, threads),))
                for first in range(threads)
            ]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
        if hold:
            sys.stdin.read()


def lift(path: str, limit: int) -> None:
    """Give the disk room again as soon as it is full."""
    while not os.path.exists(path):
        pass
    descriptor = os.open(path, os.O_RDONLY)
    while os.lseek(descriptor, 0, os.SEEK_END) < limit:
        time.sleep(0.001)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))


def main(path: str, count: str, threads: str, limit: str, hold: str) -> int:
    if limit:
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit.rstrip("+")), hard))
    if limit.endswith("+"):
        threading.Thread(target=lift, args=(path, int(limit[:-1])), daemon=True).start()
    try:
        write(path, int(count), int(threads), hold=bool(hold))
    except RlmCiError as error:
        print(error, file=sys.stderr)
        return error.code
    return 0


def sweep(folder: str, *limits: str) -> int:
    """:func:`main` with each limit, on a journal of its own, in a fork of this process.

    A line for each is printed: how it ended, what it said, what it complained of.
    """
    for limit in limits:
        said, complaint = os.pipe(), os.pipe()
        pid = os.fork()
        if not pid:
            os.dup2(said[1], 1)
            os.dup2(complaint[1], 2)
            code = main(f"{folder}/journal-{limit}", "6", "1", limit, "")
            sys.stderr.flush()
            os._exit(code)
        os.close(said[1])
        os.close(complaint[1])
        _, status = os.waitpid(pid, 0)
        with open(said[0]) as out, open(complaint[0]) as err:
            row = [os.waitstatus_to_exitcode(status), out.read().split(), err.read()]
        print(json.dumps(row), flush=True)
    return 0


# -- what befalls it ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Ended:
    """``said`` is what the process said that it has done; ``code`` is negative after a signal."""

    code: int
    said: tuple[int, ...]
    complaint: str


def command(
    path: Path, count: int = 6, *, threads: int = 1, limit: object = "", hold: bool = False
) -> list[str]:
    """``limit``: the size that no file outgrows; with a ``+`` behind it, until one reaches it."""
    options = [str(count), str(threads), str(limit), "hold" * hold]
    return [sys.executable, "-B", __file__, str(path), *options]


def environment() -> dict[str, str]:
    """The process imports the package that this one did."""
    return {**os.environ, "PYTHONPATH": str(Path(rlm_ci.__file__).parent.parent)}


def run(argv: list[str]) -> Ended:
    done = subprocess.run(
        argv, env=environment(), stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
        check=False,
    )  # fmt: skip
    said = tuple(map(int, done.stdout.split()))
    return Ended(done.returncode, said, done.stderr.decode())


def each(folder: Path, limits: Iterable[int]) -> Iterator[tuple[Path, Ended]]:
    """The journal of each limit to the size of a file, and how its writer ended."""
    given = list(map(str, limits))
    argv = [sys.executable, "-B", __file__, "sweep", str(folder), *given]
    done = subprocess.run(argv, env=environment(), stdout=subprocess.PIPE, timeout=60, check=True)
    for limit, line in zip(given, done.stdout.splitlines(), strict=True):
        code, said, complaint = json.loads(line)
        yield folder / f"journal-{limit}", Ended(code, tuple(map(int, said)), complaint)


def strace() -> str:
    program = shutil.which("strace")
    # Not by pytest, which each writer would import: that takes longer than all that it does.
    assert program, "strace is not installed: `make system` installs it, where apt-get may do so"
    return program


def inject(path: Path, *faults: str, argv: list[str] | None = None) -> Ended:
    """Run the writer with ``faults`` of system calls on the journal, as strace names them."""
    calls = ",".join({fault.partition(":")[0] for fault in faults})
    options = [option for fault in faults for option in ("-e", f"inject={fault}")]
    watch = ["-P", str(path), "-e", f"trace={calls}", *options]
    return run([strace(), "-f", "-qq", "-o", os.devnull, *watch, *(argv or command(path))])


# -- what it did, in order ----------------------------------------------------------------------


@dataclass
class Call:
    """One system call: positions in the trace where it began and ended."""

    name: str
    text: str
    began: int
    ended: int
    result: str

    def is_on(self, path: Path) -> bool:
        return f"<{path}>" in self.text.partition(",")[0] + self.result


_LINE = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+)(?:\(| resumed>)(.*)$")


def trace(path: Path, **options: Any) -> tuple[Ended, list[Call]]:
    """Run the writer, and see each call that matters, those that overlap too."""
    log = path.with_name("trace")
    watch = ["-e", "trace=write,fsync,fdatasync,openat", "-s", "4096"]
    ended = run([strace(), "-f", "-y", "-qq", "-o", str(log), *watch, *command(path, **options)])
    calls: list[Call] = []
    pending: dict[str, Call] = {}
    for position, line in enumerate(log.read_text(errors="replace").splitlines()):
        match = _LINE.match(line)
        if match is None:
            continue
        thread, name, text = match.groups()
        call = pending.pop(thread, None)
        if call is None:
            call = Call(name, text, position, -1, "")
            calls.append(call)
        if text.endswith("<unfinished ...>"):
            pending[thread] = call
        else:
            call.ended = position
            call.result = text.rpartition(" = ")[2]
    return ended, calls


def require_order(path: Path, calls: list[Call]) -> int:
    """Nothing was said before an fsync that began after its write had ended; how much was said."""
    synced = [call for call in calls if "sync" in call.name and call.result == "0"]
    made = next(call for call in calls if call.name == "openat" and str(path) in call.text)
    written = {
        int(found[1]): call
        for call in calls
        if call.name == "write"
        and call.is_on(path)
        and (found := re.search(r'\\"seq\\":(\d+)', call.text))
    }
    said = [call for call in calls if call.name == "write" and call.text.startswith("1<")]
    for call in said:
        found = re.search(r', "(\d+)\\n"', call.text)
        assert found, call
        number = int(found[1])
        since = written[number].ended if number else made.ended

        def synced_between(place: Path, since: int = since, call: Call = call) -> bool:
            return any(
                since < sync.began and sync.ended < call.began and sync.is_on(place)
                for sync in synced
            )

        assert synced_between(path), f"{number} was acknowledged before it was durable"
        if number == 0:
            assert synced_between(path.parent), "the name of the journal was not durable"
    return len(said)


def require_kept(path: Path, ended: Ended) -> list[dict[str, Any]]:
    """All that was acknowledged is there, once, and at most one record more in flight."""
    with Journal.open(str(path)) as journal:
        last = journal.seq
    found = list(replay(str(path)))
    assert [entry["number"] for entry in found] == list(range(1, last + 1)), ended
    assert [entry["seq"] for entry in found] == list(range(1, last + 1)), ended
    acknowledged = ended.said[-1] if ended.said else 0
    assert acknowledged <= last <= acknowledged + 1, ended
    for entry in found:
        assert {**record(entry["number"]), "seq": entry["seq"]} == entry
    return found


if __name__ == "__main__":
    program = sweep if sys.argv[1] == "sweep" else main
    raise SystemExit(program(*sys.argv[1 + (program is sweep) :]))
