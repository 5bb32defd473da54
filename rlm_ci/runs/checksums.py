"""The SHA-256 of each file of a run that has ended, to verify it later.

The list is a file for ``sha256sum --check``. Its digest and that of the manifest are in the last
event of the run.
"""

from __future__ import annotations

import os
import re
from collections import deque
from hashlib import file_digest, sha256

from rlm_ci import __version__
from rlm_ci.errors import RlmCiError
from rlm_ci.runs import CANCELLED, FAILED, SUCCEEDED, archive, delegated
from rlm_ci.runs import manifest as manifests
from rlm_ci.runs.journal.journal import replay
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Final

    from rlm_ci.runs.manifest import Manifest

NAME: Final = "files.sha256"
EVENTS: Final = "events.jsonl"
LOG: Final = "runner.log"
#: The page of a run, which is made after its end.
VIEW: Final = "view.html"
#: The actor of the events of the process that holds the run; others may follow its end.
RUNNER: Final = "runner"
#: The event that ends a run, by its status.
ENDINGS: Final = {SUCCEEDED: "run_completed", FAILED: "run_failed", CANCELLED: "run_canceled"}
#: Files that change after the end: a process writes its output until it is gone.
_NO_EVIDENCE: Final = frozenset((LOG, VIEW, archive.SUMS)) | delegated.FILES
#: Files that the last event verifies, not the list.
_OWN: Final = frozenset((NAME, EVENTS, manifests.NAME))
#: It may be huge, and its own index verifies it.
_SOURCE: Final = "rlm/context/source.txt"
_LINE: Final = re.compile(rb"(\\?)([0-9a-f]{64})  ([^\n]+)\n")
_LIMIT: Final = 1 << 30
_MOST: Final = 100


class ChecksumResult(Value):
    """The number of files, the problems, and the payload of the last event."""

    files: int
    problems: tuple[str, ...]
    ending: Mapping[str, Any] = {}


def sum_up(folder: str, ended: Manifest) -> dict[str, Any]:
    """Write the list of the files in ``folder``; the payload about them for the last event.

    ``ended`` is the manifest of the end. Raises StorageError.
    """
    try:
        lines = [archive.sum_line(_digest(folder, name), name) for name in _listed(folder)]
    except OSError as error:
        raise files.storage_error(error, folder) from None
    data = "".join(lines).encode("utf-8", "surrogateescape")
    files.write(os.path.join(folder, NAME), data, 0o600)
    return {
        "version": __version__,
        "files": sha256(data).hexdigest(),
        "manifest": sha256(manifests.to_bytes(ended)).hexdigest(),
    }


def children(folder: str) -> Iterator[str]:
    """The folders of runs within a run, relative to its own."""
    for name in archive.names(folder):
        inner, _, last = name.rpartition("/")
        if inner and last == manifests.NAME:
            yield inner


def check(folder: str, run: Manifest) -> ChecksumResult:
    """Compare the files of a run that has ended with its list, and that with its last event."""
    try:
        return _check(folder, run)
    except OSError as error:
        raise files.storage_error(error, folder) from None


def _check(folder: str, run: Manifest) -> ChecksumResult:
    try:
        ending = _ending(folder, run)
        if "files" not in ending:
            reason = "an older rlm-ci made this run, without a list of its files"
            return ChecksumResult(0, (f"{NAME}: {reason}",), ending)
        data = files.read(os.path.join(folder, NAME), _LIMIT)
    except (RlmCiError, files.UnreadableError, _OtherError) as error:
        return ChecksumResult(0, (printable(str(error)),))
    problems = []
    if sha256(data).hexdigest() != ending["files"]:
        problems.append(f"{NAME}: it is not what the run wrote")
    if _digest(folder, manifests.NAME) != ending["manifest"]:
        problems.append(f"{manifests.NAME}: it is not what the run wrote")
    digests = dict(_parsed(data))
    present = set(_listed(folder))
    for name in sorted(digests.keys() | present):
        if name not in present:
            problems.append(f"{printable(name)}: it is gone")
        elif name not in digests:
            problems.append(f"{printable(name)}: no run has written it")
        elif _digest(folder, name) != digests[name]:
            problems.append(f"{printable(name)}: it is not what the run wrote")
    return ChecksumResult(len(digests), tuple(problems[:_MOST]), ending)


class _OtherError(Exception):
    """The events of a run do not show its end."""


def _ending(folder: str, run: Manifest) -> Mapping[str, Any]:
    """The payload of the event that ended the run, which must be its own last."""
    path = os.path.join(folder, EVENTS)
    last = last_event(path)
    with open(path, "rb") as source:
        source.seek(-1, os.SEEK_END)
        is_whole = source.read() == b"\n"
    if not is_whole:
        raise _OtherError(f"{EVENTS}: something is behind its last record")
    if last.get("event") != ENDINGS.get(run.status) or last.get("run_id") != run.run_id:
        raise _OtherError(f"{EVENTS}: its last record does not say that the run is {run.status}")
    payload = last["payload"]
    if payload.get("exit_code") != run.exit_code or payload.get("summary") != run.summary:
        raise _OtherError(f"{manifests.NAME}: {EVENTS} records another end of the run")
    return payload if isinstance(payload, dict) else {}


def tells_an_end(folder: str) -> bool:
    """Whether the last event of a run is its end, whatever the manifest says."""
    last = last_event(os.path.join(folder, EVENTS), live=True)
    return last.get("event") in ENDINGS.values()


def last_event(path: str, *, live: bool = False) -> Mapping[str, Any]:
    """The last event of a run itself, not of its inbox; empty for none. Raises as ``replay``."""
    runner_events = (event for event in replay(path, live=live) if event.get("actor") == RUNNER)
    return next(iter(deque(runner_events, maxlen=1)), {})


def _listed(folder: str) -> Iterator[str]:
    """The files that belong into the list."""
    inner = tuple(f"{name}/" for name in children(folder))
    for name in archive.names(folder):
        if name not in _OWN | _NO_EVIDENCE and name != _SOURCE and not name.startswith(inner):
            yield name


def _digest(folder: str, name: str) -> str:
    """The SHA-256 of a file; "" for what cannot be read."""
    try:
        descriptor = files.open_regular(os.path.join(folder, name), os.O_RDONLY)
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as source:
        return file_digest(source, sha256).hexdigest()


def _parsed(data: bytes) -> Iterator[tuple[str, str]]:
    """Names and digests of a list."""
    for mark, digest, name in _LINE.findall(data):
        text = name.decode("utf-8", "surrogateescape")
        if mark:
            text = re.sub(
                r"\\(.)", lambda match: {"n": "\n", "r": "\r"}.get(match[1], match[1]), text
            )
        yield text, digest.decode("ascii")
