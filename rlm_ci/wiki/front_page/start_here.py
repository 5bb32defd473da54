"""Where a change of each part begins: its file, its names, its tests, and the command for them."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

from rlm_ci.source.test_files import subject_of
from rlm_ci.text.neutralise import code, prose
from rlm_ci.text.printable import printable
from rlm_ci.values import Value
from rlm_ci.wiki.facts.purpose import TEST
from rlm_ci.wiki.front_page.project_commands import project_commands
from rlm_ci.wiki.pages.layout import CONTAINERS, api, told
from rlm_ci.wiki.pages.paths import folder_of, title_of
from rlm_ci.wiki.pages.wording import listed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rlm_ci.source import Symbol
    from rlm_ci.wiki.facts.file_facts import FileFacts
    from rlm_ci.wiki.pages.layout import Module
    from rlm_ci.wiki.pages.module_page import PageSources

#: Parts that are listed, names and tests of one; fewer modules than this are parted by file.
_PARTS, _NAMES, _TESTS, _FEW = 12, 3, 2, 3
#: A path that a shell takes as one word.
_WORD = re.compile(r"[\w./][\w./-]*", re.ASCII)
_SCRIPTS = frozenset(("JavaScript", "TypeScript", "TSX"))


class _Part(Value):
    """Files that are changed together: those of a page, or one of them."""

    title: str
    module: Module
    files: tuple[FileFacts, ...]


def start_here(world: PageSources) -> tuple[list[dict[str, str]], int]:
    """A row for each part, that first on which most depends, and how many have none here."""
    modules = world.layout.modules
    if len(modules) < _FEW:
        parts = [_Part(one.path, module, (one,)) for module in modules for one in module.files]
    else:
        parts = [_Part(title_of(module.key), module, module.files) for module in modules]
    parts = [part for part in parts if _total(part, world)]
    parts.sort(key=lambda part: (-_weight(part, world), part.title))
    tests = _Tests(world)
    shown = _shown(parts)
    return [_row(part, world, tests) for part in shown], len(parts) - len(shown)


def _shown(parts: Sequence[_Part]) -> list[_Part]:
    """The first parts, among them the first of each module; in their order."""
    first: dict[str, _Part] = {}
    for part in parts:
        first.setdefault(part.module.key, part)
    chosen = {part.title for part in [*first.values(), *parts][:_PARTS]}
    rest = (part.title for part in parts if part.title not in chosen)
    chosen.update(islice(rest, _PARTS - len(chosen)))
    return [part for part in parts if part.title in chosen]


def _size(one: FileFacts, part: _Part, world: PageSources) -> int:
    return len(api(one, part.module.folder, world.layout.given) or ())


def _total(part: _Part, world: PageSources) -> int:
    return sum(_size(one, part, world) for one in part.files)


def _weight(part: _Part, world: PageSources) -> int:
    """How many files of the program import the part from outside of it; then its names."""
    own = {one.path for one in part.files}
    users = {
        edge.target
        for path in own
        for edge in world.graph.importers(path)
        if edge.target in world.layout.owner and edge.target not in own
    }
    return 1000 * len(users) + min(999, _total(part, world))


def _row(part: _Part, world: PageSources, tests: _Tests) -> dict[str, str]:
    first = min(
        part.files, key=lambda one: (-_size(one, part, world), -one.outline.lines, one.path)
    )
    found = tests.of(part)
    shown = [one for one in found[:_TESTS] if one.outline.lines]
    links = [world.register.file(one.path, cell=True) for one in shown]
    names = _names(first, part, world)
    command = tests.command(part, shown)
    page = f"modules/{world.names[part.module.key]}.md"
    return {
        "title": f"[{prose(part.title, cell=True)}]({page})",
        "file": world.register.link(first.path, *first.heads[names[0][0]], cell=True),
        "names": ", ".join(code(printable(told(first, one.name)), cell=True) for _, one in names),
        "tests": listed(links, len(links), len(found)) if links else "none found",
        "command": code(printable(command), cell=True) if command else "",
    }


def _names(one: FileFacts, part: _Part, world: PageSources) -> list[tuple[int, Symbol]]:
    """The largest public definitions of a file, classes first, with their numbers in it."""
    found = api(one, part.module.folder, world.layout.given) or []
    tops = [pair for pair in found if "." not in pair[1].name] or found
    tops.sort(
        key=lambda pair: (
            pair[1].kind not in CONTAINERS,
            pair[1].line_start - pair[1].line_end,
            pair[1].line_start,
        )
    )
    return tops[:_NAMES]


class _Tests:
    """The test files of a repository, by what they are named after and what they import."""

    def __init__(self, world: PageSources) -> None:
        every = (one for inner in world.layout.tests.values() for one in inner)
        self._files = [one for one in every if not one.path.endswith("conftest.py")]
        self._targets = {
            one.path: {edge.target for edge in world.graph.internal.get(one.path, ())}
            for one in self._files
        }
        self._subjects = {one.path: subject_of(one.path) or "" for one in self._files}
        stems = Counter(map(_stem, world.layout.owner))
        self._unique = {stem for stem, number in stems.items() if number == 1}
        self._commands = [one for one in project_commands(world) if one.command.purpose == TEST]

    def of(self, part: _Part) -> list[FileFacts]:
        """The tests of a part: first those that are named after a file of it."""
        own = {one.path for one in part.files}
        stems = {_stem(path) for path in own}
        folders = {folder_of(path) for path in own}
        ranked = []
        for one in self._files:
            subject = self._subjects[one.path]
            imports = len(self._targets[one.path] & own)
            is_beside = one.outline.language == "Go" and folder_of(one.path) in folders
            is_named = subject in stems and (bool(imports) or is_beside or subject in self._unique)
            if is_named or imports or is_beside:
                ranked.append((not is_named, -imports, one.path, one))
        return [row[-1] for row in sorted(ranked, key=lambda row: row[:3])]

    def command(self, part: _Part, tests: Sequence[FileFacts]) -> str:
        """How these tests are run; "" where the repository does not say how it is tested."""
        every = [one.command.text for one in self._commands]
        language = part.files[0].outline.language
        paths = [one.path for one in tests if _WORD.fullmatch(one.path)]
        if language == "Python":
            runner = next((text for text in every if text.endswith("pytest")), "")
            if runner and paths:
                return f"{runner} {' '.join(paths)}"
        elif language == "Go" and "go test ./..." in every:
            folder = folder_of(part.files[0].path)
            return f"go test ./{folder}" if _WORD.fullmatch(folder) else "go test ./..."
        elif language == "Rust":
            return _first(every, ("cargo test", "cargo"))
        elif language in _SCRIPTS:
            return _first(every, ("npm", "pnpm", "yarn", "bun"))
        return every[0] if every else ""


def _first(texts: Iterable[str], signs: tuple[str, ...]) -> str:
    found = list(texts)
    return next((text for text in found if text.startswith(signs)), found[0] if found else "")


def _stem(path: str) -> str:
    """What a test of this file would be named after."""
    name = path.rpartition("/")[2].partition(".")[0].lower().strip("_")
    return folder_of(path).rpartition("/")[2].lower() if name in ("init", "index", "mod") else name
