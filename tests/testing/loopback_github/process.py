"""A GitHub as a child process, for clients that are started by others, as act starts steps."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

_TESTS = Path(__file__).resolve().parents[2]


class GitHubProcess:
    """``with GitHubProcess(folder, seed) as github``: served at ``github.url`` until the end.

    ``seed`` lists ``repositories``, ``pulls``, ``tokens`` and ``faults``, each a row of keywords
    of the method of that name of GitHub; paths as text.
    """

    def __init__(self, folder: Path, seed: Mapping[str, Any]) -> None:
        self._seed = folder / "github-seed.json"
        self._seed.write_text(json.dumps(seed))
        self._process: subprocess.Popen[str] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "testing.loopback_github", str(self._seed)],
            env={**os.environ, "PYTHONPATH": str(_TESTS)},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self._process.stdout
        self.url = self._process.stdout.readline().strip()
        assert self.url, "the GitHub process did not start: see its stderr above"
        return self

    def __exit__(self, *_error: object) -> None:
        assert self._process
        self._process.communicate(timeout=10)  # closes stdin, at which it ends

    def call(self, name: str, /, **keywords: Any) -> Any:
        """Call the remote control; see control.py. Raises AssertionError with its complaint."""
        request = urllib.request.Request(
            f"{self.url}/__control/{name}", json.dumps(keywords).encode(), method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as answered:
                return json.load(answered)["result"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(json.load(error)["error"]) from None
