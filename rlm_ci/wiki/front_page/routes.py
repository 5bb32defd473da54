"""Where a change begins: for each task the file and its tests."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

from rlm_ci.source.test_files import subject_of
from rlm_ci.text.neutralise import code, prose
from rlm_ci.values import Value
from rlm_ci.wiki.facts.call_flows import definition_around
from rlm_ci.wiki.facts.commands import TEXTS
from rlm_ci.wiki.facts.note import EXIT, INNER_TESTS, OPTION
from rlm_ci.wiki.facts.readme import ADDS, listed, sentence
from rlm_ci.wiki.pages.layout import CONTAINERS, api, shown_name
from rlm_ci.wiki.pages.module_page import is_door
from rlm_ci.wiki.pages.paths import folder_of, is_test

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.source import Symbol
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.facts.note import CodeNote
    from rlm_ci.wiki.pages.module_page import PageSources


#: Rows of the table, of these commands, and where files that say nothing fill it up; tests of a
#: row; notes of a kind that make a file the one to change.
_TASKS, _COMMANDS, _ENOUGH, _NEAREST, _SEVERAL = 12, 4, 8, 1, 2
#: Chapters of guides, and files that one names, that are shown.
_GUIDED, _NAMED = 4, 3
_DOCUMENTS = tuple(f".{suffix}" for suffix in TEXTS)


class _Task(Value):
    """What can be changed, in ``words``; the lines of the file are where to begin."""

    words: str
    file_facts: FileFacts
    line_start: int
    line_end: int
    is_told: bool = True


def routes(world: PageSources) -> list[dict[str, str]]:
    """A row for each task: commands, options, configuration, failure, then what most import.

    A file whose text does not say what it is for comes only where there are few others.
    """
    tests = TestFiles(world)
    guided = list(islice(_guided(world), _GUIDED))
    tasks = list(_of_commands(world))
    tasks += _of_notes(world, OPTION, "an option of the command line ({} are made there)")
    tasks += _of_notes(world, "environment", "an environment variable ({} are read there)")
    tasks += _of_notes(world, EXIT, "with which code it ends ({} codes are named there)")
    paths = {task.file_facts.path for task in tasks}
    order = sorted(world.program, key=lambda facts: (-_weight(facts, world), facts.path))
    others = (
        file_facts
        for file_facts in order
        if file_facts.path not in paths
        and not (is_door(file_facts.path) and _definition_of(file_facts, world) is None)
    )
    every = [task for facts in others if (task := _of_file(facts, world)) is not None]
    tasks += [task for task in every if task.is_told][: max(0, _TASKS - len(tasks))]
    tasks += [task for task in every if not task.is_told][: max(0, _ENOUGH - len(tasks))]
    return [*guided, *(_task_row(task, world, tests) for task in tasks)]


def _guided(world: PageSources) -> Iterator[dict[str, str]]:
    """What a chapter of a guide says that is added, with the files that it names for that."""
    guides = [path for path, file in world.files.items() if file.chapters]
    for path in sorted(guides, key=lambda path: (path.count("/"), path)):
        of_tests = [
            file
            for chapter in world.files[path].chapters
            if re.search(r"(?i)\btests?\b", chapter.text)
            for name in chapter.paths.split("\n")
            if (file := _file(name, path, world)) and is_test(file)
        ]
        for chapter in world.files[path].chapters:
            if not ADDS.search(chapter.text):
                continue
            files = [
                file for name in chapter.paths.split("\n") if (file := _file(name, path, world))
            ]
            paths = list(dict.fromkeys(files))
            trials = [file for file in paths if is_test(file)]
            others = [file for file in paths if file not in trials]
            trials = [file for file in trials or of_tests if not file.endswith(_DOCUMENTS)]
            if all(file.endswith(_DOCUMENTS) for file in others):  # as where one has to write only
                continue
            words = prose(chapter.text, cell=True)
            link = world.register.linked_name(words, path, chapter.line_start, chapter.line_end)
            yield {
                "task": f"{link}, as the guide says",
                "file": ", ".join(world.register.file(name, cell=True) for name in others[:_NAMED]),
                "tests": ", ".join(world.register.file(name, cell=True) for name in trials[:_NAMED])
                or "none named there",
            }


def _file(name: str, guide: str, world: PageSources) -> str:
    """The file that a guide names, from the top or from its own folder; "" for none."""
    beside = f"{folder_of(guide)}/{name}".strip("/")
    return next((path for path in (name, beside) if name and path in world.files), "")


def example_tests(world: PageSources) -> list[FileFacts]:
    """Files of tests, those of what most others import first."""
    tests = TestFiles(world)
    order = sorted(world.program, key=lambda facts: (-_weight(facts, world), facts.path))
    return list(
        dict.fromkeys(test for file_facts in order for test in tests.of(file_facts)[:_NEAREST])
    )


def _of_commands(world: PageSources) -> Iterator[_Task]:
    """The commands whose function is known, those with the longest first."""
    places = [
        (entry.name, definition_around(facts, entry))
        for facts in world.program
        for entry in facts.outline.entries
        if entry.kind == "command"
    ]
    starts = [flow.starts[0] for flow in world.flows]
    places += [(start.name, start.at) for start in starts if start.kind == "command"]
    names = {at: name for name, at in reversed(places) if at is not None}
    order = sorted(names, key=lambda at: (at.symbol.line_start - at.symbol.line_end, at.path))
    for at in order[:_COMMANDS]:
        facts = world.files[at.path]
        words = f"the command {code(names[at], cell=True)}"
        yield _Task(words, facts, *facts.head_of(at.symbol))


def _of_notes(world: PageSources, kind: str, words: str) -> Iterator[_Task]:
    """The file of the program with the most notes of a kind, if these are several."""
    best: tuple[int, FileFacts] | None = None
    for facts in world.program:
        if facts.outline.language == "Shell" and kind == EXIT:
            continue  # it helps to build or install, as a rule
        names = list(filter(None, (_note_name(note) for note in facts.notes if note.kind == kind)))
        # Each command has options of its own, also where they are named alike.
        number = len(names) if kind == OPTION else len(set(names))
        if number >= _SEVERAL and (best is None or number > best[0]):
            best = number, facts
    if best is not None:
        number, facts = best
        note = next(note for note in facts.notes if note.kind == kind and _note_name(note))
        yield _Task(words.format(number), facts, note.line_start, note.line_end)


def _note_name(note: CodeNote) -> str:
    """What a note names; "" where its text leaves that open."""
    return note.text if note.kind == OPTION else note.detail


def _of_file(facts: FileFacts, world: PageSources) -> _Task | None:
    """What a file says that it is, else its largest definition does; None where neither does."""
    if facts.outline.doc:
        outline = facts.outline
        return _Task(sentence(outline.doc, cell=True), facts, outline.doc_start, outline.doc_end)
    definition = _definition_of(facts, world)
    if definition is None:
        return None
    number, symbol = definition
    name = code(shown_name(facts, symbol.name), cell=True)
    doc = sentence(symbol.doc, cell=True) if symbol.doc else ""
    words = f"{name}: {doc}" if doc else f"what {name} does"
    return _Task(words, facts, *facts.heads[number], is_told=bool(doc))


def _definition_of(facts: FileFacts, world: PageSources) -> tuple[int, Symbol] | None:
    """The public definition that a file is for: its largest class, else its largest function."""
    module = world.layout.owner[facts.path]
    pairs = api(facts, module.folder, world.layout.exported_names) or []
    tops = [pair for pair in pairs if "." not in pair[1].name] or pairs
    tops = [pair for pair in tops if pair[1].kind not in ("constant", "variable")]
    return min(tops, key=_rank) if tops else None


def _rank(pair: tuple[int, Symbol]) -> tuple[bool, int, int]:
    symbol = pair[1]
    is_class = symbol.kind in CONTAINERS
    return not is_class, symbol.line_start - symbol.line_end, symbol.line_start


def _weight(facts: FileFacts, world: PageSources) -> int:
    """How many files of the program import this one; then its lines."""
    users = {
        edge.target
        for edge in world.graph.importers(facts.path)
        if edge.target in world.layout.owner and edge.target != facts.path
    }
    return 10_000 * len(users) + min(9_999, facts.outline.lines)


def _task_row(task: _Task, world: PageSources, tests: TestFiles) -> dict[str, str]:
    return {
        "task": task.words,
        "file": world.register.link(
            task.file_facts.path, task.line_start, task.line_end, cell=True
        ),
        "tests": tests.cell(task.file_facts, _NEAREST),
    }


class TestFiles:
    """The test files of a repository, by what they are named after and what they import."""

    __test__ = False  # no class of tests

    def __init__(self, world: PageSources) -> None:
        self._register = world.register
        every = (facts for inner in world.layout.tests.values() for facts in inner)
        self._files = [facts for facts in every if not _helps(facts.path)]
        self._targets = {
            file.path: {edge.target for edge in world.graph.internal.get(file.path, ())}
            for file in self._files
        }
        self._subjects = {file.path: subject_of(file.path) or "" for file in self._files}
        stems = Counter(map(_subject, world.layout.owner))
        self._unique = {stem for stem, number in stems.items() if number == 1}

    def cell(self, file: FileFacts, number: int) -> str:
        """So many links to the tests of a file, first to those within it, and how many more."""
        inside = [note for note in file.notes if note.kind == INNER_TESTS]
        spans = [(file.path, note.line_start, note.line_end) for note in inside]
        beside = [facts.path for facts in self.of(file) if facts.outline.lines]
        links = [self._register.link(*span, cell=True) for span in spans[:number]]
        links += [self._register.file(path, cell=True) for path in beside[: number - len(links)]]
        total = len(spans) + len(beside)
        return listed(links, len(links), total) if links else "none by name or import"

    def of(self, file: FileFacts) -> list[FileFacts]:
        """The tests of a file: first those that are named after it."""
        stem, folder = _subject(file.path), folder_of(file.path)
        outer = folder.rpartition("/")[2].lower()  # of Ruby: ``rake/task`` is tested as rake_task
        ranked = []
        for facts in self._files:
            subject = self._subjects[facts.path]
            imports = file.path in self._targets[facts.path]
            is_beside = facts.outline.language == "Go" and folder_of(facts.path) == folder
            is_alike = subject in (stem, f"{outer}_{stem}") and (
                imports or is_beside or stem in self._unique
            )
            if is_alike or imports or is_beside:
                is_far = folder_of(facts.path).rpartition("/")[2] != folder.rpartition("/")[2]
                few = len(self._targets[facts.path])
                ranked.append((not is_alike, is_far, few, facts.path, facts))
        return [row[-1] for row in sorted(ranked, key=lambda row: row[:4])]


def _helps(path: str) -> bool:
    """Whether a file among tests holds none by its name: what they need stands in it."""
    if path.endswith(("spec_helper.rb", "rails_helper.rb", "test_helper.rb")):
        return True
    is_named = subject_of(path) is not None or path.endswith(("tests.py", "/test.py"))
    return path.endswith("conftest.py") or (path.endswith(".py") and not is_named)


def _subject(path: str) -> str:
    """What a test of this file would be named after."""
    name = path.rpartition("/")[2].partition(".")[0].lower().strip("_")
    return folder_of(path).rpartition("/")[2].lower() if name in ("init", "index", "mod") else name
