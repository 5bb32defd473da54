"""The command that runs only some named tests, made from the command that runs all.

A name is a path, an id in pytest's form (``path::Class::test``, ``path::title``), or what the
runner itself calls a test. The command keeps its options; the paths in it give way to the names.
"""

from __future__ import annotations

import os
import re
import shlex
from itertools import islice

from rlm_ci.system.files import UnreadableError, read_inside
from rlm_ci.validators import script_commands, test_file_names
from rlm_ci.validators.detect import LIMIT
from rlm_ci.validators.script_commands import ASSIGNMENT, MANAGERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from rlm_ci.system.command_line import Command
    from rlm_ci.validators.script_commands import ScriptCommand

    Words = tuple[str, ...]
    Exists = Callable[[str], bool]
    #: Command up to the runner's name, the words behind it, the tests, whether a path exists.
    Make = Callable[[Words, Words, Words, Exists], Words | None]

#: What starts a runner in an environment of its own.
_LAUNCHERS = (
    ("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("hatch", "run"), ("pipenv", "run"),
    ("npx",), ("pnpm", "exec"), ("yarn", "exec"), ("yarn", "run"), ("bunx",),
)  # fmt: skip
#: What sets variables, or measures, and then starts another command.
_WRAPPERS = frozenset(("env", "cross-env", "c8", "nyc"))
#: Words of a shell that change what a later command does.
_SHELL_STATE = frozenset(("cd", "pushd", "export", "set", "source", ".", "unset"))
#: What only a shell can read in a word.
_OF_SHELL = re.compile(r"[$`<>]")
_MOST = 100
#: Runners that a package of Node brings, and the file of one.
_OF_NODE = frozenset(("jest", "vitest", "mocha"))
_OF_PACKAGE = re.compile(r"node_modules/.*\b(?:jest|vitest|mocha)\b")
#: What they do besides running tests.
_OTHER_MODES = frozenset(("bench", "list", "typecheck"))
_REPORTERS = frozenset(("--reporter", "--reporters", "-R"))
_REPORTS = re.compile(r"--(?:coverage|collect-?[cC]overage)|--reporters?|-R")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")


def narrowed(argv: Words, names: Words, root: str, exists: Exists) -> Words | None:
    """``argv`` for the tests ``names`` alone; None where rlm-ci does not know its runner.

    Of a command that runs others, as a script of package.json does, the first that runs tests
    counts.
    """
    launcher = "bunx" if argv[0] == "bun" else "npx"
    commands = script_commands.commands(shlex.join(argv), _reader(root))
    for number, command in enumerate(islice(commands, _MOST)):
        if command.words[0] in _SHELL_STATE:
            return None
        is_own = not number and command.words[0] in _OF_NODE
        words = command.words if is_own else _unwrapped(command, launcher)
        at = _runner(words)
        make = _runner_at(words, at)
        if make is None or (number and any(map(_OF_SHELL.search, words))):
            continue
        if (made := make(words[: at + 1], words[at + 1 :], names, exists)) is not None:
            return made
    return None


def unstopped(argv: Words) -> Words:
    """``argv`` with every test binary run, even if one fails: cargo would stop behind that."""
    is_cargo = os.path.basename(argv[0]) == "cargo" and "test" in argv[1:3]
    if not is_cargo or "--no-fail-fast" in argv:
        return argv
    behind = argv.index("test") + 1
    return (*argv[:behind], "--no-fail-fast", *argv[behind:])


def narrowed_in(command: Command, names: Words, root: str) -> Words | None:
    """The same for a command that starts in the folder ``root``."""

    def exists(path: str) -> bool:
        return os.path.lexists(os.path.join(root, path))

    return narrowed(command.argv, names, root, exists)


def _reader(root: str) -> Callable[[str], str]:
    def text(path: str) -> str:
        try:
            return read_inside(root, path, LIMIT).decode("utf-8-sig", "replace")
        except UnreadableError:
            return ""

    return text


def _unwrapped(command: ScriptCommand, launcher: str) -> Words:
    """A command of a script as it starts outside of it, with its variables."""
    variables, words = [*command.variables], [*command.words]
    while len(words) > 1 and words[0] in _WRAPPERS:
        words.pop(0)
        while len(words) > 1 and (words[0].startswith("-") or ASSIGNMENT.match(words[0])):
            word = words.pop(0)
            variables += [] if word.startswith("-") else [word]
    if words[0] in MANAGERS and words[1:2] and words[1] in _OF_NODE:
        words.pop(0)
    if words[0] in _OF_NODE:
        words = [launcher, "--no-install", *words]
    return (*(("env", *variables) if variables else ()), *words)


def _runner(argv: Words) -> int:
    """Where the runner is named: behind variables, a launcher, its options, and ``python -m``."""
    at = 0
    if argv[0] == "env":
        at = next((n for n, word in enumerate(argv) if n and "=" not in word), len(argv))
    launcher = next((one for one in _LAUNCHERS if argv[at : at + len(one)] == one), ())
    at = _beyond_options(argv, at + len(launcher)) if launcher else at
    name = os.path.basename(argv[at]) if at < len(argv) else ""
    if _PYTHON.fullmatch(name) and "-m" in argv[at:]:
        return argv.index("-m", at) + 1
    if name == "node":  # it may run a runner by its file
        inner = (n for n in range(at + 1, len(argv)) if _OF_PACKAGE.search(argv[n]))
        return next(inner, at)
    return at


def _runner_at(words: Words, at: int) -> Make | None:
    if at >= len(words):
        return None
    name = os.path.basename(words[at])
    return _RUNNERS.get(name) or _RUNNERS.get(name.partition(".")[0])


def _beyond_options(argv: Words, at: int) -> int:
    while at < len(argv) and argv[at].startswith("-"):
        at += 1
    return at


def _options(words: Words, exists: Exists) -> Words:
    """The words without the paths of tests. What follows an option may be its value: a file
    that is no test stays there.
    """
    kept = []
    for before, word in zip(("", *words), words, strict=False):
        path = word.partition("::")[0]
        is_path = not word.startswith("-") and exists(path)
        is_value = before.startswith("-") and "." in path and not test_file_names.is_file(path)
        is_glob = "*" in word and not before.startswith("-")
        if not (is_path or is_glob) or is_value:
            kept.append(word)
    return tuple(kept)


def _titled(names: Words, exists: Exists) -> tuple[Words, str]:
    """The files of tests, and a regular expression for the titles; "" for all in the files."""
    split = [name.split("::") if exists(name.partition("::")[0]) else ["", name] for name in names]
    titles = [re.escape(" ".join(rest)).replace("\\ ", " ") for _, *rest in split if rest]
    files = tuple(dict.fromkeys(path for path, *_ in split if path))
    return files, f"({'|'.join(titles)})$" if titles else ""


def _pytest(head: Words, words: Words, names: Words, exists: Exists) -> Words:
    return (*head, *_options(words, exists), *names)


def _unittest(head: Words, words: Words, names: Words, exists: Exists) -> Words:
    def is_there(word: str) -> bool:
        return exists(word) or exists(f"{word.replace('.', '/')}.py")

    kept = () if words[:1] == ("discover",) else words
    options = (word for word in kept if word.startswith("-") or not is_there(word))
    split = (name.split("::") for name in names)
    dotted = (
        ".".join((path.removesuffix(".py").replace("/", "."), *test)) for path, *test in split
    )
    return (*head, *options, *dotted)


def _by_title(option: str, *settings: str) -> Make:
    """For a runner that takes titles by an ``option``; ``settings`` have it name each test.

    Of some tests coverage says nothing, and its threshold would fail.
    """

    def make(head: Words, words: Words, names: Words, exists: Exists) -> Words | None:
        if not _OTHER_MODES.isdisjoint(words):
            return None
        files, titles = _titled(names, exists)
        own = _options(_without_reports(words), exists)
        return (*head, *own, *settings, *((option, titles) if titles else ()), *files)

    return make


def _without_reports(words: Words) -> Words:
    """The words without what chooses reporters and coverage."""
    pairs = zip(("", *words), words, strict=False)
    return tuple(
        word for before, word in pairs
        if not _REPORTS.fullmatch(word.partition("=")[0])
        and (before not in _REPORTERS or word.startswith("-"))
    )  # fmt: skip


def _node(head: Words, words: Words, names: Words, exists: Exists) -> Words | None:
    if "--test" not in words:
        return None
    files, titles = _titled(names, exists)
    pattern = (f"--test-name-pattern={titles}",) if titles else ()
    return (*head, *_options(words, exists), *pattern, *files)


def _bun(head: Words, words: Words, names: Words, exists: Exists) -> Words | None:
    if words[:1] != ("test",):
        return None
    files, titles = _titled(names, exists)
    named = (f"./{path.removeprefix('./')}" for path in files)
    return (
        *head,
        "test",
        *_options(words[1:], exists),
        *(("-t", titles) if titles else ()),
        *named,
    )


def _go(head: Words, words: Words, names: Words, exists: Exists) -> Words | None:
    if words[:1] != ("test",):
        return None
    split = [name.split("::") if exists(name.partition("::")[0]) else ["", name] for name in names]
    folders = (
        os.path.dirname(path) if path.endswith(".go") else path for path, *_ in split if path
    )
    packages = dict.fromkeys(f"./{folder.removeprefix('./')}" for folder in folders)
    tests = [rest[0] for _, *rest in split if rest]
    named = [word for word in words[1:] if word.startswith(".") or word.endswith("...")]
    options = [word for word in words[1:] if word not in named]
    if tests:  # a subtest is named by the way to it
        ways = [[f"^{re.escape(part)}$" for part in test.split("/")] for test in tests]
        whole = f"^({'|'.join(re.escape(test.partition('/')[0]) for test in tests)})$"
        options += ["-run", "/".join(ways[0]) if len(ways) == 1 else whole]
    return (*head, "test", "-v", *options, *(packages or named))


def _cargo(head: Words, words: Words, names: Words, exists: Exists) -> Words | None:
    if words[:1] != ("test",):
        return None
    targets: dict[str, None] = {}
    filters = []
    for name in names:
        path, *inner = name.split("::")
        if not path.endswith(".rs") or not exists(path):
            filters.append(name)
        elif path.startswith("src/"):
            module = path.removeprefix("src/").removesuffix(".rs").removesuffix("/mod")
            modules = [] if module in ("lib", "main") else module.split("/")
            filters.append("::".join((*modules, *inner)) + ("" if inner else "::"))
        else:
            targets[os.path.basename(path).removesuffix(".rs")] = None
            filters += ["::".join(inner)] if inner else []
    chosen = [word for target in targets for word in ("--test", target)]
    exact = [] if any(one.endswith("::") for one in filters) else ["--exact"]
    behind = ["--", *filters, *exact] if filters else []
    return (*head, *words, *chosen, *behind)


_RUNNERS: dict[str, Make] = {
    "pytest": _pytest,
    "py.test": _pytest,
    "unittest": _unittest,
    "bun": _bun,
    "jest": _by_title("-t", "--coverage=false", "--reporters=default", "--verbose"),
    "vitest": _by_title("-t", "--coverage=false", "--reporter=verbose"),
    "mocha": _by_title("-g", "--reporter=spec"),
    "node": _node,
    "go": _go,
    "cargo": _cargo,
}
