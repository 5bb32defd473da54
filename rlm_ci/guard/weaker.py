"""What a change does to the tests, and to what runs and judges them: two trees, compared.

Nothing is run. The fix loop forbids its agent such changes; a reviewer of any change must see them.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache

from rlm_ci.guard import new_silencers
from rlm_ci.guard.collected import collected, doctests
from rlm_ci.guard.collected.tree_side import TreeSide
from rlm_ci.guard.loosened import snapshots
from rlm_ci.guard.weakened_tests import compare
from rlm_ci.guard.weakened_tests.cases import words_of
from rlm_ci.guard.weakened_tests.compare import CodeChange, ComparedTests
from rlm_ci.guard.weakening import RestOfTree, TextChange, Weakening
from rlm_ci.validators import test_file_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

TEST, SNAPSHOT, CI, SETTINGS, CODE = "test", "snapshot", "ci", "settings", "code"

#: Endings of code.
_CODE = frozenset(
    (
        "py", "pyi", "pyx", "js", "cjs", "mjs", "jsx", "cjsx", "mjsx", "ts", "cts", "mts", "tsx",
        "ctsx", "mtsx", "vue", "svelte", "go", "rs", "java", "kt", "kts", "scala", "groovy", "rb",
        "php", "c", "cc", "cpp", "cxx", "h", "hpp", "cs", "swift", "m", "mm", "dart", "ex", "exs",
        "erl", "hs", "lua", "sh", "bash", "sql", "proto", "r", "jl", "zig", "css", "scss", "htm",
        "html", "jinja", "jinja2",
    )
)  # fmt: skip
#: Of these, what holds no tests: in a folder of tests it is data.
_NO_TESTS = frozenset(("css", "scss", "htm", "html", "jinja", "jinja2", "sql", "proto"))
#: Folders with code of others, and with what tools make.
_FOREIGN = frozenset(("node_modules", "vendor", "third_party", "site-packages", "dist"))
#: What decides as code does: which versions of it others give.
_MANIFESTS = frozenset(
    (
        "pyproject.toml", "setup.py", "setup.cfg", "package.json", "Cargo.toml", "go.mod",
        "pom.xml", "build.gradle", "build.gradle.kts", "package-lock.json",
    )
)  # fmt: skip
#: Files of CI: all in some folders, and of others those of YAML with such a path: most at the root.
_CI_FOLDERS = frozenset((".circleci", ".azure-pipelines"))
_CI_YAML = (
    r"(?:^\.(?:github|gitea|forgejo)/(?:workflows|actions)/.+|(?:^|/)\.gitlab-ci[\w.-]*"
    r"|(?:^|/)azure-pipelines[\w.-]*|^\.?travis|^\.?appveyor|^\.cirrus|^bitbucket-pipelines"
    r"|^\.pre-commit-config|^\.woodpecker[\w/.-]*|^\.drone)\.ya?ml$"
)
_SETTINGS = frozenset(
    (
        "pyproject.toml", "setup.cfg", "tox.ini", "noxfile.py", "pytest.ini", ".pytest.ini",
        "pytest.toml", ".pytest.toml", ".coveragerc", "package.json", "codecov.yml",
        ".codecov.yml", "codecov.yaml", ".codecov.yaml", "Makefile", ".flake8", "ruff.toml",
        ".ruff.toml", "mypy.ini", ".mypy.ini", "pylintrc", ".pylintrc", "Cargo.toml", "cargo.toml",
        "biome.json", "biome.jsonc", ".oxlintrc.json", "pom.xml", "build.gradle",
        "build.gradle.kts", "nextest.toml", ".simplecov", ".golangci.yml", ".golangci.yaml",
    )
)  # fmt: skip
#: How the names of more settings begin.
_SETTINGS_STARTS = (
    ".nycrc", ".c8rc", ".mocharc", ".eslintrc", "eslint.config.", "jest.config.", "vite.config.",
    "vitest.config.", "playwright.config.", "cypress.config.", "ava.config.",
)  # fmt: skip
#: A test that sets a timeout, or is tried again, has one of these.
_MAY_WAIT = ("imeout", "retr", "rerun", "max_runs")
#: Names that code defines, at the beginning of a line.
_DEFINED = (
    r"^[ \t]*(?:@?(?:export|default|pub(?:\([\w: ]{1,40}\))?|public|private|protected|static|final"
    r"|abstract|async|unsafe|inline) +){0,5}(?:def|class|func(?: ?\([^)]{1,80}\))?|fn|function\*?"
    r"|struct|interface|enum|trait|type|const|let|var|mod|record) +(\w{3,100})"
    r"|^([A-Za-z_]\w{2,100})(?: ?: ?[\w\[\], .|\"']{1,100})? ?=(?!=)"
)
#: Texts of code that are names of something, such as a key: they have a sign or capitals inside.
_KEYS = r"[\"'`]([A-Za-z_]\w*(?:[a-z][A-Z]|[a-z\d][._/-]|[A-Z\d]_)[\w./-]{4,}\w)[\"'`]"
#: Short keys, and parameters and fields on a line of their own: gone if no code says them.
_SHORT = (
    r"([\"'`])([a-z]{3,20})\1"
    r"|^[ \t]+(?:pub |readonly |public |private )?([A-Za-z]\w{3,60})\??: ?[^\n=;{]{1,120}?"
    r"(?: = [^\n]{1,80})?[,;]?$"
)
#: Where the tests begin in a file of Rust.
_TESTS = re.compile(
    r"(?m)^(?:#\[.{1,200}\]\n){0,9}#\[cfg\((?:all\()?test\b.{0,200}\n(?:#\[.{1,200}\]\n){0,9}mod "
)
#: A name of several parts: no other word is written so.
_LONG_NAME = re.compile(r"\b(?=\w{6})(?:[A-Za-z]\w*(?:_[A-Za-z]|[a-z][A-Z])|_[a-z])\w*")
#: What code says when it refuses something; tests quote it.
_REFUSED = (
    r"(?:\braise [\w.]{1,80}|\bthrow new \w{1,80}|\berrors\.New|\bErrorf|\bpanic!?|\bbail!)"
    r"\(\s{0,40}(?:\"([^\"\n]{3,200})\"|'([^'\n]{3,200})')"
)


def kind_of(path: str) -> str:
    """What a file is to the tests, by its name; "" for one that does not matter."""
    *folders, name = path.split("/")
    ending = name.rpartition(".")[2]
    if not _FOREIGN.isdisjoint(folders):
        return ""
    if name == "Jenkinsfile" or not _CI_FOLDERS.isdisjoint(folders):
        return CI
    if ending in ("yml", "yaml") and re.search(_CI_YAML, path):
        return CI
    if snapshots.is_snapshot(path):
        return SNAPSHOT
    if (
        name in _SETTINGS
        or name.startswith(_SETTINGS_STARTS)
        or (name.startswith("tsconfig") and ending == "json")
    ):
        return SETTINGS
    if name == "conftest.py":
        return TEST
    if ending in _CODE and ending != name:
        if test_file_names.is_file(path):
            return TEST
        is_inside = ending not in _NO_TESTS and any(map(test_file_names.is_folder, folders))
        return TEST if is_inside else CODE
    return TEST if test_file_names.is_file(path) and ending != "snap" else ""


def is_product(path: str) -> bool:
    """Whether the file decides how the product behaves."""
    return kind_of(path) == CODE or _is_manifest(path)


def _is_manifest(path: str) -> bool:
    name = path.rpartition("/")[2]
    is_listed = name.endswith((".txt", ".in")) and "/requirements" in f"/{path}"
    return name in _MANIFESTS or name.endswith(".lock") or is_listed


def compared(
    changes: Sequence[TextChange], *, code_changed: bool, tree: RestOfTree | None = None
) -> ComparedTests:
    """How these files make less sure what the tests say. ``code_changed``: also by other files."""
    tree = tree or RestOfTree()
    kinds: dict[str, list[TextChange]] = {}
    for change in changes:
        kinds.setdefault(kind_of(change.path), []).append(change)
    code, tests = kinds.get(CODE, []), kinds.get(TEST, [])
    product = [
        text_change
        for text_change in code
        if not (text_change.path.endswith(".rs") and _has_tests(text_change))
    ]
    tests += [text_change for text_change in code if text_change not in product]
    weakenings: list[Weakening] = []
    result = ComparedTests()
    old, new = (TreeSide(changes, tree, old=is_old) for is_old in (True, False))
    if tests:
        gone, unsaid = cache(lambda: _gone(code)), cache(lambda: _unsaid(code))
        rarer, shrunk = cache(lambda: _rarer(code)), cache(lambda: _has_shrunk(code))
        changed = CodeChange(code_changed, gone, unsaid, rarer, shrunk, tree, (old, new))
        result = compare.compare(tests, changed)
        result = result.replace(weakenings=_not_default(result.weakenings, new, code))
    weakenings += collected.narrowed(changes, old, new)
    weakenings += doctests.left_out(
        text_change for text_change in (*code, *tests) if text_change.path.endswith(".rs")
    )
    notes = list(result.notes)
    if shown := kinds.get(SNAPSHOT):
        weaker, expected = snapshots.replaced(shown, code_changed=code_changed)
        weakenings += weaker
        notes += expected
    written = (text_change for text_change in (*code, *tests) if ".min." not in text_change.path)
    settings, runs = kinds.get(SETTINGS, []), kinds.get(CI, [])
    hurried = [test for test in tests if _has(test.after or "", _MAY_WAIT)]
    if settings or runs or hurried:
        from rlm_ci.guard.loosened import numbers

        weakenings += numbers.loosened([*settings, *runs], hurried)
    arrived = frozenset[str]()
    if settings or runs:
        from rlm_ci.guard.loosened import exit_codes, pytest_runs, test_commands

        arrived = test_commands.arrived([*settings, *runs])
        weakenings += exit_codes.loosened([*settings, *runs])
        weakenings += test_commands.narrowed([*settings, *runs], new)
        weakenings += pytest_runs.loosened([*settings, *runs], new)
    tightened = None
    gone_paths = {text_change.path for text_change in changes if text_change.after is None}
    if settings:
        from rlm_ci.guard.loosened import silenced_rules

        tightened = silenced_rules.tightened(settings)
        for off in silenced_rules.switched_off(settings, gone_paths, runs):
            (notes if off.rule == new_silencers.EXPLAINED else weakenings).append(off)
        unread = silenced_rules.not_read(settings)
        result = result.replace(not_read=(*result.not_read, *unread))
    silenced, explained = new_silencers.new_silencers(written, tightened, arrived)
    weakenings += silenced
    notes += explained
    of_ci = _of_ci(runs, tree, settings, gone_paths, new) if runs else ComparedTests()
    return ComparedTests(
        (*result.weakenings, *weakenings, *of_ci.weakenings),
        (*notes, *of_ci.notes),
        (*result.not_read, *of_ci.not_read),
    )


def _of_ci(
    runs: Sequence[TextChange],
    rest_of_tree: RestOfTree,
    settings: Sequence[TextChange],
    gone: Collection[str],
    tree: TreeSide,
) -> ComparedTests:
    from rlm_ci.guard.loosened import ci_jobs, ci_matrix

    lost = list(ci_jobs.weakened(runs, rest_of_tree, settings, gone))
    notes = tuple(weakening for weakening in lost if weakening.rule == ci_jobs.RENAMED_JOB)
    weakenings = (
        *(weakening for weakening in lost if weakening not in notes),
        *ci_matrix.narrowed(runs, tree),
    )
    return ComparedTests(weakenings, notes, tuple(ci_jobs.not_read(runs)))


def _not_default(
    weakenings: tuple[Weakening, ...], tree: TreeSide, code: Sequence[TextChange]
) -> tuple[Weakening, ...]:
    """Without tests that are left out only where a feature is off that is on by default, or that
    the code that they test asks for by now, too, as for a system that Go builds it for.
    """
    gated = [
        weakening
        for weakening in weakenings
        if weakening.path.endswith(".rs") and "feature=" in weakening.message
    ]
    if gated:
        from rlm_ci.guard.collected import cargo

        features = cargo.gated(map(_without_tests, code))
        gated = [
            weakening
            for weakening in gated
            if cargo.is_default(weakening.message, weakening.path, tree)
            or cargo.is_gated(weakening.message, features)
        ]
    gated += [
        weakening
        for weakening in weakenings
        if weakening.path.endswith(".go")
        and "//go:build " in weakening.message
        and any(_has_gate(text_change, weakening) for text_change in code)
    ]
    return tuple(weakening for weakening in weakenings if weakening not in gated)


def _has_gate(change: TextChange, weakening: Weakening) -> bool:
    """Whether a file beside tests of Go got the same constraint as they."""
    gate = weakening.message.partition("no reason: ")[2]
    is_beside = change.path.rpartition("/")[0] == weakening.path.rpartition("/")[0]
    before, after = ((text or "").split("\n") for text in (change.before, change.after))
    return is_beside and gate in after and gate not in before


def _has(text: str, words: Sequence[str]) -> bool:
    return any(word in text for word in words)


def _has_tests(change: TextChange) -> bool:
    return any(
        "#[" in text and "test" in text for text in (change.before or "", change.after or "")
    )


def _without_tests(change: TextChange) -> TextChange:
    """A file without the module of tests that ends it, as in Rust."""
    if not change.path.endswith(".rs"):
        return change
    before, after = (text and _TESTS.split(text)[0] for text in (change.before, change.after))
    return change.replace(before=before, after=after)


def _gone(code: Iterable[TextChange]) -> frozenset[str]:
    """Names, keys and messages of errors that the code had, and has no more.

    Keys and messages are there as words of a test, too.
    """
    before, after, short, words = set[str](), set[str](), set[str](), set[str]()
    for change in map(_without_tests, code):
        before |= _names(change.before or "")
        after |= _names(change.after or "")
        matches = re.finditer(_SHORT, change.before or "", re.MULTILINE)
        short |= {f'"{key[2]}' if key[2] else key[3] for key in matches}
        words |= set(re.findall(r"\w+", change.after or ""))
    return frozenset((before - after) | {key for key in short if key.lstrip('"') not in words})


def _unsaid(code: Iterable[TextChange]) -> frozenset[str]:
    """Names of several parts that the code said anywhere, and says no more."""
    before, after = set[str](), set[str]()
    for change in map(_without_tests, code):
        before.update(_LONG_NAME.findall(change.before or ""))
        after.update(_LONG_NAME.findall(change.after or ""))
    return frozenset(before - after)


def _rarer(code: Iterable[TextChange]) -> frozenset[str]:
    """Words that the code says less often than it did."""
    change = Counter[str]()
    for text_change in map(_without_tests, code):
        change.update(words_of(text_change.before or ""))
        change.subtract(words_of(text_change.after or ""))
    return frozenset(word for word, less in change.items() if less > 0)


def _has_shrunk(code: Iterable[TextChange]) -> bool:
    """Whether the code has lost lines, and has no new one."""
    was, now = Counter[str](), Counter[str]()
    for change in map(_without_tests, code):
        was.update(map(str.strip, (change.before or "").split("\n")))
        now.update(map(str.strip, (change.after or "").split("\n")))
    return bool(was - now) and not now - was


def _names(text: str) -> set[str]:
    names = {match[1] or match[2] for match in re.finditer(_DEFINED, text, re.MULTILINE)}
    keys = set(re.findall(_KEYS, text))
    refused = {match[1] or match[2] for match in re.finditer(_REFUSED, text)}
    return names | keys | {f'"{key}' for key in keys | refused}
