"""Secrets are taken out of all that is written: those that we were given, and what looks like one.

Known are the values of environment variables whose name says what they are, or that an agent is
given, also encoded as base64, in hex, for a URL, backwards or without their beginning. Else
there are the published prefixes of tokens; a secret that looks like any other word cannot be
told from one. A name that ends in KEY is as often that of a cache, or of a column: its value
is a secret unless it is words, numbers, a path or an address, see ``_is_key``.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Mapping

    from rlm_ci.findings import Finding, Location, Part, Report

SIGN = "[redacted]"
#: How the names of variables end that hold a secret.
_NAMES = (
    "TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "APIKEY", "API_KEY", "ACCESS_KEY",
    "PRIVATE_KEY", "SECRET_KEY", "CREDENTIALS", "_PAT",
)  # fmt: skip
#: Other names of keys, whose values are told apart; those with a public end are never secrets.
_KEYS = ("KEY", "KEYS")
_PUBLIC = ("PUBLIC_KEY", "PUBLIC_KEYS", "PUBKEY", "PUBLISHABLE_KEY", "PUBLISHABLE_KEYS")
#: A word or a number of those in ``created_at``, ``userId``, ``SHOP-1234``, ``linux-18``.
_PLAIN = r"(?:[a-z]+|[A-Z]+|[A-Za-z]?[a-z]+(?:[A-Z][a-z]+)*)?[0-9]{0,4}"
_JOINTS = r"[-_./:]"
#: A longer value is more than a few words, or none.
_PLAIN_LENGTH = 24
_PATH = r"(?:~|\.{1,2}|/[A-Z]?[a-z]+)/"
#: A shorter value stands in too many texts by chance.
_SHORTEST = 8
#: So much of the beginning is cut off by those who know what is looked for.
_CUTS = (7, 8)
#: A line of a longer secret is one by itself, if it has this length.
_LINE = 40
#: In what somebody wrote, a shorter text may stand there without being the secret.
_TELLING = 12
_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~"
#: Without one of these in a text, none of the forms is.
_HINTS = (
    "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "sk-", "AKIA", "ASIA", "xox",
    "npm_", "pypi-", "AIza", "hf_", "eyJ", "PRIVATE KEY", "earer ",
)  # fmt: skip
_FORMS = r"""
    \bgh[pousr]_[A-Za-z0-9]{20,}
  | \bgithub_pat_[A-Za-z0-9_]{20,}
  | \bglpat-[A-Za-z0-9_-]{20,}
  | \bsk-[A-Za-z0-9_-]{20,}
  | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b
  | \bxox[abeoprs]-[A-Za-z0-9-]{10,}
  | \bnpm_[A-Za-z0-9]{36}\b
  | \bpypi-AgE[A-Za-z0-9_-]{40,}
  | \bAIza[0-9A-Za-z_-]{35}
  | \bhf_[A-Za-z0-9]{30,}
  | \beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}
  | -----BEGIN[ A-Z]*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----[\s\S]*?
    (?:-----END[ A-Z]*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----|\Z)
  | (?<=[Bb]earer[ ])[A-Za-z0-9._~+/=-]{16,}
  | (?<=://)[^\s/@:]+:[^\s/@]+(?=@)
"""


class Redactor:
    """Takes secrets out of texts and reports."""

    def __init__(self, environ: Mapping[str, str], named: Iterable[str] = ()) -> None:
        """``named`` are variables that hold a secret, whatever they are called."""
        others = {name for name in named if not _is_public(environ.get(name, ""))}
        values = {
            value.strip()
            for name, value in environ.items()
            if len(value.strip()) >= _SHORTEST
            and (name in others or name.upper().endswith(_NAMES) or _is_key(name, value.strip()))
        }
        known = {form for value in values for form in _encodings(value) if len(form) >= _SHORTEST}
        known.update(
            line.strip()
            for value in values
            for line in value.splitlines()[1:]
            if len(line.strip()) >= _LINE
        )
        #: Longest first: one may be part of another.
        self._known = sorted(known, key=lambda form: (-len(form), form))
        self._pattern: re.Pattern[str] | None = None

    @property
    def longest(self) -> int:
        """The bytes of the longest secret that we were given, in its longest form."""
        return max((len(form.encode("utf-8", "replace")) for form in self._known), default=0)

    def text(self, text: str) -> str:
        """``text`` with a sign in the place of each secret."""
        for secret in self._known:
            if secret in text:
                text = text.replace(secret, SIGN)
        if any(map(text.__contains__, _HINTS)) or ("://" in text and "@" in text):
            if self._pattern is None:
                import re

                self._pattern = re.compile(_FORMS, re.VERBOSE)
            text = self._pattern.sub(SIGN, text)
        return text

    def known_in(self, text: str) -> frozenset[str]:
        """The secrets that we were given and that stand in ``text``, in any form.

        What only looks like one is not among them: code and tests may be full of that.
        """
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
            one.replace(text=self.text(one.text), evidence=tuple(map(self.place, one.evidence)))
            for one in report.documents
        )
        if parts == report.parts and documents == report.documents:
            return report
        return report.replace(parts=parts, documents=documents)

    def _part(self, part: Part) -> Part:
        findings = tuple(self.finding(one) for one in part.findings)
        summary = self.text(part.summary)
        block = None if part.block is None else self.text(part.block)
        if (findings, summary, block) == (part.findings, part.summary, part.block):
            return part
        return part.replace(findings=findings, summary=summary, block=block)

    def finding(self, finding: Finding) -> Finding:
        """The same finding without secrets."""
        texts = ("message", "hint", "subject", "suggested_fix", "suppression")
        changed: dict[str, object] = {}
        for name in texts:
            said = getattr(finding, name)
            if said and (told := self.text(said)) != said:
                changed[name] = told
        evidence = tuple(map(self.place, finding.evidence))
        if any(one is not other for one, other in zip(evidence, finding.evidence, strict=True)):
            changed["evidence"] = evidence
        return finding.replace(**changed) if changed else finding

    def place(self, place: Location) -> Location:
        """A quote is verbatim or not there at all: it will be compared."""
        if place.quote is None or self.text(place.quote) == place.quote:
            return place
        return place.replace(quote=None)


def _is_public(value: str) -> bool:
    """Whether it is an address or a path, which an agent may be told as well."""
    value = value.strip()
    return value.startswith(("/", "~/")) or ("://" in value[:16] and "@" not in value)


def _is_key(name: str, value: str) -> bool:
    """Whether a variable that is only called a key holds one, and no word, path or address."""
    name = name.upper()
    if not name.endswith(_KEYS) or name.endswith(_PUBLIC):
        return False
    import re

    if len(value) <= _PLAIN_LENGTH and all(
        re.fullmatch(_PLAIN, part) for part in re.split(_JOINTS, value)
    ):
        return False
    # Unlike a path, base64 may begin with a slash, and goes on as no name of a folder does.
    is_address = "://" in value[:16] and "@" not in value
    return not (is_address or re.match(_PATH, value))


def _encodings(value: str) -> set[str]:
    """What ``value`` looks like in a text, as it is or dressed up."""
    raw = value.encode("utf-8", "surrogateescape")
    quoted = "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in raw)
    forms = {value, value[::-1], raw.hex(), raw.hex().upper(), quoted}
    forms.update(value[cut:] for cut in _CUTS if len(value) >= cut + _SHORTEST)
    for before in range(3):  # in the middle of a longer text, it may begin anywhere
        whole = _base64(b"\0" * before + raw)[(before * 8 + 5) // 6 : (before + len(raw)) * 8 // 6]
        forms |= {whole, whole.replace("+", "-").replace("/", "_")}
    return forms


def _base64(data: bytes) -> str:
    from binascii import b2a_base64

    return b2a_base64(data, newline=False).decode()
