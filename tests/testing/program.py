"""``rlm-ci`` as a user has it: the installed package in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import rlm_ci.__main__
from testing.preforked_interpreter import nursery

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """A process that came to its end. Bytes that are not UTF-8 are kept by surrogateescape."""

    args: Sequence[str | bytes]
    code: int
    stdout: str
    stderr: str

    def json(self) -> Any:
        """What stdout holds. Raises AssertionError, with all that was said, if it is no JSON."""
        try:
            return json.loads(self.stdout)
        except ValueError as error:
            raise AssertionError(f"no JSON on stdout ({error}): {self!r}") from error


@dataclass(frozen=True)
class Cli:
    """``rlm-ci`` as a user has it: the installed package in a process of its own."""

    cwd: Path

    def __call__(
        self,
        *args: str | bytes | os.PathLike[str],
        cwd: os.PathLike[str] | str | None = None,
        env: Mapping[str, str | None] | None = None,
        stdin: str | bytes = b"",
        timeout: float = 60,
    ) -> Ended:
        """Run ``rlm-ci ARGS``; ``env`` is added to the test's, a None takes a variable away.

        Raises subprocess.TimeoutExpired when it does not end within ``timeout`` seconds.
        """
        # -I: neither the current folder nor PYTHON* variables decide what is run.
        argv = [sys.executable, "-I", "-m", "rlm_ci", *(os.fspath(arg) for arg in args)]
        changed = {**os.environ, **(env or {})}
        given = {name: value for name, value in changed.items() if value is not None}
        told = stdin if isinstance(stdin, bytes) else stdin.encode("utf-8", "surrogateescape")
        where = cwd or self.cwd
        if nursery().fits(given):
            code, *said = nursery().run(
                [rlm_ci.__main__.__file__, *argv[4:]],
                cwd=where,
                env=given,
                stdin=told,
                timeout=timeout,
            )
        else:
            ended = subprocess.run(
                argv,
                cwd=where,
                env=given,
                input=told,
                capture_output=True,
                check=False,
                timeout=timeout,
            )
            code, *said = ended.returncode, ended.stdout, ended.stderr
        out, err = (one.decode("utf-8", "surrogateescape") for one in said)
        return Ended(argv, code, out, err)
