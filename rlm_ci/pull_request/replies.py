"""Replies to commands: one a command, found by its marker, and edited if its run is repeated.

Their texts are GitHub Markdown: what is not our own word is made harmless.
"""

from __future__ import annotations

import re
from contextlib import contextmanager

from rlm_ci.console.messages import say, warn
from rlm_ci.errors import RemoteError, RlmCiError
from rlm_ci.pull_request.slash_grammar import FORMS
from rlm_ci.report import rules, wording
from rlm_ci.report.details.document_blocks import blocks
from rlm_ci.report.findings import Document
from rlm_ci.report.formats.markdown import ROOM, MarkdownSurface
from rlm_ci.report.links import Links
from rlm_ci.report.render import RenderOptions
from rlm_ci.report.rules import PAGE, address
from rlm_ci.system import files
from rlm_ci.text import neutralise
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from rlm_ci.console.output import Output
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.outcome import PostingOptions
    from rlm_ci.report.findings import Location, Report


_MARKER = re.compile(
    r"<!-- rlm-ci:reply (?P<comment>[0-9]{1,20})"
    r"(?: (?P<kind>[a-z]+) (?P<head>[0-9a-f]{40,64}))? -->"
)
_CUT = "The answer is too long for a comment: the job summary of the run has it."


class ReplyPlace(Value):
    """Where the reply to a ``comment`` goes: below it in its ``thread``, named by its first
    comment, or, for 0, into the conversation of the pull request ``number``.

    ``since`` is when the comment was posted, "" if unknown.
    """

    repository: str
    number: int
    comment: int
    thread: int = 0
    since: str = ""

    @property
    def comments(self) -> str:
        """The list of the comments beside it."""
        kind = "pulls" if self.thread else "issues"
        return f"/repos/{self.repository}/{kind}/{self.number}/comments"

    def edited(self, comment: int) -> str:
        """The comment with this id, beside it."""
        kind = "pulls" if self.thread else "issues"
        return f"/repos/{self.repository}/{kind}/comments/{comment}"


def marker(to: ReplyPlace, *, fix_at: str = "") -> str:
    """The first line of the reply; ``fix_at`` is the head that a fix was requested for."""
    kind = "thread" if to.thread else "fix"
    return f"<!-- rlm-ci:reply {to.comment}{f' {kind} {fix_at}' if fix_at else ''} -->"


def last_fix(way: GitHubClient, to: ReplyPlace, head: str) -> tuple[int, bool] | None:
    """The comment that last requested a fix of ``head``, by our replies, and whether it is in a
    thread. Raises RemoteError.
    """
    requests: list[tuple[str, int, bool]] = []
    for reply_place in (to, to.replace(thread=1)):
        for record, mark in _own_replies(way, reply_place):
            if mark["head"] == head:
                created = str(record.get("created_at"))
                requests.append((created, int(mark["comment"]), mark["kind"] == "thread"))
    return max(requests)[1:] if requests else None


def deliver(
    posting: PostingOptions,
    output: Output,
    way: GitHubClient,
    to: ReplyPlace,
    text: str,
    *,
    fix_at: str = "",
) -> None:
    """Print ``text``, Markdown that is harmless, add it to the job summary, and post it.

    Only a warning says that it cannot be posted.
    """
    clean = neutralise.document(posting.redact(text))
    if posting.step_summary:
        files.append(posting.step_summary, f"{clean}\n".encode("utf-8", "backslashreplace"))
    output.emit(f"{clean}\n")
    post(posting, way, to, text, fix_at=fix_at)


def post(
    posting: PostingOptions, way: GitHubClient, to: ReplyPlace, text: str, *, fix_at: str = ""
) -> None:
    """Post ``text``, or put it into the reply that is there. Only warns if it cannot."""
    from rlm_ci.report.formats.markdown import ROOM

    clean = neutralise.document(posting.redact(text))
    body = f"{marker(to, fix_at=fix_at)}\n{clean}\n"
    if not ROOM.has(body):
        body = f"{marker(to)}\n{_CUT}\n"
    way.go_on()
    try:
        url = _post(way, to, body)
    except RlmCiError as error:
        warn(RemoteError(f"the reply is not posted: {error}", hint=error.hint))
    else:
        say(f"reply: {url}")


