"""The commands that are answered by a reply alone: no verdict, no summary, no check run."""

from __future__ import annotations

import re

from rlm_ci import errors
from rlm_ci.config.settings import nearest
from rlm_ci.errors import ConfigError
from rlm_ci.github.posting.review_threads import read_marker
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
    posting: PostingOptions,
    output: Output,
    environ: Mapping[str, str],
    comment_command: CommentCommand,
) -> int:
    """Carry a command out, and reply; the exit code.

    ``environ`` are the variables of a question's settings. Raises RlmCiError, once the reply says
    why.
    """
    with replies.refusals(posting, comment_command.way, comment_command.to):
        command, code = comment_command.command, errors.OK
        if command.name == FIX:
            fix_request.request(posting, output, comment_command)
            return errors.OK
        if command.name == HELP:
            text = reply_texts.commands()
        elif command.name == EXPLAIN:
            text = reply_texts.explained(_explained(comment_command))
        else:
            text, code = _answered(environ, output.server_url, comment_command)
    replies.deliver(posting, output, comment_command.way, comment_command.to, text)
    return code


def _answered(environ: Mapping[str, str], server: str, command: CommentCommand) -> tuple[str, int]:
    from rlm_ci.pull_request import question

    if command.change is None:
        raise AssertionError("a question is about a change")
    report = question.answer(environ, command.change, _question(command), command.to.repository)
    return reply_texts.answered(command.command.text, report, server), report.exit_code()


def _question(command: CommentCommand) -> str:
    """The question, in a thread with the lines that the thread is about."""
    text = command.command.text
    if not command.to.thread:
        return text
    first = command.way.get(command.to.edited(command.to.thread))
    path, line = first.get("path"), first.get("line") or first.get("original_line")
    if not isinstance(path, str):
        return text
    at = f"{path!r}, line {line}" if type(line) is int else repr(path)
    return f"{text}\n\n(The question stands in a thread about {at}.)"


# ── explain ──


def _explained(command: CommentCommand) -> list[ExplainedFinding]:
    """What is to be explained. Raises ConfigError for nothing that is known."""
    text = command.command.text
    rule = text.strip("`").casefold()
    if "/" in rule and rule_texts.markdown(rule) is not None:
        return [ExplainedFinding(rule)]
    if not text and not command.to.thread:
        raise _unknown("a rule or a finding is missing", "")
    findings = list({finding.rule: finding for finding in _findings(command)}.values())[:_MOST]
    if not findings:
        what = f"no rule and no finding of a review comment is called {text[:80]!r}"
        raise _unknown(what if text else "this thread is not about a finding of ours", rule)
    return findings


def _findings(command: CommentCommand) -> Iterator[ExplainedFinding]:
    """The findings of our review comments that the command means."""
    from rlm_ci.github.posting import review_threads

    to, text = command.to, command.command.text.strip("`")
    author = review_threads.viewer(command.way)
    for record in command.way.pages(to.replace(thread=1).comments):
        user = record.get("user") if isinstance(record, dict) else None
        if not isinstance(user, dict) or user.get("login") != author:
            continue
        body = str(record.get("body") or "")
        mark = read_marker(body)
        if mark and _is_meant(text, mark, record, to.thread):
            rule = next((name for name in _RULE.findall(body) if rule_texts.markdown(name)), None)
            if rule:
                yield ExplainedFinding(rule, _url(record))


def _is_meant(name: str, mark: str, record: dict[str, Any], thread: int) -> bool:
    if not name:
        return record.get("id") == thread
    if _FINDING.fullmatch(name):
        return mark.startswith(name)
    match = _PLACE.fullmatch(name)
    lines = (record.get("line"), record.get("original_line"))
    return bool(match and match["path"] == record.get("path") and int(match["line"]) in lines)


def _url(record: dict[str, Any]) -> str:
    url = str(record.get("html_url") or "")
    is_plain = re.fullmatch(r"https://[\w.:/#-]{1,300}", url, re.ASCII)
    return url if is_plain else ""


def _unknown(what: str, rule: str) -> ConfigError:
    hint = nearest(rule, rule_texts.rule_names()) if "/" in rule else ""
    return ConfigError(
        what,
        where="the comment",
        hint=hint or "name a rule, such as diff-budget/files, or a finding, as src/shop.py:41",
    )
