"""The report as GitHub Markdown that fits: the pull request comment and the job summary.

The least important blocks are left out first, and the text says so; the marker and the verdict
always stay. The limits are those of the view, so a user's template fits in the same way.
"""

from __future__ import annotations

from bisect import bisect_left

from rlm_ci.report import wording
from rlm_ci.report.details.fixes_and_proofs import language
from rlm_ci.report.links import in_manual
from rlm_ci.report.view import ICONS, SEVERITY_ICONS, View, ViewLimits
from rlm_ci.resources import loader
from rlm_ci.text import neutralise
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.report.findings import Location, Report
    from rlm_ci.report.render import RenderOptions

_TEMPLATE = "comment.md.j2"
#: Findings from which the size of all is estimated.
_SAMPLE = 100

_CUT = (
    "> [!WARNING]\n> The rest of this report did not fit here. "
    "All of it is in `report.json` of this run."
)

#: Each step leaves out more than the last one, and must have room for this number of findings.
_STEPS: tuple[tuple[int, ViewLimits], ...] = (
    (0, ViewLimits(quote_lines=12, places=5, omitted=50, opened=20, suppressed=100, parts=200,
                   overview=60, text=2000)),
    (0, ViewLimits(quote_lines=4, places=2, omitted=20, opened=20, suppressed=30, parts=200,
                   overview=30, text=1000)),
    (50, ViewLimits(quote_lines=0, places=1, omitted=10, opened=20, suppressed=10, hints=20,
                    parts=200, overview=15, text=400)),
    (10, ViewLimits(quote_lines=0, places=1, omitted=0, suppressed=0, hints=5, parts=50,
                    overview=5, text=200)),
    (0, ViewLimits(quote_lines=0, places=1, omitted=0, suppressed=0, hints=0, parts=50,
                   overview=0, overrides=False, text=200)),
    (0, ViewLimits(quote_lines=0, places=1, omitted=0, suppressed=0, hints=0, parts=20,
                   overview=0, overrides=False, text=50)),
)  # fmt: skip


#: Steps that come first, for a comment on claims that were run: one that nobody scrolls through.
_BRIEF = _STEPS[0][1].replace(alike=3, rows=10)
_BRIEFER = _BRIEF.replace(
    quote_lines=4, places=2, omitted=10, suppressed=10, overview=10, rows=3, overrides=False
)
_BRIEFEST = _BRIEFER.replace(omitted=5, suppressed=5, overview=0)
_NO_RUN = _BRIEFEST.replace(runs=0)
#: Lines of a comment on claims that were run: for each of them, and at least.
_LINES_EACH, _LINES = 25, 200


class MarkdownSurface:
    def text(self, text: str) -> str:
        return neutralise.prose(text)

    def hint(self, text: str) -> str:
        rule_link = in_manual(text)
        if rule_link is None:
            return self.text(text)
        rule, url, trailing = rule_link
        return f"[{self.text(rule)}]({url}){neutralise.prose(trailing) if trailing else ''}"

    def cell(self, text: str) -> str:
        return neutralise.prose(text, cell=True)

    def code(self, text: str) -> str:
        return neutralise.code(neutralise.clip(text, 300), cell=True)

    def link(self, text: str, url: str | None) -> str:
        return f"[{self.code(text)}]({url})" if url else self.code(text)

    def quote(self, location: Location, lines: int) -> str:
        return neutralise.fence(excerpt(location.quote or "", lines), language(location.path))

    def block(self, text: str, language: str = "") -> str:
        return neutralise.fence(text, language)


class TextLimit(Value):
    """How long a text may be, and how its length is counted.

    ``few_lines``: it is to be read at once, so what a page has, too, is left out.
    """

    limit: int
    size: Callable[[str], int]
    few_lines: bool = False

    def has(self, text: str) -> bool:
        return len(text) <= self.limit and self.size(text) <= self.limit


