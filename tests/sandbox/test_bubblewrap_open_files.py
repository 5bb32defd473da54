"""Few open files are enough, and what was opened before the limit was lowered stays outside."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

#: Opens a folder as a careless caller does, lowers the limit, and runs a command.
CHILD = """\
import fcntl, os, resource, sys
from rlm_ci.errors import RlmCiError
from rlm_ci.sandbox import SandboxJob, choose

most = int(sys.argv[2])
folder = fcntl.fcntl(os.open("/", os.O_RDONLY), fcntl.F_DUPFD, 150)
resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
try:
    ended = choose(sys.argv[1], dict(os.environ)).run(
        SandboxJob(("/bin/sh", "-c", f"ls /proc/self/fd/{folder}/; echo done"), cwd="/")
    )
    print(ended.returncode, ended.output.text())
except RlmCiError as error:
    print(type(error).__name__, error, error.hint)
"""


def said(sandbox: str, most: int) -> str:
    words = [sys.executable, "-c", CHILD, sandbox, str(most)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env=dict(os.environ))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("sandbox", ["bubblewrap", "none"])
def test_a_low_limit_on_open_files(sandbox: str) -> None:
    heard = said(sandbox, 64)
    assert heard.startswith("0 ")
    assert "done" in heard
    assert "etc" not in heard.split()


@pytest.mark.parametrize("sandbox", ["bubblewrap", "none"])
def test_one_that_is_too_low_is_told(sandbox: str) -> None:
    assert said(sandbox, 40) == (
        "ConfigError no more than 40 files may be open at once: commands cannot be run"
        " (ulimit -n) set it to 64 or more, 1024 for example\n"
    )
