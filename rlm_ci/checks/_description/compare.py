"""Descriptions, held against what their changes do."""

from __future__ import annotations

import re

from rlm_ci.change import commit_messages
from rlm_ci.checks._description.claims import (
    ADDS,
    FILES,
    LITTLE,
    NAMED,
    REMOVES,
    RENAMES,
    SAME_INTERFACE,
    TESTS,
    TEXTS_ONLY,
    UNCHECKED,
    claims,
    is_any_change,
    is_placeholder,
)
from rlm_ci.checks._description.facts import ChangeFacts
from rlm_ci.text.printable import count, first_of, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.checks._description.claims import Claim

#: The conditions of a description, as rules name them.
NOT_FOUND, DIFFERS, UNSAID, PLACEHOLDER = "not-found", "differs", "unsaid", "placeholder"
#: What commits need not say, and a pull request should.
_PACKAGE, _NAME = "package", "name"
_NEEDLESS = (_PACKAGE, _NAME)
#: Lines of code from which on a change is more than little.
_LITTLE_CODE = 12
#: Commits before a change that show how its project words a message, and how many make a habit.
_MOST_BEFORE, _USUAL = 200, 2
#: Names of a description that are looked for in the other files of the repository.
_MOST_SEARCHED = 12
#: What a description says where it says something of the kind at all.
_SAYS_PACKAGE = re.compile(
    r"depend|requir|package|bump|upgrade|librar|\bdeps?\b|install|vendor|\bpin|toolchain|"
    r"moderni[sz]e|switch|migrat|replace|build|packaging|\bci\b|plugin|crate|module|pyproject|"
    r"\bset ?up|tox|drop|lint|import",
    re.IGNORECASE,
)
_SAYS_PERMISSION = re.compile(
    r"permission|token|workflow|\bci\b|releas|publish|deploy|action|secur|attest|provenance|"
    r"github|codeql|scorecard|zizmor|pipeline",
    re.IGNORECASE,
)
_SAYS_MIGRATION = re.compile(
    r"migrat|schema|model|database|\bdb\b|table|column|index|sql|field|alembic", re.IGNORECASE
)
_SAYS_BREAK = re.compile(
    r"remov|delet|drop|renam|break|deprecat|refactor|replac|mov|clean|simplif|rewrit|unus|merge|"
    r"convert|chang|split|restructur|reorgani|inline|instead|revert|api\b|extract|privat|internal|"
    r"rework|redesign|port|kill|strip|get rid|no longer|signature|argument|param|require|make|use|"
    r"add|unif|overhaul|switch|prefix|hide|eliminat|consolidat|support|implement|fix|allow|update|"
    r"improv|return|type|handl|correct|->|→|=>",
    re.IGNORECASE,
)


class Description(Value):
    """A title with its body, or a commit's message, and the change that it is about.

    ``source`` is how a finding names it: ``the title and body``, ``commit 1c9f3e0a7b52``.
    """

    source: str
    title: str
    body: str
    change: ChangeSet


class Flaw(Value):
    """What a description says and a change does not, or the other way round: ``rule`` and words."""

    rule: str
    message: str
    subject: str


class ComparedDescriptions(Value):
    """``confirmed`` claims were found in the change, ``unchecked`` ones cannot be held against it.

    ``notes`` are what commits need not say, and a pull request should: new packages, names.
    """

    flaws: tuple[Flaw, ...] = ()
    confirmed: int = 0
    unchecked: int = 0
    notes: tuple[str, ...] = ()


def compare(descriptions: Sequence[Description], change: ChangeSet) -> ComparedDescriptions:
    """What the descriptions of ``change``, and of parts of it, claim and leave out."""
    flaws: dict[Flaw, None] = {}
    confirmed = unchecked = 0
    facts: dict[tuple[str | None, str | None], ChangeFacts] = {}

    def facts_of(part: ChangeSet) -> ChangeFacts:
        return facts.setdefault((part.merge_base, part.head), ChangeFacts(part))

    for item in descriptions:
        for claim in claims(item.title, item.body):
            if claim.kind == UNCHECKED:
                unchecked += 1
            elif flaw := _flaw(claim, facts_of(item.change), item.source):
                flaws[flaw] = None
            else:
                confirmed += 1
    notes = []
    if all(is_placeholder(item.title, item.body) for item in descriptions):
        message = f"{_joined(descriptions)} says nothing of the change"
        if _is_usual(descriptions, change):
            notes.append(f"{message}, as others in this repository")
        else:
            flaws[Flaw(PLACEHOLDER, message, "placeholder")] = None
    text = "\n".join(f"{item.title}\n{item.body}" for item in descriptions)
    unsaid = list(_unsaid(text, facts_of(change)))
    needless = () if change.pull_request else _NEEDLESS
    flaws.update((item, None) for item in unsaid if item.subject not in needless)
    notes += [item.message for item in unsaid if item.subject in needless]
    return ComparedDescriptions(tuple(flaws), confirmed, unchecked, tuple(notes))


