"""What settings and ``conftest.py`` take over from other files of the tree, which they name."""

from __future__ import annotations

import re

from rlm_ci.loop import protected, sections
from rlm_ci.loop.lookup import Lookup
from rlm_ci.loop.shell import joined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    #: The texts of files, of those that can be had.
    Texts = Callable[[Iterable[str]], Mapping[str, str]]

#: Files of one kind that are looked into, those nearest to the root first; and how far on.
_MOST, _ROUNDS = 60, 3
#: What stands behind these names, in any form of settings, is a file or a package.
_KEYS = re.compile(
    r"\b(?:extends?|inherit_from|presets?|setup_?files\w*|global_?setup|global_?teardown"
    r"|test_?environment|snapshotSerializers|testRunner|transform|ruleset|rulePaths"
    r"|(?P<loads>require|import|plugins|load-plugins))"
    r"[\"']?\s{0,9}[:=]\s{0,9}(?P<value>\[[^\]]{0,2000}\]|\{[^}]{0,2000}\}|[^\n]{0,300})",
    re.IGNORECASE,
)
_WORD = re.compile(r"(?<![\w@])(?:<rootDir>/)?[\w./@-]{1,200}")
#: A name of a path may leave these out.
_ENDINGS = ("", ".json", ".js", ".cjs", ".mjs", ".ts", ".py")
#: Where the same names stand for what a package exports.
_PACKAGES = ("package.json", "cargo.toml", "go.mod", "pipfile")
_PLUGINS = re.compile(r"\bpytest_plugins\b[^=\n]{0,80}=\s{0,9}([\[(][^\])]{0,4000}|[^\n]{0,300})")
_OPTION = re.compile(r"(?:^|[\s\"'])-p[\s=]{0,3}([A-Za-z_][\w.]{1,200})")
_MODULE = re.compile(r"[\"']([A-Za-z_][\w.]{0,200})[\"']")
_ROOTS = ("", "src", "lib")


def settings(known: Iterable[str], paths: Iterable[str], texts: Texts) -> frozenset[str]:
    """The files that settings take over, and those in turn. ``known`` are settings by a command."""
    paths = tuple(paths)
    lookup = Lookup(paths)
    told = [path for path in paths if _is_settings(path)]
    wanted = [*known, *_nearest(told)]
    found: set[str] = set()
    for _ in range(_ROUNDS):
        more: set[str] = set()
        for path, text in texts(wanted).items():
            more.update(_named(path, text, lookup))
        wanted = sorted(more - found - set(wanted))[:_MOST]
        found |= more
    return frozenset(found)


def plugins(command: str, paths: Iterable[str], texts: Texts) -> frozenset[str]:
    """The modules that a ``conftest.py``, an option in the settings or the command loads."""
    paths = tuple(paths)
    lookup = Lookup(paths)
    places = [path for path in paths if path.rpartition("/")[2] == "conftest.py"]
    options = [
        path for path in paths if _is_settings(path) and path.endswith((".toml", ".ini", ".cfg"))
    ]
    modules = [("", one) for one in _OPTION.findall(command)] if "pytest" in command else []
    for path, text in texts(_nearest(options)).items():
        modules += [(path.rpartition("/")[0], one) for one in _OPTION.findall(text)]
    for path, text in texts(_nearest(places)).items():
        folder = path.rpartition("/")[0]
        for value in _PLUGINS.findall(text):
            modules += [(folder, one) for one in _MODULE.findall(value)]
    found: set[str] = set()
    for folder, module in modules:
        stem = module.replace(".", "/")
        folders = tuple(dict.fromkeys((*_ROOTS, folder)))
        for word in (f"{stem}.py", f"{stem}/__init__.py"):
            found.update(lookup.meant(word, folders))
    return frozenset(found)


def _is_settings(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    return protected.kind_of_name(name) == protected.VALIDATOR or sections.is_sectioned(name)


def _nearest(paths: Iterable[str]) -> list[str]:
    return sorted(paths, key=lambda path: (path.count("/"), path))[:_MOST]


def _named(path: str, text: str, lookup: Lookup) -> Iterable[str]:
    folder, _, name = path.rpartition("/")
    for found in _KEYS.finditer(text):
        if found["loads"] and name.lower() in _PACKAGES:
            continue
        for word in _WORD.findall(found["value"]):
            bare = word.removeprefix("<rootDir>/")
            if "/" in bare or "." in bare:
                for ending in _ENDINGS:
                    near = lookup.meant(joined(folder, bare) + ending, ("",))
                    yield from near or lookup.meant(f"{bare}{ending}", ("",))
