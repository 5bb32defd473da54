"""What a claim of a model is about, in one word: file, definition, lines and level.

A model words a claim anew in each run, and chooses another rule and another quote. Two claims are
about the same if they share a line of the same definition.
"""

from __future__ import annotations

from rlm_ci.report.findings import Severity
from rlm_ci.text.printable import encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.report.findings import Finding

#: Hexadecimal digits of the file with the definition, and of a line; most lines.
_DEFINITION, _LINE, _MOST = 12, 8, 16
PATTERN = rf"[0-9a-f]{{{_DEFINITION}}}(?:\.[0-9a-f]{{{_LINE}}}){{1,{_MOST}}}\.[0-4][as]"
#: Letters and digits from which a line tells more than that a block ends.
_TELLING = 4
_LEVELS = {"a": "argued", "s": "shown"}
#: Begins what is added to the hint of a claim that was settled and is worse now.
_BEFORE = "It was accepted as "


class Settlement(Value):
    """Why the finding of a review comment is settled, with its marks."""

    fingerprint: str
    claim: str
    reason: str


def is_mark(text: str) -> bool:
    import re  # seldom needed, and slow to import

    return re.fullmatch(PATTERN, text) is not None


def of(finding: Finding) -> str:
    """The mark of a model's claim; "" for any other finding, and one without lines."""
    location = finding.evidence[0] if finding.evidence else None
    if location is None or not location.quote or not finding.source.startswith("model:"):
        return ""
    lines = ["".join(line.split()) for line in location.quote.split("\n")]
    lines = [line for line in lines if sum(map(str.isalnum, line)) >= _TELLING] or [
        line for line in lines if line
    ]
    digests = dict.fromkeys(_digest(line, size=_LINE) for line in lines)
    if not digests:
        return ""
    where = _digest(location.path, finding.subject or "", size=_DEFINITION)
    is_shown = finding.proof is not None and not finding.is_argued
    level = f"{int(finding.severity)}{'s' if is_shown else 'a'}"
    return ".".join((where, *list(digests)[:_MOST], level))


def is_same(text: str, other: str) -> bool:
    """Whether two marks, "" for none, are about the same lines."""
    (code, *lines, _), (other_code, *others, _) = (mark.split(".") if mark else ("", "") for mark in
                                                   (text, other))  # fmt: skip
    return code == other_code and not set(lines).isdisjoint(others)


def is_worse(now: str, before: str) -> bool:
    """Whether a claim is more severe than it was, or shown now and only argued before."""
    return bool(now and before) and (now[-2] > before[-2] or now[-1] > before[-1])


def settled(
    finding: Finding, mark: str, settlements: Sequence[Settlement]
) -> tuple[Settlement | None, bool]:
    """What settles the finding whose fingerprint is ``mark``, and whether it is worse than that."""
    claim = of(finding)
    heard = [
        settlement
        for settlement in settlements
        if settlement.fingerprint == mark or is_same(settlement.claim, claim)
    ]
    # An answer to the comment itself is the plainest.
    heard.sort(
        key=lambda settlement: (is_worse(claim, settlement.claim), settlement.fingerprint != mark)
    )
    first = next(iter(heard), None)
    return first, first is not None and is_worse(claim, first.claim)


def worsened(finding: Finding, before: str, reason: str) -> Finding:
    """The claim, shown again; its hint says at which level it was settled."""
    level = f"{Severity(int(before[-2])).label}, {_LEVELS[before[-1]]}"
    why = f"{_BEFORE}{level} ({reason}), and is worse now."
    return finding.replace(hint=f"{finding.hint} {why}" if finding.hint else why)


def without(finding: Finding) -> Finding:
    """The claim as it was before :func:`worsened`."""
    hint = (finding.hint or "").partition(_BEFORE)[0].rstrip()
    return finding.replace(hint=hint or None)


def _digest(*texts: str, size: int) -> str:
    from hashlib import sha256

    return sha256("\0".join(map(encodable, texts)).encode()).hexdigest()[:size]
