"""Two trees, and what the tamper guard holds against the second."""

from __future__ import annotations

from hashlib import sha1
from typing import TYPE_CHECKING

from rlm_ci.git.objects import TreeEntry
from rlm_ci.guard import guard
from rlm_ci.guard.protected.protection import Protection
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report.findings import Severity
from rlm_ci.validators.outcomes import TestOutcomes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from rlm_ci.report.findings import Finding

#: A content, or (mode, content).
Tree = dict[str, str | bytes | tuple[str, str]]

#: A key that an agent is given.
KEY = "Zq7-" + "kJ2mX9vT4wB8" * 2


class Objects:
    """The objects of trees, and how many bytes of them were read."""

    def __init__(self) -> None:
        self.known: dict[str, bytes] = {}
        self.read: list[int] = []

    def entries(self, tree: Tree) -> dict[str, TreeEntry]:
        found = {}
        for path, given in tree.items():
            mode, content = given if isinstance(given, tuple) else ("100644", given)
            data = content.encode() if isinstance(content, str) else content
            oid = sha1(data).hexdigest()
            self.known[oid] = data
            found[path] = TreeEntry(mode, "commit" if mode == "160000" else "blob", oid)
        return found

    def contents(self, oids: Iterable[str]) -> list[bytes | None]:
        found: list[bytes | None] = [self.known[oid] for oid in oids]
        self.read.append(sum(len(one or b"") for one in found))
        return found

    def sizes(self, oids: Iterable[str]) -> Mapping[str, int]:
        return {oid: len(self.known[oid]) for oid in oids}


def judged(
    before: Tree, after: Tree, validator: str = "", outcomes: TestOutcomes | None = None
) -> list[Finding]:
    """What is held against ``after``; ``outcomes`` are those of the first run."""
    objects = Objects()
    base, now = objects.entries(before), objects.entries(after)
    protection = Protection.of(base, objects.contents, validator)
    protection = protection.learning(outcomes or TestOutcomes(), base)
    redactor = Redactor({"AGENT": KEY}, ["AGENT"])
    return list(guard.compared(base, now, objects, protection, redactor))


def rules(found: Iterable[Finding]) -> set[str]:
    return {finding.rule.removeprefix("tamper/") for finding in found}


def is_found(change: Tree, expected: set[str]) -> None:
    """Raises AssertionError unless ``change`` of BASE breaks the rules that are expected."""
    found = judged(BASE, BASE | change)
    assert rules(found) == expected
    for finding in found:
        assert finding.severity is Severity.HIGH
        assert finding.hint
        assert finding.evidence[0].path in change


def swap(text: str, old: str, new: str) -> str:
    assert old in text
    return text.replace(old, new)


PY = "tests/test_app.py"
TEST = """\
import pytest
from app import add


def test_add():
    assert add(1, 2) == 3
    assert add(0, 0) == 0


@pytest.mark.parametrize("n", [1, 2, 3])
def test_many(n):
    assert add(n, n) == 2 * n


class TestMore:
    def test_raises(self):
        with pytest.raises(TypeError):
            add(None, 1)
"""
JS = """\
describe('add', () => {
  it('adds', () => {
    expect(add(1, 2)).toBe(3);
  });
  test("zero", () => { expect(add(0, 0)).toBe(0); });
});
"""
GO = """\
package add

func TestAdd(t *testing.T) {
\tif add(1, 2) != 3 {
\t\tt.Errorf("wrong")
\t}
}
"""
RUST = """\
pub fn add(a: i32, b: i32) -> i32 { a - b }

#[cfg(test)]
mod tests {
    #[test]
    fn adds() {
        assert_eq!(add(1, 2), 3);
    }
}
"""
PYPROJECT = '[project]\nname = "x"\n[tool.pytest.ini_options]\naddopts = "-q"\n'
BASE: Tree = {
    "app.py": "def add(a, b):\n    return a - b\n",
    "tests/test_app.py": TEST,
    "tests/data.json": "[1]\n",
    "conftest.py": "import sys\n",
    "web/add.test.ts": JS,
    "add_test.go": GO,
    "src/lib.rs": RUST,
    "pytest.ini": "[pytest]\n",
    "pyproject.toml": PYPROJECT,
    "setup.cfg": "[metadata]\nname = x\n[flake8]\nmax-line-length = 80\n",
    "package.json": '{"name": "x", "scripts": {"test": "jest"}, "dependencies": {}}\n',
    "Cargo.toml": '[package]\nname = "x"\n',
    "go.mod": "module x\n\nrequire example.com/y v1.0.0\n",
    "run.sh": "echo\n",
    "link": ("120000", "app.py"),
    "sub": ("160000", "c" * 40),
}
