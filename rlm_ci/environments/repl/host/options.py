"""What an episode in the REPL may do, what it works with, and where its files are."""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext, suppress
from hashlib import sha256

from rlm_ci.environments.quoting import OUTPUT_LIMIT
from rlm_ci.errors import DamagedError
from rlm_ci.models import context_length
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from rlm_ci.environments.repl.session import ReplSession
    from rlm_ci.environments.turn_loop import Complete
    from rlm_ci.runs import Fact


#: Blocks in a row that may fail, answers that may be refused, and the turns of a child.
ERRORS = 5
REFUSALS = 3
CHILD_TURNS = 30


class ReplOptions(Value):
    """``model`` writes the code, ``sub_model`` answers ``llm_query`` that names no other one.

    Code may name one of ``models``, too. A prompt of ``llm_query`` has at most ``subcall_bytes``,
    an answer ``max_tokens``; ``concurrency`` prompts of one batch are asked at once. A block of
    code may run for ``block_seconds``, besides the time in which models answer it, and search and
    read the context for as long again.
    """

    model: str
    sub_model: str
    max_tokens: int
    models: tuple[str, ...] = ()
    subcall_bytes: int = 120_000
    concurrency: int = 4
    block_seconds: float = 120.0
    max_turns: int = 30
    #: Characters of the question that are shown: it may be the context itself.
    question_limit: int = 4000
    sandbox: str = "bubblewrap"
    #: Characters of what a block prints that are shown, and the tokens that the models read.
    output_limit: int = OUTPUT_LIMIT
    context_tokens: int | None = None

    def fitted(self) -> ReplOptions:
        """These options, with shorter texts where the models read little."""
        fit = context_length.ContextFit.of(self.context_tokens)
        if fit is None:
            return self
        sizes = {"subcall_bytes": fit.room(self.max_tokens), "question_limit": fit.output,
                 "output_limit": fit.output}  # fmt: skip
        return self.replace(**{name: min(getattr(self, name), sizes[name]) for name in sizes})

    @property
    def subset(self) -> bool:
        """Whether the interpreter knows only a part of Python."""
        return self.sandbox == "monty"

    @property
    def allowed(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.sub_model, self.model, *self.models)))


class ReplServices(Value):
    """What an episode uses of its run.

    ``complete`` asks models within the budgets, ``fact`` records, ``redact`` takes out secrets of
    at most ``longest`` bytes. ``open`` opens a session, as ``SessionPool.open``; ``left`` are the
    calls that the budgets have left, None for many. ``scratch`` is a folder for files that only
    this process needs; ``on_step`` reports what takes long. ``batch`` is entered for questions that
    are asked together. ``flaw`` says what is wrong with the answer of the root, for the model,
    which goes on then; "" for nothing.
    """

    complete: Complete
    fact: Fact
    redact: Callable[[str], str]
    files: RunFiles
    open: Callable[..., ReplSession]
    left: Callable[[], int | None]
    scratch: str
    longest: int = 0
    on_step: Callable[[str], object] = str
    batch: Callable[[], AbstractContextManager[object]] = nullcontext
    flaw: Callable[[str], str] | None = None


#: Bytes of a file that are read.
LIMIT = 1 << 30
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)


class RunFiles:
    """Files below ``folder``; ``original`` is that of the run whose replay this is."""

    def __init__(self, folder: str, original: str | None = None) -> None:
        self._folder = folder
        self._original = original
        self._folders: set[str] = set()

    def write(self, path: str, data: bytes) -> None:
        """Write a file that the run keeps. Raises StorageError.

        It is not synced: an answer is in the record, and a killed run writes its block's files
        again.
        """
        descriptor = self.open(path)
        try:
            write_all(descriptor, data, path)
        finally:
            os.close(descriptor)
        self.note(path, sha256(data).hexdigest())

    def open(self, path: str) -> int:
        """The descriptor of a new file; ``note`` it when it is written. Raises StorageError."""
        target = self._new_file(path)
        try:
            return os.open(target, _WRITE, 0o600)
        except OSError as error:
            raise files.storage_error(error, target) from None

    def note(self, path: str, digest: str) -> None:
        """Take note of a file that was written."""

    def restore(self, path: str, digest: str) -> None:
        """Copy a file of a block that a replay does not run. Raises DamagedError, StorageError."""
        if self._original is not None:
            self.write(path, _verified(self._original, path, digest))

    def save(self, path: str, data: bytes) -> None:
        """Write a file that only a resumed run needs. Raises StorageError."""
        files.write(self._new_file(path), data, 0o600)

    def saved(self, path: str, digest: str) -> bytes:
        """The content of such a file. Raises DamagedError."""
        return _verified(self._folder, path, digest)

    def remove(self, path: str) -> None:
        """Remove a file. Raises StorageError for one behind a link that leads out."""
        target = self._path_of(path)
        files.require_inside(self._folder, os.path.dirname(target))
        with suppress(FileNotFoundError):
            os.unlink(target)

    def tracked(self) -> TrackedFiles:
        """The same files; it keeps which are written."""
        return TrackedFiles(self)

    def _new_file(self, path: str) -> str:
        """The place of a file, whose folder is made; a run may come with links that lead out."""
        target = self._path_of(path)
        folder = os.path.dirname(target)
        if folder not in self._folders:
            files.require_inside(self._folder, folder)
            files.make_folder(folder, 0o700)
            self._folders.add(folder)
        return target

    def _path_of(self, path: str) -> str:
        return os.path.join(self._folder, *path.split("/"))


class TrackedFiles(RunFiles):
    """``written`` are the files of a block by path, with their SHA-256."""

    def __init__(self, inner: RunFiles) -> None:
        super().__init__(inner._folder, inner._original)  # noqa: SLF001 - of its own kind
        self._inner = inner
        self._lock = threading.Lock()
        self.written: dict[str, str] = {}

    def note(self, path: str, digest: str) -> None:
        self._inner.note(path, digest)
        with self._lock:
            self.written[path] = digest


def write_all(descriptor: int, data: bytes, path: str) -> None:
    """Write ``data`` to the end of a file. Raises StorageError."""
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError as error:
        raise files.storage_error(error, path) from None


def _verified(folder: str, path: str, digest: str) -> bytes:
    try:
        data = files.read_inside(folder, path, LIMIT)
    except files.UnreadableError as error:
        raise _damaged(folder, path, str(error)) from None
    if sha256(data).hexdigest() != digest:
        raise _damaged(folder, path, "it is not what the run has written")
    return data


def _damaged(folder: str, path: str, what: str) -> DamagedError:
    hint = "restore it from a copy, or start a new run"
    return DamagedError(what, where=os.path.join(folder, path), hint=hint)
