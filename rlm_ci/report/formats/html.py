"""One page without external resources: the whole report, or as much as a browser can open."""

from __future__ import annotations

from textwrap import dedent

from rlm_ci.report import wording
from rlm_ci.report.links import in_manual
from rlm_ci.report.view import PAGE, View
from rlm_ci.resources import loader
from rlm_ci.text import neutralise
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rlm_ci.report.findings import Location, Report
    from rlm_ci.report.render import RenderOptions

_MARKS = {"clean": "✓", "findings": "✗", "not_run": "!", "incomplete": "!", wording.OFF: "–",
          wording.UNSEEN: "–", wording.NOTHING: "–", wording.REPORTED: "!"}  # fmt: skip


class HtmlSurface:
    """Texts for a template that escapes by itself; see ``view.Surface``.

    Running text is a list of ``{"code": bool, "text": str, "url": str | None}``, a quote one
    of ``{"number": int | None, "text": str}``, without what all lines are indented by.
    """

    def text(self, text: str) -> list[dict[str, Any]]:
        pieces = neutralise.segments(neutralise.one_line(text))
        return [{"code": code, "text": piece, "url": None} for code, piece in pieces]

    cell = text

    def hint(self, text: str) -> list[dict[str, Any]]:
        rule_link = in_manual(text)
        if rule_link is None:
            return self.text(text)
        rule, url, trailing = rule_link
        return [*({**piece, "url": url} for piece in self.text(rule)), *self.text(trailing)]

    def code(self, text: str) -> str:
        return printable(text)

    def link(self, text: str, _url: str | None) -> str:
        return self.code(text)  # a template that escapes makes its links itself

    def quote(self, location: Location, lines: int) -> list[dict[str, Any]]:
        split = dedent((location.quote or "").rstrip("\n")).split("\n")
        return [
            {
                "number": None if location.line_start is None else location.line_start + index,
                "text": neutralise.code_lines(line),
            }
            for index, line in enumerate(split[:lines])
        ]

    def block(self, text: str, _language: str = "") -> str:
        return neutralise.code_lines(text)


def render(report: Report, options: RenderOptions) -> str:
    view = View(report, HtmlSurface(), options, report.parts)
    page = loader.load_template("report.html.j2", overrides=options.templates, autoescape=True)
    variables = {**view.build(PAGE), "marks": _MARKS, "parts_off": wording.OFF}
    return neutralise.without_commands(page(variables))
