"""A tool of the MCP server: its schemas, what it gets, how it fails.

Some runs end with their server, however that ends: a small process watches for it. It reads their
names from a pipe. When the pipe ends, because the server has closed it or was killed, it interrupts
those that are left, as a signal would: they can be resumed.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from functools import cached_property

from rlm_ci import errors
from rlm_ci.config.options import DELEGATE_MODES
from rlm_ci.console.failures import failure
from rlm_ci.console.messages import complain
from rlm_ci.errors import RlmCiError
from rlm_ci.git.repository import discover
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.stored_runs import StoredRuns
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.resources import loader
from rlm_ci.runs import cancel, find, is_task_id, manifest
from rlm_ci.runs.store import RunStore
from rlm_ci.system import files, process
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.runs.find import FoundRun

    #: What a tool does: a blocking function, in a thread of its own.
    Action = Callable[["Call", dict[str, Any]], dict[str, Any]]


#: Seconds that a run has to be there: the server may end while it is being started.
_START = 30.0
_LOOK = 0.05


class AttachedRuns:
    """The runs of one server that must not outlive it."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        # The mark of a run would let its end kill the watcher.
        self._environ = {name: value for name, value in environ.items() if name != cancel.MARK}
        self._lock = threading.Lock()
        self._runs: dict[str, str] = {}
        self._pipe = -1

    def add(self, path: str, out: str) -> None:
        """Attach the run in the folder ``path``, which need not be there yet.

        ``out`` is the folder of all tasks' summaries. Raises OSError.
        """
        with self._lock:
            self._runs[path] = out
            if self._pipe < 0 or not self._tell((path,)):
                self._begin()
                self._tell(self._runs)

    def remove(self, path: str) -> None:
        """Let the run in the folder ``path`` live: it has ended, or another cares for it."""
        with self._lock:
            if self._runs.pop(path, None) is not None:
                self._tell((path,))

    def close(self) -> None:
        """Have those that are left interrupted."""
        with self._lock:
            if self._pipe >= 0:
                os.close(self._pipe)
                self._pipe = -1

    def _tell(self, paths: Iterable[str]) -> bool:
        """Send how it stands with each path; whether the watcher is there to read it."""
        lines = (f"{path}\0{self._runs.get(path, '')}\n" for path in paths)
        try:
            os.write(self._pipe, "".join(lines).encode("utf-8", "surrogateescape"))
        except BrokenPipeError:
            return False
        return True

    def _begin(self) -> None:
        """Start the watcher, in a session of its own; one before it is gone."""
        if self._pipe >= 0:
            os.close(self._pipe)
        source, self._pipe = os.pipe()
        nothing = os.open(os.devnull, os.O_RDWR)
        # As no child of ours: who kills us with all that we started must not kill it, too. A
        # shell gives a command in the background no input but what is opened under another number.
        aside = 'exec 3<&0; "$@" <&3 3<&- &'
        argv = ["/bin/sh", "-c", aside, "sh", sys.executable, "-P", "-m", __name__]
        try:
            pid = process.spawn(argv, self._environ, (source, nothing, nothing), session=True)
        finally:
            os.close(source)
            os.close(nothing)
        os.waitpid(pid, 0)


