"""Which files, classes and functions pytest collects, by their names and its settings."""

from __future__ import annotations

import json
import re
import shlex
from fnmatch import fnmatchcase
from functools import lru_cache

from rlm_ci.guard.protected import config_sections
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rlm_ci.guard.collected.tree_side import TreeSide
    from rlm_ci.guard.weakened_tests.cases import CaseFile


#: The files in the order that pytest looks at them, and the beginnings of its settings there.
_FILES = {
    "pytest.toml": ("pytest.",), ".pytest.toml": ("pytest.",), "pytest.ini": ("pytest.",),
    ".pytest.ini": ("pytest.",), "pyproject.toml": ("tool.pytest.ini_options.", "tool.pytest."),
    "tox.ini": ("pytest.",), "setup.cfg": ("tool:pytest.",),
}  # fmt: skip
FILE = re.compile(rf"(?:.*/)?(?:{'|'.join(map(re.escape, _FILES))})")
_DEFAULTS = {
    "python_files": ("test_*.py", "*_test.py"), "python_classes": ("Test",),
    "python_functions": ("test",),
    "norecursedirs": ("*.egg", ".*", "_darcs", "build", "CVS", "dist", "node_modules", "venv"),
}  # fmt: skip


class PytestSettings(Value):
    """What a file says to pytest; ``path``: the file, "" if none does."""

    path: str = ""
    options: Mapping[str, tuple[str, ...]] = {}

    def words(self, name: str) -> tuple[str, ...]:
        return self.options.get(name) or _DEFAULTS.get(name, ())

    @property
    def folder(self) -> str:
        return self.path[: self.path.rfind("/") + 1]


@lru_cache(maxsize=64)
def options(path: str, text: str) -> dict[str, tuple[str, ...]] | None:
    """The settings of pytest in a file, each as its words; None if it has none."""
    name = path.rpartition("/")[2]
    starts = _FILES.get(name)
    if starts is None or (not text and name != "pytest.ini"):
        return None
    words_by_key = {}
    settings = config_sections.settings(path, text.encode("utf-8", "replace")) or {}
    for key, value in settings.items():
        start = next((prefix for prefix in starts if key.startswith(prefix)), None)
        if start:
            words_by_key[key.removeprefix(start)] = _words(json.loads(value), key)
    return words_by_key or None


def _words(value: object, key: str) -> tuple[str, ...]:
    if isinstance(value, list):
        return tuple(map(str, value))
    if key.endswith(("filterwarnings", "markers")):  # one a line
        return tuple(line.strip() for line in str(value).split("\n") if line.strip())
    try:
        words = shlex.split(str(value), comments=False)
    except ValueError:  # a quote is open
        words = str(value).split()
    return tuple(part for word in words for part in re.split(r"(?<=^-[kmW])(?=[^=])", word))


@lru_cache(maxsize=256)
def settings_of(tree: TreeSide, folder: str) -> PytestSettings:
    """The settings for the tests of a folder: the nearest file around it that has some."""
    prefix = f"{folder}/" if folder else ""
    for name in _FILES:
        if f"{prefix}{name}" in tree.paths:
            words_by_key = options(f"{prefix}{name}", tree.read(f"{prefix}{name}"))
            if words_by_key is not None:
                return PytestSettings(f"{prefix}{name}", words_by_key)
    return settings_of(tree, folder.rpartition("/")[0]) if folder else PytestSettings()


#: Files whose commands may name tests, and how many are read.
_COMMANDS = re.compile(
    r"(?:.*/)?(?:Makefile|tox\.ini|noxfile\.py|justfile|Jenkinsfile|\.travis\.yml|\.gitlab-ci\.yml"
    r"|[\w.-]+\.sh|pyproject\.toml)|\.(?:github|circleci)/.+\.ya?ml"
)
_MOST_COMMANDS = 30
_RUNS = r"(?m)^.*\b(?:pytest|py\.test|unittest|python\d?)\b.*?(?<![\w./-])(?:\./)?{}(?![\w-])"
#: Bases that make no test of a class.
_PLAIN = re.compile(r"object|(?:\w+\.)*(?:ABC|Protocol|Generic|NamedTuple)\b.*|metaclass=.*")


def collects(path: str, tree: TreeSide) -> tuple[bool | None, str]:
    """Whether pytest takes tests from a file, None if that is not certain."""
    folder, _, name = path.rpartition("/")
    settings = settings_of(tree, folder)
    inside = path.removeprefix(settings.folder)
    if not any(_fits(inside, word) for word in settings.words("python_files")):
        if not settings.path and fnmatchcase(name, "test*.py"):  # as unittest finds it
            return None, "pytest"
        stem = name.removesuffix(".py")
        module = re.escape(stem)
        imported = rf"\bfrom [\w.]*\b{module} import\b|\bclass \w+\([^()]*\b{module}\.\w"
        is_used = _is_run([path], tree) or _is_said(stem, imported, path, tree)
        return (None if is_used else False), "pytest"
    if _is_ignored(inside, settings):
        return False, "pytest"
    folders = [inside[: match.start()] for match in re.finditer("/", inside)]
    paths = [word.removeprefix("./").rstrip("/") for word in settings.words("testpaths")]
    start = next(
        (part for part in [inside, *folders] if any(fnmatchcase(part, path) for path in paths)), ""
    )
    left = not start and bool(paths) and "." not in paths
    below = (part for part in folders if len(part) > len(start))
    left = left or any(
        fnmatchcase(part.rpartition("/")[2], pattern.rpartition("/")[2])
        for part in below
        for pattern in settings.words("norecursedirs")
    )
    targets = [path, *(settings.folder + part for part in folders)]
    return (None if _is_run(targets, tree) else False) if left else True, "pytest"


