"""Accepted findings: reported with the reason, never failing.

Either by ``[[suppressions]]`` in the config file, or by ``rlm-ci: ignore[rule] reason`` on the
line of the finding.
"""

from __future__ import annotations

from rlm_ci.config.settings import nearest
from rlm_ci.errors import ConfigError
from rlm_ci.report.details import claim_mark
from rlm_ci.report.findings import fingerprints, order
from rlm_ci.text import dates
from rlm_ci.text.globs import matcher
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from rlm_ci.report.findings import Finding, Part

_INLINE = "rlm-ci: ignore["
#: What a finding says that the change's own config file accepts, and that of its base does not.
AWAITING = "accepted on this branch; counts once the base has it"
#: Hexadecimal digits of a fingerprint.
DIGITS = 32


class _Entry(Value):
    """An entry of ``suppressions`` as it is applied."""

    rule: str
    matches: Callable[[str], bool] | None
    until: str
    fingerprint: str
    claim: str
    reason: str

    def covers(self, finding: Finding, mark: str, day: str) -> bool:
        if day > self.until:
            return False
        # Claims of a model keep their lines, and not the rule.
        is_claim = self.claim != "" and claim_mark.is_same(self.claim, claim_mark.of(finding))
        if is_claim and self.rule.partition("/")[0] == finding.rule.partition("/")[0]:
            mark = self.fingerprint
        elif not _covers(self.rule, finding.rule):
            return False
        if self.fingerprint and self.fingerprint != mark:
            return False
        matches = self.matches
        return matches is None or any(matches(location.path) for location in finding.evidence)


def require(
    entries: Sequence[dict[str, Any]], source: str, rules: Mapping[str, Collection[str] | None]
) -> list[ConfigError]:
    """Check the entries of ``suppressions``; the warnings are returned.

    ``rules`` maps a check's id to its conditions, None where they are not known. Raises
    ConfigError for an invalid day or pattern, and for a condition that its check does not have.
    An entry for an unknown check is a warning: another version may know it.
    """
    doubts = []
    for number, entry in enumerate(entries, 1):
        where = f"{source}, [[suppressions]] number {number}"
        if entry["until"] and not dates.is_day(entry["until"]):
            raise ConfigError(
                f"until must be a day YYYY-MM-DD, not {entry['until'][:80]!r}",
                where=where,
                hint="write it as 2027-01-31",
            )
        _read(entry, where)
        mark = entry.get("fingerprint")
        if mark and not (len(mark) == DIGITS and set(mark) <= set("0123456789abcdef")):
            raise ConfigError(
                f"a fingerprint has {DIGITS} hexadecimal digits, not {mark[:80]!r}",
                where=where,
                hint="copy it from report.json, or write the entry by rlm-ci suppress",
            )
        claim = entry.get("claim")
        if claim and not (mark and claim_mark.is_mark(claim)):
            raise ConfigError(
                f"{claim[:80]!r} is not the mark of a claim with its fingerprint",
                where=where,
                hint="write the entry by rlm-ci suppress",
            )
        check, slash, condition = entry["rule"].partition("/")
        if check not in rules:
            hint = nearest(check, list(rules))
            what = f"it covers nothing: there is no check {check[:80]!r}"
            doubts.append(ConfigError(what, where=where, hint=hint))
            continue
        conditions = rules[check]
        if slash and conditions is not None and condition not in conditions:
            rule_names = [f"{check}/{name}" for name in conditions]
            raise ConfigError(
                f"unknown rule {entry['rule'][:80]!r}",
                where=where,
                hint=nearest(entry["rule"], rule_names),
            )
    return doubts


def apply(
    part: Part,
    entries: Sequence[dict[str, Any]],
    source: str = "suppressions",
    today: Callable[[], str] = dates.today,
    *,
    redact: Callable[[Finding], Finding] = lambda finding: finding,
) -> Part:
    """``part`` with the accepted ones of its findings marked.

    ``entries`` are those of ``suppressions`` in the settings, from ``source``, as :func:`require`
    wants them; one whose ``until`` has passed no longer holds. ``redact`` takes secrets out of a
    finding: a fingerprint is that of the report, which has none.
    """
    if not part.findings:
        return part
    accepted = [_read(entry, source) for entry in entries]
    day = today() if accepted else ""
    marks = [""] * len(part.findings)
    if any(entry.fingerprint for entry in accepted):
        ranked = sorted(range(len(marks)), key=lambda at: order(part.findings[at]))
        ranked_marks = fingerprints(redact(part.findings[at]) for at in ranked)
        for at, mark in zip(ranked, ranked_marks, strict=True):
            marks[at] = mark
    findings = []
    for original, mark in zip(part.findings, marks, strict=True):
        finding = original
        reason = finding.suppression or inline(finding)
        if reason is None:
            holding = [entry for entry in accepted if entry.covers(finding, mark, day)]
            now = claim_mark.of(finding)
            still = (each for each in holding if not claim_mark.is_worse(now, each.claim))
            reason = next((each.reason for each in still), None)
            if holding and reason is None:
                finding = claim_mark.worsened(finding, holding[0].claim, holding[0].reason)
        if reason is None:
            findings.append(_doubted(finding))
        else:
            findings.append(finding.replace(suppression=reason))
    return part.replace(findings=tuple(findings))


