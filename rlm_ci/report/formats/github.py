"""Workflow commands: annotations on the files of a pull request."""

from __future__ import annotations

from rlm_ci.report import wording
from rlm_ci.report.findings import INCOMPLETE, NOT_RUN, Severity
from rlm_ci.text import neutralise
from rlm_ci.text.printable import encodable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.report.findings import Finding, Report
    from rlm_ci.report.render import RenderOptions

#: The runner shows no more of a level from one step.
MOST = 10

_LABELS = {NOT_RUN: "did not run", INCOMPLETE: "did not finish"}


def render(report: Report, _options: RenderOptions) -> str:
    levels: dict[str, list[str]] = {"error": [], "warning": [], "notice": []}
    stopped: dict[tuple[str, str], list[str]] = {}
    for part in report.parts:
        if part.state is not None:  # one cause, one annotation, however many parts it stopped
            stopped.setdefault((part.state, part.summary), []).append(part.id)
    for (state, cause), parts in stopped.items():
        title = f"{wording.join(parts)} {_LABELS.get(state, state)}"
        levels["error"].append(neutralise.command("error", {"title": title}, _cut(cause)))
    for finding in wording.worst_first(report.findings):
        if finding.suppression is not None or finding.is_argued:  # nothing is folded here
            continue
        level = _level(finding)
        levels[level].append(_annotation(level, finding))
    # the notice that counts the rest takes the last place of its level
    crowded = any(len(commands) > MOST for commands in levels.values())
    room = {"error": MOST, "warning": MOST, "notice": MOST - 1 if crowded else MOST}
    left = {name: len(commands) - room[name] for name, commands in levels.items()}
    lines = [line for name, commands in levels.items() for line in commands[: room[name]]]
    counts = [wording.count(number, name) for name, number in left.items() if number > 0]
    if counts:
        text = f"{', '.join(counts)} more: see the job summary or report.json"
        lines.append(neutralise.command("notice", {"title": "rlm-ci"}, text))
    return "".join(f"{line}\n" for line in lines)


def _level(finding: Finding) -> str:
    if finding.severity < Severity.MEDIUM:
        return "notice"
    return "warning" if finding.severity == Severity.MEDIUM else "error"


def _annotation(level: str, finding: Finding) -> str:
    properties: dict[str, object] = {}
    if finding.evidence:
        location = finding.evidence[0]
        properties["file"] = encodable(location.path)
        if location.side == "new" and location.line_start is not None:
            properties["line"] = location.line_start
            properties["endLine"] = location.line_end or location.line_start
    message = [_cut(finding.message)]
    if finding.hint:
        message.append(_cut(finding.hint))
    title = neutralise.clip(finding.rule, 120)
    return neutralise.command(level, {**properties, "title": title}, *message)


def _cut(text: str) -> str:
    return neutralise.clip(text, 1000)
