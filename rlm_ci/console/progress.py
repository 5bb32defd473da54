"""What a long run is doing, while it does it: live lines on a terminal, else plain ones.

``ActiveAnswers`` counts the answers that models are writing: how much there is, and how fast it
comes.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from contextlib import contextmanager, suppress
from time import monotonic

from rlm_ci.redaction.redactor import Redactor
from rlm_ci.system.process import Clipped
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Self, TextIO

    from rlm_ci.console.live_screen import LiveScreen

    #: Returns the present state of a run: names and texts.
    Look = Callable[[], list[tuple[str, str]]]


#: Seconds between two drawings of the live lines.
_TICK = 0.5
#: After a look that takes a second, the next one waits for so many.
_REST = 10
#: Bytes at the end of an output to search for its last line.
_HEARD = 4096
_LINE_END = re.compile(rb"[\r\n]+")
#: A word that may go on, and be a secret.
_OPEN_WORD = re.compile(rb"[^\s]{4,}\Z")


def duration(seconds: float) -> str:
    """``8s``, ``4m 08s`` or ``1h 04m``."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m {whole % 60:02}s"
    return f"{whole // 3600}h {whole // 60 % 60:02}m"


class Progress:
    """Shows step, time, the remaining budget (``left``), what a model writes, the last output.

    On a terminal one line is redrawn, above the state of a recursion's tree; elsewhere each step
    is a line of its own, repeated each minute with the last line of output.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        *,
        stream: TextIO | None = None,
        live: bool | None = None,
        quiet: bool = False,
        colour: bool = True,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._colour = colour
        self._live = live if live is not None else is_live(self._stream, environ)
        self._quiet = quiet or self._stream is None
        #: What remains of the budget, and how answers of a model come, in words.
        self.left: Callable[[], str] = str
        self.written: Callable[[], str] = str
        #: Seconds after which a step is repeated where no line can be redrawn.
        self.minute = 60.0
        self._clock = clock
        self.redact = Redactor(environ).text
        self._began = clock()
        self._step = ""
        self._heard = ""
        self._recent = b""
        self._is_cut = False
        self._paused = False
        self._lock = threading.Lock()
        #: A second lock, so that output does not wait for a slow terminal.
        self._drawing = threading.Lock()
        self._over = threading.Event()
        self._ticker: threading.Thread | None = None
        self._screen: LiveScreen | None = None
        self._look: Look | None = None
        self._facts: list[tuple[str, str]] = []
        self._next = 0.0

    def __enter__(self) -> Self:
        if self._live and not self._quiet:
            from rlm_ci.console.live_screen import LiveScreen

            self._screen = LiveScreen(self._write, colour=self._colour)
        if not self._quiet:
            self._ticker = threading.Thread(target=self._tick, daemon=True)
            self._ticker.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Draw nothing any more, and remove the live lines; ``say`` goes on."""
        self._over.set()
        if self._ticker:
            self._ticker.join()
        if self._screen:
            self._screen.end()

    def watch(self, look: Look) -> None:
        """On a terminal, show the state of a run's tree too."""
        if self._screen:
            self._look = look

    def step(self, text: str) -> None:
        """Begin a step."""
        with self._lock:
            self._step, self._heard = printable(self.redact(text)), ""
            self._recent, self._is_cut = b"", False
        if self._quiet:
            return
        if self._screen:
            self._draw()
        else:
            self._write(f"{self._time()}  {self._step}\n")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leave the terminal alone meanwhile."""
        with self._drawing:
            self._paused = True
            if self._screen:
                self._screen.end()
        try:
            yield
        finally:
            self._paused = False

    def say(self, text: str) -> None:
        """A line that stays."""
        text = self.redact(text)
        if self._screen:
            with self._drawing:
                self._screen.say(text)
        elif not self._quiet:
            self._write(f"{printable(text)}\n")

    def heard(self, chunk: bytes) -> None:
        """Take a piece of a command's output; its last line is shown beside the step."""
        from rlm_ci.system.transcript import transcribe

        # Only whole lines: a part of a secret could not be redacted.
        recent = self._recent + chunk
        self._is_cut = self._is_cut or len(recent) > _HEARD
        self._recent = recent = recent[-_HEARD:]
        if self._is_cut:
            recent = _LINE_END.split(recent, maxsplit=1)[-1] if _LINE_END.search(recent) else b""
        recent = _OPEN_WORD.sub(b"", recent)
        lines = transcribe(Clipped(recent, b"", 0), self.redact).lines
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        if last:
            with self._lock:
                self._heard = printable(last[:400])

    def _time(self) -> str:
        told = (duration(self._clock() - self._began), self.left(), self.written())
        return ", ".join(filter(None, told))

    def _tick(self) -> None:
        told = ""
        while not self._over.wait(_TICK if self._screen else self.minute):
            if self._screen:
                self._draw()
            elif told == self._step != "":
                self._write(f"{self._time()}  {self._line()}\n")
            told = self._step

    def _line(self) -> str:
        with self._lock:
            return f"{self._step} | {self._heard}" if self._heard else self._step

    def _draw(self) -> None:
        with self._drawing:
            if self._paused or self._screen is None:
                return
            from rlm_ci.console.live_screen import fact

            found = [("", f"{self._time()}  {self._line()}"), *self._tree()][: self._screen.height]
            self._screen.draw([fact(name, text) for name, text in found])

    def _tree(self) -> list[tuple[str, str]]:
        """The state of the tree; a slow look is repeated less often."""
        began = monotonic()
        if self._look is not None and began >= self._next:
            self._facts = [(name, self.redact(text)) for name, text in self._look()]
            self._next = began + _REST * (monotonic() - began)
        return self._facts

    def _write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # closed
            self._stream.write(text)
            self._stream.flush()


