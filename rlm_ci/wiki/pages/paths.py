"""What a path says: whether it is a test, an example, a part of the program; names of pages."""

from __future__ import annotations

import re
from collections import Counter
from hashlib import sha256

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

_TEST_FOLDER = re.compile(r"(?:.*_)?(?:tests?|specs?|__tests__|testdata|fixtures)", re.IGNORECASE)
_TEST_FILE = re.compile(
    r"test_.*\.py|.*_tests?\.(?:py|go|rb|c|cc|cpp|rs)|conftest\.py|.*\.(?:test|spec)\.[cm]?[jt]sx?"
    r"|tests\.rs|.*_spec\.rb|.*Tests?\.(?:java|cs|php)"
)
#: Folders with what tests need: at the top, and at any depth.
_HELPS = re.compile(r"testing|(?:tests?|testing)[_-]?(?:resources|data|tools|suite|projects?)")
_HELPS_TESTS = re.compile(
    r"tests?[_-]?(?:utils?|helpers?|support|kit)|mocks?|__mocks__|__fixtures__"
)
#: Folders at the top that are about the program, unless it imports them.
_ASIDE = frozenset(("extras", "hack", "paper", "script", "misc"))
#: Folders at the top that hold no part of the program.
_BESIDE = frozenset((
    "doc", "docs", "documentation", "example", "examples", "sample", "samples", "demo", "demos",
    "contrib", "website", "site", "scripts", "ci", ".ci",
    ".circleci", ".buildkite", ".devcontainer", ".github", ".gitlab",
    "requirements",
))  # fmt: skip
#: Folders that may have packages in Go.
_TOLD = frozenset(("doc", "docs", "documentation"))
#: The same, at any depth.
_MEASURING = frozenset(("bench", "benches", "benchmark", "benchmarks"))
#: Files at the top with which a project is built and checked.
_BUILDING = re.compile(
    r"(?:setup|noxfile|fabfile|tasks|dodo|conf)\.py|Rakefile|Gemfile|.*\.gemspec|configure"
    r"|(?:gulpfile|Gruntfile|\.eslintrc)\.[cm]?js|[\w.-]+\.config\.[cm]?[jt]s|build\.(?:rs|gradle)(?:\.kts)?"
)
#: Names that some file system keeps for itself.
_DEVICES = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)
_LONGEST = 100


def is_test(path: str) -> bool:
    *folders, name = path.split("/")
    return bool(_TEST_FILE.fullmatch(name)) or any(map(_TEST_FOLDER.fullmatch, folders))


def is_beside(path: str) -> bool:
    """Whether a file belongs to documentation, examples, packaging and the like."""
    top, inside, _ = path.partition("/")
    if any(part.lower() in _MEASURING for part in path.split("/")[:-1]):
        return True
    if path.endswith(".go") and top.lower() in _TOLD:
        return False
    return top.lower() in _BESIDE if inside else bool(_BUILDING.fullmatch(top))


def is_aside(path: str) -> bool:
    """Whether a file is by its folder of no use to users, as what tests need: imports decide."""
    *folders, _ = path.lower().split("/")
    if not folders:
        return False
    is_top = bool(_HELPS.fullmatch(folders[0])) or folders[0] in _ASIDE
    return is_top or any(map(_HELPS_TESTS.fullmatch, folders))


def helps_tests(path: str) -> bool:
    """Of files that ``is_aside``, those that tests need."""
    return path.partition("/")[0].lower() not in _ASIDE


def is_told(path: str) -> bool:
    return path.partition("/")[0].lower() in _TOLD


def folder_of(path: str) -> str:
    return path.rpartition("/")[0]


def title_of(key: str) -> str:
    """How pages call the folder or file ``key``."""
    return key or "top level"


def page_names(keys: Iterable[str]) -> dict[str, str]:
    """A file name, without suffix, for each path of a folder or a file.

    It has letters, digits, dots, dashes and underscores only. Names differ not in case alone, and
    do not depend on other paths, unless two would be the same.
    """
    names = {key: _plain(key) for key in keys}
    counts = Counter(name.lower() for name in names.values())
    return {
        key: _marked(name, key) if counts[name.lower()] > 1 else name for key, name in names.items()
    }


def _plain(key: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]", "_", key.replace("/", ".")) if key else "top-level"
    bare = name.strip(".-")
    altered = name != key.replace("/", ".") and bool(key)
    if not bare or bare != name or altered or len(name) > _LONGEST or _DEVICES.fullmatch(name):
        return _marked(bare, key)
    return name


def _marked(name: str, key: str) -> str:
    mark = sha256(key.encode("utf-8", "surrogateescape")).hexdigest()[:8]
    name = name[: _LONGEST - 9].strip(".-")
    return f"{name}-{mark}" if name else f"folder-{mark}"
