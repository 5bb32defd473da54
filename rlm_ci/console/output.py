"""Where a result goes: standard output or a file, in the form that was asked for."""

from __future__ import annotations

import errno
import os
import sys

from rlm_ci.console.messages import complain, write
from rlm_ci.errors import UsageError
from rlm_ci.report import render as report_render
from rlm_ci.report.render import Options
from rlm_ci.system import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.config.settings import Settings
    from rlm_ci.report.findings import Report

#: As a file, this name means standard output.
STDOUT = "-"
#: Whether the files of a run link rules to their page: those of earlier versions do not.
RULE_PAGES = "rule_pages"
#: Each file of a report, and the renderer that makes it; the safest first.
FILES = (
    ("report.json", "json"),
    ("report.sarif", "sarif"),
    ("comment.md", "markdown"),
    ("report.html", "html"),
)


def place(settings: Settings) -> str | None:
    """The file that the result goes to; None for standard output."""
    return None if settings.output in (None, "", STDOUT) else str(settings.output)


def rendering(settings: Settings, templates: Mapping[str, str] | None = None) -> Options:
    """How to render for whoever reads standard output."""
    width = 80
    terminal = False
    if place(settings) is None:
        try:
            width = os.get_terminal_size(sys.stdout.fileno()).columns or width
            terminal = True
        except (OSError, ValueError, AttributeError):  # no terminal; closed
            pass
    return Options(
        colour=terminal and settings.color and not settings.no_color and settings.term != "dumb",
        width=max(40, min(width, 120)),
        server_url=settings.github.server_url or "https://github.com",
        templates=templates or {},
        verbose=settings.verbose,
        quiet=settings.quiet,
        rule_pages=settings.values.get(RULE_PAGES, True),
    )


def rests_on(settings: Settings, root: str) -> dict[str, Any]:
    """What the files of a run rest on besides its record, as its last event tells it."""
    folder = os.path.relpath(os.getcwd(), root)
    return {"settings": settings.told(), "folder": folder, RULE_PAGES: True}


def require_text_or_json(settings: Settings, command: str) -> None:
    """Raise UsageError for a form of reports, where the result is none."""
    if settings.format not in ("text", "json"):
        raise UsageError(
            f"{command} has no form {settings.format!r}", where="--format", hint="use text or json"
        )


def require_place(settings: Settings) -> None:
    """Raise StorageError for an ``--output`` that cannot be written, before there is a result."""
    path = place(settings)
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


def emit(text: str, settings: Settings) -> None:
    """``text`` to ``--output``, else to standard output."""
    path = place(settings)
    if path is not None:
        files.write(path, text.encode("utf-8", "backslashreplace"))
    elif text:
        write(text)


def explain_parts(report: Report) -> None:
    """On standard error, why parts could not look, each cause once."""
    told = set()
    for part in report.parts:
        if part.error is not None and str(part.error) not in told:
            told.add(str(part.error))
            complain(part.error)


def render(report: Report, settings: Settings, templates: Mapping[str, str] | None = None) -> str:
    """``report`` in the format of the settings."""
    return report_render.render(report, settings.format, rendering(settings, templates))
