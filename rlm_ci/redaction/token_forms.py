"""Secrets recognised by their form: published tokens, keys, and logins in headers and addresses.

A token is its beginning and what follows it. Most beginnings come from a table that others keep
(see ``published_tokens``). A text is searched for them only where its words are long enough.
"""

from __future__ import annotations

from functools import cache

from rlm_ci.redaction.secret_names import decoded_login

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Mapping

SIGN = "[redacted]"
_LETTERS = "A-Za-z0-9"
_WORD = r"A-Za-z0-9\-_"
#: Beginnings that the table lacks, or wants more behind: lengths change. From the makers'
#: documentation, November 2026.
OWN_FORMS = (
    *((f"gh{kind}_", _LETTERS, 20) for kind in "pousr"),
    ("github_pat_", r"A-Za-z0-9_", 20),
    ("glpat-", _WORD, 20),
    ("sk-", _WORD, 20),
    ("SK", "0-9a-f", 32),
    ("AKIA", "A-Z0-9", 16),
    ("ASIA", "A-Z0-9", 16),
    *((f"xox{kind}-", r"A-Za-z0-9\-", 10) for kind in "abeoprs"),
    ("pypi-AgE", _WORD, 40),
    ("hf_", _LETTERS, 30),
    ("hvs.", _WORD, 24),
    ("hvb.", _WORD, 24),
    ("hvr.", _WORD, 24),
    ("SG.", rf"{_WORD}.", 40),
    ("dckr_pat_", _WORD, 20),
    ("dckr_oat_", _WORD, 20),
    ("gsk_", _LETTERS, 40),
    ("xai-", _LETTERS, 40),
    ("GOCSPX-", _WORD, 20),
    ("ya29.", rf"{_WORD}.", 20),
    ("discord.com/api/webhooks/", rf"{_WORD}/", 60),
    ("discordapp.com/api/webhooks/", rf"{_WORD}/", 60),
    ("webhook.office.com/webhookb2/", r"A-Za-z0-9\-@/", 60),
    *(
        (f"{name}=", r"A-Za-z0-9%+/=\-_", 40)
        for name in ("X-Amz-Signature", "X-Amz-Security-Token", "X-Goog-Signature")
    ),
    # https://developers.cloudflare.com/fundamentals/api/get-started/token-formats
    *((f"{name}_", _WORD, 40) for name in ("cfk", "cfut", "cfat")),
    # https://supabase.com/docs/guides/getting-started/api-keys
    ("sb_secret_", _WORD, 31),
    # https://tailscale.com/docs/reference/key-prefixes
    ("tskey-", _WORD, 30),
    # https://docs.tavily.com/api-reference/introduction
    ("tvly-", _WORD, 30),
    # https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string
    ("AccountKey=", "A-Za-z0-9+/=", 80),
    # The makers of these name no form; https://github.com/betterleaks/betterleaks has them, in
    # config/betterleaks.toml of 2026-07-23: Together, NVIDIA, Replicate, Cerebras, LangSmith,
    # Supabase, Figma, Sentry (gitleaks asks for more of it), Vercel.
    ("tgp_v1_", _WORD, 43),
    ("nvapi-", _WORD, 60),
    ("r8_", _LETTERS, 37),
    ("csk-", _LETTERS, 40),
    *((f"lsv2_{kind}_", r"A-Za-z0-9_", 40) for kind in ("pt", "sk")),
    ("sbp_", rf"{_LETTERS}_", 40),
    ("figd_", _WORD, 38),
    ("sntrys_", r"A-Za-z0-9+/=_\-", 60),
    *((f"vc{kind}_", _WORD, 50) for kind in "apikr"),
    # Fireworks: in nobody's rules; as https://docs.fireworks.ai users write FIREWORKS_API_KEY.
    ("fw_", _LETTERS, 22),
)
#: Beginnings that names of variables have, too: a digit must follow.
_AS_IN_NAMES = ("fw_",)
#: A shorter word is no token that anybody issues.
_SHORTEST = 18
#: So many words without a token are remembered, from texts that are not longer.
_MOST_WORDS, _MOST_KEPT = 10_000, 1_000
#: So far a digit is looked for where names in a row may look like a token.
_FAR = 60
#: Few tokens of so many characters have no digit.
_LONG = 30
#: What may be before a token: an escape of a literal or an address, or the end of a colour.
_BEFORE = (
    r"\\[abefnrtv0]",
    r"\\x[0-9A-Fa-f]{2}",
    r"\\u[0-9A-Fa-f]{4}",
    r"%[0-9A-Fa-f]{2}",
    r"[\[;0-9]m",
)
_PRIVATE_KEY = r"""
    -----BEGIN[ A-Z]*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----[\s\S]*?
    (?:-----END[ A-Z]*PRIVATE[ ]KEY(?:[ ]BLOCK)?-----|\Z)
"""
_END_OF_KEY = r"-----END[ A-Z]*PRIVATE KEY(?: BLOCK)?-----"
#: Its lines; the last one may be short.
_LINE_OF_KEY = r"[ \t]*[A-Za-z0-9+/=]{20,}[ \t\r]*"
_LAST_LINE_OF_KEY = r"[ \t]*[A-Za-z0-9+/=]+[ \t\r]*"
#: Three parts of base64, the first two of which begin as JSON does; GitHub writes a word before it.
#: Not behind a colour: a token may have its end, and each would be read to the end of the text.
_JWT = (
    rf"(?:(?<![A-Za-z0-9_-]){''.join(f'|(?<={one})' for one in _BEFORE[:-1])})"
    r"(?:ghs_(?:[A-Za-z0-9]{1,40}_)?)?"
    r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"
)
_BEARER = r"(?<=earer[ ])[A-Za-z0-9._~+/=-]{16,}"
_BASIC = r"(?<=asic[ ])[A-Za-z0-9+/]{6,}={0,2}"
#: A login, or one long word with a digit, between ``://`` and the host.
_LOGIN = r'(?<=://)(?:[^\s/@:"<>`]*:[^\s/"<>`]+|(?=[^\s/@:"<>`]{0,60}?[0-9])[^\s/@:"<>`]{16,})(?=@)'
_TELEGRAM = r"(?<![0-9])[0-9]{5,16}:A[A-Za-z0-9_-]{34}(?![A-Za-z0-9_-])"
_SIGNATURE = r"(?<=[?&;]sig=)[A-Za-z0-9%+/=_-]{40,}"


