"""What of a change counts: built histories, looked at by the real ruff at both of their sides."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.change.change_set import ChangeSet, from_range
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report.findings import KNOWN, UNTOUCHED, Finding, Location, Severity
from rlm_ci.review import objective
from rlm_ci.review.analyzers.ruff_settings import settings_at, within
from rlm_ci.review.change.base_comparison import changed_of, is_touched, marks
from testing.review_leaves import leaf, text

if TYPE_CHECKING:
    from testing.repositories.git_repo import GitRepo

#: A function with an old fault on its head and one in its body.
OLD = """\
def fetch(url, seen=[]):
    import requests

    seen.append(url)
    answer = requests.get(url, verify=False, timeout=3)
    return answer
"""
RETYPED = """\
def fetch(
    url: str,
    seen: list[str] = [],
) -> object:
    import requests

    seen.append(url)
    answer: requests.Response = requests.get(
        url,
        verify=False,
        timeout=3,
    )
    return answer
"""
USED = "import os\n\n\ndef here():\n    return os.getcwd()\n"
NEW_DOOR = (
    "\n\ndef post(url):\n    import requests\n\n    requests.post(url, verify=False, timeout=1)\n"
)
#: A name of a rule, and where it is: path and line.
Told = tuple[str, str, int]


def change_of(repo: GitRepo, base: str) -> ChangeSet:
    return from_range(Repository(*discover(str(repo.path)), os.environ), base, "HEAD", "--base")


def judged(repo: GitRepo, base: str, **more: Any) -> list[Finding]:
    """All findings of the change from ``base`` to the head, where no model takes part."""
    change = change_of(repo, base)
    told = objective.options(changed=changed_of(change), **more)
    settings = settings_at(change.repository, change.names(), change.base)
    told = objective.with_base({**told, "settings": settings}, change, 1 << 20)
    texts = [
        text(one.path, content)
        for one in change.files()
        if one.status[:1] != "D" and (content := change.repository.read(one.new_oid)[0]) is not None
    ]
    task = leaf(texts, told)
    result = objective.ReviewObjective(told).judge(task.node, task, objective.analyse(task), None)
    return [one.finding for one in result.findings]


def visible(repo: GitRepo, base: str, **more: Any) -> set[Told]:
    """What is told of the change; each is on a line that it changes."""
    found = [one for one in judged(repo, base, **more) if one.suppression is None]
    changed = changed_of(change_of(repo, base))
    assert all(is_touched(one.replace(evidence=one.evidence[:1]), changed) for one in found)
    return {
        (one.rule.removeprefix("review/ruff-"), place.path, place.line_start or 0)
        for one in found
        for place in one.evidence[:1]
    }


def old(repo: GitRepo, base: str) -> dict[str, str | None]:
    return {
        one.rule.removeprefix("review/ruff-"): one.suppression
        for one in judged(repo, base)
        if one.suppression is not None
    }


def test_a_function_that_moves_to_another_file_brings_nothing_new(repo: GitRepo) -> None:
    base = repo.write("a.py", f"{OLD}\n\n{USED}").write("b.py", "X = 1\n").commit()
    repo.write("a.py", USED).write("b.py", f"X = 1\n\n\n{OLD}").commit()
    assert visible(repo, base) == set()
    assert old(repo, base) == {"b006": KNOWN, "s501": KNOWN}


def test_a_copy_of_it_is_new_though_the_first_is_laid_out_anew(repo: GitRepo) -> None:
    base = repo.write("a.py", OLD).write("b.py", "X = 1\n").commit()
    repo.write("a.py", RETYPED).write("b.py", f"X = 1\n\n\n{OLD}").commit()
    assert visible(repo, base) == {("b006", "b.py", 4), ("s501", "b.py", 8)}


def test_other_types_and_another_layout_bring_nothing_new(repo: GitRepo) -> None:
    base = repo.write("a.py", OLD).commit()
    repo.write("a.py", RETYPED).commit()
    assert visible(repo, base) == set()
    assert old(repo, base) == {"b006": KNOWN, "s501": KNOWN}


def test_a_file_by_another_name_brings_nothing_new(repo: GitRepo) -> None:
    base = repo.write("a.py", f"{OLD}{USED}").commit()
    repo.run("mv", "a.py", "src.py")
    repo.write("src.py", f"{OLD}{USED}\n\nX = 1\n").commit()
    assert visible(repo, base) == set()
    assert old(repo, base) == {"b006": UNTOUCHED, "s501": UNTOUCHED}


def test_documentation_is_nobody_s_fault(repo: GitRepo) -> None:
    base = repo.write("a.py", "X = 1\n").commit()
    repo.write(
        "a.py", "X = 1\n\n\nclass Shop:\n    def buy(self):\n        return [x for x in range(3)]\n"
    )
    repo.commit()
    assert visible(repo, base) == set()
    told = visible(repo, base, extend=("D1",))  # what the base lacks as well is not told
    assert told == {("d101", "a.py", 4), ("d102", "a.py", 5)}


def test_a_name_whose_import_goes_is_told_at_the_line_that_changed(repo: GitRepo) -> None:
    base = repo.write("a.py", f"import sys\n{USED}").commit()
    repo.write("a.py", USED.replace("import os\n", "import sys\n")).commit()
    assert visible(repo, base) == {("f821", "a.py", 2)}
    (found,) = [one for one in judged(repo, base) if "f821" in one.rule]
    assert found.severity == Severity.HIGH
    assert "at line 5" in found.message
    assert found.evidence[1].line_start == 5


def test_an_open_door_is_told_beside_an_old_one(repo: GitRepo) -> None:
    base = repo.write("a.py", OLD).commit()
    repo.write("a.py", OLD + NEW_DOOR).commit()
    assert visible(repo, base) == {("s501", "a.py", 12)}


def test_the_marks_of_a_merge_are_told(repo: GitRepo) -> None:
    base = repo.write("a.py", USED).commit()
    repo.write("a.py", f"{USED}<<<<<<< HEAD\nX = 1\n=======\nX = 2\n>>>>>>> b\n").commit()
    assert visible(repo, base) == {("invalid-syntax", "a.py", 6)}


def test_a_change_of_other_files_has_nothing_to_tell(repo: GitRepo) -> None:
    base = repo.write("a.py", OLD).write("README.md", "x\n").commit()
    repo.write("README.md", "y\n").write("main.go", "package main\n").commit()
    assert judged(repo, base) == []


def test_all_at_once_each_is_weighed_by_itself(repo: GitRepo) -> None:
    repo.write("a.py", f"{OLD}\n\n{USED}").write("b.py", "X = 1\n").write("c.py", OLD)
    base = repo.write("d.py", "def f(x):\n    eval(x)\n").commit()
    repo.write("a.py", USED).write("b.py", f"X = 1\n\n\n{OLD}").write("c.py", RETYPED + NEW_DOOR)
    repo.write("d.py", "def f(x):\n    if x:\n        eval(x)\n    eval(x)\n").commit()
    assert visible(repo, base) == {("s501", "c.py", 19), ("s307", "d.py", 3)}


def test_what_a_comment_silences_is_never_told(repo: GitRepo) -> None:
    silent = "def f(x):\n    eval(x)  # noqa: S307\n"
    base = repo.write("a.py", silent).commit()
    repo.write("a.py", silent + "\n\ndef g(y):\n    exec(y)  # noqa\n").commit()
    assert visible(repo, base) == set()
    repo.write("a.py", silent.replace("  # noqa: S307", "")).commit()
    assert visible(repo, base) == set()  # the base has it, silenced or not


NOISY = (
    "import os\n\n\ndef f(a=[]):\n    try:\n        return gone(a)\n    except:\n        print(a)\n"
)


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("pyproject.toml", "[tool.ruff.lint]\nselect = ['E9']\n", {"f821"}),
        ("pyproject.toml", "[tool.ruff.lint]\nselect = ['F', 'D']\n", {"f821", "f401"}),
        ("pyproject.toml", "[project]\nname = 'x'\n", {"f821", "f401", "b006", "e722"}),
        ("ruff.toml", "lint.select = ['ALL']\nlint.ignore = ['B']\nfix = true\n",
         {"f821", "f401", "e722"}),
        ("src/ruff.toml", "extend = '../base.toml'\n", {"f821", "b006"}),
        ("ruff.toml", "lint.select = ['B', 'F']\n[lint.per-file-ignores]\n'src/*' = ['B']\n",
         {"f821", "f401"}),
        ("ruff.toml", "lint.select = ['F']\nexclude = ['src']\n", {"f821"}),
        ("ruff.toml", "required-version = '==0.0.1'\nlint.select = ['B']\n", {"f821", "b006"}),
        # What ruff cannot obey is no reason to be silent.
        ("ruff.toml", "nothing-of-ruff = 1\n", {"f821", "f401", "b006", "e722"}),
        ("ruff.toml", "extend = '/etc/ruff.toml'\n", {"f821", "f401", "b006", "e722"}),
    ],
)  # fmt: skip
def test_what_the_repository_does_not_select_is_not_told(
    repo: GitRepo, name: str, content: str, expected: set[str]
) -> None:
    base = repo.write("base.toml", "lint.select = ['B']\n").write(name, content).commit()
    repo.write("src/a.py", NOISY).commit()
    assert {rule for rule, _, _ in visible(repo, base)} == expected


def test_a_change_cannot_narrow_what_it_is_judged_by(repo: GitRepo) -> None:
    base = repo.write("ruff.toml", "lint.select = ['F', 'B']\n").commit()
    repo.write("ruff.toml", "lint.select = ['W']\nexclude = ['*']\n").write("src/a.py", NOISY)
    repo.commit()
    assert {rule for rule, _, _ in visible(repo, base)} == {"f821", "f401", "b006"}


def test_a_name_that_the_base_uses_without_binding_it_is_somebody_s(repo: GitRepo) -> None:
    base = repo.write("conf.py", "c.Shop.open = True\n").commit()
    repo.write("conf.py", "c.Shop.open = True\nc.Shop.door = d\n").commit()
    found = {
        one.message: one.severity.label for one in judged(repo, base) if one.suppression is None
    }
    assert found == {"Undefined name `c`": "medium", "Undefined name `d`": "high"}


def test_a_definition_of_another_language_is_known_by_its_name() -> None:
    before = text("a.ts", "export function f(x) {\n  return eval(x)\n}\n")
    after = text(
        "b.ts", "let a = 1\n\nexport function f(x: string): any {\n    return eval( x )\n}\n"
    )

    def mark(of: Any, line: int) -> list[str]:
        quote = of.content.decode().split("\n")[line - 1]
        place = Location(of.path, line, line, quote=quote)
        found = Finding("review/eslint-x", Severity.LOW, f"said at {line}", evidence=(place,))
        return list(marks([found], [of]))

    assert mark(before, 1) == mark(after, 3)
    assert mark(before, 2) == mark(after, 4)
    assert mark(before, 1) != mark(before, 2)


def test_a_repository_brings_no_documentation_back_by_its_own_ruff() -> None:
    place = Location("a.py", 1, 1, quote="def f(): ...")
    d103, e501 = (
        Finding(f"review/repository-ruff-{rule}", Severity.LOW, "x", evidence=(place,),
                source="analyzer:repository-ruff")
        for rule in ("d103", "e501")
    )  # fmt: skip
    assert within([d103, e501], [], (), ()) == ([e501], [])
    assert within([d103, e501], [], (), ("D103",)) == ([d103, e501], [])
