"""The Python of a session: runs inside of the sandbox, and imports nothing of ours.

It gets blocks of code by a socket, runs them, and answers what came of them, with what has changed
in the variables. What it runs is hostile and can do all that this script can: the host checks each
frame, and bounds everything.
"""

from __future__ import annotations

import _thread
import builtins
import os
import sys
from _socket import socket
from contextlib import suppress
from types import ModuleType

from .host import Host, HostCall
from .saved_variables import HELD, Saved

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType
    from typing import Any, ClassVar

#: The variables that hold the numbers of the descriptors: frames, and what is printed.
CHANNEL, OUTPUT = "RLM_CI_CHANNEL", "RLM_CI_OUTPUT"
#: Names that every session has, beside the context and the functions of the host.
OWN_NAMES = ("answer", "SHOW_VARS", "FINAL", "FINAL_VAR", "SUBMIT")
_NAMES_SHOWN = 200
_BUILTINS = dict(vars(builtins))
_MODULES = dict(sys.modules)
_DEEP = sys.getrecursionlimit()


def FINAL(value: object) -> None:  # noqa: N802 - models know it by this name
    Session.current.answer.update(content=value, ready=True)


def FINAL_VAR(name: object) -> None:  # noqa: N802
    if isinstance(name, str):
        bare = name.strip().strip("\"'")
        if bare not in Session.current.namespace:
            there = ", ".join(found for found, _, _ in Session.current.variables()) or "none"
            raise NameError(f"there is no variable {bare!r}; there are: {there}")
        name = Session.current.namespace[bare]
    FINAL(name)


def SUBMIT(*values: object, **fields: object) -> None:  # noqa: N802
    told = [*values, *fields.values()]
    FINAL(told[0] if len(told) == 1 else fields or list(values))


def SHOW_VARS() -> str:  # noqa: N802
    found = Session.current.variables()
    lines = [f"{name}: {kind}, {size:,}" for name, kind, size in found]
    return "\n".join(lines) or "there are no variables yet"


