"""Which files of one snapshot decide what green means: by name, and by what the snapshot says.

A repository may call its tests what it likes, and its validator may be a script of its own. What
the settings of the snapshot, the command and its first output tell of that is known here.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from rlm_ci.loop import commanded, protected, sections, silencing, vendored
from rlm_ci.loop.transcript import plain
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from rlm_ci.loop.outcomes import Outcomes
    from rlm_ci.objects import Entry

    Read = Callable[[Iterable[str]], list[bytes | None]]

#: Where pytest is told which files hold tests, and where they lie.
_SETTINGS = (
    ("pytest.toml", "pytest"), (".pytest.toml", "pytest"), ("pytest.ini", "pytest"),
    (".pytest.ini", "pytest"), ("pyproject.toml", "tool.pytest.ini_options"),
    ("pyproject.toml", "tool.pytest"), ("tox.ini", "pytest"), ("setup.cfg", "tool:pytest"),
)  # fmt: skip
#: Patterns that say nothing, and those that hold anyhow.
_ANY = frozenset(("*", "*.py", "**", "**/*.py", "**.py"))
_MOST_PATTERNS = 50
_WORD = re.compile(r"[\w.-]{1,80}")
#: The files in which tools find the commands that they run, and how many are read.
_MAKEFILES = ("GNUmakefile", "makefile", "Makefile")
_LISTS = {
    "make": _MAKEFILES, "gmake": _MAKEFILES, "npm": ("package.json",), "pnpm": ("package.json",),
    "yarn": ("package.json",), "bun": ("package.json",), "tox": ("tox.ini",),
    "nox": ("noxfile.py",), "just": ("justfile", "Justfile", ".justfile"),
    "task": ("Taskfile.yml", "Taskfile.yaml"),
}  # fmt: skip
_MOST_LISTS = 20
#: Where coverage is told how much there must be.
_FLOORS = (".coveragerc", "pyproject.toml", "setup.cfg", "tox.ini", "package.json", "codecov.yml")
_OUTPUT_LIMIT = 4 << 20
#: A test that a runner of Python names, and a file of them that one of JavaScript does.
_NODE = re.compile(
    r"^(?:FAILED |ERROR )?([^\s:][^:\n]{0,500}\.py)((?:::[^\s:]{1,200}){1,8})", re.MULTILINE
)
_FILE = re.compile(r"^ ?(?:FAIL|PASS) {1,3}(\S{1,500}\.[cm]?[jt]sx?)(?= |$)", re.MULTILINE)
_CASE = re.compile(r"^(?:FAIL|ERROR): \w{1,200} \(([\w.]{1,300})\)$", re.MULTILINE)


class Protection(Value):
    """``scripts`` are what the validator's command names, ``tests`` files known to be some.

    ``patterns`` of names and ``folders`` hold tests, too. ``heeded`` are those of its tools that a
    source can tell to look away; ``doctests`` tells whether examples in documentation are run; in
    ``vendored`` folders lies code of others.
    """

    scripts: frozenset[str] = frozenset()
    tests: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    doctests: bool = False
    heeded: frozenset[str] = frozenset()
    vendored: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Mapping[str, Entry], read: Read, command: str) -> Protection:
        """What the files of a snapshot, and the text of the validator's command, tell.

        ``read`` gives the contents of objects, None for one that is too large.
        """
        files = {path: one for path, one in entries.items() if one.is_file}
        known: dict[str, str] = {}

        def texts(paths: Iterable[str]) -> Mapping[str, str]:
            wanted = [path for path in dict.fromkeys(paths) if path in files]
            new = [path for path in wanted if path not in known]
            contents = read([files[path].oid for path in new]) if new else []
            for path, content in zip(new, contents, strict=True):
                known[path] = (content or b"").decode("utf-8", "surrogateescape")
            return {path: known[path] for path in wanted}

        def text(path: str) -> str | None:
            return texts((path,)).get(path)

        named = commanded.named(command, files)
        patterns, paths = _told(text)
        read_by = [path for name in _WORD.findall(command) for path in _LISTS.get(name, ())]
        lists = [path for path in files if path.rpartition("/")[2] in read_by]
        lists = sorted(lists, key=lambda path: (path.count("/"), path))[:_MOST_LISTS]
        run = (command, *texts((*lists, *named)).values())
        texts(_FLOORS)
        told = cls(
            named,
            patterns=tuple(one for one in patterns if one not in _ANY),
            doctests=any("doctest" in one for one in (command, *known.values())),
            heeded=silencing.tools(_WORD.findall("\n".join(run)), (command, *known.values())),
            vendored=vendored.folders(files),
        )
        folders = tuple(path for path in paths if told._is_of_tests(path, patterns, entries))
        return told.replace(folders=folders)

    def hearing(self, output: str, entries: Mapping[str, Entry]) -> Protection:
        """The same with the tests that the first output of the validator names."""
        text = plain(output[-_OUTPUT_LIMIT:]).replace("\r\n", "\n")
        named = {path for path, node in _NODE.findall(text) if _is_test(node)}
        named.update(_FILE.findall(text))
        for dotted in _CASE.findall(text):
            parts = dotted.split(".")
            if not any(part.lower().startswith("test") for part in parts):
                continue
            named.update(f"{'/'.join(parts[:end])}.py" for end in range(1, len(parts) + 1))
        more = frozenset(path for path in named if path in entries)
        return self.replace(tests=self.tests | more) if more else self

    def learning(self, outcomes: Outcomes, entries: Mapping[str, Entry]) -> Protection:
        """The same with the files that held tests, and those that code of tests opened."""
        more = (outcomes.held | outcomes.opened) & entries.keys()
        return self.replace(tests=self.tests | more)

    def is_of_tests(self, path: str) -> bool:
        """Whether an edit of the file is taken out of the result."""
        return self.kind_of(path) in protected.OF_TESTS

    def kind_of(self, path: str) -> str:
        """The kind of a protected file, or "" for one that is source like any other."""
        kind = protected.kind_of(path)
        if kind in ("", protected.TESTS) and path.startswith(self.vendored):
            kind = protected.DEPENDENCY
        if not kind and path in self.scripts:
            kind = protected.HOOKS
        return kind or (protected.TESTS if self.is_test(path) else "")

    def is_test(self, path: str) -> bool:
        """Whether it is a test by what this snapshot says, whatever its name."""
        if path in self.tests or any(path.startswith(folder) for folder in self.folders):
            return True
        name = path.rpartition("/")[2]
        return any(
            fnmatchcase(name, one) or ("/" in one and fnmatchcase(path, one))
            for one in self.patterns
        )

    def is_protected(self, path: str, *, allow_test_edits: bool = False) -> bool:
        """Whether the last verdict is taken with this file as the snapshot has it.

        New tests are no reason to refuse a result, and still no part of what is judged by: the
        old ones alone decide, unless test edits are allowed.
        """
        kind = self.kind_of(path)
        return bool(kind) and not (allow_test_edits and kind in protected.OF_TESTS)

    def _is_of_tests(
        self, folder: str, patterns: tuple[str, ...], entries: Mapping[str, Entry]
    ) -> bool:
        """Whether a folder in which tests are looked for holds little else."""
        modules = [path for path in entries if path.startswith(folder) and path.endswith(".py")]
        names = [path.rpartition("/")[2] for path in modules]
        count = sum(
            bool(self.kind_of(path)) or any(fnmatchcase(name, one) for one in patterns)
            for path, name in zip(modules, names, strict=True)
        )
        return 2 * count > len(modules)


def _is_test(node: str) -> bool:
    """Whether an item of pytest is a test, and no check of a source file by a plugin."""
    parts = [part.partition("[")[0] for part in node.split("::")]
    return any(part.lower().startswith("test") and "." not in part for part in parts)


def _told(text: Callable[[str], str | None]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of test files, and the folders where they lie, as the settings have them."""
    patterns: list[str] = []
    paths: list[str] = []
    for name, section in _SETTINGS:
        content = text(name)
        if content is None:
            continue
        found = sections.values(name, content.encode("utf-8", "surrogateescape"), section)
        patterns += _words(found.get("python_files"))
        paths += _words(found.get("testpaths"))
    kept = [path.strip("/").removeprefix("./") for path in paths]
    return (
        tuple(dict.fromkeys(patterns))[:_MOST_PATTERNS],
        tuple(f"{path}/" for path in dict.fromkeys(kept) if path not in ("", "."))[:_MOST_PATTERNS],
    )


def _words(value: object) -> list[str]:
    """A setting that is a list, or words of a text."""
    if isinstance(value, str):
        return value.split()
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
