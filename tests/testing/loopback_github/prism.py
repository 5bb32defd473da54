"""A second judge: Stoplight's prism between client and GitHub, which refuses what deviates.

It reads the same official description with other code than ``description.py``, so that an error
of ours in reading it does not stay unseen. Starting takes some seconds: tests mark it ``full``.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

from testing import node_packages
from testing.loopback_github.description import amended
from testing.loopback_github.routes import ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from testing.loopback_github.server import GitHub

_PROGRAM = node_packages.TOOLS / "node_modules/@stoplight/prism-cli/dist/index.js"
_START = 60  # seconds
#: The description has no GraphQL; it passes, for clients that need both.
_ANY = {"content": {"application/json": {"schema": {"type": "object"}}}}
_GRAPHQL = {
    "requestBody": {**_ANY, "required": True},
    "responses": {"200": {**_ANY, "description": "data, errors"}},
}


def used_description(url: str) -> Any:
    """The official description, cut down to the operations that we serve, for a server at ``url``.

    Examples are taken out: GitHub's own do not all keep to GitHub's schemas.
    """
    document = amended()
    paths: dict[str, Any] = {}
    for method, template in ROUTES:
        source = document["paths"][template]
        paths.setdefault(template, {})[method.lower()] = source[method.lower()]
    paths["/graphql"] = {"post": _GRAPHQL}
    components: dict[str, dict[str, Any]] = {}
    _keep(paths, document["components"], components)
    head = {"openapi": document["openapi"], "info": document["info"], "servers": [{"url": url}]}
    return _without_examples({**head, "paths": paths, "components": components})


def _keep(node: Any, known: Mapping[str, Any], kept: dict[str, dict[str, Any]]) -> None:
    """Copy the components that ``node`` refers to from ``known`` to ``kept``."""
    if isinstance(node, list):
        for value in node:
            _keep(value, known, kept)
    elif isinstance(node, dict):
        if isinstance(ref := node.get("$ref"), str) and "/examples/" not in ref:
            kind, name = ref.removeprefix("#/components/").split("/")
            if name not in kept.setdefault(kind, {}):
                kept[kind][name] = known[kind][name]
                _keep(known[kind][name], known, kept)
        for value in node.values():
            _keep(value, known, kept)


def _without_examples(node: Any) -> Any:
    if isinstance(node, list):
        return [_without_examples(value) for value in node]
    if not isinstance(node, dict):
        return node
    return {
        name: _without_examples(value)
        for name, value in node.items()
        # A schema may have a property of that name; then its value is a schema.
        if name not in {"example", "examples"} or (isinstance(value, dict) and "type" in value)
    }


@contextlib.contextmanager
def in_front_of(github: GitHub, folder: Path) -> Iterator[str]:
    """The URL of a prism that passes on to ``github`` what keeps to the description.

    A request that does not is answered with 4xx, an answer that does not with 500; so is a status
    that the description does not foresee, as 502. ``folder`` takes the description and prism's log.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url, plain = f"http://127.0.0.1:{port}", github.public_url
    description, log = folder / "github.json", folder / "prism.log"
    description.write_text(json.dumps(used_description(url)))
    node = shutil.which("node")
    assert node, "prism needs node: `make test-full` installs it"
    argv = [node, str(_PROGRAM), "proxy", str(description), github.url, "--errors"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*argv, "--host", "127.0.0.1", "--port", str(port)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        _await(process, port, log)
        github.public_url = url
        yield url
    finally:
        github.public_url = plain
        process.kill()
        process.wait()


def _await(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    until = time.monotonic() + _START
    while time.monotonic() < until:
        assert process.poll() is None, log.read_text("utf-8", "replace")
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError(f"prism did not start: {log.read_text('utf-8', 'replace')}")