def watch() -> None:
    """Read the pipe to its end, then interrupt what is left."""
    left: dict[str, str] = {}
    with open(0, encoding="utf-8", errors="surrogateescape", newline="\n") as names:
        for line in names:
            path, _, out = line.rstrip("\n").partition("\0")
            left.pop(path, None)
            if out:
                left[path] = out
    threads = [threading.Thread(target=_interrupt, args=item) for item in left.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _interrupt(path: str, out: str) -> None:
    until = time.monotonic() + _START
    while not os.path.lexists(os.path.join(path, manifest.NAME)):
        if time.monotonic() > until:
            return
        time.sleep(_LOOK)
    with suppress(RlmCiError):
        cancel.interrupt(path, redactor=Redactor({}), out=out)


if __name__ == "__main__":
    watch()


#: A tool is there in its own mode and in the wider ones.
STATUS_ONLY, QUESTION_ONLY, FULL = DELEGATE_MODES
#: Words in the names of arguments that no model may give, and of those with other meanings.
_SECRETS = ("token", "nonce", "secret", "password", "passphrase", "credential", "apikey",
            "api_key", "private_key", "access_key")  # fmt: skip
_COUNTS = ("max_tokens", "completion_tokens")
#: What is kept of an argument in a message.
_SHOWN = 200


class ToolError(RlmCiError):
    """A failure that the client gets as a result with ``isError``, by the name ``reason``."""

    code = errors.CONFIG

    def __init__(
        self, reason: str, what: str, *, where: str = "", hint: str = "", **details: Any
    ) -> None:
        super().__init__(what, where=where, hint=hint)
        self.reason = reason
        self.details = details

    def to_record(self) -> dict[str, Any]:
        optional = {"where": self.where, "hint": self.hint}
        present = {name: text for name, text in optional.items() if text}
        return {"code": self.reason, "message": self.what, **present, **self.details}


class Tool(Value):
    """One tool. ``mode`` is the narrowest that offers it.

    ``schemas/mcp/<name>.schema.json`` has its input and its output, below ``$defs``. A
    ``blocking`` tool may take long; it never keeps the quick ones waiting. It ``reads`` alone,
    or ``destroys`` what nobody can bring back; one that ``repeats`` may be called twice.
    """

    name: str
    description: str
    mode: str
    run: Action
    blocking: bool = False
    reads: bool = False
    destroys: bool = False
    repeats: bool = False

    def schema(self, part: str) -> dict[str, Any]:
        """The JSON Schema of its ``input`` or ``output``."""
        schema: dict[str, Any] = loader.read_schema(f"mcp/{self.name}.schema.json")["$defs"][part]
        return schema

    def answer_schema(self) -> dict[str, Any]:
        """The JSON Schema of its output, or of an error: some clients check errors, too."""
        error = loader.read_schema("tool-error.schema.json")
        del error["$schema"]
        return {"type": "object", "anyOf": [self.schema("output"), error]}


class ServerContext:
    """What the tools of one server share. ``roots`` are folders, or repositories, with their
    links resolved; paths lead nowhere else. ``on_close`` is called when the server ends.
    """

    def __init__(self, roots: Sequence[str], mode: str, environ: Mapping[str, str]) -> None:
        self.roots = tuple(os.path.realpath(root) for root in roots)
        self.mode = mode
        self.environ = environ
        self.redactor = Redactor(environ)
        #: What is known of the questions to each parent, by the path of its folder.
        self.queues: dict[str, Any] = {}
        self.attached = AttachedRuns(environ)
        self.on_close: list[Callable[[], None]] = [self.attached.close]

    @property
    def repository(self) -> str:
        """The first root: the repository of a call that names none."""
        return self.roots[0]

    def offers(self, tool: Tool) -> bool:
        return DELEGATE_MODES.index(tool.mode) <= DELEGATE_MODES.index(self.mode)

    def confine(self, path: str) -> str:
        """``path`` with its links resolved, from the first root on. Raises ToolError."""
        if "\0" not in path:
            full = os.path.realpath(os.path.join(self.repository, path))
            if any(files.below(root, full) is not None for root in self.roots):
                return full
        raise ToolError(
            "path_not_permitted",
            f"{printable(path)[:_SHOWN]!r} is outside of what this server may touch",
            hint="name a path in one of its roots; rlm-ci mcp --root DIR adds one",
        )

    def runs(self, repository: str | None = None) -> StoredRuns:
        """The runs of a repository in the roots. Raises ToolError, RlmCiError."""
        path = self.confine(repository) if repository else self.repository
        runs = StoredRuns(stored_runs.settings_of({"repo": path}))
        self.confine(runs.root)  # a folder inside of a repository whose top is outside
        return runs

    def find(self, word: str, repository: str | None = None) -> FoundRun:
        """The run that an id, ``latest`` or the path of a manifest means. Raises ToolError."""
        runs = self.runs(repository)
        try:
            if "/" in word or os.sep in word:
                return self._at(word, runs)
            return runs.find(word)
        except errors.UsageError as error:
            raise ToolError("manifest_not_found", error.what, hint=error.hint) from None

    def owner(self, entry: FoundRun, repository: str | None = None) -> StoredRuns:
        """The store of a run, in whose repository it is carried out. Raises ToolError."""
        runs = self.runs(repository)
        if files.below(os.path.realpath(runs.store.root), os.path.realpath(entry.path)) is None:
            runs = self.runs(discover(entry.path)[0])
        find.require_in(runs.store, entry)
        stored_runs.require_ours(entry.run)
        return runs

    def _at(self, path: str, runs: StoredRuns) -> FoundRun:
        """The run of a manifest in this store, or in another below the roots, without a link."""
        if "\0" in path:
            self.confine(path)
        full = os.path.normpath(os.path.join(runs.root, path))
        folder, name = os.path.split(full)
        parts = folder.rsplit(os.sep, 3)
        is_manifest = (
            name == manifest.NAME
            and len(parts) == 4
            and parts[2] == "cli"
            and is_task_id(parts[1])
            and is_task_id(parts[3])
        )
        if not is_manifest:
            raise ToolError(
                "manifest_not_found",
                f"{printable(path)[:_SHOWN]!r} is not the path of a manifest",
                hint=f"name <runs>/<task-id>/cli/<run-id>/{manifest.NAME}",
            )
        try:
            runs.store.require_plain()
        except errors.StorageError as error:
            raise ToolError("path_not_permitted", str(error), hint=error.hint) from None
        root = os.path.realpath(parts[0])
        if root != os.path.realpath(runs.store.root):
            self.confine(root)
        if os.path.realpath(full) != os.path.join(root, *parts[1:], name):
            raise ToolError(
                "path_not_permitted",
                f"a link is in the way of {printable(path)[:_SHOWN]!r}",
                hint="name the manifest by its own path",
            )
        store = RunStore(root, runs.store.shown, self.environ)
        return find.find(store, os.path.join(root, *parts[1:], name))


class Call:
    """One call of a tool. ``cancelled`` is set when the client takes it back, or goes."""

    def __init__(
        self,
        server: ServerContext,
        cancelled: threading.Event,
        ask: Callable[[str, dict[str, Any]], dict[str, Any] | None],
        progress: Callable[[float, str], object] | None = None,
    ) -> None:
        self.server = server
        self.cancelled = cancelled
        self._ask = ask
        self._progress = progress

    def progress(self, number: float, message: str) -> None:
        """Tell a client that has asked for it how far the call is; the number grows."""
        if self._progress is not None:
            self._progress(number, self.server.redactor.text(message))

    def ask_person(self, message: str, schema: dict[str, Any]) -> dict[str, Any] | None:
        """Ask the person at the client: ``{"action": "accept", "content": {...}}``, or another
        action, ``decline`` or ``cancel``; None where the client cannot ask. A tool must have
        changed nothing before: with some clients it is called again, with the answer.
        """
        return self._ask(message, schema)


class ToolAnswer(Value):
    """The result of a call, as JSON."""

    record: dict[str, Any]
    is_error: bool = False


class CheckedTool:
    """A tool behind its schemas: every call gets an answer, and no Exception leaves it."""

    def __init__(self, tool: Tool) -> None:
        self.tool = tool

    @cached_property
    def _input(self) -> Callable[[object], str]:
        return loader.misfits(self.tool.schema("input"))

    @cached_property
    def _output(self) -> Callable[[object], str]:
        return loader.misfits(self.tool.schema("output"))

    def answer(self, call: Call, arguments: dict[str, Any]) -> ToolAnswer:
        try:
            require_mode(call.server, self.tool)
            _require_no_secrets(arguments)
            wrong = self._input(arguments)
            if wrong:
                raise ToolError(
                    "invalid_arguments", wrong, hint=f"see the input of {self.tool.name}"
                )
            record = self.tool.run(call, arguments)
            wrong = self._output(record)
            if wrong:
                raise RuntimeError(f"{self.tool.name} answered against its schema: {wrong}")
            answer = ToolAnswer(record)
        except Exception as error:  # noqa: BLE001 - the boundary: any other error is a bug of ours
            answer = ToolAnswer({"error": error_record(error)}, is_error=True)
        return answer.replace(record=call.server.redactor.json(answer.record))


def require_mode(server: ServerContext, tool: Tool) -> None:
    if not server.offers(tool):
        raise ToolError(
            "delegate_mode_forbidden",
            f"{tool.name} needs the mode {tool.mode}; this server is in {server.mode}",
            hint=f"a person can start the server with: rlm-ci mcp --mode {tool.mode}",
        )


def error_record(error: Exception) -> dict[str, Any]:
    """An error as the client sees it; the traceback of a bug goes into a file."""
    if isinstance(error, ToolError):
        return error.to_record()
    fault = failure(error, words=["mcp"])
    if fault.code == errors.INTERNAL:
        complain(fault)
    names = {code: name for code, name, _ in errors.EXIT_CODES}
    return ToolError(names[fault.code], fault.what, where=fault.where, hint=fault.hint).to_record()


def _require_no_secrets(arguments: object) -> None:
    """Raise ToolError for an argument that is named like a secret; its value is never shown."""
    waiting = [arguments]
    while waiting:
        argument = waiting.pop()
        if isinstance(argument, list):
            waiting += argument
        if not isinstance(argument, dict):
            continue
        for name, value in argument.items():
            plain = name.lower().replace("-", "_")
            if not plain.endswith(_COUNTS) and any(
                word in plain or word.replace("_", "") in plain for word in _SECRETS
            ):
                raise ToolError(
                    "secret_not_permitted",
                    "an argument is named like a secret; no tool takes one from a model",
                    hint="leave it out: secrets are in the environment of the server",
                )
            waiting.append(value)
