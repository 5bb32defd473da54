"""Which files the test runners of JavaScript collect, by package.json and their own settings."""

from __future__ import annotations

import json
import re
from functools import lru_cache

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.guard.collected.tree_side import TreeSide

_SCRIPT = r"[cm]?[jt]sx?"
_ENDINGS = ("js", "cjs", "mjs", "ts", "cts", "mts", "json")


class _Runner(Value):
    """``called``: how a script starts it; ``files``: what it collects by default."""

    called: str
    files: str
    #: Files with its settings, and the key of package.json that has them.
    config: tuple[str, ...] = ()
    key: str = ""
    #: Settings with globs of its files, with regular expressions of them, and of what it leaves.
    globs: str = ""
    regexes: str = ""
    no_globs: str = ""
    no_regexes: str = ""
    #: Whether the words of its command are globs of its files, and no filter.
    takes_globs: bool = False


def _configs(*names: str) -> tuple[str, ...]:
    return tuple(f"{name}.{ending}" for name in names for ending in _ENDINGS)


_RUNNERS = {
    "jest": _Runner(
        r"\bjest\b", rf"(?:.*/)?__tests__/.*\.{_SCRIPT}|(?:.*[./])?(?:spec|test)\.{_SCRIPT}",
        _configs("jest.config"), "jest", "testMatch", "testRegex", "", "testPathIgnorePatterns",
    ),
    "vitest": _Runner(
        r"\bvitest\b", rf".*\.(?:test|spec)\.{_SCRIPT}",
        _configs("vitest.config", "vite.config"), "", "include", "", "exclude",
    ),
    "mocha": _Runner(
        r"\bmocha\b", r"test/[^/]*\.[cm]?js",
        (*_configs(".mocharc"), ".mocharc.yml", ".mocharc.yaml"), "mocha", "spec", "", "ignore",
        takes_globs=True,
    ),
    "ava": _Runner(
        r"\bava\b",
        rf"(?:src/|source/)?test\.{_SCRIPT}|(?:.*/)?test-[^/]*\.{_SCRIPT}"
        rf"|.*\.(?:spec|test)\.{_SCRIPT}|(?:.*/)?(?:tests?|__tests__)/.*\.{_SCRIPT}",
        _configs("ava.config"), "ava", "files",
    ),
    "node --test": _Runner(
        r"\bnode\b[^&|;]* --test(?![-\w])",
        rf".*[._-]test\.{_SCRIPT}|(?:.*/)?test(?:-[^/]*)?\.{_SCRIPT}|(?:.*/)?test/.*\.{_SCRIPT}",
        takes_globs=True,
    ),
    "bun test": _Runner(r"\bbun test\b", rf".*[._](?:test|spec)\.{_SCRIPT}"),
}  # fmt: skip
#: Runners that are not read here, and what makes it uncertain which files one collects.
_OTHERS = re.compile(
    r"\b(?:karma|jasmine|tap|tape|uvu|lab|playwright|cypress|wtr|web-test-runner|testem|ng test"
    r"|react-scripts|turbo|nx|lerna|qunit|deno|zora|aegir|tsd|japa|wireit|poku)\b"
    r"|\s-(?:c|-config|-dir|-root|-rootDir|-recursive|-spec|-file|-ignore|-exclude|-extension)\b"
)
_UNREAD = re.compile(
    r"\b(?:projects|workspace|rootDir|roots|testDir|dir|root|recursive|extension|preset|extends"
    r"|mergeConfig|defineProject)\b[\"']?\s*[:(]"
)
#: Options of mocha and node whose next word is their value, and no file.
_VALUED = re.compile(
    r"\s(?:-[ORfgjnrstuC]|--(?:reporter(?:-options?)?|require|timeout|slow|f?grep|ui|jobs|retries|import"
    r"|node-option|watch-files|(?:experimental-)?loader|conditions|test-[a-z-]+))"
    r"\s+(?:\\?\"[^\"]*\"|'[^']*'|\S+)"
)
#: Blocks of vite's settings in which the same names mean other things.
_OTHER_BLOCKS = re.compile(
    r"\b(?:coverage|typecheck|benchmark|optimizeDeps|build|esbuild|ssr|server|deps|watch)"
    r"[\"']?\s*:\s*\{"
)
_STRING = r"\"(?:[^\"\\\n]|\\.)*\"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\$]|\\.)*`"
_COMMENT = re.compile(rf"({_STRING})|//[^\n]*|/\*.*?\*/", re.DOTALL)
_SPREAD = re.compile(r"\.\.\.[\w.]+")
_GLOB = re.compile(r"\*\*/|\*\*|[?*+@]\(|\[[^\]]+\]|.", re.DOTALL)
_SIGNS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")"}


