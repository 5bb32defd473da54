"""What a description claims, so far as a change can be held against it.

A description is a title with its body, or the message of a commit: hostile text, read in time that
grows with its length. What is no claim of a known form is left to a reader.
"""

from __future__ import annotations

import re
from itertools import chain, islice

from rlm_ci.checks._shown_markdown import shown_lines
from rlm_ci.values import Value

#: Kinds of claims: a name is in the change, was added, removed or renamed; how many files are
#: changed; tests are added; nothing but texts, nothing that others see, or little is changed.
NAMED, ADDS, REMOVES, RENAMES = "named", "adds", "removes", "renames"
FILES, TESTS, TEXTS_ONLY, SAME_INTERFACE, LITTLE = "files", "tests", "texts", "interface", "little"
#: What nothing in a change can show.
UNCHECKED = "unchecked"

#: Characters of a description, of a line, and claims of one.
_LONGEST, _LONGEST_LINE, _MOST = 65_536, 1000, 60
_PREFIX = re.compile(r"(\w{2,12})(?:\([^()\n]{1,60}\))?!?: ")
_LEAD = re.compile(r"(?:[-*+•]|\d{1,3}[.)]|\[[ xX]\]|#{1,6})\s+")
_TRAILER = re.compile(r"[A-Z][A-Za-z]*(?:-[A-Za-z]+)+: \S")
_TICKED = re.compile(r"`([^`\n]{1,120})`")
#: What is no prose of the author: addresses, quotes of commands and of other people.
_URL = re.compile(r"\b[a-z][a-z+.-]{1,10}://\S+|<[^<>\s]{1,200}@[^<>\s]{1,200}>")
_PATH = re.compile(r"(?<![\w./@:-])(?:[\w.-]{1,60}/){1,12}[\w-]{1,60}(?:\.\w{1,5}){1,2}(?![\w/(])")
_CALL = re.compile(r"(?<![\w.])[A-Za-z_][\w]{2,60}(?:(?:\.|::|#)[A-Za-z_]\w{0,60}){0,4}\(\)")
_SNAKE = re.compile(r"(?<![\w./:@<-])_{0,2}[a-z][a-z0-9]*(?:_[a-z0-9]+){1,8}(?![\w./:@<-])")
_ADDS = r"(?:add|adds|added|adding|introduces?|introduced|implements?|implemented|creates?|created)"
_REMOVES = r"(?:remove|removes|removed|removing|deletes?|deleted|drops?|dropped)"
_RENAMES = r"(?:rename|renames|renamed|renaming)"
_VERB = re.compile(
    rf"(?:(?P<adds>{_ADDS})|(?P<removes>{_REMOVES})|(?P<renames>{_RENAMES})|"
    r"fix(?:e[sd])?|changes?|changed|updates?|updated|moves?|moved|makes?|made|uses?|used|"
    r"supports?|supported|allows?|allowed|handles?|handled|deprecates?|deprecated|extracts?|"
    r"extracted|replaces?|replaced|improves?|improved|exposes?|exposed|refactors?|refactored|"
    r"splits?|document(?:s|ed)?|extends?|extended|simplif(?:y|ies|ied)|convert(?:s|ed)?|"
    r"switch(?:es|ed)?|validates?|caches?|cached|corrects?|corrected|tests?|wires?|wired|"
    r"tweak(?:s|ed)?|hides?|hidden|upgrade[sd]?|enable[sd]?|disable[sd]?|avoids?|ensures?)(?=[\s:])",
    re.IGNORECASE,
)
#: Words between a verb and the name that it is about.
_BETWEEN = re.compile(
    r"(?:\s+(?:a|an|the|new|missing|optional|public|private|helper|function|method|class|module|"
    r"option|parameter|argument|flag|field|property|setting|file|endpoint|route|command|constant|"
    r"support|for|unused|old|deprecated|obsolete|dead|basic|initial|dedicated|more|and))*\s+",
    re.IGNORECASE,
)
_TO = re.compile(r"\s+(?:to|into|as|->|=>|→)\s+", re.IGNORECASE)
_FILES = re.compile(
    r"\b(?:(?P<n>\d{1,6}) files? (?:are |were |is |was )?(?:changed|touched|modified|edited)|"
    r"(?:changes?|touches|modif(?:y|ies)|edits?) (?:only )?(?P<m>\d{1,6}) files?)\b",
    re.IGNORECASE,
)
_TESTS = re.compile(
    rf"\b(?:{_ADDS}|includes?|including|with) (?:(?:\d{{1,4}}|a|an|some|new|more|unit|regression|"
    r"integration|the|comprehensive|extensive|full|additional|several|few) ){0,3}tests?"
    r"(?: cases?| coverage)?(?= (?:for|that|to|of|and|in|cover)\b|[.,;:!)]|$)",
    re.IGNORECASE,
)
_TEXTS_ONLY = re.compile(
    r"(?<!\bif )(?<!\bwhen )"  # what a job does if only texts change is no claim
    r"\b(?:(?:docs?|documentation|comments?|readme|changelog)[- ]only|only (?:the )?(?:docs?|"
    r"documentation|comments?|docstrings?)(?: changes?| (?:is|are) changed)?|no code changes?)\b",
    re.IGNORECASE,
)
_SAME = re.compile(
    r"\b(?:no (?:public |user[- ]facing )?(?:api|interface) changes?|no breaking changes?|"
    r"(?:no|without|zero) (?:functional|behaviou?r(?:al)?|semantic) changes?|"
    r"(?:non|not)[- ]functional changes?|(?<![\w-])NFC(?![\w-]))",
    re.IGNORECASE,
)
#: Subjects that say that little is changed: by a prefix of conventional commits, or in words.
_LITTLE_PREFIXES = frozenset(("docs", "doc", "style", "typo"))
_LITTLE = re.compile(
    r"(?:(?:fix(?:e[sd]|ing)?|correct(?:s|ed)?|minor|small|tiny|trivial|some|a|few|more|spelling|"
    r"and|grammar|wording|update[sd]?|improve[sd]?|clean(?:s|ed|ing)?(?:[- ]?ups?)?|tweak(?:s|ed)?|"
    r"clarif(?:y|ies|ied)|the|in|of|code|edit(?:s|ed)?|polish(?:ed)?|(?:re)?format(?:ting|ted)?|"
    r"run|apply|black|prettier|gofmt|rustfmt|lint(?:ing|er)?|version|bump(?:s|ed)?|to|release|"
    r"v?\d+(?:\.\d+){1,3}(?!\.?\d)|whitespace|white|space|trailing|typos?|docs?|documentation|docstrings?|"
    r"comments?|readme(?:\.\w+)?|changelog(?:\.\w+)?|changes?|style)\b[\s,.&/-]*)+",
    re.IGNORECASE,
)
_LITTLE_WORDS = re.compile(
    r"typos?|docs?\b|documentation|docstrings?|comments?|readme|changelog|format|lint|whitespace|"
    r"white space|spelling|grammar|wording|style|minor|small|tiny|trivial|version|release",
    re.IGNORECASE,
)
#: Titles that say that the program does more, or something else, than before.
_BEHAVIOUR_PREFIXES = frozenset(("feat", "feature", "fix", "bugfix", "hotfix", "bug"))
#: What a run of tests here need not show (types, other machines), or is no part of the program, by
#: the first words about it.
_PLATFORMS = r"c?python ?[23][\w.]*|py[23]\w*|pypy\w*|windows|win32|mac ?os|osx|freebsd"
_BESIDE_WORDS = (
    r"tests?|testing|ci|docs?|documentation|typos?|typings?(?!\.\w)|pre-commit|mypy|pyright|ruff|flake8|"
    r"clippy|\w*lint\w*|(?:static|spell|shell|type)-?check\w*|workflow\w*|changelog|readme|"
    rf"coverage|{_PLATFORMS}|copyright|licen[cs]e|docstring\w*|mypyc|sdists?|packaging|"
    r"(?:arm\w*|binary|built|linux|(?:many|musl)linux\w*|universal) wheels?"
)
#: Words of that kind which programs have, too: they count in the scope, and at the end.
_LAST_WORDS = (
    r"annotations?|types?|hooks?|warnings?|comments?|release|c?python|android|ios|build|badge|"
    r"example\w*"
)
_BESIDE = (
    rf"(?:(?:[\w'-]+ ){{0,4}}(?:(?:{_BESIDE_WORDS})\b|"
    rf"(?:{_LAST_WORDS})(?: (?:support\w*|errors?|hints?|checks?))?(?: \(#\d+\))?\s*$)"
    rf"|[^\n]{{0,200}}\b(?:in|on|under|for|with) (?:{_PLATFORMS})\.?(?: \(#\d+\))?\s*$)"
)
_BESIDE_SCOPE = rf"\((?:{_BESIDE_WORDS}|{_LAST_WORDS})\)"
_IS_BESIDE = re.compile(
    rf"\w+{_BESIDE_SCOPE}!?: |(?:\w+(?:\([^()\n]+\))?!?: )?{_BESIDE}",
    re.IGNORECASE,
)
_BEHAVIOUR = re.compile(
    rf"(?:{_ADDS}|fix(?:e[sd])?|fixing|mends?|supports?|supported|allows?|allowed|handles?|handled|"
    rf"corrects?|corrected|prevents?|rejects?|accepts?|enables?|ensures?|avoids?)\b"
    rf"(?! {_BESIDE}|{_BESIDE_SCOPE})",
    re.IGNORECASE,
)
_UNCHECKED = re.compile(
    r"\b(?:(?:all )?tests? (?:all )?pass(?:es|ed|ing)?|(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?) "
    r"(?:[\w.-]{1,40}/[\w.-]{1,60})?#\d{1,9})\b",
    re.IGNORECASE,
)
#: How GitHub lets a text close an issue.
_CLOSES = re.compile(
    r"\b(?:close[sd]?|fix(?:e[sd])?|resolve[sd]?):? "
    r"(?:(?P<name>[\w.-]{1,40}/[\w.-]{1,60})?#|https://[\w.:-]{1,80}/"
    r"(?P<path>[\w.-]{1,40}/[\w.-]{1,60})/issues/)(?P<number>\d{1,9})\b",
    re.IGNORECASE,
)
#: Words that say nothing of a change, whatever their order.
_EMPTY_TEXT = """
fix fixes fixed bug bugs bugfix bugfixes issue issues update updates updated change changes changed
minor small some various misc miscellaneous code stuff things wip work in progress more files file
commit my new it this that todo tbd na the a an and of to for asdf tmp temp foo bar xxx pr pull
request description describe here your please add summary title save final done ok latest again
several general other improvements improve improvement tweak tweaks
"""
_EMPTY = frozenset(_EMPTY_TEXT.split())
_PROMPT = re.compile(
    r"(?:please )?(?:describe|summari[sz]e|explain|provide|enter|insert|fill in) (?:an? |the |"
    r"your |what |here )+(?:brief |short |clear )?(?:changes?|description|summary|title|pull|pr\b|"
    r"this|you)|<!--|\bTODO:?$|\bTBD\b|lorem ipsum|\[(?:describe|summary|description|title|insert|"
    r"your)\b|(?:your|short|brief) (?:description|summary)(?: goes)? here",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W_]+")


