"""Where runners take tests from, as their settings in the repository say it.

A note of the kind ``TESTS`` has a regular expression of paths as ``text``. Its ``detail`` is
``FOLDERS`` where the setting names folders, which may hold other files, too.
"""

from __future__ import annotations

import json
import re

from rlm_ci.guard.collected import pytest_tests, script_runners
from rlm_ci.wiki.facts.note import TESTS, CodeNote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FOLDERS = "folders"
_JEST = re.compile(r"jest\.config\.(?:[cm]?[jt]s|json)")
_VITEST = re.compile(r"vitest\.(?:config|workspace)(?:\.\w+)?\.[cm]?[jt]s")
_STRING = re.compile(r"\"([^\"\\\n]*)\"|'([^'\\\n]*)'|`([^`\\$]*)`")
#: Characters of a setting, and settings of a file, that are read.
_LONGEST, _MOST = 200, 40


def tested_paths(path: str, content: bytes) -> list[CodeNote]:
    """What a file of settings says; nothing for any other file."""
    folder, _, name = path.rpartition("/")
    text = content.decode("utf-8", "replace")
    prefix = f"{re.escape(folder)}/" if folder else ""
    notes: list[CodeNote] = []
    if name.endswith((".toml", ".ini", ".cfg")) and "testpaths" in text:
        options = pytest_tests.options(path, text) or {}
        for word in options.get("testpaths", ()):
            inside = _inside(word)
            line = text.count("\n", 0, max(0, text.find("testpaths"))) + 1
            notes += _note(line, f"{prefix}{inside}/.+\\.py", FOLDERS) if inside else ()
    elif name == "package.json" and '"jest"' in text:
        notes = list(_jest(_section(text), text, prefix))
    elif _JEST.fullmatch(name):
        notes = list(_jest(text, text, prefix))
    elif _VITEST.fullmatch(name):
        bare = script_runners.without_blocks(script_runners.without_comments(text))
        notes = list(_globs("include", bare, text, prefix))
    return notes[:_MOST]


def _jest(settings: str, text: str, prefix: str) -> Iterator[CodeNote]:
    bare = script_runners.without_comments(settings)
    yield from _globs("testMatch", bare, text, prefix)
    for word, line in _words("roots", bare, text):
        inside = _inside(word.removeprefix("<rootDir>"))
        if inside:
            yield from _note(line, f"{prefix}{inside}/.+\\.[cm]?[jt]sx?", FOLDERS)


def _globs(key: str, bare: str, text: str, prefix: str) -> Iterator[CodeNote]:
    for word, line in _words(key, bare, text):
        if word.startswith("!"):
            continue
        try:
            pattern = script_runners.glob_regex(word).removeprefix("^/").removesuffix("$")
        except ValueError:
            continue
        yield from _note(line, f"{prefix}{pattern}", "")


def _words(key: str, bare: str, text: str) -> Iterator[tuple[str, int]]:
    """The strings of a setting, and a line of the file that has it."""
    line = text.count("\n", 0, max(0, text.find(key))) + 1
    for match in re.finditer(rf"(?<![\w.])[\"']?{key}[\"']?\s*:\s*\[([^\[\]]{{0,2000}})\]", bare):
        for literal in _STRING.finditer(match[1]):
            yield next(filter(None, literal.groups()), ""), line


def _inside(word: str) -> str:
    """A folder of a setting as a part of an expression; "" for all, and for what is elsewhere."""
    bare = word.strip().removeprefix("./").strip("/")
    if bare in ("", ".") or ".." in bare.split("/") or bare.endswith((".py", ".js", ".ts")):
        return ""
    return "".join({"*": "[^/]*", "?": "[^/]"}.get(sign) or re.escape(sign) for sign in bare)


def _section(text: str) -> str:
    try:
        manifest = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return json.dumps(manifest.get("jest")) if isinstance(manifest, dict) else ""


def _note(line: int, pattern: str, detail: str) -> list[CodeNote]:
    try:
        re.compile(pattern)
    except re.error:
        return []
    is_short = len(pattern) <= _LONGEST
    return [CodeNote(TESTS, line, line, "", pattern, detail)] if is_short else []