def _fits(path: str, pattern: str) -> bool:
    """As pytest has it: a pattern with a slash is about the whole path."""
    if "/" in pattern:
        return fnmatchcase(f"/{path}", f"*/{pattern.lstrip('/')}")
    return fnmatchcase(path.rpartition("/")[2], pattern)


def _is_ignored(path: str, settings: PytestSettings) -> bool:
    words = settings.words("addopts")
    for word, following in zip(words, (*words[1:], ""), strict=False):
        name, equals, value = word.partition("=")
        value = (value if equals else following).removeprefix("./").rstrip("/")
        if name in ("--ignore", "--deselect") and (path == value or path.startswith(f"{value}/")):
            return bool(value)
        if name == "--ignore-glob" and fnmatchcase(path, value):
            return True
    return False


def _is_run(paths: Iterable[str], tree: TreeSide) -> bool:
    """Whether a command of the repository names one of these paths."""
    names = "|".join(re.escape(path) for path in paths)
    files = sorted(filter(_COMMANDS.fullmatch, tree.paths), key=len)[:_MOST_COMMANDS]
    return any(re.search(_RUNS.format(f"(?:{names})"), tree.read(path)) for path in files)


def _is_said(word: str, pattern: str, own_path: str, tree: TreeSide) -> bool:
    return any(
        path != own_path and re.search(pattern, text) for path, text in tree.naming(word)
    )  # fmt: skip


# ── classes and functions ──


def unnamed(path: str, file: CaseFile, name: str, tree: TreeSide) -> str:
    """The class or function in the name of a test that pytest does not collect, or ""."""
    settings = settings_of(tree, path.rpartition("/")[0])
    *classes, function = name.split(".")
    kind = "plain"
    for end in range(1, len(classes) + 1):
        class_name = ".".join(classes[:end])
        kind = _kind(class_name, file)
        if kind != "plain":
            continue
        is_named = _begins(classes[end - 1], settings.words("python_classes"))
        is_taken = is_named and not file.classes[class_name].has_init
        if not is_taken and not _is_base(class_name, path, file, tree):
            return class_name
    patterns = () if kind == "unittest" else settings.words("python_functions")
    patterns = patterns if kind == "plain" else ("test", *patterns)
    return "" if _begins(function, patterns) else name


def _kind(name: str, file: CaseFile) -> str:
    """What a class is by its bases: ``unittest``, ``plain``, or "" if that is not certain."""
    if name not in file.classes:
        return ""
    for base in file.classes[name].bases:
        if base.endswith(("TestCase", "Testcase")):
            return "unittest"
        if base in file.classes and base != name:
            if (kind := _kind(base, file)) != "plain":
                return kind
        elif not _PLAIN.fullmatch(base):
            return ""
    return "plain"


def _is_base(name: str, path: str, file: CaseFile, tree: TreeSide) -> bool:
    """Whether another class has the tests of this one."""
    last = name.rpartition(".")[2]
    if any(
        last in [base.rpartition(".")[2] for base in class_.bases]
        for class_ in file.classes.values()
    ):
        return True
    return _is_said(last, rf"\bclass \w+\([^)]*\b{re.escape(last)}\b", path, tree)


def _begins(name: str, patterns: Iterable[str]) -> bool:
    return any(
        fnmatchcase(name, pattern) if set("*?[") & set(pattern) else name.startswith(pattern)
        for pattern in patterns
    )  # fmt: skip


def functions(path: str, sides: Iterable[TreeSide]) -> re.Pattern[str]:
    """How the names of tests begin, before or after a change."""
    settings = [settings_of(tree, path.rpartition("/")[0]) for tree in sides]
    return _pattern(
        frozenset(word for setting in settings for word in setting.words("python_functions"))
    )


@lru_cache(maxsize=16)
def _pattern(names: frozenset[str]) -> re.Pattern[str]:
    return re.compile("|".join(["test", *map(_regex, sorted(names))]))


def _regex(name: str) -> str:
    parts: Iterator[str] = (
        ".*" if part == "*" else "." if part == "?" else re.escape(part)
        for part in re.split(r"([*?])", name)
    )  # fmt: skip
    return "".join(parts) + ("$" if set("*?") & set(name) else "")
