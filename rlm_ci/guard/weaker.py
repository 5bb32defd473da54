"""What a change does to the tests, and to what runs and judges them: two trees, compared.

Nothing is run. The fix loop forbids its agent such changes; a reviewer of any change must see them.
"""

from __future__ import annotations

import re
from collections import Counter

from rlm_ci.guard import lint_silencing
from rlm_ci.guard.weakened_tests import compare, snapshots
from rlm_ci.guard.weakened_tests.compare import CodeChange, ComparedTests
from rlm_ci.guard.weakening import TextChange, Weakening
from rlm_ci.validators import test_file_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

SILENCED_WITH_REASON = "explained"
TEST, SNAPSHOT, CI, SETTINGS, CODE = "test", "snapshot", "ci", "settings", "code"

_CODE = re.compile(
    r"\.(?:pyi?|pyx|[cm]?[jt]sx?|vue|svelte|go|rs|java|kts?|scala|groovy|rb|php|c|cc|cpp|cxx|h|hpp"
    r"|cs|swift|m|mm|dart|exs?|erl|hs|lua|sh|bash|sql|proto|r|jl|zig|css|scss|html?|jinja2?)$"
)
#: Code of others, and what tools make.
_FOREIGN = re.compile(r"(?:^|/)(?:node_modules|vendor|third_party|site-packages|dist)/")
#: What decides as code does: which versions of it others give.
_MANIFEST = re.compile(
    r"(?:^|/)(?:pyproject\.toml|setup\.(?:py|cfg)|requirements[\w./-]*\.(?:txt|in)|package\.json"
    r"|Cargo\.toml|go\.mod|pom\.xml|build\.gradle(?:\.kts)?|[\w.-]+\.lock|package-lock\.json)$"
)
_CI = re.compile(
    r"(?:^|/)(?:\.(?:github|gitea|forgejo)/(?:workflows|actions)/.+\.ya?ml|\.circleci/.+"
    r"|\.gitlab-ci[\w.-]*\.ya?ml|azure-pipelines[\w.-]*\.ya?ml|\.azure-pipelines/.+|Jenkinsfile"
    r"|\.?travis\.ya?ml|\.?appveyor\.ya?ml|\.cirrus\.ya?ml|bitbucket-pipelines\.ya?ml"
    r"|\.pre-commit-config\.ya?ml|\.woodpecker[\w/.-]*\.ya?ml|\.drone\.ya?ml)$"
)
_SETTINGS = re.compile(
    r"(?:^|/)(?:pyproject\.toml|setup\.cfg|tox\.ini|noxfile\.py|\.?pytest\.(?:ini|toml)"
    r"|\.coveragerc|package\.json|\.?codecov\.ya?ml|\.nycrc[\w.]*|\.c8rc[\w.]*|Makefile|\.flake8"
    r"|(?:jest|vite|vitest|playwright|cypress|ava)\.config\.\w+|\.mocharc[\w.]*|\.?ruff\.toml"
    r"|\.?mypy\.ini|\.?pylintrc|[Cc]argo\.toml|\.eslintrc[\w.]*|eslint\.config\.\w+|biome\.jsonc?"
    r"|tsconfig[\w.]*\.json|\.oxlintrc\.json|pom\.xml|build\.gradle(?:\.kts)?|nextest\.toml"
    r"|\.simplecov)$"
)
#: Names that code defines, at the beginning of a line.
_DEFINED = (
    r"^[ \t]*(?:@?(?:export|default|pub(?:\([\w: ]{1,40}\))?|public|private|protected|static|final"
    r"|abstract|async|unsafe|inline) +){0,5}(?:def|class|func(?: ?\([^)]{1,80}\))?|fn|function\*?"
    r"|struct|interface|enum|trait|type|const|let|var|mod|record) +(\w{3,100})"
    r"|^([A-Za-z_]\w{2,100})(?: ?: ?[\w\[\], .|\"']{1,100})? ?=(?!=)"
)
#: A test that sets a timeout, or is tried again, has one of these.
_MAY_WAIT = re.compile(r"imeout|retr|rerun|max_runs")
#: A comment that tools obey has one of these.
_MAY_SILENCE = re.compile(
    r"noqa|ignore|disable|nosec|skip|off|pragma|istanbul|c8|v8|allow|expect|nolint|type_check|todo"
    r"|nocheck|suppress|pyre-|mypy|pyright|ansible"
)


#: Words behind such a comment that say why, set off by a sign.
_EXPLAINED = r"(?:#|//|--|/\*).{0,100}?(?:\s(?:-{1,2}|–|—|#|:)\s+|\]\s+#\s*|\()\w+\W+\w+"