class Session:
    """The variables, and what runs blocks on them."""

    current: ClassVar[Session]

    def __init__(self, host: Host, output: int) -> None:
        Session.current = self
        HostCall.host = self.host = host
        self.output = output
        self.stream = sys.stdout
        self.stream.reconfigure(errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
        self._mend()
        self.module = ModuleType("__main__")
        self.namespace = self.module.__dict__
        self.answer: dict[str, Any] = {"content": "", "ready": False}
        self.reserved: dict[str, Any] = {}
        self.context_name = ""
        self.limits: dict[str, int] = {}
        #: Code that a traceback has not shown yet, by its name.
        self._sources: dict[str, str] = {}

    def open(self, order: dict[str, Any]) -> None:
        self.limits = order["limits"]
        self.host.most_bytes = self.limits["request"]
        self.context_name = order["context_name"]
        own = {
            "answer": self.answer, "SHOW_VARS": SHOW_VARS, "FINAL": FINAL, "FINAL_VAR": FINAL_VAR,
            "SUBMIT": SUBMIT,
        }  # fmt: skip
        self.reserved = {**{name: HostCall(name) for name in order["functions"]}, **own}
        if self.host.descriptor >= 0:
            self.reserved[self.context_name] = self.read_context()
        sys.modules["__main__"] = self.module
        self.namespace.update(self.reserved, __builtins__=builtins)
        HELD.update(namespace=self.namespace, context=self.reserved.get(self.context_name))

    def read_context(self) -> str:
        from mmap import ACCESS_READ, mmap

        descriptor = self.host.descriptor
        size = os.fstat(descriptor).st_size
        try:
            if not size:
                return ""
            with mmap(descriptor, size, access=ACCESS_READ) as data, memoryview(data) as view:
                return str(view, "utf-8", "replace")
        finally:
            os.close(descriptor)

    def run(self, code: str, number: int) -> dict[str, Any]:
        """Run one block; what to say of it."""
        error = ""
        try:
            self._run(code, f"<block {number}>")
        except BaseException as raised:  # noqa: BLE001 - SystemExit, too: the session goes on
            error = self._traceback(raised)
        self._mend()
        answer = None
        try:
            answer = self._answer()
        except BaseException as raised:  # noqa: BLE001
            error = error or f"{type(raised).__name__}: {raised}"[: self.limits["error"]]
        self.namespace.update(self.reserved)
        return {"error": error, "answer": answer, "variables": self.variables()}

    def _run(self, code: str, step: str) -> None:
        """As in an interactive Python, the value of an expression at the end is printed."""
        tree: Any = compile(code, step, "exec", 0x400)  # as a tree: ast.PyCF_ONLY_AST
        self._sources[step] = code
        last = tree.body[-1:] if tree.body and type(tree.body[-1]).__name__ == "Expr" else []
        del tree.body[len(tree.body) - len(last) :]
        exec(compile(tree, step, "exec"), self.namespace)  # noqa: S102 - what we are here for
        if last:
            from _ast import Expression

            value = eval(compile(Expression(last[0].value), step, "eval"), self.namespace)  # noqa: S307
            if value is not None:
                print(repr(value))  # noqa: T201

    def _mend(self) -> None:
        """Put back what a block may have changed of what we need ourselves."""
        with suppress(BaseException):  # anything may stand there
            sys.stdout.flush()
        vars(builtins).update(_BUILTINS)
        for name in _MODULES.keys() - sys.modules.keys():
            sys.modules[name] = _MODULES[name]
        sys.setrecursionlimit(_DEEP)
        sys.stdout = sys.stderr = self.stream
        for standard in (1, 2):
            os.dup2(self.output, standard)
        self.stream.flush()

    def _traceback(self, raised: BaseException) -> str:
        """The end of it, without our own frames."""
        most = self.limits["error"]
        try:
            import linecache
            from traceback import format_exception

            for place, code in self._sources.items():
                lines = code.splitlines(keepends=True)
                linecache.cache[place] = (len(code), None, lines, place)
            self._sources.clear()
            trace: TracebackType | None = raised.__traceback__
            while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
                trace = trace.tb_next
            text = "".join(format_exception(type(raised), raised, trace)).strip()
        except BaseException as other:  # noqa: BLE001
            text = f"{type(raised).__name__} (it could not be shown: {type(other).__name__})"
        return text if len(text) <= most else f"[...]\n{text[-most:]}"

    def _answer(self) -> str | None:
        given = self.namespace.get("answer")
        if isinstance(given, dict) and given is not self.answer:
            self.answer.clear()
            self.answer.update(given)
        if not self.answer.get("ready"):
            return None
        self.answer["ready"] = False
        text = str(self.answer.get("content", ""))
        if len(text) > self.limits["answer"]:
            raise ValueError(
                f"the answer has {len(text):,} characters; it may have {self.limits['answer']:,}"
            )
        return text

    def own_variables(self) -> Iterator[tuple[str, Any]]:
        """The variables that the code has made."""
        for name, value in list(self.namespace.items()):
            is_private = name[:2] == "__" and name[-2:] == "__"
            if name not in self.reserved and not is_private:
                yield name, value

    def variables(self) -> list[tuple[str, str, int]]:
        shown = []
        for name, value in self.own_variables():
            if name.startswith("_") or type(value) is ModuleType:
                continue
            sized = isinstance(value, (str, bytes, bytearray, list, tuple, dict, set, frozenset))
            size = len(value) if sized else sys.getsizeof(value)
            shown.append((name[:100], type(value).__name__[:100], size))
            if len(shown) == _NAMES_SHOWN:
                break
        return shown


def main() -> None:
    channel = socket(fileno=int(os.environ.pop(CHANNEL)))
    host = Host(channel)
    session = Session(host, int(os.environ.pop(OUTPUT)))
    host.send({"type": "ready"})
    _thread.start_new_thread(host.listen, ())
    order, payload = awaited(host)
    session.open(order)
    saved = Saved(session, order["parts"], payload)
    while True:
        order, _ = awaited(host)
        told = session.run(order["code"], order["number"])
        host.send({"type": "done", **told})
        header, data = saved.changes()
        host.send({"type": "state", **header}, data)


def awaited(host: Host) -> tuple[dict[str, Any], memoryview]:
    """The next order; while there is none, what takes long to import is imported."""
    if host.orders.empty() and "cloudpickle" not in sys.modules:
        with suppress(ImportError):
            import cloudpickle  # noqa: F401
    return host.orders.get()
