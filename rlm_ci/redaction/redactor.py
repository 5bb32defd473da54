"""Takes secrets out of all that is written: those that we know, and what looks like one.

Known are the values of environment variables with the names of secrets (``secret_names``) or for
an agent, also in JSON, base64, base32, hex, URL encoding, reversed, without their beginning or
their end, or in a dump of bytes. Else there are the published forms of tokens (``token_forms``).
"""

from __future__ import annotations

from functools import cached_property

from rlm_ci.redaction import secret_names, token_forms
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from rlm_ci.report.findings import Finding, Location, Part, Report

SIGN = token_forms.SIGN
#: A shorter value is in too many texts by chance.
_SHORTEST = 8
#: An attacker may cut off so much of the beginning, the end, or both.
_CUTS = (7, 8)
#: Bytes of a dump that are a part of a secret: no text has them by chance.
_WINDOW = 8
#: A line of a dump: groups of hex digits, and the text that xxd and hexdump write beside them.
_DUMP = (
    r"(?<![0-9A-Za-z])((?:[0-9A-Fa-f]{2}){1,4}(?:[ :]{1,2}(?:[0-9A-Fa-f]{2}){1,4})+)(?![0-9A-Za-z])"
    r'(?: {2,}\|?[^"\\\n]{1,66})?'
)
#: A line of a longer secret is one by itself, if it has this length.
_LINE = 40
#: In a text by hand, a shorter match may be no secret.
_TELLING = 12
_DIGITS = "0123456789abcdefABCDEF"
_BASE32 = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"


class Redactor:
    """Takes secrets out of texts and reports."""

    def __init__(self, environ: Mapping[str, str], variables: Iterable[str] = ()) -> None:
        """``variables`` may hold a secret, whatever their names are."""
        others = {
            name
            for name in variables
            if (value := environ.get(name, "").strip())
            and not _is_public(value)
            and secret_names.may_be_secret(name, value)
        }
        values: set[str] = set()
        for name, value in environ.items():
            if len(value.strip()) >= _SHORTEST:
                values |= secret_names.secrets_in(
                    name, value.strip(), is_known_secret=name in others
                )
        forms = {form for value in values for form in _encodings(value) if len(form) >= _SHORTEST}
        forms.update(
            line.strip()
            for value in values
            for line in value.splitlines()[1:]
            if len(line.strip()) >= _LINE
        )
        #: Longest first: one may be part of another.
        self._known = sorted(forms, key=lambda form: (-len(form), form))
        self._values = tuple(values)

    @property
    def longest(self) -> int:
        """The bytes of the longest secret that we were given, in its longest form."""
        return max((len(form.encode("utf-8", "replace")) for form in self._known), default=0)

    def text(self, text: str) -> str:
        """``text`` with a sign in the place of each secret."""
        for secret in self._known:
            if secret in text:
                text = text.replace(secret, SIGN)
        return token_forms.redact(self._without_dumps(text))

    def _without_dumps(self, text: str) -> str:
        """``text`` without lines of bytes, as xxd shows them, that are a part of a known secret."""
        if not self._values or not _may_have_dump(text):
            return text
        import re  # most runs of a hook need none

        return re.sub(_DUMP, self._dumped, text)

    def _dumped(self, match: re.Match[str]) -> str:
        data = bytes.fromhex(match[1].replace(":", " "))
        is_known = any(window in self._windows for window in _windows(data))
        return SIGN if is_known else match[0]

    @cached_property
    def _windows(self) -> frozenset[bytes]:
        raw = (value.encode("utf-8", "surrogateescape") for value in self._values)
        return frozenset(window for value in raw for window in _windows(value))

    def json(self, value: Any) -> Any:
        """``value``, as JSON knows it, with a sign in the place of each secret in its texts."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {name: self.json(inner) for name, inner in value.items()}
        if isinstance(value, list | tuple):
            return [self.json(inner) for inner in value]
        return value

    def known_in(self, text: str) -> frozenset[str]:
        """The known secrets in ``text``, in any form; not what only looks like one."""
        return frozenset(form for form in self._known if len(form) >= _TELLING and form in text)

    def without_known(self, text: str) -> str:
        """``text`` with a sign in the place of each of ``known_in``."""
        for secret in self._known:  # the longest first
            if len(secret) >= _TELLING and secret in text:
                text = text.replace(secret, SIGN)
        return text

    def report(self, report: Report) -> Report:
        """The same report without secrets; paths, which are identities, stay as they are."""
        parts = tuple(self._part(part) for part in report.parts)
        documents = tuple(
            document.replace(
                text=self.text(document.text), evidence=tuple(map(self.location, document.evidence))
            )
            for document in report.documents
        )
        refuted = tuple(
            claim.replace(finding=self.finding(claim.finding), reason=self.text(claim.reason))
            for claim in report.refuted
        )
        return report.replace(parts=parts, documents=documents, refuted=refuted)

    def _part(self, part: Part) -> Part:
        findings = tuple(self.finding(finding) for finding in part.findings)
        summary = self.text(part.summary)
        block = None if part.block is None else self.text(part.block)
        return part.replace(findings=findings, summary=summary, block=block)

    def finding(self, finding: Finding) -> Finding:
        """The same finding without secrets."""
        names = ("message", "hint", "subject", "suggested_fix", "suppression")
        texts = {name: self.text(text) for name in names if (text := getattr(finding, name))}
        proof = finding.proof
        if proof is not None:
            proof = proof.replace(**self.json(Value.to_dict(proof)))
        return finding.replace(
            evidence=tuple(map(self.location, finding.evidence)), proof=proof, **texts
        )

    def location(self, location: Location) -> Location:
        """A quote is verbatim or not there at all: it will be compared."""
        if location.quote is None or self.text(location.quote) == location.quote:
            return location
        return location.replace(quote=None)


def _may_have_dump(text: str) -> bool:
    """Whether groups of hex digits stand in a row."""
    digits = 0
    for word in text.replace(":", " ").split():
        is_group = len(word) in (2, 4, 6, 8) and not word.strip(_DIGITS)
        digits = digits + len(word) if is_group else 0
        if digits >= _WINDOW:
            return True
    return False


def _base32(data: bytes) -> str:
    """As RFC 4648 has it, without the padding; the library's own takes 4 ms to be imported."""
    groups = (data[at : at + 5].ljust(5, b"\0") for at in range(0, len(data), 5))
    numbers = map(int.from_bytes, groups)
    return "".join(
        _BASE32[number >> shift & 31] for number in numbers for shift in range(35, -1, -5)
    )


