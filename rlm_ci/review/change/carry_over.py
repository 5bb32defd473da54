"""A model's claims, kept for the next review of the same change.

Kept are the claims, each with its places, a digest of their lines and what was asked about it,
and a mark of every file that was looked at. The reader trusts none of it: a claim counts if the
file still has its mark and the lines their digest, and one wrong digest makes all of it void. A
claim with a reproduction goes on where its file has changed, too: that is run again.
"""

from __future__ import annotations

import re

from rlm_ci.change.evidence import VERIFIED, anchor
from rlm_ci.report.findings import Evidence, Finding, Location, Severity
from rlm_ci.report.overview.changes import ModelWords  # noqa: TC001 - to read it
from rlm_ci.resources import loader
from rlm_ci.review.change.affected_files import DIGITS
from rlm_ci.review.change.base_comparison import with_definition
from rlm_ci.review.model.reproduce import EarlierClaim, EarlierTrial
from rlm_ci.text.printable import count, encodable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from typing import Any

    from rlm_ci.git.patches import Hunk
    from rlm_ci.report.findings import Coverage

_SCHEMA = "review-carried.schema.json"
#: Claims that are kept, and bytes of all of it unpacked.
_CLAIMS = 400
_UNPACKED = 1 << 20
#: Characters of a message, and of what a claim proposes.
_MESSAGE, _FIX = 1_000, 2_000
_DIGEST = 16
#: Characters of all of it that the summary comment has room for.
_ROOM = 11_000
#: Places of mended claims in a summary.
_SHOWN = 5
_RULE = re.compile(r"review/[A-Za-z0-9-]+")
_MARKS = re.compile(rf"(?:[0-9a-f]{{{DIGITS}}})*")
#: In place of what is more than is kept.
TOO_MUCH = "-"


class HashedLines(Value):
    """Lines of a file, and the digest of their text."""

    path: str
    line_start: int | None
    line_end: int | None
    digest: str


class CarriedClaim(Value):
    """A finding whose places have not been opened yet, and what was asked about it."""

    finding: Finding
    places: tuple[HashedLines, ...]
    trial: EarlierTrial | None = None

    @property
    def has_reproduction(self) -> bool:
        return self.trial is not None and self.trial.is_shown


class EditedFile(Value):
    """A file that has changed since the last review: as it was, and as it is now."""

    before: bytes
    path: str
    blob: str
    content: bytes
    hunks: tuple[Hunk, ...] = ()


class SavedReview(Value):
    """``asked_for`` tells who looked and for what; ``marks`` are those of the files looked at.

    ``unchecked`` has a file for each claim that could not be checked.
    ``sentences`` are what it said that the change does, each as a row.
    """

    asked_for: str
    marks: frozenset[str]
    claims: tuple[CarriedClaim, ...]
    unchecked: tuple[str, ...] = ()
    sentences: tuple[Sequence[Any], ...] = ()


class CarriedWords(Value):
    """What a model said that a change does, and is still true.

    ``files`` are those that it is yet to be asked about, ``is_whole``: on the whole, too.
    """

    words: ModelWords
    files: tuple[str, ...] = ()
    is_whole: bool = False


class CarriedReview(Value):
    """What a review takes from the previous one, of the commit ``since``.

    ``unread_files`` are those that a model has yet to read, None for all, and ``why`` is the
    reason; ``is_doubt``: there was a previous review that cannot be used. ``is_kept``: the results
    of this one can be stored. ``is_same``: it is this commit. ``unchecked`` has a file for each
    claim that could not be checked, and is not asked for again. Without ``words``, a model has yet
    to say what the change does.
    """

    why: str
    is_doubt: bool = False
    is_kept: bool = False
    since: str | None = None
    unread_files: tuple[str, ...] | None = None
    claims: tuple[EarlierClaim, ...] = ()
    counts: Evidence = Evidence()
    is_same: bool = False
    unchecked: tuple[str, ...] = ()
    words: CarriedWords | None = None

    def to_dict(self) -> dict[str, Any]:
        return {**super().to_dict(), "counts": [*self.counts.to_dict().values()]}

    @staticmethod
    def _upgraded(record: Any) -> Any:
        """With the counts by name, which ``to_dict`` writes in order.

        Records of before call the files that a model has yet to read ``asked``.
        """
        counts = dict(zip(Evidence._fields, record["counts"], strict=True))
        names = {name: "unread_files" if name == "asked" else name for name in record}
        return {**{names[name]: value for name, value in record.items()}, "counts": counts}


