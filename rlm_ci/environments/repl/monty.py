"""Sessions of pydantic-monty: a part of Python, for machines without bubblewrap."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from time import monotonic

from rlm_ci.environments.repl import states
from rlm_ci.environments.repl.session import RESERVED, BlockResult
from rlm_ci.errors import RlmCiError
from rlm_ci.sandbox.monty import CodeError, LostInterpreterError
from rlm_ci.system.process_stream import Clip
from rlm_ci.values import Closing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from rlm_ci.environments.repl.session import HostFunction, SessionLimits
    from rlm_ci.sandbox.monty import MontyInterpreter, MontyInterpreters

#: Defined at the start, and again once a block has put something else in their place.
_OWN = """
def FINAL(value):
    answer['content'] = value
    answer['ready'] = True
def FINAL_VAR(name):
    if isinstance(name, str):
        name = name.strip().strip('"' + "'")
        if not name.isidentifier():
            raise NameError('there is no variable ' + repr(name))
        name = eval(name)
    FINAL(name)
def SUBMIT(*values, **fields):
    found = list(values) + list(fields.values())
    FINAL(found[0] if len(found) == 1 else (fields or list(values)))
_own = FINAL, FINAL_VAR, SUBMIT
def _after(found):
    global answer
    if not isinstance(answer, dict):
        answer = {'content': '', 'ready': False}
    told = str(answer.get('content', '')) if answer.get('ready') else None
    answer['ready'] = False
    sized = (str, bytes, list, tuple, dict, set, frozenset)
    return told, [
        (name, type(value).__name__, len(value) if isinstance(value, sized) else 0)
        for name, value in found.items() if not name.startswith('_')
    ]
