"""Names by which runners find tests: of files and of folders, as each language has them."""

from __future__ import annotations

import re
from functools import lru_cache

_SCRIPT = r"[cm]?[jt]sx?"
#: Patterns are compiled where they are first needed: a hook needs few of them.
#: Where a name made of lower-case words is a test's.
_WORDED = (
    r"(?:py|rb|exs?|erl|cc|cpp|cxx|c|m|mm|lua|dart|clj[cs]?|cr|jl|ml|php|pl|sh|bash|zig|nim|"
    rf"r|el|fish|gd|rego|v|{_SCRIPT})"
)
_LOWER = (
    rf"(?s)test[-_].+\.{_WORDED}|.+[-_](?:unit)?tests?\.{_WORDED}|.+\.(?:test|spec|cy)\..+"
    r"|.+\.tests\.ps1|.+\.t\.sol"
    r"|.+_test\.go|.+_tests?\.rs"
    rf"|tests\.(?:py|{_SCRIPT})|.+_spec\.(?:rb|lua|cr)|.+[-_]e2e[-_]spec\.{_SCRIPT}"
    rf"|.+\.e2e-spec\.{_SCRIPT}|.+_suite\.erl|.+\.tftest\.hcl"
    r"|.+\.(?:t|bats|feature|phpt|robot|snap)|test[-_]?(?:utils?|helpers?)\..+"
)
#: Names in which the case counts, as to the runner: a ``Contest`` is none, nor the ``Latest``.
_CAMEL = (
    r".*Tests?\.(?:java|kts?|scala|groovy|cs|fs|vb|swift|php|mm?|cc|cpp|cxx|dart)|.+Ce[sp]t\.php"
)
#: Those that code has, too, where a build keeps it apart from its tests.
_LOOSE = (
    r"Test[A-Z].*\.(?:java|kt|scala|groovy)|.*[a-z0-9](?:IT|ITCase)\.(?:java|kt|scala|groovy)"
    r"|.*TestCase\.(?:java|kt|scala|groovy|php|cs)|.*[a-z0-9]Spec\.(?:scala|groovy|hs|kt)"
    r"|.*[a-z0-9]Suite\.scala"
)
_KINDS = "unit|integration|functional|acceptance|regression|smoke|system|contract|component|e2e"
_FOLDER = (
    rf"(?:tests?|__tests__|specs?|__specs__|testdata|__snapshots__|e2e|fixtures|__fixtures__|__mocks__"
    rf"|(?:{_KINDS}|api|ui|android|common|jvm|native|shared)[-_]?tests?|.+\.(?:{_KINDS})?tests?"
    r"|test[-_](?:data|suites?|fixtures|support)|testsuites?|testfixtures|testsupport"
    r"|test[-_]?(?:utils?|helpers?)|step_definitions)"
)
_CAMEL_FOLDER = r"\w*[a-z0-9](?:UI)?Tests"
#: Each of these names has one of these words.
_FOLDER_WORDS = (
    "test", "spec", "e2e", "fixtures", "__mocks__", "__snapshots__", "step_definitions",
)  # fmt: skip
#: At the top alone: deeper, it is a command of that name, or anything.
_TOP = rf"(?s)test\.(?:rb|{_SCRIPT})|x?t/.+"
#: Where cargo looks for tests, and modules of them.
_RUST = r"(?:.*/)?(?:(?:tests|benches)/[^/]+|tests)\.rs"
_FEATURES = r"(?:.*/)?features/(?:steps/.+|support/.+|environment\.py)"


def is_file(path: str) -> bool:
    """Whether a file is a test, or shared by tests, by its own name."""
    name = path.rpartition("/")[2]
    lower = name.lower()
    if re.fullmatch(_LOWER, lower):
        return True
    if name != lower:
        if re.fullmatch(_CAMEL, name):
            return True
        if re.fullmatch(_LOOSE, name) and "src/main/" not in path:
            return True
    return (
        (path.startswith(("test.", "t/", "xt/")) and re.fullmatch(_TOP, path) is not None)
        or ("features/" in path and re.fullmatch(_FEATURES, path) is not None)
        or (name.endswith(".rs") and re.fullmatch(_RUST, path) is not None)
    )


@lru_cache(maxsize=4096)
def is_folder(name: str) -> bool:
    """Whether all that lies in a folder of this name is of tests."""
    lower = name.lower()
    if not any(word in lower for word in _FOLDER_WORDS):
        return False
    return bool(re.fullmatch(_FOLDER, lower) or re.fullmatch(_CAMEL_FOLDER, name))