class Claim(Value):
    """A claim of ``kind``, with the name or names, and the number, that it is about."""

    kind: str
    names: tuple[str, ...] = ()
    number: int = 0
    text: str = ""


def claims(title: str, body: str) -> list[Claim]:
    """The claims of a description, each once, in the order of the text.

    The body of several commits in one may say of a name that it came and went: that claims nothing,
    but the title speaks for all of them.
    """
    first, *lines = _lines(title, body)
    of_title = _of_line(first, is_title=True)
    of_body = (claim for line in lines for claim in _of_line(line, is_title=False))
    results = dict.fromkeys(islice(chain(of_title, of_body), _MOST))
    added, removed = (
        {name for claim in results if claim.kind == kind for name in claim.names}
        for kind in (ADDS, REMOVES)
    )
    passing = added & removed
    return [
        claim
        for claim in results
        if claim in of_title or claim.kind not in (ADDS, REMOVES) or passing.isdisjoint(claim.names)
    ]


def claims_behaviour(title: str) -> bool:
    """Whether a title says that the change adds or mends what the program does."""
    text = _lines(title, "")[0]
    prefix = _PREFIX.match(text)
    if prefix and prefix[1].lower() not in _BEHAVIOUR_PREFIXES:
        return False
    others = {TESTS, TEXTS_ONLY, SAME_INTERFACE, LITTLE}
    if any(claim.kind in others for claim in _of_line(text, is_title=True)):
        return False
    if prefix:
        return _IS_BESIDE.match(text) is None
    return _BEHAVIOUR.match(text) is not None


