"""GitHub on loopback: the HTTP server, its log, its faults, and the judge of both sides."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import threading
import time
import traceback
import uuid
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qsl, urlsplit

from testing.loopback_github import description, rest, rest_checks, rest_reviews
from testing.loopback_github.control import answer as steer
from testing.loopback_github.faults import Fault, Faults
from testing.loopback_github.graphql import Graph, is_mutation
from testing.loopback_github.identity import RefusalError, demand, identify
from testing.loopback_github.routes import ROUTES, Answer, Call
from testing.loopback_github.state import FULL_ACCESS, Artifact, Identity, Kind, World

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from testing.loopback_github.state import Pull, Repository, WorkflowRun

#: Each has entered its operations in ROUTES.
_OPERATIONS = (rest, rest_checks, rest_reviews)
_PREFIX = "/api/v3"
_GRAPHQL = frozenset({"/graphql", "/api/graphql", f"{_PREFIX}/graphql"})
_CONTROL = "/__control/"
_POLL = 0.02  # seconds until shutdown is noticed


@dataclass
class Request:
    """One request as it came in, and the status that went out (0: nothing did).

    ``at`` and ``done`` (when the answer went out) are seconds of the monotonic clock; ``path`` is
    without prefix and query.
    """

    method: str
    path: str
    query: dict[str, str]
    headers: Mapping[str, str]
    raw: bytes
    at: float
    who: str | None = None
    status: int = 0
    done: float = 0.0

    @property
    def body(self) -> Any:
        """The JSON that was sent; the bytes where they are none; None where nothing was."""
        try:
            return json.loads(self.raw) if self.raw else None
        except ValueError:
            return self.raw

    @property
    def writes(self) -> bool:
        """Whether it asks for a change."""
        if self.path == "/graphql":
            return is_mutation(self.body)
        return self.method not in {"GET", "HEAD"}


@dataclass
class GitHub:
    """A GitHub of its own for one test; ``with GitHub() as github`` serves it at ``github.url``.

    ``public_url`` is what links in answers start with: that of a proxy in front, if there is one.
    """

    world: World = field(default_factory=World)
    faults: Faults = field(default_factory=Faults)
    log: list[Request] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    public_url: str = ""
    port: int = 0

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self.description = description.load(frozenset(ROUTES))
        self.graph = Graph(self.world)
        self._expected: list[re.Pattern[str]] = []
        self._server: _Listener | None = None

    # -- life -------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def start(self) -> None:
        self._server = _Listener(self)
        self.port = self._server.server_port
        self.public_url = self.public_url or self.url
        threading.Thread(
            target=self._server.serve_forever, args=(_POLL,), name="github", daemon=True
        ).start()

    def stop(self) -> None:
        """Refuse connections from here on, and end those that are open."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None

    @contextlib.contextmanager
    def down(self) -> Iterator[None]:
        """GitHub cannot be reached: connections are refused until the block ends."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # -- what is there ----------------------------------------------------------------------

    def token(
        self,
        token: str,
        login: str = "github-actions[bot]",
        *,
        kind: Kind | None = None,
        permissions: Mapping[str, str] | None = None,
        repositories: Iterable[str] | None = None,
    ) -> str:
        """Make ``token`` valid. ``NAME[bot]`` is an App's installation, others are people.

        Without ``permissions`` it may do everything; ``{}`` is nothing but reading what is public.
        """
        self.world.tokens[token] = Identity(
            login,
            kind or ("installation" if login.endswith("[bot]") else "user"),
            dict(FULL_ACCESS if permissions is None else permissions),
            None if repositories is None else frozenset(repositories),
        )
        return token

    def repository(self, full_name: str, git: Any, **more: Any) -> Repository:
        """A repository over the git repository at ``git``; see World.add_repository."""
        with self.lock:
            return self.world.add_repository(full_name, git, **more)

    def pull(self, repository: str, number: int, **more: Any) -> Pull:
        """A pull request; see World.add_pull."""
        with self.lock:
            return self.world.add_pull(repository, number, **more)

    def push(self, repository: str, number: int, head: str, *, base: str | None = None) -> Pull:
        """Move the head of a pull request, as a (forced) push does; ``base`` moves its base."""
        with self.lock:
            repo = self.world.repositories[repository.lower()]
            pull = repo.pulls[number]
            pull.head_sha = repo.source.resolve(head)
            pull.base_sha = repo.source.resolve(base or pull.base_sha)
            pull.updated_at = self.world.now()
            return pull

    def workflow_run(self, repository: str, number: int, **more: Any) -> WorkflowRun:
        """The run of a workflow for a pull request's head; see World.add_run."""
        with self.lock:
            return self.world.add_run(repository, number, **more)

    def artifact(
        self, repository: str, run: int, name: str, content: bytes, *, expired: bool = False
    ) -> Artifact:
        """What a run uploaded: ``content`` is the zip as it is downloaded."""
        with self.lock:
            repo = self.world.repositories[repository.lower()]
            made = Artifact(self.world.new_id(), run, name, content, expired, self.world.now())
            repo.artifacts.append(made)
            return made

    # -- what happened ----------------------------------------------------------------------

    def fault(self, method: str = "*", path: str = "*", **how: Any) -> Fault:
        """Let requests that match go wrong; see Fault."""
        return self.faults.add(Fault(method, path, **how))

    @property
    def writes(self) -> list[Request]:
        """The requests that asked for a change, in order."""
        return [request for request in self.log if request.writes]

    def sent(self, method: str, path: str) -> list[Request]:
        """The requests with this method to paths that end so."""
        return [r for r in self.log if r.method == method and r.path.endswith(path)]

    def expect(self, pattern: str) -> None:
        """Say that a violation that ``pattern`` finds is what the test is about."""
        self._expected.append(re.compile(pattern))

    def unexpected(self) -> list[str]:
        """Violations that nobody expected, and expectations that nothing met."""
        surplus = [v for v in self.violations if not any(p.search(v) for p in self._expected)]
        unmet = [p for p in self._expected if not any(p.search(v) for v in self.violations)]
        return surplus + [f"expected, but not seen: {p.pattern}" for p in unmet]

    # -- serving ----------------------------------------------------------------------------

    def answer(self, request: Request, api: str, url: str) -> Answer:
        """What GitHub answers; errors included. Whoever calls holds no lock."""
        with self.lock:
            try:
                return self._answer(request, api, url)
            except RefusalError as refusal:
                return self._refused(request, refusal)
            except Exception:  # noqa: BLE001 - a defect here must fail the test, not hang it
                self._violation(request, traceback.format_exc())
                return Answer({"message": "the loopback GitHub failed"}, 500)

    def _answer(self, request: Request, api: str, url: str) -> Answer:
        if request.path.startswith(rest_checks.STORAGE):
            return self._stored(request)
        who = identify(self.world, request.headers.get("authorization"))
        request.who = who.login if who else None
        if request.path == "/graphql":
            answer, deviations = self.graph.answer(request.body, who)
            for text in deviations:
                self._violation(request, text)
            return answer
        found = self.description.find(request.method, request.path)
        if found is None:
            self._violation(request, "the loopback GitHub has no such operation")
            raise RefusalError(404, "Not Found")
        operation, params = found
        route = ROUTES[operation.method, operation.template]
        body = request.body
        if isinstance(body, bytes):
            raise RefusalError(400, "Problems parsing JSON")
        accept = request.headers.get("accept", "")
        call = Call(self.world, who, api, url, accept, params, request.query, body)
        if route.needs and "owner" in params:
            demand(call.repo, who, route.needs)
        wrong = self.description.request_deviations(operation, request.query, body)
        for text in wrong:
            self._violation(request, text)
        if any(text.startswith("body") for text in wrong):
            raise RefusalError(422, "Invalid request.\n\n" + "\n".join(wrong))
        answer = route.handle(call)
        if not isinstance(answer.body, bytes):
            answer.body = self.description.complete(operation, answer.status, answer.body)
            self._judge(request, answer.status, answer.body)
        return answer

    def _stored(self, request: Request) -> Answer:
        """The storage service: it refuses whoever brings GitHub's token along."""
        if "authorization" in request.headers:
            return Answer(b"<Error>InvalidAuthenticationInfo</Error>", 400, {}, "application/xml")
        wanted = request.path.removeprefix(rest_checks.STORAGE + "/")
        for repo in self.world.repositories.values():
            for made in repo.artifacts:
                if str(made.id) == wanted:
                    return Answer(made.content, kind="application/zip")
        return Answer(b"", 404)

    def _refused(self, request: Request, refusal: RefusalError) -> Answer:
        self._judge(request, refusal.status, refusal.body)
        return Answer(refusal.body, refusal.status, refusal.headers)

    def _judge(self, request: Request, status: int, body: Any) -> None:
        found = self.description.find(request.method, request.path)
        if found is not None:
            for text in self.description.response_deviations(found[0], status, body):
                self._violation(request, f"answer {text}")

    def _violation(self, request: Request, text: str) -> None:
        self.violations.append(f"{request.method} {request.path}: {text}")


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(self, github: GitHub) -> None:
        self.github = github
        self._open: set[socket.socket] = set()
        super().__init__(("127.0.0.1", github.port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        super().server_close()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is none of our business."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version = "github.com"
    # Headers and body in one packet, at once: else each answer waits 40 ms for an ACK.
    disable_nagle_algorithm = True
    wbufsize = -1
    server: _Listener

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name is given
        """Silence: the log is GitHub.log."""

    def _serve(self) -> None:
        github = self.server.github
        length = int(self.headers.get("content-length") or 0)
        raw = self.rfile.read(length) if length else b""
        split = urlsplit(self.path)
        if split.path.startswith(_CONTROL):
            self._send(steer(github, split.path.removeprefix(_CONTROL), raw))
            return
        path, api = split.path, github.public_url
        if path in _GRAPHQL:
            path = "/graphql"
        elif path.startswith(f"{_PREFIX}/"):
            path, api = path.removeprefix(_PREFIX), api + _PREFIX
        headers = {name.lower(): value for name, value in self.headers.items()}
        query = dict(parse_qsl(split.query, keep_blank_values=True))
        request = Request(self.command, path, query, headers, raw, time.monotonic())
        github.log.append(request)
        self._respond(github, request, api)

    def _respond(self, github: GitHub, request: Request, api: str) -> None:
        fault = github.faults.take(request.method, request.path) or Fault()
        if fault.before:
            fault.before(request)
        time.sleep(fault.stall)
        answer = github.answer(request, api, request.path) if fault.serves else Answer()
        if fault.after:
            fault.after(request)
        time.sleep(fault.delay)
        request.done = time.monotonic()
        if fault.drop:
            self.close_connection = True
            return
        if fault.status is not None:
            answer = Answer(fault.failure(), fault.status, dict(fault.headers))
        request.status = answer.status
        self._send(answer, cut=fault.cut)

    def _send(self, answer: Answer, *, cut: int | None = None) -> None:
        body, github = answer.body, self.server.github
        if body is None:
            content = b""
        else:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
        used = len(github.log)
        headers = {
            "Content-Type": answer.kind,
            "Content-Length": str(len(content)),
            "X-GitHub-Request-Id": uuid.uuid4().hex.upper(),
            "X-RateLimit-Limit": "5000",
            "X-RateLimit-Used": str(used),
            "X-RateLimit-Remaining": str(5000 - used),
            "X-RateLimit-Reset": str(int(time.time()) + 3600),
            "X-RateLimit-Resource": "core",
        }
        own = {name.lower() for name in answer.headers}
        self.send_response(answer.status)
        for name, value in headers.items():
            if name.lower() not in own:
                self.send_header(name, value)
        for name, value in answer.headers.items():
            if name == "Location" and value.startswith("/"):
                value = f"http://localhost:{github.port}{value}"  # noqa: PLW2901 - another host
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content if cut is None else content[:cut])
        self.wfile.flush()
        if cut is not None:
            self.close_connection = True

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _serve  # noqa: N815 - http.server's names
