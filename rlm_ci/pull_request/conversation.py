"""The commands that are answered by a reply alone: no verdict, no summary, no check run."""

from __future__ import annotations

import re

from rlm_ci import errors
from rlm_ci.config.settings import nearest
from rlm_ci.errors import ConfigError
from rlm_ci.github.posting.comment_text import read_marker
from rlm_ci.pull_request import fix_request, replies, reply_texts
from rlm_ci.pull_request.reply_texts import ExplainedFinding
from rlm_ci.pull_request.slash_grammar import EXPLAIN, FIX, HELP
from rlm_ci.report import rule_texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from rlm_ci.console.output import Output
    from rlm_ci.github.posting.outcome import PostingOptions
    from rlm_ci.pull_request.comment_commands import CommentCommand

#: The fingerprint of a finding, or its beginning; a place of one.
_FINDING = re.compile(r"[0-9a-f]{8,32}")
_PLACE = re.compile(r"(?P<path>.+):(?P<line>[0-9]{1,7})")
_RULE = re.compile(r"`([a-z][a-z0-9-]*/[a-z0-9-]+)`")
#: Findings of one place that are explained.
_MOST = 3


def answer(
    posting: PostingOptions, output: Output, environ: Mapping[str, str], asked: CommentCommand
) -> int:
    """Carry a command out, and reply; the exit code.

    ``environ`` are the variables of a question's settings. Raises RlmCiError, once the reply says
    why.
    """
    with replies.refusals(posting, asked.way, asked.to):
        command, code = asked.command, errors.OK
        if command.name == FIX:
            fix_request.request(posting, output, asked)
            return errors.OK
        if command.name == HELP:
            text = reply_texts.commands()
        elif command.name == EXPLAIN:
            text = reply_texts.explained(_explained(asked))
        else:
            text, code = _answered(environ, output.server_url, asked)
    replies.deliver(posting, output, asked.way, asked.to, text)
    return code


def _answered(environ: Mapping[str, str], server: str, asked: CommentCommand) -> tuple[str, int]:
    from rlm_ci.pull_request import question

    if asked.change is None:
        raise AssertionError("a question is about a change")
    report = question.answer(environ, asked.change, _question(asked), asked.to.repository)
    return reply_texts.answered(asked.command.text, report, server), report.exit_code()


def _question(asked: CommentCommand) -> str:
    """The question, in a thread with the lines that the thread is about."""
    text = asked.command.text
    if not asked.to.thread:
        return text
    first = asked.way.get(asked.to.edited(asked.to.thread))
    path, line = first.get("path"), first.get("line") or first.get("original_line")
    if not isinstance(path, str):
        return text
    at = f"{path!r}, line {line}" if type(line) is int else repr(path)
    return f"{text}\n\n(The question stands in a thread about {at}.)"


# ── explain ──


def _explained(asked: CommentCommand) -> list[ExplainedFinding]:
    """What is to be explained. Raises ConfigError for nothing that is known."""
    wanted = asked.command.text
    rule = wanted.strip("`").casefold()
    if "/" in rule and rule_texts.markdown(rule) is not None:
        return [ExplainedFinding(rule)]
    if not wanted and not asked.to.thread:
        raise _unknown("a rule or a finding is missing", "")
    found = list({one.rule: one for one in _findings(asked)}.values())[:_MOST]
    if not found:
        what = f"no rule and no finding of a review comment is called {wanted[:80]!r}"
        raise _unknown(what if wanted else "this thread is not about a finding of ours", rule)
    return found


def _findings(asked: CommentCommand) -> Iterator[ExplainedFinding]:
    """The findings of our review comments that the command means."""
    from rlm_ci.github.posting import review_threads

    to, wanted = asked.to, asked.command.text.strip("`")
    author = review_threads.viewer(asked.way)
    for record in asked.way.pages(to.replace(thread=1).comments):
        user = record.get("user") if isinstance(record, dict) else None
        if not isinstance(user, dict) or user.get("login") != author:
            continue
        body = str(record.get("body") or "")
        mark = read_marker(body)
        if mark and _is_meant(wanted, mark, record, to.thread):
            rule = next((one for one in _RULE.findall(body) if rule_texts.markdown(one)), None)
            if rule:
                yield ExplainedFinding(rule, _url(record))


def _is_meant(wanted: str, mark: str, record: dict[str, Any], thread: int) -> bool:
    if not wanted:
        return record.get("id") == thread
    if _FINDING.fullmatch(wanted):
        return mark.startswith(wanted)
    place = _PLACE.fullmatch(wanted)
    lines = (record.get("line"), record.get("original_line"))
    return bool(place and place["path"] == record.get("path") and int(place["line"]) in lines)


def _url(record: dict[str, Any]) -> str:
    url = str(record.get("html_url") or "")
    is_plain = re.fullmatch(r"https://[\w.:/#-]{1,300}", url, re.ASCII)
    return url if is_plain else ""


def _unknown(what: str, rule: str) -> ConfigError:
    hint = nearest(rule, rule_texts.known()) if "/" in rule else ""
    return ConfigError(
        what,
        where="the comment",
        hint=hint or "name a rule, such as diff-budget/files, or a finding, as src/shop.py:41",
    )
