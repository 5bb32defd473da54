"""Changes with planted bugs: each with a test that shows it, the same for each seed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rlm_ci.lab.planted_bugs import generate
from rlm_ci.lab.planted_bugs.projects import PROJECTS, Project

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="fork")

SMALL = [one for one in PROJECTS if one.name == "mdurl"]


def _passes(test: str, tree: dict[str, bytes], folder: Path) -> bool:
    for path, content in tree.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    program = f"import sys; sys.path.insert(0, {str(folder)!r})\n{test}\ntest_shows_the_bug()"
    ended = subprocess.run([sys.executable, "-I", "-c", program], capture_output=True, check=False)
    return ended.returncode == 0


@pytest.mark.full
def test_a_test_shows_each_bug_and_the_rest_is_harmless(tmp_path: Path) -> None:
    made = list(generate.cases(3, 2, 1, SMALL))
    assert [len(one.bugs) for one in made] == [2, 0]
    assert len({bug.kind for one in made for bug in one.bugs}) == 2
    tests = [bug.test for one in made for bug in one.bugs]
    for one in made:
        base, head = dict(one.base), {**one.base, **one.head}
        assert one.harmless > 0
        assert all(one.head[path] != base[path] for path in one.head)
        for bug in one.bugs:
            before, after = base[bug.path].split(b"\n"), head[bug.path].split(b"\n")
            assert after[bug.line - 1] not in before
            assert bug.test.encode() not in b"".join(head.values())
            assert _passes(bug.test, base, tmp_path / "base")
            assert not _passes(bug.test, head, tmp_path / one.id)
    assert all(_passes(test, {**made[-1].base, **made[-1].head}, tmp_path / "h") for test in tests)


@pytest.mark.full
def test_the_seed_decides_everything() -> None:
    made = list(generate.cases(3, 4, 1, SMALL))
    assert list(generate.cases(3, 4, 1, SMALL)) == made
    assert next(generate.cases(4, 2, 0, SMALL)) != made[0]


@pytest.mark.parametrize(
    "project",
    [pytest.param(one, marks=[] if one in SMALL else pytest.mark.full) for one in PROJECTS],
    ids=lambda one: one.name,
)
def test_every_project_can_be_used(project: Project) -> None:
    (made,) = generate.cases(1, 0, 1, [project])
    assert (made.bugs, made.harmless > 0) == ((), True)