def announce(
    part: Part,
    entries: Sequence[dict[str, Any]],
    *,
    redact: Callable[[Finding], Finding] = lambda finding: finding,
) -> Part:
    """``part``; open findings that ``entries`` of the change itself cover say so."""
    try:
        accepted = apply(part, entries, redact=redact).findings
    except ConfigError:
        return part
    findings = tuple(
        now.replace(hint=f"{now.hint}; {AWAITING}" if now.hint else AWAITING)
        if now.suppression is None and later.suppression is not None
        else now
        for now, later in zip(part.findings, accepted, strict=True)
    )
    return part.replace(findings=findings)


def lines_about(
    entries: Sequence[Mapping[str, Any]], rules: str, paths: Collection[str], day: str | None
) -> list[str]:
    """What entries that hold on ``day`` say of ``paths``, for rules that begin so: a line each."""
    lines = []
    for raw in entries:
        entry = _read(dict(raw), "suppressions")
        is_held = f"{entry.rule}/".startswith(rules) and (day or "") <= entry.until
        matches = entry.matches
        if is_held and (matches is None or any(map(matches, paths))):
            where = raw["path"] or "everywhere"
            lines.append(f"{where}: {entry.rule}: {' '.join(entry.reason.split())}")
    return lines


def _read(entry: dict[str, Any], source: str) -> _Entry:
    try:
        matches = matcher((entry["path"],)) if entry["path"] else None
    except ValueError as error:
        raise ConfigError(
            f"a pattern cannot be read: {error}",
            where=source,
            hint="write it as in .gitignore",
        ) from None
    until = entry["until"] or "9999-12-31"
    mark, claim = (entry.get(name) or "" for name in ("fingerprint", "claim"))
    return _Entry(entry["rule"], matches, until, mark, claim, entry["reason"])


def _covers(pattern: str, rule: str) -> bool:
    """Whether ``pattern``, a rule or the id of a check, means ``rule``."""
    return rule == pattern or rule.startswith(f"{pattern}/")


def inline(finding: Finding) -> str | None:
    """The reason that a comment beside the finding gives for accepting it; None without one."""
    quote = finding.evidence[0].quote if finding.evidence else None
    if not quote or _INLINE not in quote:
        return None
    for line in quote.split("\n"):
        for comment in line.split(_INLINE)[1:]:
            rule, bracket, reason = comment.partition("]")
            # What closes a comment of the file's own language is no reason.
            text = reason.strip().removesuffix("-->").removesuffix("*/").strip()
            if bracket and text and _covers(rule.strip(), finding.rule):
                return text
    return None


def _doubted(finding: Finding) -> Finding:
    """The finding; its hint says why a comment beside it does not accept it."""
    quote = (finding.evidence[0].quote if finding.evidence else None) or ""
    lowered = quote.lower()
    if "rlm-ci" not in lowered or "ignore" not in lowered:
        return finding
    import re  # seldom needed, and slow to import

    pattern = r"(rlm-ci[ \t]*:[ \t]*ignore)\b((?:(?!rlm-ci[ \t]*:)[^\n])*)"
    comments = re.findall(pattern, quote, re.IGNORECASE)
    if not comments:
        return finding
    # Of several, the one that is nearest to the rule.
    faults = (_fault(opening, ending, finding.rule) for opening, ending in comments)
    fault = max(faults, key=lambda pair: pair[0])
    why = f"The comment beside it is not valid: {fault[1]}."
    return finding.replace(hint=f"{finding.hint} {why}" if finding.hint else why)


def _fault(opening: str, text: str, rule_sought: str) -> tuple[bool, str]:
    """Whether a comment that does not hold speaks of the rule, and what is wrong with it."""
    rule, bracket, _ = text[1:].partition("]")
    shown = printable(rule.strip())[:80]
    if f"{opening}{text[:1]}" != _INLINE or not bracket:
        return rule_sought in text, "it is not written as 'rlm-ci: ignore[RULE] reason'"
    if _covers(rule.strip(), rule_sought):
        return True, "it gives no reason behind the bracket"
    if len(rule.replace(",", " ").split()) > 1:
        return rule_sought in rule, "it takes a comment for each rule, with its reason"
    return False, f"it is for '{shown}', not for {rule_sought}"
