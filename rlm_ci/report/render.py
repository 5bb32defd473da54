"""One report in any format: :func:`render` makes it.

A format is a file in ``formats/`` with a function ``render(report, options) -> str``.
"""

from __future__ import annotations

from rlm_ci import errors
from rlm_ci.config.core_options import FORMATS
from rlm_ci.text.neutralise import MARKER
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.report.findings import Report


class RenderOptions(Value):
    """``width`` is in terminal cells; ``templates`` maps template names to their sources.

    ``server_url`` is the address of the GitHub that permalinks lead to. ``quiet`` leaves out of
    the text what needs no action; ``verbose`` adds details. ``marker`` is the first line of a
    comment, ``alert`` comes before all else, ``notes`` say where else the findings are shown.
    ``in_bytes``: the comment's length is limited in bytes. ``rule_pages``: rules link to the page
    that explains them. ``time`` is told where the report is of no run, whose id has one. Without
    ``has_cause`` the text leaves out the one error that stopped all parts, which is told elsewhere.
    ``repository`` is the one that the command line names, for commands that the user is to run.
    """

    colour: bool = False
    width: int = 80
    server_url: str = "https://github.com"
    templates: Mapping[str, str] = {}
    verbose: bool = False
    quiet: bool = False
    marker: str = MARKER
    notes: tuple[str, ...] = ()
    alert: str = ""
    in_bytes: bool = False
    rule_pages: bool = True
    time: str = ""
    has_cause: bool = True
    repository: str = ""


def render(report: Report, name: str, options: RenderOptions | None = None, **fields: Any) -> str:
    """``report`` in the format ``name``; ``fields`` are those of :class:`RenderOptions`.

    Raises UsageError for an unknown format, ConfigError for a bad ``server_url`` or a
    template override that cannot be used.
    """
    if name not in FORMATS:
        raise errors.UsageError(
            f"there is no format {name!r}", hint=f"choose one of {', '.join(FORMATS)}"
        )
    renderer = __import__(f"rlm_ci.report.formats.{name}", fromlist=["render"])
    text: str = renderer.render(report, (options or RenderOptions()).replace(**fields))
    return text
