"""The report as GitHub Markdown that fits: the pull request comment and the job summary.

The least important blocks are shed first, and what was shed is said; the marker and the
verdict always stay. The view has limits and the template loops over the view, so a
user's template is fitted in the same way.
"""

from __future__ import annotations

from rlm_ci import resources
from rlm_ci.publishing import neutral
from rlm_ci.publishing.view import ICONS, SEVERITY_ICONS, Limits, View

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.findings import Location, Report
    from rlm_ci.publishing.options import Options

#: No shown finding takes fewer characters: more than ``limit / this`` never fit.
_SHORTEST_FINDING = 40

_CUT = (
    "> [!WARNING]\n> The rest of this report did not fit here. "
    "All of it is in `report.json` and `report.html` of this run."
)

#: Each step sheds more than the one before; the number is that of findings which the step
#: must be able to show at least. The last one always fits.
_STEPS: tuple[tuple[int, Limits], ...] = (
    (0, Limits(quote_lines=12, places=5, omitted=50, opened=20, text=2000)),
    (0, Limits(quote_lines=4, places=2, omitted=20, opened=20, text=1000)),
    (50, Limits(quote_lines=0, places=1, omitted=10, opened=20, suppressed=10, hints=20, text=400)),
    (10, Limits(quote_lines=0, places=1, omitted=0, suppressed=0, hints=5, parts=50, text=200)),
    (0, Limits(quote_lines=0, places=1, omitted=0, suppressed=0, hints=0, parts=50,
               overrides=False, text=200)),
    (0, Limits(quote_lines=0, places=1, omitted=0, suppressed=0, hints=0, parts=20,
               overrides=False, text=50)),
)  # fmt: skip


class Markdown:
    """The surface of GitHub Markdown; see :class:`rlm_ci.publishing.view.Surface`."""

    def text(self, text: str) -> str:
        return neutral.prose(text)

    def cell(self, text: str) -> str:
        return neutral.prose(text, cell=True)

    def code(self, text: str) -> str:
        return neutral.code(neutral.clip(text, 300), cell=True)

    def quote(self, place: Location, lines: int) -> str:
        return neutral.fence(_excerpt(place.quote or "", lines), _language(place.path))

    def toml(self, text: str) -> str:
        return neutral.fence(text, "toml")


def render(report: Report, options: Options, name: str, fits: Callable[[str], bool]) -> str:
    """``report`` by the template ``name``, shed until it ``fits``."""
    view = View(report, Markdown(), options.server_url)
    template = resources.load_template(name, overrides=options.templates)

    def attempt(limits: Limits) -> str:
        variables = view.build(limits)
        body = template({**variables, "icons": ICONS, "severity_icons": SEVERITY_ICONS})
        return _complete(body, view.headline())

    most = 1
    while fits("x" * (most * _SHORTEST_FINDING)):
        most *= 2
    for least, limits in _STEPS:
        if len(view.live) <= most and fits(text := attempt(limits)):
            return text
        if not least and limits is not _STEPS[-1][1]:
            continue
        text = _most_findings(attempt, limits, min(least, len(view.live)), most, fits)
        if text:
            return text
    return _cut(attempt(_STEPS[-1][1].replace(findings=0)), fits)


def _complete(body: str, headline: str) -> str:
    """``body`` behind the marker, with the verdict, whatever a user's template left out."""
    body = body.replace(neutral.MARKER, "").strip("\n")
    if headline not in body:
        body = f"## {headline}\n\n{body}"
    return f"{neutral.MARKER}\n{body}\n"


def _most_findings(
    attempt: Callable[[Limits], str], limits: Limits, least: int, most: int,
    fits: Callable[[str], bool],
) -> str:  # fmt: skip
    """The text with as many findings as fit, by bisection; empty if ``least`` do not."""
    best = attempt(limits.replace(findings=least))
    if not fits(best):
        return ""
    low, high = least, most
    while low < high:
        middle = (low + high + 1) // 2
        text = attempt(limits.replace(findings=middle))
        if fits(text):
            low, best = middle, text
        else:
            high = middle - 1
    return best


def _cut(text: str, fits: Callable[[str], bool]) -> str:
    """``text`` up to the last line after which no fence and no fold is open, and a note."""
    kept: list[str] = []
    safe = 0
    fence = ""
    depth = 0
    for line in text.split("\n"):
        kept.append(line)
        bare = line.strip()
        marks = bare[: len(bare) - len(bare.lstrip("`"))]
        if not fence and len(marks) >= 3:
            fence = marks
        elif fence and bare == marks and len(marks) >= len(fence):
            fence = ""
        depth += 0 if fence else bare.count("<details") - bare.count("</details")
        if len(kept) % 16 == 1 and not fits("\n".join([*kept, "", _CUT, ""])):
            break
        if not fence and depth <= 0:
            safe = len(kept)
    while safe > 0:
        shorter = "\n".join([*kept[:safe], "", _CUT, ""])
        if fits(shorter):
            return shorter
        safe -= 1
    return f"{neutral.MARKER}\n{_CUT}\n"


def _excerpt(quote: str, lines: int) -> str:
    """The first ``lines`` lines, each short enough to be read."""
    split = quote.rstrip("\n").split("\n")
    shown = [neutral.clip(line, 200) for line in split[:lines]]
    left = len(split) - len(shown)
    return "\n".join([*shown, f"… {left:,} more lines"] if left else shown)


#: Colours for a quote, by the end of its file's name. Nothing that GitHub draws or embeds.
_LANGUAGES: dict[str, str] = {
    "c": "c", "cc": "cpp", "cpp": "cpp", "cs": "csharp", "css": "css", "go": "go", "h": "c",
    "html": "html", "java": "java", "js": "javascript", "json": "json", "kt": "kotlin",
    "md": "markdown", "php": "php", "py": "python", "rb": "ruby", "rs": "rust", "sh": "shell",
    "sql": "sql", "swift": "swift", "toml": "toml", "ts": "typescript", "tsx": "tsx",
    "yaml": "yaml", "yml": "yaml",
}  # fmt: skip


def _language(path: str) -> str:
    return _LANGUAGES.get(path.rpartition(".")[2].lower(), "")