def _windows(data: bytes) -> Iterator[bytes]:
    return (data[at : at + _WINDOW] for at in range(len(data) - _WINDOW + 1))


def _is_public(value: str) -> bool:
    """Whether it is an address or a path, which is no secret."""
    return value.startswith(("/", "~/")) or ("://" in value[:16] and "@" not in value)


def _encodings(value: str) -> set[str]:
    """What ``value`` looks like in a text, as it is or encoded."""
    from binascii import b2a_base64

    raw = value.encode("utf-8", "surrogateescape")
    quoted = "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in raw)
    forms = {value, value[::-1], raw.hex(), raw.hex().upper(), raw.hex(" "), quoted}
    if not value.isascii() or not value.isprintable() or '"' in value or "\\" in value:
        import json

        forms.update(json.dumps(value, ensure_ascii=plain)[1:-1] for plain in (True, False))
    for cut in {min(cut, len(value) - _SHORTEST) for cut in _CUTS} - {0}:
        both = min(cut, (len(value) - _SHORTEST) // 2) or -len(value)
        parts = value[cut:], value[:-cut], value[both:-both]
        forms.update(part for part in parts if secret_names.is_no_words(part))
    for before in range(5):  # in the middle of a longer text, it may begin anywhere
        text = _base32(b"\0" * before + raw)
        text = text[(before * 8 + 4) // 5 : (before + len(raw)) * 8 // 5]
        forms |= {text, text.lower()}
    for before in range(3):
        encoded = b2a_base64(b"\0" * before + raw, newline=False).decode()
        encoded = encoded[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
        forms |= {encoded, encoded.replace("+", "-").replace("/", "_")}
    return forms
