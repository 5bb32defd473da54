"""A headless Chromium that reaches nothing but this machine."""

from __future__ import annotations

import functools
import http.server
import os
import shutil
import subprocess
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Takes real time to be answered. While a page waits for it, so does the browser's own clock,
#: which else runs ahead of what workers do.
SLOWLY = "/slowly"
_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"


def _program() -> str:
    given = os.environ.get("CHROMIUM")
    found = given or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None and Path(_MAC).exists():
        found = _MAC
    if found is None:
        pytest.skip("there is no Chromium on this machine")
    return found


def chromium(url: str, work: Path, *options: str) -> str:
    """What Chromium prints of a page, once its scripts are idle."""
    ended = subprocess.run(
        [
            _program(), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
            "--disable-background-networking", "--disable-component-update", "--disable-sync",
            "--hide-scrollbars", f"--user-data-dir={work / 'profile'}",
            "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
            "--virtual-time-budget=20000", *options, url,
        ],
        capture_output=True, check=True, timeout=120, text=True, encoding="utf-8",
    )  # fmt: skip
    return ended.stdout


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, list[str]]]:
    """The folder on loopback: its URL, and the paths that were asked for."""
    asked: list[str] = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == SLOWLY:
                time.sleep(0.3)
            super().do_GET()

        def log_request(self, code: object = "-", size: object = "-") -> None:  # noqa: ARG002 - the base's
            asked.append(self.path)

        def log_message(self, *_message: object) -> None:
            """Nothing: what was asked for is kept above."""

    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", asked
        finally:
            server.shutdown()
            thread.join()
