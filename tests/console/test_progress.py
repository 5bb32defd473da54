"""What a person sees of a long run: a live line, or plain ones; never what could harm them."""

from __future__ import annotations

import io
import re
import threading
import time
from typing import TYPE_CHECKING, Any

import pyte
import pyte.modes
import pytest

from rlm_ci.console.progress import Progress, duration
from rlm_ci.models import Completion
from rlm_ci.pipelines.repository.tree_progress import TreeWatcher
from testing.leftovers import eventually
from testing.solver_cases import solve

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")


class Terminal(io.StringIO):
    """Keeps what is written; a terminal unless told otherwise."""

    def __init__(self, *, tty: bool = True) -> None:
        super().__init__()
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty

    @property
    def screen(self) -> list[str]:
        """The lines as a person sees them, without empty ones at the end."""
        return shown(self.getvalue())


def shown(text: str, columns: int = 80, lines: int = 24) -> list[str]:
    """What a terminal of that size shows after ``text`` was written to it."""
    screen = pyte.Screen(columns, lines)
    screen.set_mode(pyte.modes.LNM)  # as the driver of a terminal does: a line begins at its left
    pyte.Stream(screen).feed(text)
    return "\n".join(line.rstrip() for line in screen.display).rstrip("\n").split("\n")


XTERM = {"TERM": "xterm"}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (8.9, "8s"),
        (60, "1m 00s"),
        (248, "4m 08s"),
        (3840, "1h 04m"),
        (90_000, "25h 00m"),
    ],
)
def test_a_duration_as_a_person_says_it(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize("environ", [{}, {"TERM": "dumb"}, {"TERM": "xterm", "CI": "true"}])
def test_plain_lines_where_a_line_cannot_be_redrawn(environ: dict[str, str]) -> None:
    stream = Terminal()
    with Progress(environ, stream=stream, clock=lambda: 5.0) as progress:
        progress.say("Task: one")
        progress.step("iteration 1: agent")
        progress.heard(b"not shown\n")
    assert stream.getvalue() == "Task: one\n0s  iteration 1: agent\n"


def test_a_file_gets_plain_lines() -> None:
    stream = Terminal(tty=False)
    with Progress(XTERM, stream=stream) as progress:
        progress.left = lambda: "$0.40 left"
        progress.step("validator")
    assert stream.getvalue() == "0s, $0.40 left  validator\n"


def test_a_step_that_takes_long_is_repeated_where_no_line_can_be_redrawn() -> None:
    stream = Terminal(tty=False)
    progress = Progress({}, stream=stream)
    progress.minute = 0.01
    with progress:
        progress.step("iteration 1: agent")
        progress.heard(b"Bash make test\n")
        assert eventually(lambda: stream.getvalue().count("\n") > 3)
    first, *others = stream.getvalue().splitlines()
    assert first == "0s  iteration 1: agent"
    assert set(others) == {"0s  iteration 1: agent | Bash make test"}


def test_a_live_line_tells_step_time_budget_and_what_was_heard() -> None:
    stream = Terminal()
    now = [0.0]
    with Progress(XTERM, stream=stream, clock=lambda: now[0]) as progress:
        progress.left = lambda: "3 left"
        progress.written = lambda: "12 tokens"
        now[0] = 65.0
        progress.step("iteration 2: validator")
        progress.heard(b"first\n  second  \n\n")
        end = time.monotonic() + 10
        while "second" not in stream.getvalue() and time.monotonic() < end:
            time.sleep(0.02)
        assert stream.screen[-1] == "1m 05s, 3 left, 12 tokens  iteration 2: validator | second"
        progress.say("stays")
        progress.step("the next")
        assert "second" not in stream.screen[-1]
    assert stream.screen == ["stays"]


def test_the_colours_of_a_command_are_left_out() -> None:
    stream = Terminal()
    with Progress(XTERM, stream=stream) as progress:
        progress.step("validator")
        progress.heard(b"10 %\r100 %\n\x1b[1;31m1 failed\x1b[0m, \x1b]8;;x\x1b\\2 passed\n\x1b[K\n")
        progress._draw()
        assert stream.screen[-1] == "0s  validator | 1 failed, 2 passed"
        progress.heard(b"10 %\r100 %")
        progress._draw()
        assert stream.screen[-1] == "0s  validator | 100 %"


def test_a_live_line_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    stream = Terminal()
    with Progress(XTERM, stream=stream) as progress:
        progress.step("x" * 500)
        assert len(stream.screen[-1]) < 30
        assert stream.screen[-1].endswith("…")


def test_what_a_command_prints_cannot_move_the_cursor_or_tell_a_secret() -> None:
    key = "sk-0123456789abcdef0123456789abcdef"
    stream = Terminal()
    with Progress(XTERM | {"OPENAI_API_KEY": key}, stream=stream) as progress:
        progress.heard(f"\x1b[2J\x07\u202e {key} \n".encode() + b"\xff\x00")
        progress.step(f"step\x1b[1A {key}")
        progress.say(f"said\r {key}")
        progress.heard(f"\x1b[2J\x07\u202e {key}".encode())
        progress._draw()
        assert stream.screen[0] == "said\\r [redacted]"
    assert key not in stream.getvalue()
    # What is left of control is our own: to the left, clear the line, up.
    told = re.sub(r"\r|\x1b\[(?:2K|1A)", "", stream.getvalue())
    assert not set(told) & set("\x1b\x07\u202e\x00")


def test_a_text_is_no_markup() -> None:
    hostile = "[red]a[/red] [link=https://evil.example]b[/] :smile: [/]"
    stream = Terminal()
    with Progress(XTERM, stream=stream) as progress:
        progress.say(hostile)
        progress.step(hostile)
        assert stream.screen == [hostile, f"0s  {hostile}"]


def test_what_is_wide_is_cut_by_its_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    stream = Terminal()
    with Progress(XTERM, stream=stream) as progress:
        progress.step("漢字" * 20)
        progress.step("a" * 19)
        progress.step("漢字" * 20)
        [line] = shown(stream.getvalue(), columns=20)
        assert line.replace(" ", "").startswith("0s漢")


def test_how_a_tree_stands_is_shown_below(tmp_path: Path) -> None:
    stream, seen = Terminal(), list[str]()

    def ask(*_: Any) -> Completion:
        """Looks at the screen while a node is at work."""
        end = time.monotonic() + 20
        while not seen and time.monotonic() < end:
            progress._next = 0.0
            progress._draw()
            seen.extend(line for line in stream.screen if "a[/red]" in line)
            time.sleep(0.01)
        return Completion("", (), "stop", "m")

    name = "[red]a[/red]:smile:\x1b[2J.py"
    with Progress(XTERM, stream=stream) as progress:
        progress.step("looking at 2 files")
        progress.watch(TreeWatcher(str(tmp_path), "review").facts)
        progress._draw()
        assert stream.screen == ["0s  looking at 2 files"]  # there is no tree yet
        solve(tmp_path / "rlm", {name: b"x\n" * 300, "b.py": b"RAISE"}, ask=lambda _: ask)  # type: ignore[arg-type,return-value]  # as much of one as is used
        progress._next = 0.0
        progress._draw()
        assert stream.screen[1:3] == [
            "objective  counting",
            "tree       5 of 5 nodes solved, 1 of them failed, 0 active, depth 2",
        ]
    assert seen[0].startswith("at work on . › [red]a[ › [red]a[/red]:smile:\\x1b[2J.py")


@pytest.mark.parametrize("size", [7, 100, 5000])
def test_a_secret_that_comes_in_pieces_is_told_of_never(size: int) -> None:
    key = "sk-0123456789abcdef0123456789abcdef"
    output = f"a line\ntoken: {key} and more\n{'x' * 4090} {key} y\n{key}\rdone \n".encode()
    stream = Terminal()
    with Progress(XTERM, stream=stream) as progress:
        progress.step("validator")
        for at in range(0, len(output), size):
            progress.heard(output[at : at + size])
            told = progress._heard
            assert not any(key[cut : cut + 8] in told for cut in range(len(key) - 7)), told
        progress._draw()
        assert stream.screen[-1].endswith("validator | done")


def test_quiet_writes_nothing() -> None:
    stream = Terminal()
    with Progress(XTERM, stream=stream, quiet=True) as progress:
        progress.say("a")
        progress.step("b")
        progress.heard(b"c")
        with progress.paused():
            pass
    assert stream.getvalue() == ""


@pytest.mark.full
def test_the_terminal_is_left_alone_while_somebody_is_asked() -> None:
    stream = Terminal()
    with Progress(XTERM, stream=stream) as progress:
        progress.step("a step")
        with progress.paused():
            before = stream.getvalue()
            assert stream.screen[-1] == ""
            time.sleep(1.2)  # two looks of the live line
            assert stream.getvalue() == before


@pytest.mark.full
def test_a_line_that_is_being_drawn_does_not_land_on_a_question() -> None:
    stream = Terminal()
    drawing = threading.Event()

    def left() -> str:
        drawing.set()
        time.sleep(0.3)
        return ""

    with Progress(XTERM, stream=stream) as progress:
        progress.left = left
        assert drawing.wait(10)
        with progress.paused():
            before = stream.getvalue()
            time.sleep(0.6)
            assert stream.getvalue() == before


def test_nobody_listens_any_more() -> None:
    stream = Terminal()
    progress = Progress(XTERM, stream=stream)
    stream.close()
    with progress:
        progress.step("a step")
        progress.say("a line")


def test_after_an_interrupt_nothing_of_the_live_lines_stays() -> None:
    """The terminal writes ``^C`` behind a line that is as long as the terminal is wide."""
    terminal = Terminal()
    with Progress(XTERM, stream=terminal) as progress:
        progress.step("validator")
        progress.heard(b"." * 200 + b"\n")
        progress.step("x" * 200)
        terminal.write("^C")
        progress.close()
        progress.say("continue it: rlm-ci resume x")
        progress.step("of a thread that is still there")
    assert terminal.screen == ["continue it: rlm-ci resume x"]