#: GitHub refuses a comment of more than 65,536 characters, counted here in UTF-16 units.
ROOM = TextLimit(65_535, lambda text: len(text.encode("utf-16-le")) // 2, few_lines=True)

#: The text of a check run is refused from 65,536 bytes on.
_ROOM_IN_BYTES = TextLimit(65_535, lambda text: len(text.encode()), few_lines=True)


def render(report: Report, options: RenderOptions) -> str:
    return fitted(report, options, _ROOM_IN_BYTES if options.in_bytes else ROOM)


def fitted(report: Report, options: RenderOptions, room: TextLimit) -> str:
    """The comment on ``report``, with less and less until there is ``room``."""
    view = View(report, MarkdownSurface(), options, wording.rows(report))
    template = loader.load_template(_TEMPLATE, overrides=options.templates)

    def attempt(limits: ViewLimits) -> str:
        variables = view.build(limits)
        more = {
            "icons": ICONS,
            "severity_icons": SEVERITY_ICONS,
            "notes": [MarkdownSurface().text(note) for note in options.notes],
            "alert": MarkdownSurface().text(options.alert),
        }
        return _complete(template({**variables, **more}), view.headline(), options.marker)

    total = len(view.live)
    claims = view.claims_with_runs
    steps = _STEPS
    if room.few_lines and claims:
        max_lines = max(_LINES, _LINES_EACH * claims)
        runs = (_BRIEFEST.replace(runs=number) for number in range(view.runs, -1, -1))
        repairs = (_NO_RUN.replace(repairs=number) for number in range(view.repairs, -1, -1))
        brief = (_BRIEF, _BRIEFER, *runs, *repairs)  # each has less than the one before

        def fits(limits: ViewLimits) -> bool:
            text = attempt(limits)
            return text.count("\n") <= max_lines and room.has(text)

        at = bisect_left(brief, 1, key=fits)
        if at < len(brief):
            return attempt(brief[at])
        steps = ((0, _NO_RUN.replace(repairs=0)), *_STEPS)
    for fewest, limits in steps:
        sample = room.size(attempt(limits.replace(findings=_SAMPLE))) if total > _SAMPLE else 0
        if sample * total < 2 * room.limit * _SAMPLE and room.has(text := attempt(limits)):
            return text
        if fewest or limits is steps[-1][1]:
            text = _most_findings(attempt, limits, (min(fewest, total), total), room)
            if text:
                return text
    return _cut(attempt(_STEPS[-1][1].replace(findings=0)), room, options.marker)


def _complete(body: str, headline: str, marker: str) -> str:
    """``body`` after the marker, with the verdict if a user's template left it out."""
    body = body.replace(neutralise.MARKER, "").strip("\n")
    if headline not in body:
        body = f"## {headline}\n\n{body}"
    return f"{marker}\n{neutralise.document(body)}\n"


def _most_findings(
    attempt: Callable[[ViewLimits], str],
    limits: ViewLimits,
    bounds: tuple[int, int],
    room: TextLimit,
) -> str:
    """The text with as many findings as there is room for; empty if the lower bound is too many.

    Each guess assumes that the next findings take as much room as the previous ones.
    """
    low, high = bounds
    best = attempt(limits.replace(findings=low))
    if not room.has(best):
        return ""
    while low + 1 < high:
        used = room.size(best)
        guess = low + (room.limit - used) * max(low, 1) // used
        if guess <= low:
            break
        middle = min(guess, high - 1)
        text = attempt(limits.replace(findings=middle))
        if room.has(text):
            low, best = middle, text
        else:
            high = middle
    return best


def _cut(text: str, room: TextLimit, marker: str) -> str:
    """``text`` up to the last line after which no fence and no fold is open, and a note."""
    lines: list[str] = []
    safe = 0
    fence = ""
    depth = 0
    for line in text.split("\n"):
        lines.append(line)
        bare = line.strip()
        marks = bare[: len(bare) - len(bare.lstrip("`"))]
        if not fence and len(marks) >= 3:
            fence = marks
        elif fence and bare == marks and len(marks) >= len(fence):
            fence = ""
        if not fence:  # texts from outside never begin a line with a tag, nor are one
            depth += bare.startswith(("<details", "<pre"))
            depth -= bare in ("</details>", "</code></pre>")
        if len(lines) % 16 == 1 and not room.has("\n".join([*lines, "", _CUT, ""])):
            break
        if not fence and depth <= 0:
            safe = len(lines)
    while safe > 0:
        shorter = "\n".join([*lines[:safe], "", _CUT, ""])
        if room.has(shorter):
            return shorter
        safe -= 1
    return f"{marker}\n{_CUT}\n"


def excerpt(quote: str, lines: int, width: int = 200) -> str:
    """The first ``lines`` lines, each of at most ``width`` characters."""
    split = quote.rstrip("\n").split("\n")
    shown = [neutralise.clip(line, width) for line in split[:lines]]
    left = len(split) - len(shown)
    return "\n".join([*shown, f"… {count(left, 'more line')}"] if left else shown)
