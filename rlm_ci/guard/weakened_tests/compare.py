"""The tests of a change, before and after: which are lost, left out, or ask for less.

A test that moved, was renamed, or became a case of another is no loss. What changed together with
the code, and what has a reason, is counted and no weakening.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property
from operator import itemgetter

from rlm_ci.guard.collected import collected, not_run
from rlm_ci.guard.collected.not_run import REMOVED
from rlm_ci.guard.weakened_tests import rewritten
from rlm_ci.guard.weakened_tests.cases import (
    READ_BY_STATEMENTS,
    Case,
    CaseFile,
    is_literal,
    telling,
    words_of,
)
from rlm_ci.guard.weakened_tests.strength import (
    EXACT,
    PRESENCE,
    asked_now,
    demands,
    is_about,
    is_check,
    is_same,
    nearest,
    strength,
    without_parted,
)
from rlm_ci.guard.weakened_tests.subjects import OBSOLETE, REWRITTEN, UNCOLLECTED, Subjects
from rlm_ci.guard.weakening import RestOfTree, Weakening
from rlm_ci.text.printable import count
from rlm_ci.validators import test_file_names
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from rlm_ci.guard.collected.tree_side import TreeSide
    from rlm_ci.guard.weakening import TextChange

WEAKENED = "assertion-weakened"
#: Kinds of notes: what happened to a test, and is no weakening.
MOVED, RENAMED, MERGED = "moved", "renamed", "merged"
EXPECTED, COPIED = "expected", "copied"

_SHOWN = 120
#: What a package of its own has in its folder.
_MANIFESTS = ("package.json", "pyproject.toml", "Cargo.toml", "go.mod", "pom.xml")
#: What fails a test by itself, and letters of a text that says what a claim is about.
_THROWS, _LONG_WORD = ("throw", "raise"), 8
_LESS = "asks for less than"
#: Tests that are compared with all others.
_MOST = 400


class ComparedTests(Value):
    """Weakenings, notes of the rest (``rule`` is the kind), and paths not read, with why."""

    weakenings: tuple[Weakening, ...] = ()
    notes: tuple[Weakening, ...] = ()
    not_read: tuple[tuple[str, str], ...] = ()

    @cached_property
    def counted(self) -> Counter[str]:
        """How many notes there are of each kind."""
        return Counter(note.rule for note in self.notes)


class CodeChange(Value):
    """The rest: whether code changed, which names are defined no more, what stays as it is.

    ``unsaid`` gives the names that the code says no more, whether it defined them or not, and
    ``rarer`` those that it says less often; ``has_shrunk``, whether it only lost lines.
    """

    changed: bool = False
    gone: Callable[[], frozenset[str]] = frozenset
    unsaid: Callable[[], frozenset[str]] = frozenset
    rarer: Callable[[], frozenset[str]] = frozenset
    has_shrunk: Callable[[], bool] = bool
    rest_of_tree: RestOfTree = RestOfTree()
    #: Both sides, to ask which tests a runner collects.
    sides: tuple[TreeSide, TreeSide] | None = None


def can_read(path: str) -> bool:
    """Whether tests in this file can be compared, given its grammar."""
    return path.endswith((".py", *READ_BY_STATEMENTS))


def read(path: str, text: str, sides: Iterable[TreeSide] = ()) -> CaseFile:
    """The tests of a file; by the settings of ``sides``, if none has a usual name."""
    if path.endswith(".py"):
        from rlm_ci.guard.weakened_tests import python_cases

        file = python_cases.read(text)
        if sides and file.helpers and not file.cases and test_file_names.is_file(path):
            from rlm_ci.guard.collected import pytest_tests

            file = python_cases.read(text, pytest_tests.functions(path, sides))
        return file
    from rlm_ci.guard.weakened_tests import statement_cases  # a hook of Python needs no other

    return statement_cases.read(path, text)


def compare(changes: Iterable[TextChange], code: CodeChange | None = None) -> ComparedTests:
    """How the tests of these files changed."""
    return _Comparing(list(changes), code or CodeChange()).result()


class _Comparing:
    def __init__(self, changes: list[TextChange], code: CodeChange) -> None:
        self.code = code
        self.weakenings: list[Weakening] = []
        self.notes: list[Weakening] = []
        self.not_read: list[tuple[str, str]] = []
        self.old: dict[str, CaseFile] = {}
        self.new: dict[str, CaseFile] = {}
        for change in changes:
            self._read(change)
        self.pairs: list[tuple[str, Case, str, Case]] = []
        self.lost: list[tuple[str, Case]] = []
        self.added: list[tuple[str, Case]] = []

    def _read(self, change: TextChange) -> None:
        if not can_read(change.path):
            if change.before is not None:
                self.not_read.append((change.path, "no reader for its language"))
            return
        old, new = (
            CaseFile() if text is None else read(change.path, text, self.code.sides or ())
            for text in (change.before, change.after)
        )
        flaw = old.flaw or new.flaw
        if flaw and old.cases and change.path.endswith(".py"):
            what = f"the file {new.flaw}, so none of its tests runs"
            self.weakenings.append(Weakening(REMOVED, what, change.path))
        elif flaw:
            self.not_read.append((change.path, flaw))
        else:
            self.old[change.path], self.new[change.path] = old, new

    def result(self) -> ComparedTests:
        self._pair()
        self._take_in()
        for old_path, test, path, case in self.pairs:
            if test.text != case.text or self.old[old_path].tables != self.new[path].tables:
                self._weaker(old_path, test, path, case)
        files = self.old, self.new
        if self.code.sides:
            self.weakenings += not_run.not_collected(self.pairs, *files, self.code.sides)
        tree = self.code.sides[1] if self.code.sides else None
        for weakening in not_run.left_out(self.pairs, *files, tree):
            (self.notes if weakening.rule == not_run.REASONED else self.weakenings).append(
                weakening
            )
        self.weakenings += not_run.focused(*files)
        weakenings = sorted(
            self.weakenings, key=lambda item: (item.path, item.line or 0, item.rule)
        )
        return ComparedTests(tuple(weakenings), tuple(self.notes), tuple(self.not_read))

    def _note(self, kind: str, path: str, test: Case, side: str = "new") -> None:
        self.notes.append(Weakening(kind, test.name[:_SHOWN], path, test.line, side))

    # ── which test is which ──

    def _pair(self) -> None:
        self.lost = [(path, case) for path, file in self.old.items() for case in file.cases]
        self.added = [(path, case) for path, file in self.new.items() for case in file.cases]
        self._match(lambda entry: (entry[0], entry[1].name))
        self._match(lambda entry: (entry[0], entry[1].last_name))
        self._pair_renamed()
        self._match(lambda entry: entry[1].last_name, MOVED)
        if self.lost and self.added:
            self._match(lambda entry: entry[1].body, RENAMED)
        alike = [
            (likeness, lost, added)
            for lost in self.lost[:_MOST]
            for added in self.added[:_MOST]
            if (likeness := rewritten.likeness(lost[1], added[1])) >= rewritten.ALIKE
        ]
        for _, lost, added in sorted(alike, key=itemgetter(0), reverse=True):
            if lost in self.lost and added in self.added:
                self.pairs.append((*lost, *added))
                self.lost.remove(lost)
                self.added.remove(added)
                self._note(RENAMED, *added)

    def _pair_renamed(self) -> None:
        """Where another test took the name of one, pair it with the new one that has its body."""
        fresh = {(path, case.body): (path, case) for path, case in self.added}
        for at, (old_path, test, path, case) in enumerate(self.pairs if fresh else ()):
            is_other = test.text != case.text and test.body != case.body
            if is_other and (entry := fresh.pop((path, test.body), None)):
                self.pairs[at] = (old_path, test, *entry)
                self.added = [added for added in self.added if added[1] is not entry[1]]
                self.added.append((path, case))
                self._note(RENAMED, *entry)

    def _match(self, key: Callable[[tuple[str, Case]], object], what: str = "") -> None:
        """Pair those of one key, in the order that they stand in."""
        waiting: dict[object, list[tuple[str, Case]]] = {}
        for entry in self.added:
            waiting.setdefault(key(entry), []).append(entry)
        lost, taken = [], set()
        for path, test in self.lost:
            same = waiting.get(key((path, test)))
            if not same:
                lost.append((path, test))
                continue
            where, case = same.pop(0)
            self.pairs.append((path, test, where, case))
            taken.add(id(case))
            if what:
                self._note(what, where, case)
        self.lost, self.added = lost, [entry for entry in self.added if id(entry[1]) not in taken]

    def _take_in(self) -> None:
        """Find out what became of the tests that are gone."""
        if not self.lost:
            return
        before = {id(case): test for _, test, _, case in self.pairs}
        grown = [(case, before.get(id(case))) for case in self._now()]
        takers = []
        for case, old in grown:
            if old is None or old.text != case.text:
                words = self._words(case, self._helpers)
                counts = Counter() if old is None else self._words(old, self._old_helpers)
                takers.append((case, words.keys(), (words - counts).keys()))
        gone = []
        obsolete = Counter[str]()
        for path, test in self.lost:
            terms = telling(test.words) - {test.last_name, f'"{test.name}'}
            values = frozenset(filter(is_literal, terms))
            is_merged = any(
                rewritten.is_in(terms, values, gain, words, case) for case, words, gain in takers
            )
            if is_merged or self._is_inherited(path, test):
                self._note(MERGED, path, test, "old")
            elif self.code.changed and not self.code.gone().isdisjoint(rewritten.names(test)):
                self._note(OBSOLETE, path, test, "old")
                obsolete[path] += 1
            else:
                gone.append((path, test))
        gone = self._without_whole_files(gone, obsolete)
        anew = self._written_anew(gone)
        lost = list(self._unexplained(gone, anew))
        doubts = self._subjects.doubts(lost, self._explained())
        for (path, test), doubt in zip(lost, doubts, strict=True):
            what = f"{test.name[:_SHOWN]} is gone"
            self.weakenings.append(Weakening(REMOVED, what, path, test.line, "old", doubt))

    def _unexplained(
        self, gone: Sequence[tuple[str, Case]], anew: Collection[int]
    ) -> Iterator[tuple[str, Case]]:
        """Of these tests, those of which nothing tells what became of them."""
        copies = self._copies({test.last_name for _, test in gone}) if gone else []
        for path, test in gone:
            if id(test) in anew or rewritten.runs_nothing(test, self.old[path]):
                continue
            if self.code.sides and collected.leaves_out(path, self.code.sides[0]):
                self._note(UNCOLLECTED, path, test, "old")
                continue
            if kind := self._became(path, test, copies):
                self._note(kind, path, test, "old")
            else:
                yield path, test

    def _explained(self) -> Counter[str]:
        """How many tests a file lost with the code; where it lost all, also how many moved."""
        weakenings = (note for note in self.notes if note.side == "old")
        return Counter(
            note.path
            for note in weakenings
            if note.rule == OBSOLETE or not self.new[note.path].cases
        )

    def _without_whole_files(
        self, gone: list[tuple[str, Case]], obsolete: Counter[str]
    ) -> list[tuple[str, Case]]:
        """Without those of files that went with the code that most of their tests name."""
        left = Counter(path for path, _ in gone)
        gone_files = {
            path for path, n in obsolete.items() if n > left[path] and not self.new[path].cases
        }
        for path, test in gone:
            if path in gone_files:
                self._note(OBSOLETE, path, test, "old")
        return [entry for entry in gone if entry[0] not in gone_files]

    def _became(self, path: str, test: Case, copies: Iterable[Case]) -> str:
        """The kind of note for a test that is gone; "" if it is lost."""
        changed = self.code.changed
        if any(rewritten.is_copy(test, copy, code_changed=changed) for copy in copies):
            return COPIED
        if any(rewritten.is_of_table(test, case) for case in self.new[path].cases):
            return MERGED
        if changed and (self._is_unsaid(rewritten.names(test)) or self._is_of_gone_package(path)):
            return OBSOLETE
        names = {case.last_name for case in self.old[path].cases}
        files = [self.new[path], *(new for at, new in self.new.items() if not self.old[at].cases)]
        fresh = [case for file in files for case in file.cases if case.last_name not in names]
        is_told = rewritten.stands_in(test, fresh, code_changed=changed)
        return REWRITTEN if is_told else ""

    def _is_unsaid(self, words: Iterable[str]) -> bool:
        """Whether one of the words is a name that the code says no more, and no test either."""
        names = self.code.unsaid().intersection(words)
        return not all(any(word in rewritten.names(case) for case in self._now()) for word in names)

    def _is_of_gone_package(self, path: str) -> bool:
        """Whether a test went with the manifest of its package."""
        if not self.code.sides:
            return False
        before, after = self.code.sides
        return any(
            (folder := before.nearest_folder(name, path)) and not after.read(folder + name)
            for name in _MANIFESTS
        )

    def _is_inherited(self, path: str, test: Case) -> bool:
        """Whether the class of a test has it from a base class."""
        owner = self.new[path].classes.get(test.name.rpartition(".")[0])
        bases = {base.rpartition(".")[2] for base in owner.bases} if owner else set()
        return bool(bases) and any(
            case.last_name == test.last_name and case.name.split(".")[-2] in bases
            for case in self._now()
            if "." in case.name
        )

    def _written_anew(self, gone: Collection[tuple[str, Case]]) -> frozenset[int]:
        """Pair the tests that were written anew together with the code; their ids.

        Without it, those that claim as much in their place are no more than noted.
        """
        if not (gone and self.added):
            return frozenset()
        paired = {id(test): id(case) for _, test, _, case in self.pairs}
        heirs = rewritten.successors(gone, self.added, (self.old, self.new), paired)
        if not self.code.changed:
            heirs = [heir for heir in heirs if rewritten.claims_as_much(heir[1], heir[2])]
        for path, test, new in heirs:
            if self.code.changed:
                self.pairs.append((path, test, path, new))
            self._note(RENAMED, path, new)
        taken = {id(new) for *_, new in heirs}
        self.added = [entry for entry in self.added if id(entry[1]) not in taken]
        return frozenset(id(test) for _, test, _ in heirs)

    def _copies(self, names: Collection[str]) -> list[Case]:
        """The tests with these names that run in files that did not change."""
        cases = []
        for path, text in self.code.rest_of_tree.with_names(names):
            file = read(path, text) if can_read(path) else CaseFile()
            left_out = {skip.owner for skip in file.skips}
            if not file.focused and "" not in left_out:
                cases += [case for case in file.cases if left_out.isdisjoint(case.name.split("."))]
        return cases

    def _now(self) -> Iterator[Case]:
        for file in self.new.values():
            yield from file.cases

    # ── what a test asks for ──

    def _weaker(self, position: str, old: Case, path: str, new: Case) -> None:
        was, now = old.facts, new.facts
        name = new.name[:_SHOWN]
        for line, what in _more(now.escapes, was.escapes):
            self.weakenings.append(Weakening(WEAKENED, f"{name} has a new {what}", path, line))
        for line, what in _more(now.replaced, was.replaced):
            if any(f"{what.rpartition('.')[2]}(" in claim for _, claim in was.claims):
                message = f"{name} replaces what it tests: {what[:_SHOWN]}"
                self.weakenings.append(Weakening(WEAKENED, message, path, line))
        self._cases(position, old, path, new)
        cases = self._helpers_named(new)
        elsewhere = {claim for case in cases for _, claim in case.facts.claims}
        lost = [
            loss
            for loss in _more(was.claims, now.claims)
            if not self._gained[loss[1]]
            and loss[1] not in elsewhere
            and not self._is_freed(loss[1])
            and not rewritten.is_tidying(loss[1])
            and not self._is_said_by_another_name(*loss, old)
        ]
        gained = [text for _, text in _more(now.claims, was.claims)]
        heads = rewritten.dropped_conditions(was.claims, gained)
        lost = [loss for loss in lost if not loss[1].startswith(heads)]
        lost = [
            loss
            for loss in lost
            if not is_same(loss[1], gained)
            and not any(loss[1] in text for text in gained)
            and not rewritten.is_stricter(loss[1], gained)
            and not rewritten.is_in_snapshot(loss[1], gained)
            and not rewritten.is_left_to_helpers(loss[1], old, self._old_helpers, cases)
        ]
        if rewritten.setup(old) == rewritten.setup(new):
            lost = [
                loss for loss in lost if not rewritten.is_repeated(loss[1], was.claims, now.claims)
            ]
        if any(new.words.get(word, 0) > old.words.get(word, 0) for word in _THROWS):
            lost = [loss for loss in lost if not re.match(r"(?:\w+\.)?fail\(", loss[1])]
        if lost and path.endswith(".py"):
            from rlm_ci.guard.weakened_tests.python_claims import is_implied, is_said

            raised = [text for text in self._gained if "raises(" in text or "warns(" in text]
            lost = [
                loss
                for loss in lost
                if not is_said(loss[1], [*gained, *raised], old.words)
                and not (now.claims and is_implied(loss[1], new.text))
            ]
        if self.code.changed and lost:
            gone = self.code.gone()
            remaining = [
                loss
                for loss in lost
                if not loss[1].startswith("#[should_panic")  # it must pass by now
                and gone.isdisjoint(words_of(loss[1]))
                and not self._is_unsaid(words_of(loss[1]))
                and gone.isdisjoint(rewritten.subtest(old, loss[0]))
            ]
            if len(remaining) < len(lost):
                self._note(OBSOLETE, path, new)
            lost = [loss for loss in remaining if not self._is_said_anew(loss[1], new)]
            if len(lost) < len(remaining):
                self._note(EXPECTED, path, new)
        if lost and (message := self._judged(lost, gained, old, path, new)):
            if rewritten.is_rewritten(old, new, lost, gained):
                self._note(REWRITTEN, path, new)
                return
            counts = words_of("\n".join(claim for _, claim in lost))
            is_less = message.startswith(_LESS)
            doubt = self._subjects.doubt_of_claims(
                position, counts, is_replaced=is_less,
                is_rewritten=rewritten.is_another(old, new, lost, gained),
                has_lost="no code changed" not in message,
            )  # fmt: skip
            quoted = [loss for loss in lost if loss[1][:_SHOWN] in message]
            line, _ = max(quoted or lost[:1], key=lambda loss: len(loss[1]))
            what = f"{name} {message}"
            self.weakenings.append(Weakening(WEAKENED, what, position, line, "old", doubt))

    def _is_said_anew(self, claim: str, test: Case) -> bool:
        """Whether a new test asserts something of a text that only this claim had."""
        texts = {word for word in words_of(claim) if word[0] == '"' and len(word) > _LONG_WORD}
        texts -= test.words.keys()
        return bool(texts) and any(
            texts <= case.words.keys()
            and any(strength(text) >= EXACT for _, text in case.facts.claims)
            for _, case in self.added
        )

    def _judged(
        self, lost: list[tuple[int, str]], gained: list[str], old: Case, path: str, new: Case
    ) -> str:
        """Why the test asks for less; "" if it does not."""
        more = Counter(new.words) - Counter(old.words)
        changed = self.code.changed
        real = sorted(asked_now(gained, lost, code_changed=changed), reverse=True)
        parts = [(claim, strength(part)) for _, claim in lost for part in demands(claim, real)]
        if real and real[0] >= EXACT:  # that a helper, which the test has no more, is there
            parts = [
                part for part in parts if part[1] > PRESENCE or is_about(part[0], new)
            ] or parts
        likeness = {claim: nearest(claim, gained) for _, claim in lost}
        parts.sort(key=lambda part: (-part[1], -likeness[part[0]]))
        text = min(parts, key=lambda part: (likeness[part[0]], -part[1]))[0][:_SHOWN]
        helped = any(is_check(word, path, new.text) for word in more)
        helped = helped or any(
            case.facts.claims for case in self._helpers_named(new) if case.name in more
        )
        helped = helped or (new.facts.cases or 0) > (old.facts.cases or 0)
        if not helped:
            if len(real) < len(parts):
                terms = telling(words_of(" ".join(claim for _, claim in lost)))
                if not terms or len(terms & more.keys()) < rewritten.TAKEN * len(terms):
                    others = len(parts) - len(real) - 1
                    also = f", nor {count(others, 'more assertion')}" if others > 0 else ""
                    return f"no longer says: {text}{also}"
            for (claim, level), now in zip(parts, real, strict=False):
                if now < level:
                    return f"{_LESS}: {claim[:_SHOWN]}"
        less = Counter(old.words) - Counter(new.words)
        values = (claim for _, claim in lost if strength(claim) > PRESENCE)
        values = (value for value in values if not value.startswith("expectTypeOf"))
        lost_words = {word for value in values for word in words_of(value)}
        literals = filter(is_literal, lost_words & less.keys())
        gone = [
            literal for literal in literals if literal[0] != '"' or literal not in new.words
        ]  # it has a name
        if not without_parted([word for word in gone if word.lstrip('"') not in more], more):
            return ""
        files = self.old.get(path, CaseFile()), self.new[path]
        if (
            self.code.changed
            or self._has_other_helpers
            or rewritten.has_other_inputs(old, new, lost, gained, files)
        ):
            self._note(EXPECTED, path, new)
            return ""
        return "" if helped else f"no longer says, and no code changed: {text}"

    def _cases(self, position: str, old: Case, path: str, new: Case) -> None:
        """What became of the cases that a test lists, or goes through in a loop."""
        was, now = old.facts, new.facts
        if was.cases and not now.cases and rewritten.takes_another(old, new):
            self._note(MERGED, path, new)  # a fixture has the cases
        elif was.cases and now.cases is not None and now.cases < was.cases:
            if now.cases and was.cases <= now.cases + rewritten.more_subtests(old, new):
                self._note(MERGED, path, new)  # a subtest of its own has the case
            else:
                self._fewer(position, old, path, new, (was.cases, now.cases))
        elif (rounds := rewritten.rounds(was, now)) and rounds[1] < rounds[0]:
            self._fewer(position, old, path, new, rounds)
        else:
            dropped = set(was.inputs) - set(now.inputs)
            for line, what in _more(now.filters, was.filters):
                if not dropped.isdisjoint(words_of(what)):
                    message = f"{new.name[:_SHOWN]} leaves out some of its cases: {what[:_SHOWN]}"
                    self.weakenings.append(Weakening(REMOVED, message, path, line))

    def _fewer(
        self, position: str, old: Case, path: str, new: Case, number: tuple[int, int]
    ) -> None:
        less = frozenset(Counter(old.words) - Counter(new.words))
        values = frozenset(filter(is_literal, less))
        grown = [(case.words.keys(), case) for _, case in self.added]
        both = ((Counter(test.words), Counter(case.words), case) for _, test, _, case in self.pairs)
        grown += [((words - before).keys(), case) for before, words, case in both]
        if any(rewritten.is_in(less, values, some, some, case) for some, case in grown):
            self._note(MERGED, path, new)
        elif self.code.changed and not less.isdisjoint(
            self.code.gone() | rewritten.lost_parameters(old, new)
        ):
            self._note(OBSOLETE, path, new)
        else:
            was, now = number
            what = f"{new.name[:_SHOWN]} has fewer cases: {was} before, {now} now"
            doubt = self._subjects.doubt_of_cases(position, values)
            self.weakenings.append(Weakening(REMOVED, what, position, old.line, "old", doubt))

    def _is_said_by_another_name(self, line: int, claim: str, test: Case) -> bool:
        """Whether a new claim asks for the same of what had another name, or none."""
        text = rewritten.resolved(claim, line, test)
        return text != "".join(claim.split()) and text in self._resolved

    @cached_property
    def _resolved(self) -> frozenset[str]:
        """The claims that tests have and had not, each with what its names stand for."""
        earlier_claims = {id(case): test.facts.claims for _, test, _, case in self.pairs}
        return frozenset(
            rewritten.resolved(text, line, case)
            for case in self._now()
            for line, text in _more(case.facts.claims, earlier_claims.get(id(case), ()))
        )

    @cached_property
    def _gained(self) -> Counter[str]:
        """The claims that tests have and had not."""
        counts: Counter[str] = Counter()
        for _, test, _, case in self.pairs:
            if test.text != case.text:
                counts.update(text for _, text in _more(case.facts.claims, test.facts.claims))
        for _, new_case in self.added:
            counts.update(text for _, text in new_case.facts.claims)
        return counts

    def _is_freed(self, claim: str) -> bool:
        """Whether a test asserts by now, without its condition, what had one."""
        return claim.startswith("if ") and any(
            claim.endswith(f" {text}") and text.startswith(("assert", "require", "expect", "t."))
            for text in self._gained
        )

    @cached_property
    def _has_other_helpers(self) -> bool:
        """Whether a file of the tests changed that has none of them: what they use, or expect."""
        return any(
            (old.helpers and not old.cases and not self.new[path].cases)
            and [helper.body for helper in old.helpers]
            != [helper.body for helper in self.new[path].helpers]
            for path, old in self.old.items()
        )

    @cached_property
    def _subjects(self) -> Subjects:
        before = {id(case): test for _, test, _, case in self.pairs}
        files, code = (self.old, self.new), self.code
        return Subjects(files, before, code.rarer, code.has_shrunk, code_changed=code.changed)

    @cached_property
    def _helpers(self) -> Mapping[str, Sequence[Case]]:
        return _by_name(self.new.values())

    @cached_property
    def _old_helpers(self) -> Mapping[str, Sequence[Case]]:
        return _by_name(self.old.values())

    def _helpers_named(self, test: Case) -> list[Case]:
        """The functions beside the tests that this one names."""
        names = self._helpers.keys() & test.words.keys()
        return [helper for name in sorted(names) for helper in self._helpers[name]]

    def _words(self, test: Case, helpers: Mapping[str, Sequence[Case]]) -> Counter[str]:
        """The words of a test, and of the functions that it names."""
        counts = Counter(test.words)
        for name in helpers.keys() & test.words.keys():
            for helper in helpers[name]:
                counts.update(helper.words)
        return counts


def _by_name(files: Iterable[CaseFile]) -> Mapping[str, Sequence[Case]]:
    """The functions beside the tests."""
    helpers_by_name: dict[str, list[Case]] = {}
    for file in files:
        for helper in file.helpers:
            helpers_by_name.setdefault(helper.name, []).append(helper)
    return helpers_by_name


def _more(
    rows: Iterable[tuple[int, str]], other: Iterable[tuple[int, str]]
) -> Iterator[tuple[int, str]]:
    """The texts that ``rows`` has more often than ``other``, with their lines, the last first."""
    listed = list(rows)
    surplus = Counter(text for _, text in listed)
    surplus.subtract(text for _, text in other)
    for line, text in reversed(listed):
        if surplus[text] > 0:
            surplus[text] -= 1
            yield line, text
