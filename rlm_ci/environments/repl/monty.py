"""Sessions of pydantic-monty: a part of Python, for machines without bubblewrap."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from time import monotonic

from rlm_ci.environments.repl import states
from rlm_ci.environments.repl.session import RESERVED, BlockResult, LockedSession
from rlm_ci.environments.repl.worker_process import is_count
from rlm_ci.errors import RlmCiError
from rlm_ci.sandbox.monty import CodeError, LostInterpreterError
from rlm_ci.system.process_stream import Clip

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from rlm_ci.environments.repl.session import HostFunction, SessionLimits
    from rlm_ci.sandbox.monty import MontyInterpreter, MontyInterpreters

#: Defined at the start; what they use is theirs, whatever a block calls its own variables.
_OWN = """
import json
def _made(
    print, dumps, eval, repr, str, len, list, type, dict, isinstance, sized, NameError, Exception
):
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
    def after(found, most):
        global answer
        if not isinstance(answer, dict):
            answer = {'content': '', 'ready': False}
        told, problem = None, ''
        try:
            told = str(answer.get('content', '')) if answer.get('ready') else None
        except Exception as error:
            problem = type(error).__name__ + ': ' + str(error)
        answer['ready'] = False
        rows = [
            [name[:100], type(value).__name__[:100], len(value) if isinstance(value, sized) else 0]
            for name, value in found.items() if not name.startswith('_')
        ]
        size = len(told or '')
        print(dumps([told if size <= most else None, size, rows, problem]))
    return FINAL, FINAL_VAR, SUBMIT, after
