"""GitHub's issuer of OpenID Connect tokens on the loopback: real keys, real HTTP."""

from __future__ import annotations

import json
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS, TOKEN = "/_services/token/.well-known/jwks", "/request"
KEYS_OF_ENTERPRISE = "/_services/token/octo-inc/.well-known/jwks"
BEARER = "the-job-s-own-key-0123456789"


class TokenIssuer(ThreadingHTTPServer):
    """``server_url`` is what GITHUB_SERVER_URL would say; ``claims`` go into every token."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.server_url = f"http://127.0.0.1:{self.server_port}"
        self.issuer = f"{self.server_url}/_services/token"
        self.request_url = f"{self.server_url}{TOKEN}?api-version=2.0"
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.name = "key-1"
        self.claims: dict[str, Any] = {}
        self.asked: list[str] = []
        #: Answers in place of the right ones, by path: status and body.
        self.faults: dict[str, tuple[int, bytes]] = {}

    def sign(self, claims: dict[str, Any], **headers: Any) -> str:
        return jwt.encode(claims, self.key, "RS256", {"kid": self.name, **headers})

    def public_pem(self) -> bytes:
        return self.key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )

    def answer(self, path: str, query: str, bearer: str | None) -> tuple[int, bytes]:
        self.asked.append(path)
        if path in self.faults:
            return self.faults[path]
        if path in (KEYS, KEYS_OF_ENTERPRISE):
            key = jwt.algorithms.RSAAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
            return 200, json.dumps({"keys": [{**key, "kid": self.name, "use": "sig"}]}).encode()
        if path == TOKEN and bearer == f"Bearer {BEARER}":
            audience = parse_qs(query)["audience"][0]
            token = self.sign({"iss": self.issuer, "aud": audience, **self.claims})
            return 200, json.dumps({"count": 1, "value": token}).encode()
        return 401, b"{}"


class _Handler(BaseHTTPRequestHandler):
    server: TokenIssuer

    def do_GET(self) -> None:
        split = urlsplit(self.path)
        status, body = self.server.answer(
            split.path, split.query, self.headers.get("Authorization")
        )
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: what a test shows is its own."""


@contextmanager
def serving() -> Iterator[TokenIssuer]:
    with TokenIssuer() as issuer:
        Thread(target=issuer.serve_forever, args=(0.01,), daemon=True).start()
        yield issuer
        issuer.shutdown()
