"""The last lines of a terminal, redrawn by rich, without markup, emoji names or links in texts.

Import it late: rich takes longer to import than a hook may run.
"""

from __future__ import annotations

import io

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

#: Columns of ``^C``, which the terminal writes behind the last line: it must not wrap.
_ECHO = 2
#: Columns of a fact's name.
INDENT = 11
_STYLES = {"error": "red", "at work on": "cyan"}
_STANDS = (
    ("succeeded", "green"), ("failed", "red"), ("cancelled", "yellow"), ("queued", "yellow"),
    ("in progress", "cyan"),
)  # fmt: skip


class LiveScreen:
    """Lines below all others; ``write`` sends a text to the terminal."""

    def __init__(self, write: Callable[[str], None], *, colour: bool = True) -> None:
        self._write = write
        self._drawn = io.StringIO()
        self._console = _Console(
            file=self._drawn,
            force_terminal=True,
            force_interactive=True,
            no_color=None if colour else True,  # None: NO_COLOR decides
            markup=False,
            emoji=False,
            highlight=False,
        )
        self._live: Live | None = None

    @property
    def height(self) -> int:
        """How many lines can be redrawn; one is left for other output."""
        return max(1, self._console.height - 1)

    def draw(self, lines: Sequence[Text]) -> None:
        """Replace the last lines by ``lines``; long ones are cut."""
        for line in lines:
            line.truncate(max(1, self._console.width - _ECHO - 1), overflow="ellipsis")
        if self._live is None:
            self._live = Live(
                console=self._console,
                auto_refresh=False,
                redirect_stdout=False,
                redirect_stderr=False,
                vertical_overflow="crop",
            )
            self._live.start()
        self._live.update(Group(*lines), refresh=True)
        self._flush()

    def say(self, text: str) -> None:
        """A line that stays, above the redrawn ones; the terminal wraps it."""
        self._console.print(Text(printable(text)), soft_wrap=True)
        self._flush()

    def end(self, *, keep: bool = False) -> None:
        """Remove the lines, or let them stay."""
        live, self._live = self._live, None
        if live is not None:
            live.transient = not keep
            live.stop()
            self._flush()

    def _flush(self) -> None:
        text = self._drawn.getvalue()
        self._drawn.seek(0)
        self._drawn.truncate()
        self._write(text)


def fact(name: str, text: str) -> Text:
    """A line with a name in bold and a text; without a name a plain one."""
    text = printable(text)
    if not name:
        return Text(text)
    style = _STYLES.get(name, "")
    if name == "status":
        style = next((style for word, style in _STANDS if text.startswith(word)), "")
    return Text.assemble((f"{name:<{INDENT}}", "bold"), (text, style))


class _Console(Console):
    """Leaves the cursor alone: a killed process could not show it again."""

    def show_cursor(self, show: bool = True) -> bool:  # noqa: ARG002, FBT001, FBT002 - rich's own
        return False
