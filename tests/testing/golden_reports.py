"""What each surface looks like: the typical report, rendered, in ``cases/``.

Rewrite the files after a change that was meant, then read the difference::

    PYTHONPATH=.:tests python -m testing.golden_reports
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rlm_ci import __version__
from rlm_ci.report import render as surfaces
from testing import reports

CASES = Path(__file__).parents[1] / "report" / "formats" / "cases"
FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "typical.txt": ("typical", "text", {}),
    "typical-colour.txt": ("typical", "text", {"colour": True}),
    "typical-verbose.txt": ("typical", "text", {"verbose": True, "width": 100}),
    "typical-quiet.txt": ("typical", "text", {"quiet": True}),
    "typical.json": ("typical", "json", {}),
    "typical.md": ("typical", "markdown", {}),
    "typical-summary.md": ("typical", "summary", {}),
    "typical.sarif": ("typical", "sarif", {}),
    "typical.commands": ("typical", "github", {}),
    "typical.html": ("typical", "html", {}),
    "clean.txt": ("clean", "text", {}),
    "clean.md": ("clean", "markdown", {}),
    "proven.txt": ("proven", "text", {}),
    "proven.md": ("proven", "markdown", {}),
    "guarded.txt": ("guarded", "text", {}),
}


def render(name: str) -> str:
    """The surface of that file, with a version that does not change."""
    report, surface, options = FILES[name]
    text = surfaces.render(getattr(reports, report)(), surface, surfaces.RenderOptions(**options))
    return text.replace(__version__, "VERSION")


if __name__ == "__main__":
    CASES.mkdir(exist_ok=True)
    for file in FILES:
        (CASES / file).write_text(render(file), encoding="utf-8", newline="\n")