# ── as a text ──


class PackedReview(Value):
    """The text that ``unpack`` reads; None if it is too much, or a rule or path has a secret.

    ``left_out`` is the number of claims of which what was asked had no room.
    """

    text: str | None
    left_out: int = 0


def pack(
    claims: Sequence[EarlierClaim],
    marks: Iterable[str],
    asked_for: str,
    mask: Callable[[str], str],
    unchecked: Sequence[str] = (),
    *,
    sentences: Sequence[Sequence[Any]] = (),
) -> PackedReview:
    """``mask`` takes secrets out; ``unchecked`` and ``sentences`` are as in a saved review.

    Without room, sentences are left out first.
    """

    def location_row(location: Location) -> list[Any]:
        return [
            encodable(location.path),
            location.line_start,
            location.line_end,
            digest_of(location.quote),
        ]

    findings = [claim.finding for claim in claims]
    rows = [
        [
            finding.rule, finding.severity.label, finding.domain, finding.confidence,
            mask(finding.message)[:_MESSAGE],
            None if finding.hint is None else mask(finding.hint)[:_MESSAGE],
            None if not (fix := mask(finding.suggested_fix or "")) or len(fix) > _FIX else fix,
            # A guideline stands at the base, where the next review looks for it anew.
            [location_row(spot) for spot in finding.evidence if spot.side == "new"],
        ]
        for finding in findings
    ]  # fmt: skip
    names = [finding.rule for finding in findings]
    names += [location.path for finding in findings for location in finding.evidence]
    names += unchecked
    is_odd = any(mask(name) != name or encodable(name) != name for name in names)
    if len(rows) + len(unchecked) > _CLAIMS or is_odd:
        return PackedReview(None)
    trials = [claim.trial and claim.trial.stored(mask) for claim in claims]
    record = {"t": asked_for, "m": "".join(sorted(set(marks))), "u": list(unchecked)}
    lost = {at for at, claim in enumerate(claims) if claim.trial and trials[at] is None}
    # What costs the most to ask again goes last, and what is least severe first.
    order = sorted(range(len(claims)), key=lambda at: findings[at].severity)
    text = _packed({**record, "w": sentences} if sentences else record, rows, trials)
    if sentences and (text is None or len(text) > _ROOM):
        text = _packed(record, rows, trials)
    for at, less in ((at, less) for less in _LESS for at in order):
        if text is None or len(text) <= _ROOM:
            break
        before, trials[at] = trials[at], less(trials[at])
        if trials[at] != before:
            lost |= set() if less is _without_argued else {at}
            text = _packed(record, rows, trials)
    return PackedReview(text, len(lost))


def _without_argued(trial: EarlierTrial | None) -> EarlierTrial | None:
    """What showed nothing need not be run again: only people see it."""
    return trial.replace(reproduction=None) if trial and not trial.is_shown else trial


def _without_repair(trial: EarlierTrial | None) -> EarlierTrial | None:
    return trial.replace(repair="", repair_reason="") if trial and trial.repair else trial


#: What is left of a trial where there is no room for all.
_LESS: tuple[Callable[[EarlierTrial | None], EarlierTrial | None], ...] = (
    _without_argued, _without_repair, lambda _trial: None,
)  # fmt: skip


def _packed(
    record: Mapping[str, Any], rows: Sequence[Sequence[Any]], trials: Sequence[EarlierTrial | None]
) -> str | None:
    import json
    from base64 import urlsafe_b64encode
    from zlib import compress

    pairs = zip(rows, trials, strict=True)
    full = [[*row, None if trial is None else trial.to_dict()] for row, trial in pairs]
    record = {**record, "f": full}
    data = json.dumps(record, separators=(",", ":"), sort_keys=True).encode("ascii")
    return None if len(data) > _UNPACKED else urlsafe_b64encode(compress(data, 9)).decode()


