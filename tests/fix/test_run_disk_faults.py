"""A disk that fails at any write of a run: it is told, nothing half is taken for whole, and the
same run goes on to the same end once the disk is well again.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from rlm_ci.errors import OK, STORAGE
from rlm_ci.resources import loader
from testing.fix_stage import BUG, MENDED, Child, Outcome, Stage, alike
from testing.journal_faults import strace

if TYPE_CHECKING:
    from collections.abc import Sequence

#: An agent that asks no model: nothing but the disk can fail.
AGENT = ("--agent", "sed -i s/-/+/ calc.py", "--quiet")
WORDS = Stage.words(*AGENT)
CALLS = ("write", "fsync", "rename", "renameat", "linkat")
#: No command that we run makes as many: bubblewrap writes the copies of small files from /etc.
_OTHERS = 50
#: A process that no file may outgrow; a child that tries is killed by a signal.
LIMIT = (
    "import os, resource, sys\n"
    "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)\n"
    "os.execv(sys.argv[2], sys.argv[2:])\n"
)
_CALL = re.compile(r"^(\d+) +(\w+)\((.*)$")
_RUN = re.compile(r"/\d{4}-\d\d-\d\dT[\d-]+Z-[0-9a-f]{8}")
_LANDING = re.compile(r"(/\.rlm-ci-landing\.tmp)/[0-9a-f]{16}")
_TEMPORARY = re.compile(r"/\.([^/]+)\.[0-9a-f]{12}\.tmp$")


class Point(NamedTuple):
    """One system call of our own process: the how-manieth of its kind, and on which file."""

    call: str
    number: int
    place: str


class Calm(NamedTuple):
    """What a run does and leaves when nothing fails."""

    points: list[Point]
    files: dict[str, str]

    def find(self, call: str, name: str, turn: int = 0) -> Point:
        """Its ``turn``-th ``call`` on the file ``name``."""
        found = [one for one in self.points if one.call == call and one.place.endswith(name)]
        return found[turn]

    def some(self, call: str, count: int, offset: int) -> list[Point]:
        """``count`` points at equal distances, other ones by another ``offset``."""
        every = [one for one in self.points if one.call == call]
        stride = max(1, len(every) // count)
        return every[offset % stride :: stride]


@pytest.fixture(scope="module")
def calm() -> list[Calm]:
    """Filled by the first test that asks."""
    return []


def undisturbed(stage: Stage, calm: list[Calm]) -> Calm:
    if not calm:
        ended, run = stage.fixed(*AGENT)  # which compiles our modules, too: later runs write none
        assert ended.code == OK, ended
        files = alike(run)
        start_afresh(stage)
        log = stage.repo.path.parent / "trace"
        child = stage.spawn(*WORDS, around=[*tracer(log), "-y", "-e", f"trace={','.join(CALLS)}"])
        assert child.wait() == OK, child.stderr
        assert alike(stage.only()) == files
        calm.append(Calm(written(log, str(stage.repo.path)), files))
    return calm[0]


def tracer(log: Path, number: int | None = None) -> list[str]:
    """Each process counts its own calls; only ours gets to the ``number``-th.

    To look on from the kernel is three times as fast, and takes the children along.
    """
    fast = [] if number is not None and number <= _OTHERS else ["-f", "--seccomp-bpf"]
    return [strace(), *fast, "-qq", "-o", str(log)]


def written(log: Path, root: str) -> list[Point]:
    """The calls of the process that was started on files below ``root``; pipes are no disk."""
    points = []
    counts = dict.fromkeys(CALLS, 0)
    ours = None
    for line in log.read_text(errors="replace").splitlines():
        match = _CALL.match(line)
        if match is None:
            continue
        process, call, text = match.groups()
        ours = ours or process
        if process != ours:
            continue
        counts[call] += 1
        place = place_of(call, text, root)
        if place is not None:
            points.append(Point(call, counts[call], place))
    return points


def place_of(call: str, text: str, root: str) -> str | None:
    """The file of a call, the same in all runs; None for what is not below ``root``."""
    by_number = call in ("write", "fsync")
    found = re.search(r"^\d+<(/[^>]+)>" if by_number else r'.*"([^"]+)"', text)
    if found is None or not (found[1].startswith(root) or call in ("renameat", "linkat")):
        return None
    place = _LANDING.sub(r"\1", _TEMPORARY.sub(r"/\1", found[1].removeprefix(root)))
    return _RUN.sub("/RUN", place)


def start_afresh(stage: Stage) -> None:
    for name in (".runs", "out"):
        shutil.rmtree(stage.repo.path / name, ignore_errors=True)
    stage.repo.write("calc.py", BUG)


def suffer(stage: Stage, expected: dict[str, str], around: Sequence[str]) -> int:
    """A run with a fault, its resume without one; the exit code of the first."""
    start_afresh(stage)
    child = stage.spawn(*WORDS, around=around)
    code = child.wait()
    assert code in (OK, STORAGE), child.stderr
    if code:
        require_told(child)
    require_whole(stage)
    found = stage.runs()
    if not found or not (found[0].folder / "request.json").exists():
        assert code == STORAGE
        assert stage.source() == BUG
        return code
    [run] = found
    if code == OK:
        assert run.manifest["status"] == "succeeded"
    elif "cannot be put into the work tree" in child.stderr:
        require_left_a_patch(stage, child, run, expected)
    resumed = stage.cli("resume", run.id)
    assert resumed.code == OK, resumed
    assert (run.manifest["status"], stage.source()) == ("succeeded", MENDED)
    assert alike(run) == expected
    require_whole(stage)
    return code


def require_told(child: Child) -> None:
    """The last two lines are the failure; what could not be told of it may be warned of before."""
    lines = child.stderr.splitlines()
    assert [line.partition(" ")[0] for line in lines[-2:]] == ["error:", "hint:"], child.stderr
    assert sum(line.startswith("error: ") for line in lines) == 1, child.stderr
    assert "Traceback" not in child.stderr


def require_left_a_patch(
    stage: Stage, child: Child, run: Outcome, expected: dict[str, str]
) -> None:
    """A result that did not come home is whole, is said to be, and can be replayed as it is."""
    assert stage.source() == BUG
    assert run.text("rlm/result.patch") == expected["rlm/result.patch"]
    assert (run.final, run.state["final"]["exitCode"]) == ("error", STORAGE)
    part = run.report["parts"][0]
    assert "the validator passes after 1 iteration; not applied: " in part["summary"]
    assert (run.report["verdict"], part["metrics"]["applied"]) == ("incomplete", False)
    error, hint = child.stderr.splitlines()[-2:]
    assert error.startswith("error: the result cannot be put into the work tree: "), error
    assert f"rlm-ci resume {run.id}; or by hand: git apply .runs/" in hint
    replayed = stage.cli("replay", run.id, "--check")
    assert replayed.code == OK, replayed
    assert "the report is the same" in replayed.stderr
    assert stage.source() == BUG
    shutil.rmtree(stage.runs()[-1].folder)  # the replay, of which nobody else wants to know


def require_whole(stage: Stage) -> None:
    """Each file that a reader may take for whole is so; the work tree is old or new."""
    root = stage.repo.path
    for folder in (".runs", "out"):
        for path in (root / folder).rglob("*.json"):
            if not path.name.startswith("."):
                json.loads(path.read_text())
    for run in stage.runs():
        if (run.folder / "manifest.json").exists():
            loader.validate(run.manifest, "manifest.schema.json", "manifest")
        if (run.folder / "report.json").exists():
            loader.validate(run.report, "report.schema.json", "report")
    assert stage.source() in (BUG, MENDED)
    assert stage.repo.text("status", "--porcelain").strip() in ("", "M calc.py")


def injected(
    stage: Stage, calm: list[Calm], point: Point, fault: str, *, lasting: bool = False
) -> int:
    """A run with that fault at that point, and from there on if it is ``lasting``.

    On a slow machine the heartbeat may call once more before the point: then it is tried again.
    """
    log = stage.repo.path.parent / "trace"
    rule = f"{point.call}:{fault}:when={point.number}{'+' * lasting}"
    watch = ["-y", "-e", f"trace={point.call}", "-e", f"inject={rule}"]
    hits = []
    for _ in range(3):
        expected = undisturbed(stage, calm).files
        code = suffer(stage, expected, [*tracer(log, point.number), *watch])
        hits.append(first_hit(log.read_text(errors="replace")))
        text = hits[-1].partition("(")[2]
        if place_of(point.call, text, str(stage.repo.path)) == point.place:
            return code
    raise AssertionError(hits)


def first_hit(trace: str) -> str:
    """The call that met the fault first, with its arguments.

    Another process or thread may call, the heartbeat for one, before a call has returned: strace
    then tells it in two lines, and only the first one has the arguments.
    """
    begun: dict[str, str] = {}
    for line in trace.splitlines():
        process = line.partition(" ")[0]
        if line.endswith("<unfinished ...>"):
            begun[process] = line
        if "(INJECTED)" in line:
            return begun[process] if " resumed>" in line else line
    raise AssertionError("the call was never made")


def test_a_call_that_another_one_interrupts_is_read_whole() -> None:
    place = '"/repo/.runs/.report.json.0123456789ab.tmp", "/repo/.runs/report.json"'
    trace = (
        f"7  rename({place} <unfinished ...>\n"
        '9  rename("/a", "/b") = 0\n'
        "7  <... rename resumed>) = -1 ENOSPC (No space left on device) (INJECTED)\n"
    )
    text = first_hit(trace).partition("(")[2]
    assert place_of("rename", text, "/repo") == "/.runs/report.json"


#: One of each kind, where it hurts: the file, and which of the calls on it.
HURTS = {
    "a fact": ("write", "error=ENOSPC", "/calls.jsonl", 4, STORAGE),
    "an event": ("write", "retval=0", "/events.jsonl", 2, STORAGE),
    "the report": ("rename", "error=ENOSPC", "/report.json", 0, STORAGE),
    "the result": ("linkat", "error=EIO", "", 0, STORAGE),
}


@pytest.mark.full
@pytest.mark.parametrize("what", HURTS)
def test_a_fault_where_it_hurts(stage: Stage, calm: list[Calm], what: str) -> None:
    call, fault, name, turn, code = HURTS[what]
    point = undisturbed(stage, calm).find(call, name, turn)
    assert injected(stage, calm, point, fault) == code


#: Call and fault, whether it lasts, and at how many points it happens. A write that is cut short
#: takes nothing: strace would only say that some of it was written. ``test_no_file_may_grow``
#: has those of the kernel, that take a part.
SWEEPS = [
    ("write", "error=ENOSPC", False, 4),
    ("write", "error=EIO", False, 3),
    ("write", "retval=0", False, 6),
    ("fsync", "error=EIO", False, 3),
    ("fsync", "error=EIO", True, 2),
    ("rename", "error=EIO", False, 3),
    ("rename", "error=ENOSPC", True, 2),
    ("renameat", "error=EIO", False, 1),
    ("linkat", "error=EIO", False, 1),
]


@pytest.mark.full
@pytest.mark.parametrize(("number", "sweep"), list(enumerate(SWEEPS)))
def test_a_fault_at_any_point(
    stage: Stage,
    calm: list[Calm],
    number: int,
    sweep: tuple[str, str, bool, int],
) -> None:
    call, fault, lasting, count = sweep
    codes = [
        injected(stage, calm, point, fault, lasting=lasting)
        for point in undisturbed(stage, calm).some(call, count, number)
    ]
    assert len(codes) >= count
    assert STORAGE in codes


@pytest.mark.full
# At 2,000 it is a file in memory that may not grow: what the sandbox is told.
@pytest.mark.parametrize("size", [0, 64, 500, 2000, 5000])
def test_no_file_may_grow(stage: Stage, calm: list[Calm], size: int) -> None:
    """A disk that is full for all: for us, for git, and for the agent and the validator."""
    expected = undisturbed(stage, calm).files
    assert suffer(stage, expected, [sys.executable, "-c", LIMIT, str(size)]) == STORAGE
