"""``rlm-ci status``: the status of a run; ``--watch`` follows it until it ends."""

from __future__ import annotations

import os
import sys
import time

from rlm_ci import errors
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.console.messages import is_unread, write
from rlm_ci.console.progress import is_live
from rlm_ci.errors import UsageError
from rlm_ci.judge.options import output_of
from rlm_ci.pipelines import stored_runs
from rlm_ci.pipelines.repository.tree_progress import TreeWatcher
from rlm_ci.runs import manifest
from rlm_ci.runs.checksums import EVENTS
from rlm_ci.runs.journal.journal import replay
from rlm_ci.text import neutralise

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.config.arguments import Arguments
    from rlm_ci.runs.find import FoundRun

SUMMARY = "show the status of a run, or follow it to its end"
USAGE = "RUN [--watch] [OPTION...]"
TAKES = stored_runs.ONE_RUN
EXAMPLES = ("rlm-ci status latest --watch",)
FORMS = ("text", "json")
EXITS = {errors.OK: "done, whatever the status of the run is"}
_WATCH = Setting("watch", "follow the run until it ends", default=False, kind="boolean",
                 flag="--watch", file=False, own_env=False)  # fmt: skip
#: Seconds between two updates.
_LOOK = 0.5
#: Events that are shown below a redrawn run, and the least of them.
_LAST = 8
_LEAST = 2
ROWS = (_WATCH, *stored_runs.ROWS)


def run(arguments: Arguments) -> int:
    settings = Settings(ROWS, arguments.flags)
    output = output_of(settings).require_text_or_json("status")
    entry = stored_runs.StoredRuns(settings).find(arguments.words[0])
    if settings.watch:
        if output.path is not None:
            raise UsageError(
                "--watch shows what happens as it happens",
                where="--output",
                hint="leave one of the two out",
            )
        is_drawn = settings.format == "text" and is_live(sys.stdout, settings.environ)
        _watch(entry, _Drawn(settings) if is_drawn else _Lines(settings))
    elif settings.format == "json":
        output.emit(neutralise.record(stored_runs.record(entry)))
    else:
        output.emit(stored_runs.tell(entry, time.time()))
    return errors.OK


def _watch(entry: FoundRun, view: _Lines) -> None:
    """Show the run, and every event from its first, until it has ended or its process is gone."""
    events = _events(os.path.join(entry.path, EVENTS))
    while True:
        # Events are read after the manifest: if that has ended, none is missing.
        now = time.time()
        entry = entry.read()
        _ = entry.run  # raises if the run was removed or damaged meanwhile
        view.show(entry, next(events), now)
        if is_unread():
            return
        if not entry.is_going(now):
            view.end(entry, next(events))
            return
        time.sleep(_LOOK)


def _events(path: str) -> Iterator[list[dict[str, Any]]]:
    """Yields the events that were appended since the last time. Raises DamagedError."""
    seen, size = 0, 0
    while True:
        new = []
        last, size = size, os.path.getsize(path) if os.path.exists(path) else 0
        if size not in (0, last):
            new = [event for event in replay(path, live=True) if event["seq"] > seen]
            seen = new[-1]["seq"] if new else seen
        yield new


class _Lines:
    """Prints each event as a line of JSON or text; as text, the whole run at its end."""

    def __init__(self, settings: Settings) -> None:
        self._as_json = settings.format == "json"

    def show(self, entry: FoundRun, new: Sequence[Mapping[str, Any]], now: float) -> None:  # noqa: ARG002
        for event in new:
            write(neutralise.record(event, 0) if self._as_json else f"{_line(event)}\n")

    def end(self, entry: FoundRun, new: Sequence[Mapping[str, Any]]) -> None:
        self.show(entry, new, time.time())
        if not self._as_json:
            write(f"\n{stored_runs.tell(entry, time.time())}")


class _Drawn(_Lines):
    """Draws the run and its last events over the last drawing."""

    def __init__(self, settings: Settings) -> None:
        from rlm_ci.console.live_screen import LiveScreen

        super().__init__(settings)
        self._screen = LiveScreen(write, colour=settings.color)
        self._look: TreeWatcher | None = None
        self._last: list[str] = []

    def show(self, entry: FoundRun, new: Sequence[Mapping[str, Any]], now: float) -> None:
        facts, last = self._facts(entry, new, now), self._last
        # If there is no room, leave out the oldest events, then steps.
        room = self._screen.height - 1
        last = last[-max(_LEAST, room - len(facts)) :]
        self._draw(facts[: max(1, room - len(last))], last)

    def end(self, entry: FoundRun, new: Sequence[Mapping[str, Any]]) -> None:
        self._draw(self._facts(entry, new, time.time()), self._last)
        self._screen.end(keep=True)

    def _facts(
        self, entry: FoundRun, new: Sequence[Mapping[str, Any]], now: float
    ) -> list[tuple[str, str]]:
        self._last = [*self._last, *(_line(event) for event in new)][-_LAST:]
        self._look = self._look or TreeWatcher(entry.path, entry.run.pipeline_id)
        return stored_runs.facts(entry, now, self._look)

    def _draw(self, facts: Sequence[tuple[str, str]], events: Sequence[str]) -> None:
        from rlm_ci.console.live_screen import fact

        lines = [fact(name, neutralise.log(text)) for name, text in facts]
        self._screen.draw([*lines, *(fact("", line) for line in ("", *events))])


def _line(event: Mapping[str, Any]) -> str:
    stamp = event.get("timestamp")
    clock = stamp[11:19] if isinstance(stamp, str) and manifest.is_time(stamp) else "--:--:--"
    return f"{clock}  {stored_runs.event_text(event)}"
