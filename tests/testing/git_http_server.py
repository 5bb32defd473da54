"""Git over HTTP on loopback: ``git http-backend`` behind basic authentication."""

from __future__ import annotations

import os
import subprocess
import threading
from base64 import b64encode
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class Server(ThreadingHTTPServer):
    """Serves the bare repositories in ``root`` to who knows ``token``."""

    daemon_threads = True

    def __init__(self, root: Path, token: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.root = root
        self.known = "Basic " + b64encode(f"x-access-token:{token}".encode()).decode()
        self.token = token.encode()
        #: Method, path and status of each request.
        self.requests: list[tuple[str, str, int]] = []
        #: Where the token was seen that nobody may find there.
        self.leaks: list[str] = []
        #: Paths that lead elsewhere.
        self.redirect = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def look(self) -> None:
        """Look for the token in the arguments of all processes, and in what their git was told."""
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                said = path.read_bytes()
            except OSError:  # it has ended
                continue
            if self.token in said:
                self.leaks.append(said.decode("utf-8", "replace"))


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._serve(body)

    def _serve(self, body: bytes) -> None:
        self.server.look()
        if self.server.redirect:
            self._answer(302, {"Location": self.server.redirect + self.path}, b"")
        elif self.headers.get("Authorization") != self.server.known:
            self._answer(401, {"WWW-Authenticate": 'Basic realm="git"'}, b"")
        else:
            self._backend(body)

    def _backend(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        environ = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.server.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "somebody",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        made = subprocess.run(
            ["git", "http-backend"], input=body, env=environ, capture_output=True, check=True
        ).stdout
        head, _, rest = made.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self._answer(int(fields.pop("Status", "200").split()[0]), fields, rest)

    def _answer(self, status: int, fields: dict[str, str], body: bytes) -> None:
        self.server.requests.append((self.command, self.path, status))
        self.send_response(status)
        for name, value in {**fields, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Tests say what is wrong."""


@contextmanager
def serving(root: Path, token: str) -> Iterator[Server]:
    with Server(root, token) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