def kind_of(path: str) -> str:
    """What a file is to the tests, by its name; "" for one that does not matter."""
    if _FOREIGN.search(path):
        return ""
    if _CI.search(path):
        return CI
    if snapshots.is_snapshot(path):
        return SNAPSHOT
    if _SETTINGS.search(path):
        return SETTINGS
    if _CODE.search(path):
        *folders, _ = path.split("/")
        is_inside = compare.can_read(path) and any(map(test_file_names.is_folder, folders))
        return TEST if is_inside or test_file_names.is_file(path) else CODE
    return TEST if test_file_names.is_file(path) and not path.endswith(".snap") else ""


def is_product(path: str) -> bool:
    """Whether the file decides how the product behaves."""
    return kind_of(path) == CODE or _MANIFEST.search(path) is not None


def compared(changes: Sequence[TextChange], *, code_changed: bool) -> ComparedTests:
    """How these files make less sure what the tests say. ``code_changed``: also by other files."""
    kinds: dict[str, list[TextChange]] = {}
    for one in changes:
        kinds.setdefault(kind_of(one.path), []).append(one)
    code, tests = kinds.get(CODE, []), kinds.get(TEST, [])
    tests += [one for one in code if one.path.endswith(".rs") and _has_tests(one)]
    found: list[Weakening] = []
    result = ComparedTests()
    if tests:
        result = compare.compare(tests, CodeChange(code_changed, lambda: _gone(code)))
    counted = Counter(result.counted)
    if shown := kinds.get(SNAPSHOT):
        weaker, counts = snapshots.replaced(shown, code_changed=code_changed)
        found += weaker
        counted += counts
    silenced, reasons = _silenced([*code, *tests])
    found += silenced
    counted[SILENCED_WITH_REASON] += reasons
    settings, runs = kinds.get(SETTINGS, []), kinds.get(CI, [])
    hurried = [one for one in tests if _MAY_WAIT.search(one.after or "")]
    if settings or runs or hurried:
        from rlm_ci.guard.loosened import numbers

        found += numbers.loosened([*settings, *runs, *hurried])
    if settings:
        from rlm_ci.guard.loosened import silenced_rules

        found += silenced_rules.switched_off(settings)
    if runs:
        from rlm_ci.guard.loosened import ci_jobs

        found += ci_jobs.weakened(runs)
    return result.replace(weakenings=(*result.weakenings, *found), counted=counted)


def _has_tests(change: TextChange) -> bool:
    return any(
        "#[" in text and "test" in text for text in (change.before or "", change.after or "")
    )


def _gone(code: Iterable[TextChange]) -> frozenset[str]:
    """Names that the code defined, and defines no more."""
    before, after = set[str](), set[str]()
    for one in code:
        before |= _names(one.before or "")
        after |= _names(one.after or "")
    return frozenset(before - after)


def _names(text: str) -> set[str]:
    return {one[1] or one[2] for one in re.finditer(_DEFINED, text, re.MULTILINE)}


def _silenced(changes: Sequence[TextChange]) -> tuple[list[Weakening], int]:
    """Comments that silence a tool, and were not there before; one that moved was.

    Nor is one new that names other rules than before on a line of the same code.

    One weakening for each file and comment; and how many comments say why.
    """
    new, gone = list[tuple[TextChange, int, str, str]](), Counter[str]()
    instead: Counter[tuple[str, str]] = Counter()
    for one in dict.fromkeys(changes):
        before, after = _changed_lines(one.before or "", one.after or "")
        if _MAY_SILENCE.search(before):
            lines = before.split("\n")
            for line, what in lint_silencing.added("", before, lint_silencing.TOOLS):
                gone[what] += 1
                instead[_place_of(what, lines[line - 1])] += 1
        if _MAY_SILENCE.search(after):
            lines = after.split("\n")
            found = lint_silencing.added("", after, lint_silencing.TOOLS)
            new += [(one, line, what, lines[line - 1]) for line, what in found]
    explained = 0
    told: dict[tuple[str, str], list[int]] = {}
    for one, line, what, text in new:
        gone[what] -= 1
        if gone[what] >= 0 or instead[_place_of(what, text)] > 0:
            continue
        if re.search(_EXPLAINED, text):
            explained += 1
        else:
            told.setdefault((one.path, what), []).append(line)
    return [
        Weakening(
            lint_silencing.SILENCED,
            f"silences a tool{f' {len(lines):,} times' if len(lines) > 1 else ''}: {what[:100]}",
            path, lines[0],
        )
        for (path, what), lines in told.items()
    ], explained  # fmt: skip


def _place_of(what: str, line: str) -> tuple[str, str]:
    """The kind of a comment, and the code in front of it."""
    code = re.split(r"#|//|/\*", line)[0]
    return re.split(r"[\[=]", what)[0], "".join(code.split())


def _changed_lines(before: str, after: str) -> tuple[str, str]:
    """Both texts, with empty lines for those that the other one has, too."""
    old, new = before.split("\n"), after.split("\n")
    known, kept = frozenset(new), frozenset(old)
    return (
        "\n".join("" if line in known else line for line in old),
        "\n".join("" if line in kept else line for line in new),
    )