@contextmanager
def refusals(posting: PostingOptions, way: GitHubClient, to: ReplyPlace) -> Iterator[None]:
    """Reply with the reason to whom a command is refused, and raise it."""
    try:
        yield
    except RlmCiError as refused:
        from rlm_ci.github.api.errors import GitHubRefusedError, UnreachableError

        if not isinstance(refused, (GitHubRefusedError, UnreachableError)):
            post(posting, way, to, refusal(refused))
        raise


def _post(way: GitHubClient, to: ReplyPlace, body: str) -> str:
    """Post or edit the reply; its address. Raises RemoteError."""
    reply = _own_reply(way, to)
    if reply is None:
        path = f"{to.comments}/{to.thread}/replies" if to.thread else to.comments
        answer = way.write("POST", path, {"body": body}, done=lambda: _own_reply(way, to))
    elif reply.get("body") == body:
        answer = reply
    else:
        answer = way.write("PATCH", to.edited(reply["id"]), {"body": body})
    url = str(answer.get("html_url") if isinstance(answer, dict) else "")
    return url if url.startswith("https://") and url.isascii() and url.isprintable() else "posted"


def _own_reply(way: GitHubClient, to: ReplyPlace) -> dict[str, Any] | None:
    """Our reply to the comment, if there is one already."""
    return next(
        (row for row, mark in _own_replies(way, to) if int(mark["comment"]) == to.comment), None
    )


def _own_replies(
    way: GitHubClient, to: ReplyPlace
) -> Iterator[tuple[dict[str, Any], re.Match[str]]]:
    """Our replies beside ``to``, each with its marker: others can write one, too."""
    from rlm_ci.github.posting import review_threads

    author = review_threads.viewer(way)
    for record in way.pages(to.comments, **({"since": to.since} if to.since else {})):
        user = record.get("user") if isinstance(record, dict) else None
        if isinstance(user, dict) and user.get("login") == author:
            mark = _MARKER.match(str(record.get("body") or ""))
            if mark and type(record.get("id")) is int:
                yield record, mark


_SITE = PAGE.rpartition("/")[0]
#: Characters of an answer, less and less until the comment has room for it.
_LENGTHS = (16_000, 4_000, 500)
#: Places that are listed.
_PLACES = 30
_ITEM = re.compile(r"( {0,6})([-*+]|[0-9]{1,3}[.)]) +(?=\S)")
_HEADING = re.compile(r"#{1,6} +")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")


class ExplainedFinding(Value):
    """A review comment of ours: its ``rule``, and its address."""

    rule: str
    url: str = ""


def refusal(error: RlmCiError) -> str:
    """Why a command is not carried out, and what to do."""
    lines = [f"**Not done.** {_sentence(error.what)}"]
    if error.hint:
        lines += ["", _sentence(error.hint)]
    return "\n".join(lines)


def commands() -> str:
    """The list of commands."""
    rows = [f"| {neutralise.code(form, cell=True)} | {does} |" for form, does in FORMS.items()]
    return "\n".join((
        "Write a command as the first line of a new comment. You need write access.", "",
        "| command | does |", "|---|---|", *rows, "",
        f"[More about them]({_SITE}/github.html#use-slash-commands)",
    ))  # fmt: skip


def explained(findings: Sequence[ExplainedFinding]) -> str:
    """What the page of rules says of each rule; all of them are known."""
    lines = []
    for finding in findings:
        where = f" ([the comment]({finding.url}))" if finding.url else ""
        text = rules.markdown(finding.rule) or ""
        lines += [f"### {neutralise.code(finding.rule)}{where}", "", _linked(text), ""]
        if page := address(finding.rule):
            lines += [f"[Page of rules]({page})", ""]
    return "\n".join(lines).strip("\n")