*_own, _after = _made(
    print, json.dumps, eval, repr, str, len, list, type, dict, isinstance,
    (str, bytes, list, tuple, dict, set, frozenset), NameError, Exception,
)
None
"""
#: All that is fed is part of every dump, so these are short: before a block, and after it.
_BEFORE = "FINAL, FINAL_VAR, SUBMIT = _own\nNone"
_AFTER = "_after(locals(), {})\nNone"
#: What it says at most, in the longest way of writing it.
_MOST_SAID = 32 << 20
_MOST_SHOWN = 200
_REPLACED = "The block put its own functions in the place of the session's"


class _BlockState:
    """What is known of a block so far."""

    error = lost = state_error = ""
    answer: str | None = None
    variables: tuple[tuple[str, str, int], ...] = ()
    state = b""


class MontySession(LockedSession):
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
        super().__init__()
        self._interpreters = interpreters
        self._limits = limits
        self._maker = maker
        self._values = values
        self._functions = {
            name: self._callable(name, function) for name, function in functions.items()
        }
        self._functions["SHOW_VARS"] = self._listing()
        self._hidden = {*RESERVED, *self._functions, *values}
        self._dump = dump
        self._shown: tuple[tuple[str, str, int], ...] = ()
        self._interpreter: MontyInterpreter | None = None
        self._clock = Clock(0.0, self._stop)
        self._faults: list[BaseException] = []

    def _callable(self, name: str, function: HostFunction) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._clock.halt()
            try:
                try:
                    text = json.dumps([args, kwargs], allow_nan=False)
                except (TypeError, ValueError, RecursionError) as error:
                    raise TypeError(f"{name} takes what JSON can say: {error}") from None
                if len(text) > self._limits.request:
                    raise ValueError(
                        f"{name} got {len(text):,} bytes; a call may have {self._limits.request:,}"
                    )
                plain = json.loads(text)
                return function(*plain)
            except RlmCiError as error:
                raise RuntimeError(str(error)) from None
            except (TypeError, ValueError):
                raise
            except BaseException as error:
                self._faults.append(error)
                self._stop()
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

    def _stop(self) -> None:
        if (running := self._interpreter) is not None:
            running.kill()

    def _execute(self, code: str, seconds: float) -> BlockResult:
        begun = monotonic()
        half = self._limits.output // 2
        clip = Clip(half, self._limits.output - half)
        result = _BlockState()
        try:
            with self._clocked(seconds):
                running = self._started()
                result.error = self._block(running, code, clip)
            with self._clocked(self._limits.saving):
                result.answer, result.variables, problem = self._read_state(running)
                result.error = result.error or self._bounded(problem)
                self._shown = result.variables
                result.state, result.state_error = self._saved(running)
        except LostInterpreterError as ended:
            result.lost = self._why(ended, seconds)
            self._end()
            why = f"{result.lost}. All variables are as they were before this block."
            result.error = f"{result.error}\n{why}".strip()
        if self._faults:
            self._end()
            raise self._faults.pop()
        return BlockResult(
            clip.clipped().text(),
            result.error,
            result.answer,
            monotonic() - begun,
            result.variables,
            result.state,
            result.state_error,
            result.lost,
        )

    @contextmanager
    def _clocked(self, seconds: float) -> Iterator[None]:
        self._clock = Clock(seconds, self._stop)
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
        self._run_own_code(running, _BEFORE, self._values)
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

    def _run_own_code(
        self, running: MontyInterpreter, code: str, values: Mapping[str, str] | None = None
    ) -> str:
        """Run a piece of ours; what it prints. Raises LostInterpreterError."""
        clip = Clip(_MOST_SAID, 0)
        keywords: dict[str, Any] = {"values": values, "functions": self._functions}
        keywords["on_output"] = lambda text: clip.add(text.encode("utf-8", "replace"))
        try:
            running.run(code, **keywords)
        except CodeError:
            raise LostInterpreterError(_REPLACED) from None
        return clip.clipped().head.decode("utf-8", "replace")

    def _bounded(self, text: str) -> str:
        limit = self._limits.error
        return text if len(text) <= limit else f"[...]\n{text[-limit:]}"

    def _read_state(
        self, running: MontyInterpreter
    ) -> tuple[str | None, tuple[tuple[str, str, int], ...], str]:
        """Its answer, if it has one, its variables, and what is wrong with the answer."""
        record = self._run_own_code(running, _AFTER.format(self._limits.answer))
        try:
            answer, size, rows, problem = json.loads(record)
            shown = [(name, kind, count) for name, kind, count in rows if name not in self._hidden]
        except (ValueError, TypeError, RecursionError):
            raise LostInterpreterError(_REPLACED) from None
        texts = [problem, *(text for name, kind, _ in shown for text in (name, kind))]
        counts = [size, *(count for _, _, count in shown)]
        if not all(type(text) is str for text in texts) or not all(map(is_count, counts)):
            raise LostInterpreterError(_REPLACED)
        if not isinstance(answer, str | None):
            raise LostInterpreterError(_REPLACED)
        if size > self._limits.answer:
            limit = f"it may have {self._limits.answer:,}"
            problem = f"ValueError: the answer has {size:,} characters; {limit}"
        return answer, tuple(shown[:_MOST_SHOWN]), problem

    def _saved(self, running: MontyInterpreter) -> tuple[bytes, str]:
        """What a session goes on from, all but the context; and why it cannot."""
        self._run_own_code(
            running, "\n".join([*(f"{name} = None" for name in self._values), "None"]), {}
        )
        dump = running.dump()
        if dump == self._dump:
            return b"", ""
        if len(dump) > self._limits.state:
            limit = f"they may have {self._limits.state:,}"
            return b"", f"no variable is kept: they have {len(dump):,} bytes; {limit}"
        self._dump = dump
        return states.packed(self._maker, {1: dump}, ()), ""

    def _why(self, ended: LostInterpreterError, seconds: float) -> str:
        if self._closed:
            return "The session is closed"
        if self._clock.is_late:
            return f"The block ran for more than {seconds:g} s and was stopped"
        return _REPLACED if str(ended) == _REPLACED else "The interpreter ended"

    def _end(self) -> None:
        lost, self._interpreter = self._interpreter, None
        if lost is not None:
            lost.close()


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