def is_placeholder(title: str, body: str) -> bool:
    """Whether a description is empty, says nothing, or is a template that was not filled in."""
    text = " ".join(_lines(title, body))
    is_unfilled = not text.strip() or _PROMPT.match(text) is not None
    return is_unfilled or is_any_change(title, body)


def is_any_change(title: str, body: str) -> bool:
    """Whether a description has words alone that any change could have, and is no template."""
    text = " ".join(_lines(title, body))
    if not text.strip() or _PROMPT.match(text):
        return False
    words = [word.lower() for word in _WORD.findall(text)]
    return all(word in _EMPTY for word in words) and not re.search(r"#\d|/", text)


def closed_issues(title: str, body: str) -> list[str]:
    """The issues that a description closes: ``owner/name#12``, or ``#12`` of its repository."""
    lines = [title[:_LONGEST_LINE], *(shown for _, shown in shown_lines(body[:_LONGEST]))]
    matches = (match for line in lines for match in _CLOSES.finditer(line[:_LONGEST_LINE]))
    issues = (f"{match['name'] or match['path'] or ''}#{match['number']}" for match in matches)
    return list(dict.fromkeys(issues))


def _lines(title: str, body: str) -> list[str]:
    """The lines of prose, the title first, without trailers, quotes, code and addresses."""
    results = [_LEAD.sub("", title.strip()[:_LONGEST_LINE], count=1)]
    for _, shown in shown_lines(body[:_LONGEST]):
        line = shown.strip()[:_LONGEST_LINE]
        if not line or line[0] in ">|$" or shown.startswith(("    ", "\t")) or _TRAILER.match(line):
            continue
        results.append(_LEAD.sub("", line, count=1))
    return [_URL.sub("", line) for line in results]


