"""On a terminal: it asks what it cannot know, and shows what it does; elsewhere it does neither."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from testing.fix_stage import MENDED, QUICK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from testing.fix_stage import Stage

#: A terminal that knows how to clear a line.
_XTERM: Mapping[str, str | None] = {"TERM": "xterm-256color"}


class Terminal:
    """``rlm-ci`` with a terminal for its three standard streams."""

    def __init__(
        self, stage: Stage, *args: str, env: Mapping[str, str | None] | None = None
    ) -> None:
        self.seen = ""
        self._mine, its = pty.openpty()
        changed = {**os.environ, **stage.environment({**_XTERM, **(env or {})})}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-m", "rlm_ci", *args],
            cwd=stage.repo,
            env={name: value for name, value in changed.items() if value is not None},
            stdin=its, stdout=its, stderr=its, start_new_session=True,
        )  # fmt: skip
        os.close(its)

    def read_until(self, word: str, seconds: float = 60) -> None:
        """Read until ``word`` is seen; with "" until the other side is closed."""
        end = time.monotonic() + seconds
        while not word or word not in self.seen:
            assert time.monotonic() < end, self.seen
            if not select.select([self._mine], [], [], 0.2)[0]:
                continue
            try:
                chunk = os.read(self._mine, 1 << 16)
            except OSError:  # EIO: nobody has it open any more
                chunk = b""
            if not chunk:
                assert not word, self.seen
                return
            self.seen += chunk.decode("utf-8", "replace")

    def say(self, text: str) -> None:
        os.write(self._mine, text.encode())

    def end(self) -> int:
        self.read_until("")
        os.close(self._mine)
        return self._process.wait(30)


def ambiguous(stage: Stage) -> None:
    stage.repo.write("go.mod", "module calc\n").write("Cargo.toml", "[package]\n").commit()


@pytest.mark.full
def test_it_asks_which_validator(stage: Stage) -> None:
    ambiguous(stage)
    terminal = Terminal(stage, *stage.words("--validator", "auto"))
    terminal.read_until("cargo test")
    terminal.say(f"{QUICK}\n")
    assert terminal.end() == 0, terminal.seen
    assert stage.only().state["validator"] == QUICK
    assert stage.source() == MENDED


@pytest.mark.full
def test_no_answer_is_no_validator(stage: Stage) -> None:
    ambiguous(stage)
    terminal = Terminal(stage, *stage.words("--validator", "auto"))
    terminal.read_until("cargo test")
    terminal.say("\x04")
    assert terminal.end() == 2, terminal.seen
    assert stage.only().final == "no_validator"


@pytest.mark.full
def test_it_asks_for_another_when_the_program_is_not_there(stage: Stage) -> None:
    terminal = Terminal(stage, *stage.words("--validator", "no-such-program --fast"))
    terminal.read_until("Validator (")
    assert "no-such-program was not found" in terminal.seen
    terminal.say(f"{QUICK}\n")
    assert terminal.end() == 0, terminal.seen
    assert stage.only().state["validator"] == QUICK


@pytest.mark.full
def test_it_never_asks_when_told_not_to(stage: Stage) -> None:
    ambiguous(stage)
    words = stage.words("--validator", "auto")
    silent: list[tuple[tuple[str, ...], dict[str, str | None]]] = [
        (("--no-interactive",), {}), ((), {"CI": "1"}), ((), {"CODEX_NON_INTERACTIVE": "true"}),
    ]  # fmt: skip
    for more, env in silent:
        terminal = Terminal(stage, *words, *more, env=env)
        assert terminal.end() == 2, terminal.seen
        assert "error: " in terminal.seen
        assert "hint: " in terminal.seen


@pytest.mark.full
def test_one_live_line(stage: Stage) -> None:
    terminal = Terminal(
        stage, *stage.words("--validator", f"echo of the validator; sleep 1; {QUICK}")
    )
    assert terminal.end() == 0, terminal.seen
    assert "\r\x1b[2K" in terminal.seen
    assert "iteration 1: agent" in terminal.seen
    assert "of the validator" in terminal.seen
    # What stays when each clearing of the line has done its work:
    lines = [re.split(r"\r\x1b\[2K", line)[-1] for line in terminal.seen.split("\r\n")]
    assert not any("iteration" in line and "agent" in line for line in lines), lines
    assert any(line.startswith("Task: rlm-repo") for line in lines), lines


@pytest.mark.full
def test_plain_lines_elsewhere(stage: Stage) -> None:
    ended, _ = stage.fixed("--max-calls", "9", "--budget-usd", "2.5")
    assert ended.code == 0, ended
    assert "\x1b" not in ended.stdout + ended.stderr
    assert "\r" not in ended.stderr
    steps = [line.partition("  ")[2] for line in ended.stderr.splitlines()]
    assert "iteration 1: agent" in steps
    assert "iteration 2: validator" in steps
    [line] = [line for line in ended.stderr.splitlines() if line.endswith("iteration 2: agent")]
    # The first iteration took two of the calls.
    assert re.fullmatch(r"\d+s, 7 calls, \$2\.\d\d left  iteration 2: agent", line), line


@pytest.mark.full
def test_quiet_says_the_result_alone(stage: Stage) -> None:
    ended, _ = stage.fixed("--quiet")
    assert (ended.code, ended.stderr) == (0, "")