def asker(progress: Progress) -> Callable[[str], str] | None:
    """Asks the user at the terminal; None without one."""
    if sys.stdin is None or not sys.stdin.isatty():
        return None
    has_left = False

    def ask(question: str) -> str:
        nonlocal has_left
        if has_left:
            return ""
        with progress.paused():
            sys.stderr.write(question)
            sys.stderr.flush()
            answer = ""
            try:
                answer = sys.stdin.readline()
            finally:
                if not answer:  # Ctrl-C or the end leave the cursor behind the question
                    has_left = True
                    sys.stderr.write("\n")
        return answer

    return ask


def is_live(stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """Whether lines written there can be redrawn."""
    return bool(
        stream is not None
        and stream.isatty()
        and environ.get("TERM", "") not in ("", "dumb", "unknown")
        and not environ.get("CI")
    )


#: Seconds without a token after which that is said.
_SILENT = 10.0


class ActiveAnswer:
    """One answer as it comes. ``tokens`` are about those that were written.

    ``limit`` is how many seconds it may take in all.
    """

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, *, limit: float | None = None
    ) -> None:
        self._clock = clock
        self.limit = float("inf") if limit is None else limit
        self.tokens = 0
        self.words = 0
        self.bytes = 0
        self.first: float | None = None
        self.last = clock()
        self._is_within_word = False

    def add(self, text: str, tokens: int) -> None:
        """Take the next piece; ``tokens`` is how many events have had answer so far."""
        self.last = self._clock()
        self.first = self.last if self.first is None else self.first
        self.tokens = max(tokens, self.tokens)
        if text:
            self.bytes += len(text.encode("utf-8", "surrogatepass"))
            self.words += len(text.split()) - (self._is_within_word and not text[0].isspace())
            self._is_within_word = not text[-1].isspace()

    def flowed(self) -> float:
        """Seconds from the first token to the last."""
        return 0.0 if self.first is None else self.last - self.first


class ActiveAnswers:
    """Those of a run, for all of its threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._active: set[ActiveAnswer] = set()

    def begin(self, limit: float | None) -> ActiveAnswer:
        answer = ActiveAnswer(self._clock, limit=limit)
        with self._lock:
            self._active.add(answer)
        return answer

    def end(self, answer: ActiveAnswer) -> None:
        with self._lock:
            self._active.discard(answer)

    def shown(self) -> str:
        """Tokens so far and words a second of what is being written; "" while nothing is."""
        with self._lock:
            written = [answer for answer in self._active if answer.first is not None]
        if not written:
            return ""
        now = self._clock()
        tokens = sum(answer.tokens for answer in written)
        speed = sum(answer.words / max(now - (answer.first or now), 1.0) for answer in written)
        several = f"{len(written)} answers: " if len(written) > 1 else ""
        silence = now - max(answer.last for answer in written)
        pace = f"none for {silence:.0f}s" if silence > _SILENT else f"{speed:.1f} words a second"
        return f"{several}{tokens:,} tokens so far, {pace}"
