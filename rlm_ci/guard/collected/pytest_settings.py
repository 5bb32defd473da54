"""The settings of pytest, as the files of a repository have them."""

from __future__ import annotations

import json
import re
import shlex
from functools import lru_cache

from rlm_ci.guard.protected import config_sections
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from rlm_ci.guard.collected.tree_side import TreeSide

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
