"""The command that runs only some named tests, made from the command that runs all.

A name is a path, an id in pytest's form (``path::Class::test``, ``path::title``), or what the
runner itself calls a test. The command keeps its options; the paths in it give way to the names.
"""

from __future__ import annotations

import json
import os
import re

from rlm_ci.errors import UsageError
from rlm_ci.system.command_line import Command
from rlm_ci.system.files import UnreadableError, read_inside
from rlm_ci.validators import test_file_names
from rlm_ci.validators.detect import LIMIT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    Words = tuple[str, ...]
    Exists = Callable[[str], bool]
    #: Command up to the runner's name, the words behind it, the tests, whether a path exists.
    Make = Callable[[Words, Words, Words, Exists], Words | None]

#: What starts a runner in an environment of its own.
_LAUNCHERS = (
    ("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("hatch", "run"), ("pipenv", "run"),
    ("npx",), ("pnpm", "exec"), ("yarn", "exec"), ("yarn", "run"), ("bunx",),
)  # fmt: skip
_MANAGERS = frozenset(("npm", "pnpm", "yarn", "bun"))
_SCRIPTS = (("test",), ("run", "test"), ("t",))
#: Bun's own runner, whatever script there is.
_BUN_TEST = ("bun", "test")
_PYTHON = re.compile(r"(?:python|pypy)[0-9.]*")


def narrowed(argv: Words, names: Words, root: str, exists: Exists) -> Words | None:
    """``argv`` for the tests ``names`` alone; None where rlm-ci does not know its runner."""
    argv = _script(argv, root)
    at = _runner(argv)
    make = _RUNNERS.get(os.path.basename(argv[at])) if at < len(argv) else None
    return make(argv[: at + 1], argv[at + 1 :], names, exists) if make else None


def narrowed_in(command: Command, names: Words, root: str) -> Words | None:
    """The same for a command that starts in the folder ``root``; None for one of a shell."""

    def exists(path: str) -> bool:
        return os.path.lexists(os.path.join(root, path))

    return None if command.in_shell else narrowed(command.argv, names, root, exists)


def _script(argv: Words, root: str) -> Words:
    """The command of a package's test script; nothing where a shell must read it."""
    if argv[0] not in _MANAGERS or argv[1:] not in _SCRIPTS or argv == _BUN_TEST:
        return argv
    try:
        package = json.loads(read_inside(root, "package.json", LIMIT))
        command = Command.parse(package["scripts"]["test"])
    except (UnreadableError, UsageError, ValueError, KeyError, TypeError, AttributeError):
        return ()
    launcher = "bunx" if argv[0] == "bun" else "npx"
    return () if command.in_shell else (launcher, "--no-install", *command.argv)


def _runner(argv: Words) -> int:
    """Where the runner is named: behind a launcher, its options, and ``python -m``."""
    launcher = next((one for one in _LAUNCHERS if argv[: len(one)] == one), ())
    at = _beyond_options(argv, len(launcher)) if launcher else 0
    if at < len(argv) and _PYTHON.fullmatch(os.path.basename(argv[at])) and "-m" in argv[at:]:
        return argv.index("-m", at) + 1
    return at


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
        if not is_path or is_value:
            kept.append(word)
    return tuple(kept)


def _titled(names: Words, exists: Exists) -> tuple[Words, str]:
    """The files of tests, and a regular expression for the titles; "" for all in the files."""
    split = [name.split("::") if exists(name.partition("::")[0]) else ["", name] for name in names]
    titles = [re.escape(" ".join(rest)).replace("\\ ", " ") for _, *rest in split if rest]
    files = tuple(dict.fromkeys(path for path, *_ in split if path))
    return files, f"({'|'.join(titles)})$" if titles else ""


def _pytest(head: Words, rest: Words, names: Words, exists: Exists) -> Words:
    return (*head, *_options(rest, exists), *names)


def _unittest(head: Words, rest: Words, names: Words, exists: Exists) -> Words:
    def is_there(word: str) -> bool:
        return exists(word) or exists(f"{word.replace('.', '/')}.py")

    kept = () if rest[:1] == ("discover",) else rest
    options = (word for word in kept if word.startswith("-") or not is_there(word))
    split = (name.split("::") for name in names)
    dotted = (
        ".".join((path.removesuffix(".py").replace("/", "."), *test)) for path, *test in split
    )
    return (*head, *options, *dotted)


def _by_title(option: str) -> Make:
    def make(head: Words, rest: Words, names: Words, exists: Exists) -> Words:
        files, titles = _titled(names, exists)
        return (*head, *_options(rest, exists), *((option, titles) if titles else ()), *files)

    return make


def _node(head: Words, rest: Words, names: Words, exists: Exists) -> Words | None:
    if "--test" not in rest:
        return None
    files, titles = _titled(names, exists)
    pattern = (f"--test-name-pattern={titles}",) if titles else ()
    return (*head, *_options(rest, exists), *pattern, *files)


def _bun(head: Words, rest: Words, names: Words, exists: Exists) -> Words | None:
    if rest[:1] != ("test",):
        return None
    files, titles = _titled(names, exists)
    named = (f"./{path.removeprefix('./')}" for path in files)
    return (*head, "test", *_options(rest[1:], exists), *(("-t", titles) if titles else ()), *named)


def _go(head: Words, rest: Words, names: Words, exists: Exists) -> Words | None:
    if rest[:1] != ("test",):
        return None
    split = [name.split("::") if exists(name.partition("::")[0]) else ["", name] for name in names]
    folders = (
        os.path.dirname(path) if path.endswith(".go") else path for path, *_ in split if path
    )
    packages = dict.fromkeys(f"./{one.removeprefix('./')}" for one in folders)
    tests = [rest[0] for _, *rest in split if rest]
    named = [word for word in rest[1:] if word.startswith(".") or word.endswith("...")]
    options = [word for word in rest[1:] if word not in named]
    if tests:  # a subtest is named by the way to it
        ways = [[f"^{re.escape(part)}$" for part in test.split("/")] for test in tests]
        whole = f"^({'|'.join(re.escape(test.partition('/')[0]) for test in tests)})$"
        options += ["-run", "/".join(ways[0]) if len(ways) == 1 else whole]
    return (*head, "test", "-v", *options, *(packages or named))


def _cargo(head: Words, rest: Words, names: Words, exists: Exists) -> Words | None:
    if rest[:1] != ("test",):
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
    return (*head, *rest, *chosen, *behind)


_RUNNERS: dict[str, Make] = {
    "pytest": _pytest,
    "py.test": _pytest,
    "unittest": _unittest,
    "bun": _bun,
    "jest": _by_title("-t"),
    "vitest": _by_title("-t"),
    "mocha": _by_title("-g"),
    "node": _node,
    "go": _go,
    "cargo": _cargo,
}