def _of_line(line: str, *, is_title: bool) -> list[Claim]:
    prefix = _PREFIX.match(line)
    text = line[prefix.end() :] if prefix else line
    results = []
    if match := _TEXTS_ONLY.search(text):
        results.append(Claim(TEXTS_ONLY, text=match[0]))
    if match := _SAME.search(text):
        results.append(Claim(SAME_INTERFACE, text=match[0]))
    if match := _FILES.search(text):
        results.append(Claim(FILES, number=int(match["n"] or match["m"]), text=match[0]))
    if match := _TESTS.search(text):
        results.append(Claim(TESTS, text=match[0]))
    results += [Claim(UNCHECKED, text=match[0]) for match in _UNCHECKED.finditer(text)]
    if is_title and not results:
        is_little = _LITTLE.fullmatch(text) and _LITTLE_WORDS.search(text)
        if is_little or (prefix and prefix[1].lower() in _LITTLE_PREFIXES):
            results.append(Claim(LITTLE, text=line[:120]))
    return results + _of_names(text)


def _of_names(text: str) -> list[Claim]:
    """The names in a line that begins with a verb of change, each with what is done to it."""
    verb = _VERB.match(text)
    if verb is None:
        return []
    spans = _names(text)
    between = _BETWEEN.match(text, verb.end())
    start = between.end() if between else verb.end()
    results, used = [], set[int]()
    first = next((at for at, (begin, _, _) in enumerate(spans) if begin in (start, start + 1)), -1)
    if first == 0 and verb["renames"] and spans[1:]:
        (_, end, old), (begin, _, new) = spans[:2]
        if _TO.fullmatch(text[end:begin].strip("`\"'")):
            results.append(Claim(RENAMES, (old, new), text=text[:120]))
            used = {0, 1}
    elif first == 0 and (verb["adds"] or verb["removes"]):
        kind = ADDS if verb["adds"] else REMOVES
        results.append(Claim(kind, (spans[0][2],), text=text[:120]))
        used = {0}
    results += [
        Claim(NAMED, (name,), text=text[:120])
        for at, (_, _, name) in enumerate(spans)
        if at not in used
    ]
    return results


def _names(text: str) -> list[tuple[int, int, str]]:
    """The code-like names of a line, in order: where they begin and end, and each name."""
    results = [(*match.span(1), match[1].strip()) for match in _TICKED.finditer(text)]
    bare = _TICKED.sub(lambda match: " " * len(match[0]), text)
    for pattern in (_PATH, _CALL, _SNAKE):
        results += [(*match.span(), match[0]) for match in pattern.finditer(bare)]
        bare = pattern.sub(lambda match: " " * len(match[0]), bare)
    return sorted(span for span in results if _is_name(span[2]))


def _is_name(name: str) -> bool:
    """Whether a text in backticks is one name, and not an expression, a command or a value."""
    return (
        re.fullmatch(r"[-@./#:$\w]*[A-Za-z_][-@./#:$\w]*(?:\(\))?", name) is not None
        and len(_WORD.findall(name)) > 0
        and len(name) >= 4
    )