def collects(path: str, tree: TreeSide) -> tuple[bool | None, str]:
    """Whether a runner of the package collects a file, None if that is not certain; and the
    names of the runners.
    """
    folder = tree.nearest_folder("package.json", path)
    manifest = _manifest(tree.read(f"{folder}package.json"))
    scripts = manifest.get("scripts")
    commands = "\n".join(map(str, scripts.values())) if isinstance(scripts, dict) else ""
    used = {name: runner for name, runner in _RUNNERS.items() if re.search(runner.called, commands)}
    if not used or _OTHERS.search(commands):
        return None, ""
    answers = [
        _collected(
            runner, path.removeprefix(folder), _settings(runner, folder, manifest, tree), commands
        )
        for runner in used.values()
    ]
    is_certain = True in answers or None not in answers
    return (True in answers if is_certain else None), " and ".join(used)


def _settings(runner: _Runner, folder: str, manifest: dict[str, object], tree: TreeSide) -> str:
    if runner.key and (section := manifest.get(runner.key)):
        return json.dumps(section)
    return next(filter(None, (tree.read(folder + name) for name in runner.config)), "")


def _collected(runner: _Runner, path: str, settings: str, scripts: str) -> bool | None:
    """Whether a path below the package is collected."""
    text = without_blocks(without_comments(settings))
    if _UNREAD.search(text):
        return None
    try:
        globs = [*_values(text, runner.globs)]
        globs += _arguments(runner, scripts) if runner.takes_globs else ()
        rules = [glob_regex(glob) for glob in globs if not glob.startswith("!")]
        rules += map(_anchored, _values(text, runner.regexes))
        left = [glob_regex(glob[1:]) for glob in globs if glob.startswith("!")]
        left += map(glob_regex, _values(text, runner.no_globs, may_spread=True))
        left += map(_anchored, _values(text, runner.no_regexes, may_spread=True))
        is_wanted = any(re.search(rule, f"/{path}") for rule in rules or [f"^/(?:{runner.files})$"])
        return is_wanted and not any(re.search(rule, f"/{path}") for rule in left)
    except (ValueError, re.error):
        return None


def _arguments(runner: _Runner, scripts: str) -> Iterator[str]:
    """The files that the words behind a runner name, a folder by what lies in it."""
    for match in re.finditer(rf"{runner.called}([^&|;\n]*)", scripts):
        for word in re.sub(r"\s-\S*", " ", _VALUED.sub(" ", match[1])).split():
            glob = word.strip("\"'")
            if "$" in glob:
                raise ValueError(glob)
            is_file = "*" in glob or "." in glob.rpartition("/")[2]
            yield glob if is_file else f"{glob.rstrip('/')}/*"


def _values(text: str, name: str, *, may_spread: bool = False) -> list[str]:
    """The strings of a setting. Raises ValueError if they cannot be read for certain."""
    if not name:
        return []
    pattern = rf"(?<![\w.])[\"']?{name}[\"']?\s*:\s*(\[(?:{_STRING}|[^\]\"'`])*\]|{_STRING}|\S)"
    values = [match[1] for match in re.finditer(pattern, text)]
    unread = "".join(re.sub(_STRING, "", value).strip("[], \n\t") for value in values)
    unread = _SPREAD.sub("", unread) if may_spread else unread
    if len(values) > 1 or unread.strip(", \n\t"):
        raise ValueError(name)
    return [
        re.sub(r"\\(.)", r"\1", literal[1:-1])
        for value in values
        for literal in re.findall(_STRING, value)
    ]


def without_comments(text: str) -> str:
    return _COMMENT.sub(lambda match: match[1] or "", text)


def without_blocks(text: str) -> str:
    """The settings without what they say of other things than tests."""
    while match := _OTHER_BLOCKS.search(text):
        depth, at = 1, match.end()
        while depth and at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            at += 1
        text = text[: match.start()] + text[at:]
    return text


def _anchored(regex: str) -> str:
    return regex.replace("<rootDir>", "^")


@lru_cache(maxsize=256)
def glob_regex(glob: str) -> str:
    """A glob of JavaScript's tools as a regular expression for a path that begins with ``/``."""
    pieces, closing = list[str](), list[str]()
    for part in _GLOB.findall(glob.removeprefix("<rootDir>").removeprefix("./").removeprefix("/")):
        if part[1:] == "(":
            closing.append(")" + part[0].replace("@", ""))
            pieces.append("(?:")
        elif part == "!":
            raise ValueError(glob)
        elif part == ")" and closing:
            pieces.append(closing.pop())
        elif part in (",", "|") and (closing or "{" in glob):
            pieces.append("|")
        elif part[0] == "[":
            pieces.append(part.replace("[!", "[^"))
        else:
            pieces.append(_SIGNS.get(part) or re.escape(part))
    return f"^/{''.join(pieces)}$"


@lru_cache(maxsize=16)
def _manifest(text: str) -> dict[str, object]:
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return manifest if isinstance(manifest, dict) else {}