def fix_requested(label: str, goal: str) -> str:
    """The label is about to be set; "" as a goal is that of the workflow."""
    quoted = f"\n\n> {neutralise.prose(goal)}" if goal else ""
    aim = "with this goal" if goal else "with the goal of its workflow"
    return (
        f"The label {neutralise.code(label)} starts the fix loop {aim}. What it changes is "
        f"proposed as a pull request onto this branch.{quoted}"
    )


def answered(question: str, report: Report, server_url: str) -> str:
    """The answer of ``report``, its verified places with links, and what it cost."""
    document = report.documents[0] if report.documents else Document("", "")
    links = Links(report.subject, RenderOptions(server_url=server_url))
    places = list(dict.fromkeys(_location(location, links) for location in document.evidence))
    (part,) = report.parts
    head = (report.subject.head or "")[:12]
    facts = [part.summary, f"read at `{head}`", f"model {part.metrics.get('model')}"]
    usage = report.usage
    if usage.calls:
        facts.append(count(usage.calls, "call"))
    if usage.cost_usd is not None:
        facts.append(f"${usage.cost_usd:.4f}")
    foot = f"<sub>{neutralise.prose('; '.join(facts))}</sub>"
    text = ""
    for length in _LENGTHS:
        lines = [f"> {neutralise.prose(neutralise.clip(question, length))}", ""]
        lines += _prose(neutralise.clip(document.text, length) or "There is no answer.")
        if places:
            lines += ["", "Verified at the head of this pull request:", "", *places[:_PLACES]]
        if len(places) > _PLACES:
            lines.append(f"- {count(len(places) - _PLACES, 'more place')}")
        text = "\n".join((*lines, "", foot))
        if ROOM.has(text):
            break
    return text


def _location(location: Location, links: Links) -> str:
    lines = wording.spoken_lines(location)
    label = f"{location.path}, {lines}" if lines else location.path
    return f"- {MarkdownSurface().link(label, links.address_of(location))}"


def _sentence(text: str) -> str:
    sentence = neutralise.prose(text[:1].upper() + text[1:])
    return sentence if sentence.endswith((".", "?", "!")) else f"{sentence}."


def _linked(text: str) -> str:
    """Our own text with links that work outside of its page."""
    text = re.sub(r"\]\(([\w-]+)\.md(#[\w-]+)?\)", rf"]({_SITE}/\1.html\2)", text)
    return text.replace("](#", f"]({PAGE}#")


# ── a model's Markdown: paragraphs, lists, tables and code; all else is shown as it is written ──


def _prose(text: str) -> Iterator[str]:
    """Lines of Markdown that show ``text``, and do nothing else."""
    surface = MarkdownSurface()
    for is_code, lines in _fenced(text):
        if is_code:
            yield from ("", surface.block("\n".join(lines)), "")
            continue
        for texts, rows in blocks("\n".join(lines)):
            yield from map(_line, texts)
            for number, row in enumerate(rows):
                if number == 0:
                    yield ""
                yield f"| {' | '.join(map(surface.cell, row))} |"
                if number == 0:
                    yield "|" + "---|" * len(row)


def _line(line: str) -> str:
    """A line of running text, without emphasis."""
    item = _ITEM.match(line)
    if item:
        sign = item[2] if item[2][0].isdigit() else "-"
        return f"{item[1]}{sign} {neutralise.prose(_bare(line[item.end() :]))}"
    heading = _HEADING.match(line)
    if heading and line[heading.end() :].strip():
        return f"**{neutralise.prose(_bare(line[heading.end() :])).replace('`', '')}**"
    return neutralise.prose(_bare(line))


def _bare(line: str) -> str:
    return re.sub(r"\*\*([^*]+)\*\*", r"\1", line)


def _fenced(text: str) -> Iterator[tuple[bool, list[str]]]:
    """The lines of ``text`` in pieces, each with whether it stands between fences."""
    piece: list[str] = []
    fence = ""
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        is_end = fence and mark and mark[1].startswith(fence) and line.strip() == mark[1]
        if is_end or (mark and not fence):
            if piece:
                yield bool(fence), piece
            piece, fence = [], "" if fence else (mark[1] if mark else "")
        else:
            piece.append(line)
    if piece:
        yield bool(fence), piece
