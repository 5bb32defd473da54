"""How much an assertion asks for, by its text: the same scale for all languages."""

from __future__ import annotations

import re

from rlm_ci.guard.weakened_tests.cases import telling, words_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rlm_ci.guard.weakened_tests.cases import Case

#: Nothing; that something is there; a part of it; all of it; all of it with its message.
NOTHING, PRESENCE, PART, EXACT, WORDED = range(5)

_NOTHING = (
    r"^assert (?:True|1|not False)(?:,|$)|\bor True\b|\|\| ?true\b|^assert (.{1,80}) == \1$"
    r"|(?i:\bassert_?(?:true|that)?!?\((?:true|1)[,)])|\bexpect\((?:true|false|1|null|undefined)\)"
    r"|^if ?\(?(?:0|false|False)\b"
    r"|^(?:expect\(.*\)\.(?:rejects|resolves)\b|(?:t|assert)\.(?:not)?(?:[tT]hrowsAsync|rejects)\()"
    r"|(?:(?i:assert\w{0,40}|equals?|same)|\bis)!?\((?:\w{1,20}, ?)?([^,()]{1,80}), ?\2[,)]"
)
_PRESENCE = (
    r"(?:raises|throws|assertRaises|assertThrows)\((?:\w+\.)?(?:Base)?(?:Exception|Throwable|Error)"
    r"(?:\.class)?[,)](?!.*match=)"
    r"|toBeDefined|not\.toBeUndefined|notEqual\(.*,undefined\)|toBeTruthy|toBeFalsy|toBe\((?:true|false|null|undefined)\)|not\.toBeNull"
    r"|not\.toThrow|toBeInstanceOf|toHaveBeenCalled\(\)|\bbe(?:en)?\.called\b|\bto\.be\.(?:true|false|null|undefined|ok)\b|assert_called(?:_once)?\(\)|\bisinstance\("
    r"|IsInstance|assert(?:Is)?(?:True|NotNone|NotNull|False|Null|None)\((?!.*==)|NotNil\("
    r"|(?:==|^(?!.*(?:called_|CalledWith)).*,) ?None\)?$|NoError\("
    r"|is_ok\(\)|is_some\(\)|is_err\(\)|is_none\(\)|^if ?\(?err ?[!=]= ?nil"
)
_WORDED = (
    r"\b(?:(?:raises|warns)(?=\((?!\(|(?:Base)?Exception\b))|assertRaisesRegex|assertWarnsRegex)"
    r"\(.*match=|RaisesRegex"
)
_EMPTY = r"(?:True|False|None|0|''|\"\"|\[\]|\{\}|\(\)|set\(\))"
#: A claim that something is just this, and no more than that.
_SPECIAL = (
    rf"(?:==|\bis) ?{_EMPTY}(?:$|,)|toBe\((?:true|false|null|undefined)\)|toBeUndefined\("
    r"|assertIs\(|(?:Nil|Empty|True|False|Null)\(t?,|assertIs?(?:None|Null|True|False)\("
)
_EXACT = (
    rf"==(?! ?{_EMPTY}$)|\bt\.is\(|(?i:equals?|eql)\b|(?i:equal)|_eq\b|toBe\(|CalledWith"
    rf"|called_(?:once_)?with|raises\((?!\()|[tT]hrows|should_panic| is (?!{_EMPTY}|not )|^if.*!="
)
_PART = (
    r"\bin\b|\bassert(?:Not)?In\(|toContain|toMatch|toHaveLength|toHaveProperty|toBe(?:Greater|Less)Than|(?i:starts_?with|ends_?with|has_?prefix|has_?suffix)"
    r"|\.is_sorted|(?i:contains|not_?contain\b|matches)|<|(?<![=-])>|!=|raises\(\(|(?i:not_?equal)|assert_ne|search\(|Regex|approx"
)
#: An assertion of Python, or a macro, that only says that something is true.
_BARE = rf"^assert (?!.*(?:==(?! ?{_EMPTY}$)|!=|[<>]|\bin\b))|\bassert!\((?!.*(?:==|!=|[<>]|eq\())"
#: The number that is compared, and how far it may be away: in all, or in parts of it.
_TOLERANCE = (
    r"(?:\bapprox\(|AlmostEquals?\(.{1,200}, ?)-?(\d{1,15}(?:\.\d{1,15})?),"
    r".{0,40}?\b(?:(?:abs|delta)=(\d{1,15}(?:\.\d{1,15})?)|rel=(\d{1,15}(?:\.\d{1,15})?))"
)
_WIDE = 0.1
_ARGUMENT = r"(?:[^,()\"]|\"(?:[^\"\\]|\\.)*\"|\([^()]*\))+"
_ONE = "True|False|Nil|NotNil|Error|NoError|Empty|NotEmpty"
_TWO = "Equal|NotEqual|Contains|NotContains|Len|Same|ErrorIs|ErrorContains|EqualError|IsType"
#: Claims of Go, and the usual form of each.
_GO_FORMS = [
    (re.compile(pattern), form)
    for pattern, form in (
        (rf"^((?:if!)?(?:assert|require)\.(?:{_ONE})\(t,{_ARGUMENT}),\".*\)$", r"\1)"),
        (rf"^((?:if!)?(?:assert|require)\.(?:{_TWO})\(t,{_ARGUMENT},{_ARGUMENT}),\".*\)$", r"\1)"),
        (r"\.Equal\((t,)?0,len\((.+)\)\)$", r".Empty(\1\2)"),
        (r"\.Equal\((t,)?(\w+),len\((.+)\)\)$", r".Len(\1\3,\2)"),
        (r"\.Equal\((t,)?true,(.+)\)$", r".True(\1\2)"),
        (r"\.Equal\((t,)?false,(.+)\)$", r".False(\1\2)"),
        (r"\.Equal\((t,)?nil,(.+)\)$", r".Nil(\1\2)"),
        (r"\bbytes\.Compare\((.+)\)!=0", r"!bytes.Equal(\1)"),
    )
]
_QUOTED = r"\"(?:[^\"\\]|\\.)+\"|'(?:[^'\\]|\\.)+'|`(?:[^`\\]|\\.)+`"
_NUMBER = r"\b\d[\d.]*"
#: Letters of a text, with its quote, that says nothing by itself.
_SHORT = 4