def redact(text: str) -> str:
    """``text`` with a sign in the place of all that looks like a secret."""
    for hint, other, form, replaced in _SHAPES:
        if hint in text and other in text:
            text = _compiled(form).sub(replaced, text)
    if "-----END" in text:
        text = _without_ends(text)
    words = {word for word in text.split() if len(word) >= _SHORTEST and word not in _clean}
    if words:
        joined, before = "\n".join(words), text
        for beginning, (kind, length) in beginnings().items():
            if beginning in joined:
                text = _compiled(_form(beginning, kind, length)).sub(SIGN, text)
        if text == before and len(joined) <= _MOST_KEPT:
            if len(_clean) > _MOST_WORDS:
                _clean.clear()
            _clean.update(words)
    return text


def _without_ends(text: str) -> str:
    """The same without the ends of private keys whose beginnings were cut off."""
    pieces, done = [], 0
    for end in _compiled(_END_OF_KEY).finditer(text):
        start, form = end.start(), _LAST_LINE_OF_KEY
        while start > done:
            line = text.rfind("\n", done, start - 1) + 1 or done
            if not _compiled(form).fullmatch(text, line, start - (text[start - 1] == "\n")):
                break
            start, form = line, _LINE_OF_KEY
        if start < end.start():
            pieces += [text[done:start], SIGN]
            done = end.end()
    return "".join([*pieces, text[done:]])


@cache
def beginnings() -> Mapping[str, tuple[str, int]]:
    """The beginnings of tokens, longest first, with what follows and how much of it at least."""
    from rlm_ci.redaction.published_tokens import FORMS

    every = {start: (kind, length) for start, kind, length in (*FORMS, *OWN_FORMS)}
    return {start: every[start] for start in sorted(every, key=lambda start: (-len(start), start))}


#: Words without a token: the same paths and names come again and again.
_clean: set[str] = set()


def _form(beginning: str, kind: str, minimum: int) -> str:
    """What finds ``beginning`` and ``minimum`` characters of a ``kind``; literals first: fast."""
    import re

    # Names with dots, or many words, look the same, but seldom have a digit.
    is_name = "." in kind or ("_" in kind and minimum >= _LONG and beginning.islower())
    is_name = is_name or beginning in _AS_IN_NAMES
    ahead = f"(?=[{kind}]{{0,{_FAR}}}?[0-9])" if is_name else ""
    minimum = max(minimum, _SHORTEST - len(beginning))
    token = re.escape(beginning)
    before = "".join(f"|(?<={prefix}{token})" for prefix in _BEFORE)
    return f"{token}(?:(?<![A-Za-z0-9]{token}){before}){ahead}[{kind}]{{{minimum},}}"


@cache
def _compiled(form: str) -> re.Pattern[str]:
    import re

    return re.compile(form, re.VERBOSE if form is _PRIVATE_KEY else 0)


def _without_login(match: re.Match[str]) -> str:
    """Any word may follow "basic"; a login does where it says so, or where it decodes to one."""
    lead = match.string[max(0, match.start() - 24) : match.start()].lower()
    _, header, between = lead.rpartition("authorization")
    is_said = header and (":" in between or "=" in between)
    return SIGN if is_said or decoded_login(match[0]) else match[0]


#: Two texts that must be there, the expression to search, and what replaces it.
_SHAPES: tuple[tuple[str, str, str, str | Callable[[re.Match[str]], str]], ...] = (
    ("PRIVATE KEY", "-----BEGIN", _PRIVATE_KEY, SIGN),
    ("eyJ", ".eyJ", _JWT, SIGN),
    ("earer ", "", _BEARER, SIGN),
    ("asic ", "", _BASIC, _without_login),
    ("://", "@", _LOGIN, SIGN),
    (":A", "", _TELEGRAM, SIGN),
    ("sig=", "", _SIGNATURE, SIGN),
)
