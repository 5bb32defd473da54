"""What a change's author says of it: shown to the model, and held against the change by it.

A doubt rests on words of the description and on lines of the change; both are looked up.
"""

from __future__ import annotations

import re

from rlm_ci.environments.quoting import said_of
from rlm_ci.errors import LimitError, RemoteError
from rlm_ci.models.json_question import list_form, read_answer, repeats
from rlm_ci.recursion.prompt_windows import fence
from rlm_ci.report.findings import Evidence, Finding, Location, Severity
from rlm_ci.resources import loader
from rlm_ci.review.model.describe import QuoteOpener
from rlm_ci.review.model.finder import source_of
from rlm_ci.text.neutralise import clip
from rlm_ci.text.printable import count, encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.change.change_set import PullRequest
    from rlm_ci.models.json_question import Ask
    from rlm_ci.review.change_prompts.digest import ChangeDigest

RULE = "review/description-differs"
#: Of the question, among the options of a review.
AUTO, OFF = "auto", "off"
_TEMPLATE = "prompts/review-description.md.j2"
_SCHEMA, _DOUBT = "review-doubts.schema.json", "review-doubt.schema.json"
#: The text in the example of the prompt, which small models copy.
_EXAMPLES = (
    "words of the description, copied exactly",
    "what the change does instead, in one sentence",
)
#: Characters of a description, of words from it, of a message and of a note; doubts of an answer.
_LONGEST, _WORDS, _MESSAGE, _NOTE, _MOST = 8_000, 200, 600, 200, 8
#: Letters and digits that words must have to be found.
_TELLING = 8
_CONFIDENCE = 0.5
#: What GitHub does not show.
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)


class Doubts(Value):
    """The findings that hold, how many quotes did, and a note on what is missing."""

    findings: tuple[Finding, ...] = ()
    counts: Evidence = Evidence()
    note: str = ""


def terms_of(pull_request: PullRequest | None, question: str) -> dict[str, str]:
    """What a review depends on of a description: its text, and whether it is a ``question``.

    {} without a description. The text of a bot is not its author's: it quotes other repositories.
    """
    if pull_request is None:
        return {}
    body = "" if pull_request.by_bot else _COMMENT.sub("", pull_request.body[:_LONGEST])
    text = "\n\n".join(filter(None, (pull_request.title.strip(), body.strip())))
    text = encodable(text.replace("\r\n", "\n"))
    return {"text": clip(text, _LONGEST), "question": question} if text else {}


def shown(terms: Mapping[str, str] | None, room: int) -> str:
    """The beginning of a description, in at most ``room`` bytes of a prompt."""
    text = (terms or {}).get("text", "")
    data = text.encode("utf-8", "replace")
    return text if len(data) <= room else data[: max(0, room - 4)].decode("utf-8", "ignore") + " …"


def doubts(ask: Ask, digest: ChangeDigest, terms: Mapping[str, str]) -> Doubts:
    """Ask once what the change contradicts of its description. Never raises."""
    description = terms["text"]
    data = {"description": description, "listing": digest.text}
    data["fence"] = fence(description, digest.text)
    prompt = loader.load_template(_TEMPLATE)(data)
    if len(prompt.encode("utf-8", "replace")) > ask.max_bytes:
        why = f"a prompt of {ask.max_bytes:,} bytes has no room for it"
        return Doubts(note=f"the description was not held against the change: {why}")
    try:
        completion = ask(
            "description-1", [{"role": "user", "content": prompt}],
            response_format=list_form("doubts", schema=_DOUBT),
        )  # fmt: skip
    except LimitError as error:
        why = f"no room in {error.budget}"
        return Doubts(note=f"the description was not held against the change: {why}")
    except RemoteError as error:
        note = f"the description was not held against the change: {error}"
        return Doubts(note=printable(note)[:_NOTE])
    answer, _ = read_answer(completion, lambda record: loader.every_misfit(record, _SCHEMA))
    if answer is None:
        return Doubts(note="the model's answer about the description could not be read")
    return _opened(answer["doubts"][:_MOST], description, digest, source_of(ask.model))


def _opened(
    claims: list[Mapping[str, Any]], description: str, digest: ChangeDigest, source: str
) -> Doubts:
    opener = QuoteOpener(digest)
    findings = []
    offered = verified = 0
    for claim in claims:
        if loader.misfit(claim, _DOUBT):
            offered += 1
            continue
        words = _looked_up(claim["said"], description)
        places = [opener.quoted_lines(quote) for quote in claim["quotes"]]
        offered += 1 + len(places)
        verified += bool(words) + sum(lines is not None for lines in places)
        if not words or None in places or repeats(claim["text"], _EXAMPLES):
            continue
        locations = [
            Location(lines.path, lines.line_start, lines.line_end, lines.side, quote=lines.quote)
            for lines in dict.fromkeys(filter(None, places))
        ]
        sentence = said_of((*digest.new, *digest.old), " ".join(claim["text"].split()))
        message = f"the description says “{words}”: {encodable(sentence)}"
        findings.append(
            Finding(
                RULE, Severity.INFO, clip(message, _MESSAGE), evidence=tuple(locations),
                domain="docs", confidence=_CONFIDENCE, source=source,
                hint="correct the description, or the change",
            )
        )  # fmt: skip
    dropped = len(claims) - len(findings)
    note = f"{count(dropped, 'doubt')} about the description dropped: not found" if dropped else ""
    return Doubts(tuple(findings), Evidence(offered, verified, 0, offered - verified), note)


def _looked_up(quote: str, description: str) -> str:
    """``quote`` in one line, if the description has it, whatever its white space; else ""."""
    words, text = " ".join(quote.split()), " ".join(description.split())
    if sum(map(str.isalnum, words)) < _TELLING or words not in text:
        return ""
    return clip(printable(words), _WORDS)