def unpack(text: str, source: str, domains: Collection[str]) -> SavedReview:
    """Read ``text``, its claims as those of ``source``. Raises ValueError for anything invalid."""
    import json
    from base64 import urlsafe_b64decode
    from zlib import decompressobj
    from zlib import error as broken

    try:
        record = json.loads(decompressobj().decompress(urlsafe_b64decode(text), _UNPACKED))
    except (broken, RecursionError) as error:
        raise ValueError(str(error)) from None
    if wrong := loader.misfit(record, _SCHEMA):
        raise ValueError(wrong)
    marks = record["m"]
    if not _MARKS.fullmatch(marks):
        raise ValueError("no marks")
    claims = tuple(_claim(row, source, domains) for row in record["f"])
    digests = frozenset(marks[at : at + DIGITS] for at in range(0, len(marks), DIGITS))
    unchecked, sentences = (tuple(record.get(name, ())) for name in "uw")
    return SavedReview(record["t"], digests, claims, unchecked, sentences)


def _claim(row: Sequence[Any], source: str, domains: Collection[str]) -> CarriedClaim:
    rule, severity, domain, confidence, message, hint, fix, rows, trial = row
    # NaN is a number to a schema.
    if not _RULE.fullmatch(rule) or domain not in domains or not 0 <= confidence <= 1:
        raise ValueError("no claim of a review")
    places = []
    for path, start, end, digest in rows:
        if (start is None) != (end is None):
            raise ValueError("half of a range")
        first, last = (None if line is None else int(line) for line in (start, end))
        places.append(HashedLines(path, first, last, digest))
    finding = Finding(
        rule,
        Severity.from_label(severity),
        message,
        hint,
        domain=domain,
        confidence=float(confidence),
        suggested_fix=fix,
        source=source,
    )
    earlier_trial = None if trial is None else EarlierTrial.from_dict(trial).read_for(finding)
    return CarriedClaim(finding, tuple(places), earlier_trial)


def digest_of(quote: str | None) -> str:
    from hashlib import sha256

    text = encodable(quote or "")
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:_DIGEST]


# ── as findings ──


def stale(claims: Sequence[CarriedClaim], paths: Iterable[str], names: Collection[str]) -> set[str]:
    """All files to look at: ``paths``, and those of ``names`` that share a claim with them.

    A claim is about its files together, so all are read again if one is, or is gone.
    """
    every = set(paths)
    while True:
        more = {
            lines.path
            for claim in claims
            if any(lines.path in every or lines.path not in names for lines in claim.places)
            for lines in claim.places
            if lines.path in names
        }
        if more <= every:
            return every
        every |= more


def opened(
    claims: Sequence[CarriedClaim],
    paths: Collection[str],
    names: Collection[str],
    contents: Mapping[str, tuple[str, bytes]],
    edited: Mapping[str, EditedFile],
) -> tuple[tuple[EarlierClaim, ...], Evidence]:
    """The claims that go on, their places opened, and the counts.

    ``contents`` are blob and content of files that are not looked at again, ``edited`` those of
    the others, by their paths at the last review. On these, only claims with a reproduction go on.
    """
    now = {path: content for path, (_, content) in contents.items()}
    now |= {file.path: file.content for file in edited.values()}
    earlier_claims = []
    offered = verified = 0
    for claim in claims:
        if any(lines.path in paths or lines.path not in names for lines in claim.places):
            if not claim.has_reproduction or claim.places[0].path not in edited:
                continue  # the model reads these files again
            some = [lines for lines in claim.places if lines.path in edited]
            places = [_followed(lines, edited[lines.path]) for lines in some]
        else:
            places = [_opened(lines, contents) for lines in claim.places]
        locations = [location for location in places if location is not None]
        offered += len(places)
        verified += len(locations)
        if len(locations) == len(places):
            finding = claim.finding.replace(evidence=tuple(locations))
            if locations:
                finding = with_definition(finding, now[locations[0].path])
            earlier_claims.append(EarlierClaim(finding, claim.trial))
    return tuple(earlier_claims), Evidence(offered, verified, 0, offered - verified)


