"""One report in any format: :func:`render` makes it.

A renderer is a file in ``renderers/`` with a function ``render(report, options) -> str``;
its file name is the name of the format.
"""

from __future__ import annotations

import os

from rlm_ci import errors
from rlm_ci.report.render_options import RenderOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.report.findings import Report

__all__ = ["RenderOptions", "names", "render"]


def names() -> tuple[str, ...]:
    """The formats there are, in alphabetical order."""
    folder = os.path.join(os.path.dirname(__file__), "formats")
    files = (name for name in os.listdir(folder) if name.endswith(".py"))
    return tuple(sorted(name[:-3] for name in files if not name.startswith("_")))


def render(report: Report, name: str, options: RenderOptions | None = None, **fields: Any) -> str:
    """``report`` in the format ``name``; ``fields`` are those of :class:`RenderOptions`.

    Raises UsageError for an unknown format, ConfigError for a bad ``server_url`` or a
    template override that cannot be used.
    """
    if name not in names():
        raise errors.UsageError(
            f"there is no format {name!r}", hint=f"choose one of {', '.join(names())}"
        )
    renderer = __import__(f"rlm_ci.report.formats.{name}", fromlist=["render"])
    text: str = renderer.render(report, (options or RenderOptions()).replace(**fields))
    return text
