"""The diff budget counts what git counts, less what the base has ignored, and nothing else."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.change import change_set
from rlm_ci.change.change_set import ChangeSet, FileChange, PullRequest
from rlm_ci.checks import diff_budget
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import Settings
from rlm_ci.errors import ConfigError, StorageError
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report.findings import CLEAN, Part, Severity
from rlm_ci.runs.store import RunStore
from testing import reference_counts
from testing.repositories.archives import archive_stubs
from testing.repositories.changes import (
    every_kind_of_change,
    first_commit,
    hostile_messages,
    hostile_names,
    numbered,
    pending_changes,
    small_change,
)
from testing.repositories.git_repo import EMPTY_TREE, GitRepo, History
from testing.repositories.random_histories import random_history
from testing.repositories.shapes import (
    ATTRIBUTED_FILES,
    SELF_HIDING,
    attributed,
    base_moved_ahead,
    criss_cross,
    many_files,
    merged_branches,
    octopus,
    root_commit,
    set_traps,
    sprung,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

TODAY = "2026-03-01"
HISTORIES: dict[str, Callable[[GitRepo], History]] = {
    builder.__name__: builder
    for builder in (
        small_change, every_kind_of_change, hostile_names, hostile_messages, merged_branches,
        criss_cross, octopus, base_moved_ahead, first_commit, root_commit,
    )
}  # fmt: skip
HISTORIES["archive_stubs"] = lambda repo: archive_stubs(repo, 40, 5, odd_paths=True)
for _seed in range(40, 52):
    # mypy cannot infer a lambda with a default; the default keeps each one's own seed.
    HISTORIES[f"random {_seed}"] = lambda repo, seed=_seed: random_history(repo, seed)  # type: ignore[misc]


@pytest.fixture(scope="module")
def histories(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], History]:
    folder = tmp_path_factory.mktemp("histories")

    @cache
    def made(name: str) -> History:
        return HISTORIES[name](GitRepo(folder / name.replace(" ", "-")))

    return made


def change_of(history: History) -> ChangeSet:
    opened = Repository(*discover(os.fspath(history.repo)), os.environ)
    if history.base == EMPTY_TREE:
        return change_set.from_commit(opened, history.head)
    return change_set.from_range(opened, history.base, history.head, "test")


def local(repo: GitRepo, trigger: str) -> ChangeSet:
    return change_set.from_local(Repository(*discover(os.fspath(repo)), os.environ), trigger)


def judge(
    change: ChangeSet,
    config: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    **flags: Any,
) -> Part:
    """The part; ``config`` is the section of the config file, ``flags`` those of the check."""
    rows = (*CORE, *diff_budget.OPTIONS)
    options = Settings(rows, {f"diff_budget.{key}": v for key, v in flags.items()}, environ or {})
    options.apply({"diff_budget": dict(config or {})}, "rlm-ci.toml", rows)
    return diff_budget.run(change, options, RunStore("", ""), lambda: TODAY)


def rules(part: Part) -> list[str]:
    return sorted(finding.rule.removeprefix("diff-budget/") for finding in part.findings)


def plain(files: int = 1, lines: int = 1, **more: Any) -> ChangeSet:
    """A change of ``files`` files with ``lines`` lines each, without a repository behind it."""
    return sized({f"src/f{n}.py": lines for n in range(files)}, **more)


def sized(lines: Mapping[str, int], **more: Any) -> ChangeSet:
    """A change of these files with so many lines, without a repository behind it."""
    found = [FileChange(path, number, 0, status="M") for path, number in lines.items()]

    class Plain(ChangeSet):
        def files(self, **_: Any) -> list[FileChange]:
            return found

    return Plain(Repository("", None, {}), "worktree", **more)


# -- what is counted ----------------------------------------------------------------------------


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", HISTORIES)
def test_the_figures_are_git_s_less_what_is_ignored(
    histories: Callable[[str], History], name: str
) -> None:
    history = histories(name)
    old = (
        EMPTY_TREE
        if history.base == EMPTY_TREE
        else reference_counts.merge_base(history.repo, history.base, history.head)
    )
    for renames, option in ((True, "-M"), (False, "--no-renames")):
        part = judge(change_of(history), renames=renames)
        rows = reference_counts.numstat(history.repo, old, history.head, options=[option])
        expected = reference_counts.budget(rows)
        assert reference_counts.metrics_of(part.metrics, expected) == expected.metrics()
        assert ("files" in rules(part)) == (expected.files > 25)
        assert ("lines" in rules(part)) == (expected.lines > 1200)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(500, 550))
def test_random_figures(repo: GitRepo, seed: int) -> None:
    history = random_history(repo, seed, commits=14, files=25)
    rows = reference_counts.numstat(repo, history.base, history.head)
    expected = reference_counts.budget(rows)
    assert (
        reference_counts.metrics_of(judge(change_of(history)).metrics, expected)
        == expected.metrics()
    )


@pytest.mark.full
def test_three_thousand_files(repo: GitRepo) -> None:
    history = many_files(repo)
    part = judge(change_of(history))
    assert (part.metrics["files"], part.metrics["lines"]) == (3000, 2700 * 2 + 300 * 10)
    assert rules(part) == ["files", "lines"]


IGNORED = (
    "package-lock.json", "a/package-lock.json", "npm-shrinkwrap.json", "yarn.lock",
    "x/pnpm-lock.yaml", "bun.lock", "bun.lockb", "poetry.lock", "uv.lock", "pdm.lock",
    "Pipfile.lock", "Cargo.lock", "go.sum", "composer.lock", "Gemfile.lock", "flake.lock",
    "gradle.lockfile", "a/b/uv.lock", "node_modules/x.js", "a/node_modules/b/x.js", "dist/x.js",
    "a/dist/b.js", ".runs/x", "archives/x/y", "out/x", "dist/\u00fc.js", "dist/new\nline",
)  # fmt: skip
COUNTED = (
    "Package-lock.json", "package-lock.json.bak", "my-uv.lock", "uv.lock/x", "a.lock", "go.mod",
    "node_modules2/x", "distx/a", "dist.js", "a/dist", "a/out/x", "a/archives/x", "a/.runs/x",
    "runs/x", "outer/x", "out.txt", "archives.md", "node_modules", ".runsx", "Dist/x",
    "uv.lock\n", "dist \u00fc/x", "vendor/x", "docs/x.md",
)  # fmt: skip


def test_the_built_in_list_is_the_decided_one() -> None:
    assert [path for path in IGNORED if not diff_budget._is_ignored(path)] == []
    assert [path for path in COUNTED if diff_budget._is_ignored(path)] == []
    assert [path for path in (*IGNORED, *COUNTED) if reference_counts.is_ignored(path)] == list(
        IGNORED
    )


def test_what_is_ignored_is_counted_and_shown(repo: GitRepo) -> None:
    base = repo.write("a", "1\n").commit()
    repo.write("uv.lock", numbered(5000)).write("dist/x.js", numbered(3)).write("b", "1\n")
    part = judge(change_of(History(repo, base, repo.commit())))
    assert (part.metrics["files"], part.metrics["lines"]) == (1, 1)
    assert (part.metrics["ignored_files"], part.metrics["ignored_lines"]) == (2, 5003)


def test_binary_files_have_no_lines_and_their_bytes_are_shown(repo: GitRepo) -> None:
    base = repo.write("edited.bin", b"\0" * 10).write("gone.bin", b"\0" * 99).commit()
    repo.write("edited.bin", b"\0" * 1500).write("new.bin", b"\0" * 500).remove("gone.bin")
    repo.write("dist/ignored.bin", b"\0" * 7000)
    expected = "3 files (limit 25), 0 lines (limit 1,200); 3 binary files, 2,000 bytes"
    assert judge(local(repo, "worktree")).summary == expected
    repo.stage("new.bin", "edited.bin", "gone.bin")
    assert judge(local(repo, "index")).summary == expected
    assert judge(local(repo, "worktree")).summary == expected
    part = judge(change_of(History(repo, base, repo.commit())))
    assert part.summary == expected
    assert part.metrics["binary_files"] == 3


def test_the_working_tree_and_the_index(repo: GitRepo) -> None:
    pending_changes(repo)
    tree, index = judge(local(repo, "worktree")), judge(local(repo, "index"))
    assert (tree.metrics["files"], tree.metrics["added"], tree.metrics["deleted"]) == (5, 9, 4)
    assert (index.metrics["files"], index.metrics["lines"]) == (3, 4)


def test_what_tools_made_is_named_and_counts_once_it_is_staged(repo: GitRepo) -> None:
    repo.write("a.py", "1\n").commit()
    repo.write("b.py", "1\n").write_all({f".venv/lib/{n}.py": numbered(60) for n in range(30)})
    part = judge(local(repo, "worktree"))
    assert part.metrics["files"] == part.metrics["lines"] == 1
    assert "not counted, to be added to .gitignore: .venv/ (30 files)" in part.summary
    repo.run("add", "-A")
    files, lines = judge(local(repo, "index")).findings
    assert files.message == "31 files changed (limit 25)"
    assert "take out what a tool made: .venv/ (30 files); git rm -r --cached" in (lines.hint or "")


def test_a_file_that_cannot_be_measured_fails_by_its_name(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo.write("a", "1\n").commit()
    repo.write("odd\nname", "x\n").write("dist/odd", "x\n")

    def unreadable(_root: str, path: str) -> FileChange:
        return FileChange(path, 0, 0, "Permission denied", status="A")

    monkeypatch.setattr(change_set, "_uncounted", unreadable)
    part = judge(local(repo, "worktree"))
    assert rules(part) == ["unmeasurable"]
    assert part.findings[0].message == "odd\\nname could not be measured: Permission denied"
    assert part.findings[0].severity == Severity.HIGH


# -- attributes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("hiding", ["", *SELF_HIDING])
@pytest.mark.parametrize("checkout", [True, False])
def test_the_base_s_attributes_decide_and_the_head_s_never(
    repo: GitRepo, tmp_path: Path, hiding: str, *, checkout: bool
) -> None:
    history = attributed(repo, hiding)
    there = repo if checkout else repo.clone(tmp_path / "clone", "--no-checkout")
    part = judge(change_of(History(there, history.base, history.head)))
    counting = [path for path, ignored in ATTRIBUTED_FILES.items() if not ignored]
    # Of these the base says that they are binary: a file, without lines.
    binary = {"blob.dat", "deps.lockish"}
    extra = 2 if hiding else 0  # the two attribute files themselves
    metrics = part.metrics
    assert metrics["files"] == len(counting) + extra
    assert metrics["lines"] == 4 * len(set(counting) - binary) + extra * hiding.count("\n")
    assert metrics["binary_files"] == len(binary)
    assert metrics["ignored_files"] == len(ATTRIBUTED_FILES) - len(counting)


@pytest.mark.parametrize("trigger", ["worktree", "index"])
def test_work_that_is_not_committed_is_judged_by_the_attributes_of_head(
    repo: GitRepo, trigger: str
) -> None:
    repo.write(".gitattributes", "*.gen linguist-generated\n").write("a.gen", "1\n").commit()
    repo.write("a.gen", "1\n2\n").write("b.gen", "1\n").write("c.py", "1\n")
    repo.write(".gitattributes", "* linguist-generated\n")
    if trigger == "index":
        repo.stage()
    part = judge(local(repo, trigger))
    assert (part.metrics["files"], part.metrics["ignored_files"]) == (2, 2)


def test_attributes_in_folders_of_any_name(repo: GitRepo) -> None:
    folders = ("a b", "new\nline", "caf\udce9", "-rf", 'quo"te', "deep/er/and/er", "$(id)", "*")
    for folder in folders:
        repo.write(f"{folder}/.gitattributes", "made.* linguist-generated\n*.bin binary\n")
        repo.write(f"{folder}/made.py", "1\n").write(f"{folder}/x.bin", "1\n")
    base = repo.commit()
    for folder in folders:
        repo.append(f"{folder}/made.py", "2\n").append(f"{folder}/x.bin", "2\n")
        repo.write(f"{folder}/below/made.py", "1\n")
    part = judge(change_of(History(repo, base, repo.commit())))
    assert part.metrics["ignored_files"] == 2 * len(folders)
    assert (part.metrics["files"], part.metrics["binary_files"]) == (len(folders),) * 2


def test_the_folder_for_attributes_is_gone_afterwards(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    history = attributed(repo)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    judge(change_of(history))
    change = change_of(history)
    monkeypatch.setattr(Repository, "attributes", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        judge(change)
    assert os.listdir(scratch) == []


def test_without_room_for_the_attributes_it_is_an_io_error(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import tempfile

    history = attributed(repo)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with pytest.raises(StorageError) as caught:
        judge(change_of(history))
    assert caught.value.code == 9


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize("hiding", ["", "* filter=trap diff=trap merge=trap\n"])
def test_nothing_that_is_configured_runs(repo: GitRepo, tmp_path: Path, hiding: str) -> None:
    history = attributed(repo, hiding)
    before = judge(change_of(history)).metrics
    # Its traps lie in the clone's own info/attributes too, which git obeys: so a file that the
    # base calls binary has a driver there, and is text.
    set_traps(repo, tmp_path / "canary")
    after = judge(change_of(history)).metrics
    for name in ("files", "ignored_files"):
        assert after[name] == before[name]
    assert sprung(tmp_path / "canary") == []


# -- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("files", "lines", "expected"),
    [
        (25, 1, []), (26, 1, ["files"]), (1, 1200, []), (1, 1201, ["lines"]),
        (25, 48, []), (26, 47, ["files", "lines"]),
    ],
)  # fmt: skip
def test_the_defaults_are_25_files_and_1200_lines(
    files: int, lines: int, expected: list[str]
) -> None:
    assert rules(judge(plain(files, lines))) == expected


def test_a_limit_of_nothing_is_legal() -> None:
    one = judge(plain(1, 1), max_files="0", max_lines="0")
    assert rules(one) == ["files", "lines"]
    assert [finding.message for finding in one.findings] == [
        "1 file changed (limit 0)",
        "1 line changed (limit 0)",
    ]
    assert rules(judge(plain(0), max_files="0", max_lines="0")) == []
    assert rules(judge(plain(1, 0), max_files="1", max_lines="0")) == []


@pytest.mark.parametrize(
    ("sizes", "named"),
    [
        ({"a/b/1.py": 5, "a/c/2.py": 3, "d.py": 9},
         "a/ (2 files, 8 lines), d.py (9 lines)"),
        ({"big.sql": 50, "src/a/1.py": 5, "src/b/2.py": 4, "src/3.py": 1},
         "src/ (3 files, 10 lines), big.sql (50 lines)"),
        ({"x.md": 1, "src/a/1.py": 40, "src/a/2.py": 40, "src/b/3.py": 30, "src/4.py": 1},
         "src/a/ (2 files, 80 lines), src/b/ (1 file, 30 lines), src/4.py (1 line), x.md (1 line)"),
        ({"deep/in/1.py": 2, "deep/in/2.py": 1}, "deep/in/1.py (2 lines), deep/in/2.py (1 line)"),
        ({f"d{n}/1.py": n for n in range(9)},
         ", ".join(f"d{n}/ (1 file, {n} lines)" for n in (8, 7, 6, 5, 4))),
    ],
)  # fmt: skip
def test_folders_are_named_before_files(sizes: dict[str, int], named: str) -> None:
    part = judge(sized(sizes), max_files="0")
    assert part.findings[0].hint == f"split the change; largest: {named}"


def test_a_finding_says_how_much_and_where_to_begin() -> None:
    part = judge(plain(3, 700))
    assert [finding.message for finding in part.findings] == ["2,100 lines changed (limit 1,200)"]
    assert part.findings[0].hint == (
        "split the change; largest: src/f0.py (700 lines), src/f1.py (700 lines), "
        "src/f2.py (700 lines)"
    )
    assert part.verdict(Severity.HIGH) == "findings"
    assert part.findings[0].evidence == ()


#: The ways to set a limit, strongest first.
WAYS = (
    "flag", "RLM_CI_DIFF_BUDGET_MAX_FILES", "DIFF_BUDGET_MAX_FILES", "config", "default",
)  # fmt: skip


@pytest.mark.parametrize("first", range(len(WAYS)))
def test_limits_are_taken_in_their_order(first: int) -> None:
    given = {way: str(40 + number) for number, way in enumerate(WAYS)}
    used = WAYS[first:]
    part = judge(
        plain(),
        {"max_files": int(given["config"])} if "config" in used else {},
        {way: given[way] for way in used if "DIFF_BUDGET" in way},
        **({"max_files": given["flag"]} if "flag" in used else {}),
    )
    assert part.metrics["max_files"] == (25 if first == 4 else int(given[WAYS[first]]))


BAD_LIMITS = ("-1", "1.5", "many", "1_000", "\u0661", "1e3", "0x10", "9" * 40, "+5", "nan", "--5")


@pytest.mark.parametrize("bad", BAD_LIMITS)
@pytest.mark.parametrize("name", [
    "RLM_CI_DIFF_BUDGET_MAX_FILES", "RLM_CI_DIFF_BUDGET_MAX_LINES", "DIFF_BUDGET_MAX_FILES",
    "DIFF_BUDGET_MAX_LINES",
])  # fmt: skip
def test_a_limit_that_is_none_names_its_source(bad: str, name: str) -> None:
    with pytest.raises(ConfigError) as caught:
        judge(plain(), {}, {name: bad})
    assert (caught.value.code, caught.value.where) == (5, name)


@pytest.mark.parametrize("bad", [-1, 1.0, "25", True, None, [25], 10**16])
def test_a_limit_in_the_config_is_a_whole_number(bad: Any) -> None:
    if bad == "25":
        return  # a text that is a number is one
    with pytest.raises(ConfigError) as caught:
        judge(plain(), {"max_lines": bad})
    assert "rlm-ci.toml" in caught.value.where


# -- configured patterns ------------------------------------------------------------------------


def paths(*names: str, lines: int = 10) -> ChangeSet:
    found = [FileChange(name, lines, 0) for name in names]

    class Paths(ChangeSet):
        def files(self, **_: Any) -> list[FileChange]:
            return found

    return Paths(Repository("", None, {}), "worktree")


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("*.snap", ["a.snap", "x/y/a.snap"], ["a.snap.py", "snap", "a.snap\n"]),
        ("/docs/", ["docs/a", "docs/x/a", "docs/new\nline"], ["a/docs/x", "docs"]),
        ("docs/**", ["docs/a", "docs/x/a", "docs/a\nb/c"], ["x/docs/a", "docsx"]),
        ("a/*.py", ["a/x.py"], ["a/b/x.py", "b/a/x.py"]),
        ("**/gen/*.py", ["gen/x.py", "a/b/gen/x.py"], ["gen/a/x.py"]),
        ("[ab].py", ["a.py", "x/b.py"], ["c.py"]),
        ("caf\u00e9.py", ["caf\u00e9.py"], ["caf\udce9.py"]),
    ],
)
def test_patterns_mean_what_they_mean_to_git(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    part = judge(paths(*matching, *others), {"ignore": [pattern]})
    assert part.metrics["ignored_files"] == len(matching)
    for name in matching:
        assert judge(paths(name), {"ignore": [pattern]}).metrics["files"] == 0, name


def test_a_later_pattern_can_take_one_back() -> None:
    part = judge(paths("a.md", "keep.md"), {"ignore": ["*.md", "!keep.md"]})
    assert (part.metrics["files"], part.metrics["ignored_files"]) == (1, 1)


@pytest.mark.parametrize("config", [{"ignore": ["!"]}, {"paths": [{"glob": "!", "max_files": 1}]}])
def test_a_pattern_that_cannot_be_read_is_a_config_error(config: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        judge(plain(), config)
    assert "diff_budget." in str(caught.value)


# -- budgets of parts of the tree ---------------------------------------------------------------


def test_a_part_has_a_budget_of_its_own_and_the_roof_stays() -> None:
    change = paths(*(f"sql/{n}.sql" for n in range(4)), *(f"src/{n}.py" for n in range(4)))
    config = {
        "max_files": 7,
        "paths": [
            {"glob": "sql/", "max_files": 3, "max_lines": 40},
            {"glob": "*.py", "max_files": 4, "max_lines": 39},
            {"glob": "none/", "max_files": 0, "max_lines": 0},
        ],
    }
    part = judge(change, config)
    assert [(finding.rule, finding.message) for finding in part.findings] == [
        ("diff-budget/files", "8 files changed (limit 7)"),
        (
            "diff-budget/path-budget",
            "4 files changed under sql/ (limit 3)",
        ),
        (
            "diff-budget/path-budget",
            "40 lines changed under *.py (limit 39)",
        ),
    ]
    assert len({finding.subject for finding in part.findings}) == 3


def test_a_weight_counts_in_the_whole_and_the_first_that_matches_tells() -> None:
    config = {
        "paths": [
            {"glob": "docs/", "weight": 0.25},
            {"glob": "docs/api/", "weight": 9},
            {"glob": "*.snap", "weight": 0},
        ]
    }
    part = judge(paths("docs/a", "docs/api/b", "x.snap", "src/c", lines=10), config)
    assert part.metrics["lines"] == 15
    assert part.metrics["added"] == 40
    assert part.summary == "4 files (limit 25), 15 lines (limit 1,200), weighted from 40"


@pytest.mark.parametrize(
    ("weight", "lines", "expected"),
    [(0.1, 3, 1), (0.1, 30, 3), (0.07, 100, 7), (0.1, 7, 1), (1.1, 10, 11), (0.5, 3, 2)],
)
def test_a_weighted_sum_is_rounded_up_once_and_exactly(
    weight: float, lines: int, expected: int
) -> None:
    config = {"paths": [{"glob": "*", "weight": weight}]}
    assert judge(paths("a", lines=lines), config).metrics["lines"] == expected


def test_a_sum_of_weights_does_not_grow_by_a_rounding_error() -> None:
    config = {"max_lines": 1, "paths": [{"glob": "*", "weight": 0.1}]}
    assert judge(paths(*"abcdefghij", lines=1), config).metrics["lines"] == 1


# -- overrides ----------------------------------------------------------------------------------


def asked(body: str = "", labels: tuple[str, ...] = (), files: int = 30) -> Part:
    return judge(plain(files, pull_request=PullRequest(1, "Title", body, labels)))


LABEL = ("diff-budget-override",)


@pytest.mark.parametrize(
    "body",
    [
        "Diff budget override: a vendored parser",
        "Intro\r\n\r\n  diff BUDGET override:   a vendored parser  \r\nmore",
        "Diff budget override:\nDiff budget override: a vendored parser",
        "Diff budget override: a vendored parser\nDiff budget override: another",
    ],
)
def test_label_and_line_together_override(body: str) -> None:
    part = asked(body, LABEL)
    assert rules(part) == ["files"]
    assert {finding.suppression for finding in part.findings} == {"a vendored parser"}
    assert part.verdict(Severity.HIGH) == CLEAN
    assert (
        part.summary == "30 files (limit 25), 30 lines (limit 1,200); overridden: a vendored parser"
    )


@pytest.mark.parametrize(
    ("body", "labels", "missing"),
    [
        ("Diff budget override: why", (), "the label diff-budget-override is missing"),
        ("", LABEL, "the pull request's body gives no reason"),
        ("Diff budget override:   ", LABEL, "the pull request's body gives no reason"),
        ("See Diff budget override: why", LABEL, "the pull request's body gives no reason"),
        ("Diff budget override:", ("Diff-Budget-Override",), "the label"),
    ],
)
def test_one_without_the_other_fails_and_says_so(
    body: str, labels: tuple[str, ...], missing: str
) -> None:
    part = asked(body, labels)
    assert rules(part) == ["files", "override-incomplete"]
    assert part.verdict(Severity.HIGH) == "findings"
    assert missing in part.findings[-1].message
    assert "diff-budget-override" in (part.findings[-1].hint or "")


def test_without_any_of_it_nothing_is_said() -> None:
    assert rules(asked("A change.", ("bug",))) == ["files"]


def test_within_the_budget_no_override_is_needed() -> None:
    assert asked("", LABEL, files=3).findings == ()


@pytest.mark.parametrize(
    ("reason", "flaw"),
    [
        ("x (until 2026-03-01)", None),
        ("x (until 2026-12-31), see the plan", None),
        ("(until 2026-02-28) x", "it ended on 2026-02-28"),
        ("x (Until 2026-02-28)", "it ended on 2026-02-28"),
        ("x (until 2027-01-01) (until 2026-01-01)", "it ended on 2026-01-01"),
        ("x (until tomorrow)", "its end 'tomorrow' is not a day YYYY-MM-DD"),
        ("x (until 2026-02-30)", "its end '2026-02-30' is not a day YYYY-MM-DD"),
        ("x (until 2026-2-3)", "its end '2026-2-3' is not a day YYYY-MM-DD"),
        ("x (until )", "its end '' is not a day YYYY-MM-DD"),
        ("x (until 2026-12-31", "its end '2026-12-31' is not closed by a parenthesis"),
        ("x (until \u0662026-12-31)", "is not a day"),
    ],
)
@pytest.mark.parametrize("way", ["environment", "pull request"])
def test_an_end_that_has_passed_or_cannot_be_read_ends_it(
    reason: str, flaw: str | None, way: str
) -> None:
    if way == "environment":
        part = judge(plain(30), {}, {"DIFF_BUDGET_OVERRIDE_REASON": reason})
    else:
        part = asked(f"Diff budget override: {reason}", LABEL)
    if flaw is None:
        assert {finding.suppression for finding in part.findings} == {reason}
        assert part.verdict(Severity.HIGH) == CLEAN
    else:
        assert rules(part) == ["files", "override-incomplete"]
        assert flaw in part.findings[-1].message
        told = "DIFF_BUDGET_OVERRIDE_REASON" if way == "environment" else LABEL[0]
        assert told in (part.findings[-1].hint or "")


def test_the_environment_overrides_everything_that_was_found() -> None:
    config = {"paths": [{"glob": "*", "max_files": 1}]}
    environ = {"DIFF_BUDGET_OVERRIDE_REASON": "  generated by hand  "}
    part = judge(plain(30, 100), config, environ)
    assert rules(part) == ["files", "lines", "path-budget"]
    assert {finding.suppression for finding in part.findings} == {"generated by hand"}
    blank = judge(plain(30), {}, {"DIFF_BUDGET_OVERRIDE_REASON": "   "})
    assert blank.verdict(Severity.HIGH) == "findings"


@pytest.mark.parametrize("key", ["base", "override_reason"])
def test_what_belongs_to_one_run_stands_in_no_config(key: str) -> None:
    with pytest.raises(ConfigError, match="unknown setting"):
        judge(plain(), {key: "x"})


@pytest.mark.parametrize(
    "body",
    [
        "<!--\nDiff budget override: explain why here\n-->",
        "```\nDiff budget override: x\n```",
        "~~~ md\n<!--\n```\nDiff budget override: x\n~~~",
        "Diff budget override: <!-- why -->",
        "Diff budget override: <reason>",
        "<!-- a --> <!-- b\nDiff budget override: x",
    ],
)
def test_what_a_reader_of_the_body_does_not_see_is_no_reason(body: str) -> None:
    part = asked(body, LABEL)
    assert rules(part) == ["files", "override-incomplete"]
    assert "gives no reason" in part.findings[-1].message


def test_comments_and_code_around_a_reason_do_not_hide_it() -> None:
    body = "<!-- a --> ```x``` <!-- b\n-->\n```\ncode\n```\n  Diff budget override: so <!-- c -->\n"
    assert {one.suppression for one in asked(body, LABEL).findings} == {"so"}


def test_a_hostile_reason_stays_one_line() -> None:
    part = asked("Diff budget override: \x1b[31m<!-- x --> @everyone\u202e", LABEL)
    assert part.summary.isprintable()
