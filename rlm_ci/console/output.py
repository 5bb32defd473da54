"""Where a result goes: standard output or a file, in a format."""

from __future__ import annotations

import errno
import os
import sys
import time
from contextlib import suppress

from rlm_ci.console.messages import complain, say, write
from rlm_ci.errors import UsageError
from rlm_ci.report import render
from rlm_ci.report.render import RenderOptions
from rlm_ci.system import files
from rlm_ci.text import neutralise
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Self

    from rlm_ci.report.findings import Report

#: As a file, this name means standard output.
STDOUT = "-"
#: Whether the files of a run link rules to their page, which earlier versions did not.
RULE_PAGES = "rule_pages"
#: Each file of a report, and the renderer that makes it; the safest first.
FILES = (
    ("report.json", "json"),
    ("report.sarif", "sarif"),
    ("comment.md", "markdown"),
    ("report.html", "html"),
)


class Output(Value):
    """Where results go, and their format; ``path`` is a file, None for standard output.

    ``repository`` is the one that the command line names, "" for that of the current folder.
    """

    format: str
    path: str | None
    colour: bool
    verbose: bool
    quiet: bool
    server_url: str
    rule_pages: bool
    repository: str

    def rendered(
        self, report: Report, templates: Mapping[str, str] | None = None
    ) -> Iterator[tuple[str, Iterable[bytes]]]:
        """The files of a report by name, each in pieces: as JSON it may be very large."""
        options = self.options(templates).replace(colour=False)
        for name, renderer in FILES:
            if renderer == "json":
                pieces = neutralise.record_pieces(report.outline())
                yield name, (piece.encode("ascii") for piece in pieces)
            else:
                text = render.render(report, renderer, options)
                yield name, [text.encode("utf-8", "backslashreplace")]

    def options(self, templates: Mapping[str, str] | None = None) -> RenderOptions:
        """How to render for this output."""
        width = None
        if self.path is None:
            with suppress(OSError, ValueError, AttributeError):  # no terminal; closed
                width = os.get_terminal_size(sys.stdout.fileno()).columns or 80
        return RenderOptions(
            colour=width is not None and self.colour,
            width=max(40, min(width or 80, 120)),
            server_url=self.server_url,
            templates=templates or {},
            verbose=self.verbose,
            quiet=self.quiet,
            rule_pages=self.rule_pages,
            repository=self.repository,
            has_cause=self.path is not None,  # else standard error has it
            time=time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        )

    def require_text_or_json(self, command: str) -> Self:
        """Itself; raises UsageError for a format of reports: the result is none."""
        return self._require(command, "text", "json")

    def require_text(self, command: str) -> Self:
        """Itself; raises UsageError for any other format."""
        return self._require(command, "text")

    def _require(self, command: str, *forms: str) -> Self:
        if self.format not in forms:
            raise UsageError(
                f"{command} has no form {self.format!r}",
                where="--format",
                hint=f"use {' or '.join(forms)}",
            )
        return self

    def require_place(self) -> None:
        """Raise StorageError for a place that cannot be written, before the work begins."""
        path = self.path
        if path is None or files.is_channel(path):
            return
        folder = os.path.dirname(path) or os.curdir
        wrong = errno.EISDIR if os.path.isdir(path) else None
        if not os.path.isdir(folder):
            wrong = errno.ENOENT
        elif not os.access(folder, os.W_OK | os.X_OK):
            wrong = errno.EACCES
        if wrong is not None:
            raise files.storage_error(OSError(wrong, os.strerror(wrong)), path)

    def emit(self, text: str) -> None:
        """``text`` to ``--output``, else to standard output."""
        if self.path is not None:
            files.write(self.path, text.encode("utf-8", "backslashreplace"))
            if not self.quiet and not files.is_channel(self.path):
                say(f"written: {self.path}")
        elif text:
            write(text)

    def show(self, report: Report, templates: Mapping[str, str] | None = None) -> None:
        """``report`` in the chosen format."""
        self.emit(render.render(report, self.format, self.options(templates)))


def explain_parts(report: Report) -> None:
    """On standard error, why parts could not look, each cause once."""
    told = set()
    for part in report.parts:
        if part.error is not None and str(part.error) not in told:
            told.add(str(part.error))
            complain(part.error)