def strength(claim: str) -> int:
    """From NOTHING to WORDED."""
    if re.search(_NOTHING, claim):
        return NOTHING
    if re.search(_PRESENCE, claim):
        return PRESENCE
    if re.search(_WORDED, claim):
        return WORDED
    if _is_wide(claim):
        return PART
    if re.search(_EXACT, claim) and not re.search(r"(?i)not_?equal|assert_ne", claim):
        return EXACT
    if re.search(_PART, claim):
        return PART
    return PRESENCE if re.search(_BARE, claim) else EXACT


def _is_wide(claim: str) -> bool:
    """Whether a comparison of Python lets a number be wrong by a tenth of it, or more."""
    match = re.search(_TOLERANCE, claim)
    if not match:
        return False
    value, absolute, relative = (float(group or 0) for group in match.groups())
    return relative >= _WIDE or (absolute > 0 and absolute >= _WIDE * value)


def conditions(claim: str) -> list[str]:
    """What a claim asks for, each by itself: `a and b` is two."""
    quiet = re.sub(_QUOTED, '"x"', claim)
    parts = re.split(r"\|\|" if claim.startswith("if") else r"&&|\band\b", quiet)
    if claim.startswith("assert "):
        parts[1:] = [f"assert {part.strip()}" for part in parts[1:]]
    return parts if len(parts) > 1 else [claim]


def shape(claim: str) -> str:
    """A claim without its texts and numbers."""
    return re.sub(_NUMBER, "0", re.sub(_QUOTED.replace("+", "*"), '""', claim))


def is_same(claim: str, others: Iterable[str]) -> bool:
    """Whether one of others says the same by another function of testify, or of bytes in Go."""
    plain = _plain(claim)
    return plain != claim and plain in map(_plain, others)


def _plain(claim: str) -> str:
    """A claim of Go in its usual form, without what it says of a failure."""
    for pattern, form in _GO_FORMS:
        claim = pattern.sub(form, claim)
    return claim


def is_check(name: str, path: str, text: str) -> bool:
    """Whether a function has the name of a check; in Go, it is called with the test in ``text``."""
    is_named = name.lstrip("_").lower().startswith(("check", "verify", "expect_", "ensure"))
    if is_named or not path.endswith(".go"):
        return is_named
    is_like = re.search(r"(?i)equal|match|panic|err|nil|assert|must|require|want", name)
    return is_like is not None and re.search(rf"\b{re.escape(name)}\(t[,)]", text) is not None


def asked_now(
    gained: Iterable[str], lost: Iterable[tuple[int, str]], *, code_changed: bool
) -> Iterator[int]:
    """What is asked for now: as much as before, where a claim only has another value.

    That may be an empty one, where the code changed with it.
    """
    shapes = {shape(claim) for _, claim in lost if strength(claim) == EXACT}
    for claim in gained:
        for condition in conditions(claim):
            if (now := strength(condition)) > NOTHING:
                is_special = code_changed and re.search(_SPECIAL, condition)
                yield EXACT if is_special or shape(claim) in shapes else now


def demands(claim: str, gained: Sequence[int]) -> list[str]:
    """What a claim asks for; all in one, if something gained asks for more than each."""
    parts = conditions(claim)
    return [claim] if gained and gained[0] > max(map(strength, parts)) else parts


def is_about(claim: str, test: Case) -> bool:
    """Whether a test still has something that a claim names."""
    return not telling(words_of(claim)).isdisjoint(test.words)


def without_parted(gone: Sequence[str], more: Iterable[str]) -> list[str]:
    """Literals but those of which new ones have most letters, in parts: something has a name."""
    long = [word.lstrip('"') for word in more if word[0] == '"' and len(word) > _SHORT]
    pairs = ((text, [word for word in long if word in text]) for text in gone)
    parted = [
        text for text, parts in pairs if len(parts) > 1 and 2 * len("".join(parts)) > len(text)
    ]
    return [word for word in gone if not any(word in text for text in parted)]


def nearest(claim: str, others: Iterable[str]) -> float:
    """How much of its words a claim shares with the most alike of others, from 0 to 1."""
    words = words_of(claim).keys()
    shares = [len(words & more) / len(words | more) for more in map(words_of, others)]
    return max(shares, default=0.0)