None
"""
#: All that is fed is part of every dump, so these are short: before a block, and after it.
_BEFORE = "FINAL, FINAL_VAR, SUBMIT = _own\nNone"
_AFTER = "_after(locals())"
_MOST_SHOWN = 200


class _Told:
    """What is known of a block so far."""

    error = lost = state_error = ""
    answer: str | None = None
    variables: tuple[tuple[str, str, int], ...] = ()
    state = b""


class MontySession(Closing):
    """Blocks of code on the variables of one interpreter, or of the next when that is lost."""

    name = "monty"
    isolated = True

    def __init__(
        self,
        interpreters: MontyInterpreters,
        limits: SessionLimits,
        *,
        maker: str,
        values: dict[str, str],
        functions: dict[str, HostFunction],
        dump: bytes,
    ) -> None:
        self._interpreters = interpreters
        self._limits = limits
        self._maker = maker
        self._values = values
        self._functions = {name: self._callable(name, one) for name, one in functions.items()}
        self._functions["SHOW_VARS"] = self._listing()
        self._hidden = {*RESERVED, *self._functions, *values}
        self._dump = dump
        self._shown: tuple[tuple[str, str, int], ...] = ()
        self._interpreter: MontyInterpreter | None = None
        self._closed = False
        self._clock = Clock(0.0, self._kill)
        self._faults: list[BaseException] = []
        self._lock = threading.RLock()
        self._running = False

    def _callable(self, name: str, function: HostFunction) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._clock.halt()
            try:
                try:
                    given = json.dumps([args, kwargs], allow_nan=False)
                except (TypeError, ValueError, RecursionError) as error:
                    raise TypeError(f"{name} takes what JSON can say: {error}") from None
                if len(given) > self._limits.request:
                    raise ValueError(
                        f"{name} got {len(given):,} bytes; a call may have {self._limits.request:,}"
                    )
                plain = json.loads(given)
                return function(*plain)
            except RlmCiError as error:
                raise RuntimeError(str(error)) from None
            except (TypeError, ValueError):
                raise
            except BaseException as error:
                self._faults.append(error)
                self._kill()
                raise
            finally:
                self._clock.go()

        call.__name__ = name  # by which the interpreter finds it
        return call

    def _listing(self) -> Callable[[], str]:
        def show() -> str:
            lines = [f"{name}: {kind}, {size:,}" for name, kind, size in self._shown]
            return "\n".join(lines) or "there are no variables yet"

        show.__name__ = "SHOW_VARS"
        return show

    def _kill(self) -> None:
        if (running := self._interpreter) is not None:
            running.kill()

    def execute(self, code: str, *, seconds: float) -> BlockResult:
        with self._lock:
            self._running = True
            try:
                return self._execute(code, seconds)
            finally:
                self._running = False
                if self._closed:
                    self._lose()

    def _execute(self, code: str, seconds: float) -> BlockResult:
        begun = monotonic()
        half = self._limits.output // 2
        clip = Clip(half, self._limits.output - half)
        told = _Told()
        try:
            with self._clocked(seconds):
                running = self._started()
                told.error = self._block(running, code, clip)
            with self._clocked(self._limits.saving):
                told.answer, told.variables = self._told(running)
                self._shown = told.variables
                told.state, told.state_error = self._saved(running)
        except LostInterpreterError as ended:
            told.lost = self._why(ended, seconds)
            self._lose()
            why = f"{told.lost}. All variables are as they were before this block."
            told.error = f"{told.error}\n{why}".strip()
        except CodeError as raised:  # of what comes after the block
            told.error = told.error or self._bounded(str(raised))
        if self._faults:
            self._lose()
            raise self._faults.pop()
        return BlockResult(
            clip.clipped().text(),
            told.error,
            told.answer,
            monotonic() - begun,
            told.variables,
            told.state,
            told.state_error,
            told.lost,
        )

    @contextmanager
    def _clocked(self, seconds: float) -> Iterator[None]:
        self._clock = Clock(seconds, self._kill)
        self._clock.go()
        try:
            yield
        finally:
            self._clock.halt()

    def _started(self) -> MontyInterpreter:
        if self._closed:
            raise LostInterpreterError("closed")
        if self._interpreter is None:
            self._interpreter = self._interpreters.start(self._limits.memory)
            if self._dump:
                self._interpreter.load(self._dump)
            else:
                self._interpreter.run(_OWN, values={"answer": {"content": "", "ready": False}})
        return self._interpreter

    def _block(self, running: MontyInterpreter, code: str, clip: Clip) -> str:
        """Run it; the traceback of what it raised."""
        self._own(running, _BEFORE, self._values)
        try:
            # The value of an expression at its end would become one of ours, of any size.
            running.run(
                f"{code}\n\nNone",
                functions=self._functions,
                on_output=lambda text: clip.add(text.encode("utf-8", "replace")),
            )
        except CodeError as raised:
            return self._bounded(str(raised))
        return ""

    def _own(self, running: MontyInterpreter, code: str, values: dict[str, str]) -> Any:
        """Run a piece of ours. Raises CodeError."""
        try:
            return running.run(code, values=values, functions=self._functions)
        except CodeError:
            running.run(_OWN)
            return running.run(code, values=values, functions=self._functions)

    def _bounded(self, text: str) -> str:
        most = self._limits.error
        return text if len(text) <= most else f"[...]\n{text[-most:]}"

    def _told(
        self, running: MontyInterpreter
    ) -> tuple[str | None, tuple[tuple[str, str, int], ...]]:
        """Its answer, if it has one, and its variables. Raises CodeError."""
        answer, found = self._own(running, _AFTER, {})
        if answer is not None and len(answer) > self._limits.answer:
            raise CodeError(
                f"ValueError: the answer has {len(answer):,} characters; "
                f"it may have {self._limits.answer:,}"
            )
        shown = [
            (str(name)[:100], str(kind)[:100], int(size))
            for name, kind, size in found
            if name not in self._hidden
        ]
        return answer, tuple(shown[:_MOST_SHOWN])

    def _saved(self, running: MontyInterpreter) -> tuple[bytes, str]:
        """What a session goes on from, all but the context; and why it cannot."""
        running.run("\n".join([*(f"{name} = None" for name in self._values), "None"]))
        dump = running.dump()
        if dump == self._dump:
            return b"", ""
        if len(dump) > self._limits.state:
            most = f"they may have {self._limits.state:,}"
            return b"", f"no variable is kept: they have {len(dump):,} bytes; {most}"
        self._dump = dump
        return states.packed(self._maker, {1: dump}, ()), ""

    def _why(self, ended: LostInterpreterError, seconds: float) -> str:
        if self._closed:
            return "The session is closed"
        if self._clock.is_late:
            return f"The block ran for more than {seconds:g} s and was stopped"
        return f"The interpreter ended: {ended}"[:300]

    def _lose(self) -> None:
        lost, self._interpreter = self._interpreter, None
        if lost is not None:
            lost.close()

    def close(self) -> None:
        self._closed = True
        self._kill()
        with self._lock:
            if not self._running:  # else it is the end of it that does this
                self._lose()


class Clock:
    """Counts the seconds of a block that are its own, and says when they are used up."""

    def __init__(self, seconds: float, late: Callable[[], None]) -> None:
        self._left = seconds
        self._late = late
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._since = 0.0
        self.is_late = False

    def go(self) -> None:
        with self._lock:
            self._since = monotonic()
            self._timer = threading.Timer(max(0.0, self._left), self._ring)
            self._timer.daemon = True
            self._timer.start()

    def halt(self) -> None:
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
                self._left -= monotonic() - self._since

    def _ring(self) -> None:
        with self._lock:
            if self._timer is not threading.current_thread():  # halted just now
                return
            self.is_late = True
        self._late()