def _followed(lines: HashedLines, edit: EditedFile) -> Location | None:
    """Where the lines of a place are now, or what stands there in their stead."""
    if _opened(lines, {lines.path: ("", edit.before)}) is None:
        return None
    start, end = lines.line_start, lines.line_end
    if start is None or end is None:
        return Location(edit.path, blob=edit.blob)
    first, last = line_after(edit.hunks, start)[0], line_after(edit.hunks, end)[1]
    location = Location(edit.path, max(1, first), max(1, first, last))
    return anchor(location, edit.content, edit.blob).location or Location(edit.path, blob=edit.blob)


def line_after(hunks: Sequence[Hunk], line: int) -> tuple[int, int]:
    """The first and last lines that stand for an old one, behind hunks without context."""
    shift = 0
    for hunk in hunks:
        first, last = hunk.span("old")
        if first <= line <= last:
            start, end = hunk.span("new")
            return start, max(start, end)
        # A hunk without old lines begins at the one before the gap.
        if last < line and (hunk.old_count or first < line):
            shift += hunk.new_count - hunk.old_count
    return line + shift, line + shift


def _opened(lines: HashedLines, contents: Mapping[str, tuple[str, bytes]]) -> Location | None:
    entry = contents.get(lines.path)
    if entry is None:
        return None
    location = Location(lines.path, lines.line_start, lines.line_end, blob=entry[0])
    return opened_at(location, entry[1], lines.digest)


def opened_at(location: Location, content: bytes, digest: str) -> Location | None:
    """The place with its quote from ``content``, if that has the digest."""
    claim = anchor(location, content, location.blob)
    is_same = claim.location is not None and digest_of(claim.location.quote) == digest
    return claim.location if is_same and claim.outcome == VERIFIED else None


# ── for people ──


def carried_summary(
    begun: CarriedReview, files: int, mended: Sequence[str] = (), refuted: Sequence[Finding] = ()
) -> str:
    """What a summary says of it; ``files`` is the number of files that the model reads now.

    ``mended`` are the places of claims that are, ``refuted`` those that this run has refuted.
    """
    if begun.since is None:
        return f"; everything again: {begun.why}" if begun.is_doubt else ""
    text = f"; since {begun.since[:12]} the model was asked about {count(files, 'file')}"
    claims = {(claim.finding.rule, claim.finding.evidence) for claim in begun.claims}
    again = sum((finding.rule, finding.evidence) in claims for finding in refuted)
    carried = len(begun.claims) - len(mended) - again
    hold = "holds" if carried == 1 else "hold"
    text = f"{text}, and {count(carried, 'claim')} of it from before {hold}"
    if again:
        text += f"; {again} {'stays' if again == 1 else 'stay'} refuted"
    if begun.unchecked:
        text += f"; {count(len(begun.unchecked), 'claim')} from before could not be checked"
    if not mended:
        return text
    verb, more = ("is", "its") if len(mended) == 1 else ("are", "their")
    shown = ", ".join(mended[:_SHOWN]) + (", …" if len(mended) > _SHOWN else "")
    why = f"{more} own {'reproduction passes' if more == 'its' else 'reproductions pass'} now"
    return f"{text}; {count(len(mended), 'claim')} {verb} mended, as {why}: {shown}"


def left_out(number: int) -> str:
    """What a summary says of claims of which what was asked has no room in the comment."""
    if not number:
        return ""
    return (
        f"; the summary comment has no room for all that was run for {count(number, 'claim')}, "
        "so the next review asks for it again"
    )


def covered(coverage: Coverage, begun: CarriedReview, paths: Sequence[str]) -> Coverage:
    """``coverage`` with those of ``paths`` that the model does not read again."""
    if begun.since is None or begun.unread_files is None:
        return coverage
    why = f"not read again by the model: nothing changed since {begun.since[:12]}"
    unread = [(path, why) for path in paths if path not in frozenset(begun.unread_files)]
    return coverage.replace(omitted=(*coverage.omitted, *unread))