def _is_usual(descriptions: Sequence[Description], change: ChangeSet) -> bool:
    """Whether commits say no more than two of the last commits before them do.

    A project that calls a change "tweaks" now and then need not be told. A pull request is written
    for its reviewer, and a template that was not filled in is nobody's habit.
    """
    if change.pull_request or not all(
        is_any_change(item.title, item.body) for item in descriptions
    ):
        return False
    before = commit_messages.of_range(
        change.repository, change.merge_base or "", (), most=_MOST_BEFORE
    )
    usual = sum(is_any_change(*item.text.partition("\n")[::2]) for item in before)
    return usual >= _USUAL


def _joined(descriptions: Sequence[Description]) -> str:
    if not descriptions:
        return "the description"
    return descriptions[0].source if len(descriptions) == 1 else "each description"


def _flaw(claim: Claim, facts: ChangeFacts, source: str) -> Flaw | None:
    mismatch = _mismatch(claim, facts)
    if not mismatch:
        return None
    rule = NOT_FOUND if claim.kind in (NAMED, ADDS, REMOVES, RENAMES, TESTS) else DIFFERS
    subject = printable(" ".join(claim.names) or claim.kind)[:200]
    return Flaw(rule, f"{source}: {mismatch}", subject)


def _mismatch(claim: Claim, facts: ChangeFacts) -> str:
    """What a claim says and the change does not show; "" where it does."""
    names = [f"`{printable(name)[:120]}`" for name in claim.names]
    if claim.kind == NAMED and not facts.has(claim.names[0]):
        if not facts.is_elsewhere(claim.names[0]):
            return f"{names[0]} is named, and is in no file of the repository"
    elif claim.kind == ADDS and not facts.has(claim.names[0]):
        return f"{names[0]} is said to be added, and is in no changed file"
    elif claim.kind == REMOVES and not (facts.has(claim.names[0])):
        return f"{names[0]} is said to be removed, and was in no changed file"
    elif claim.kind == RENAMES:
        old, new = claim.names
        if not (facts.removes(old) or facts.has(old)) or not (facts.adds(new) or facts.has(new)):
            return f"{names[0]} is said to be {names[1]} now, and the change does not rename it"
    elif claim.kind == TESTS and not facts.has_tests:
        return f"{_quoted(claim)} is said, and no test is changed"
    elif claim.kind == FILES and not facts.count_is(claim.number):
        number = count(len(facts.paths), "file")
        return f"{_quoted(claim)} is said, and the change has {number}"
    elif claim.kind == TEXTS_ONLY and (more := _more_than_texts(facts)):
        return f"{_quoted(claim)} is said, and {more}"
    elif claim.kind == SAME_INTERFACE and (broken := _broken(facts)):
        return f"{_quoted(claim)} is said, and {_listed(broken)} is no longer what it was"
    elif claim.kind == LITTLE and facts.code_lines >= _LITTLE_CODE:
        return f"{_quoted(claim)} is said, and {count(facts.code_lines, 'line')} of code differ"
    return ""


def _more_than_texts(facts: ChangeFacts) -> str:
    """What of a change is no text, in words; "" for nothing."""
    if facts.code_lines:
        return f"{count(facts.code_lines, 'line')} of code differ"
    if not facts.build_files:
        return ""
    verb = "differs" if len(facts.build_files) == 1 else "differ"
    return f"{_listed(facts.build_files, 'file')} {verb}"


def _quoted(claim: Claim) -> str:
    return f"“{printable(claim.text)[:120]}”"


def _broken(facts: ChangeFacts) -> list[str]:
    return [item.name for item in facts.names if item.breaking]


def _listed(names: Sequence[str], noun: str = "name") -> str:
    return first_of([f"`{printable(name)[:80]}`" for name in names], noun)


def _unsaid(text: str, facts: ChangeFacts) -> Iterator[Flaw]:
    """What the change does and no description says anything of."""
    lower = text.lower()

    def missing(names: Sequence[str], words: re.Pattern[str]) -> list[str]:
        if words.search(text):
            return []
        return [item for item in names if not any(stem in lower for stem in _stems(item))]

    packages = [item.name for item in facts.dependencies]
    kinds = (
        (_PACKAGE, "a new dependency", packages, _SAYS_PACKAGE),
        ("permission", "a permission of a workflow", facts.permissions, _SAYS_PERMISSION),
        ("migration", "a migration of stored data", facts.migrations, _SAYS_MIGRATION),
        (_NAME, "a public name that is gone or another", _broken(facts), _SAYS_BREAK),
    )
    for kind, what, names, words in kinds:
        if left := missing(names, words):
            message = f"the description says nothing of {_listed(left)}, {what}"
            yield Flaw(UNSAID, message, kind)


def _stems(name: str) -> list[str]:
    """The beginnings of a name's words, by which a text may speak of it in other words."""
    return [word[:5].lower() for word in re.findall(r"[^\W_]{3,}", name)] or [name.lower()]
