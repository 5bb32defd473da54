"""Commands that run fewer tests than before."""

from __future__ import annotations

import json

import pytest

from rlm_ci.guard.collected.tree_side import TreeSide
from rlm_ci.guard.loosened.test_commands import arrived, narrowed, tools
from rlm_ci.guard.weakening import RestOfTree, TextChange

FILES = frozenset(
    (
        "tests/test_cart.py", "tests/unit/test_tax.py", "test/cart.test.js",
        "test/unit/tax.test.js", "cart_test.go", "tax/tax_test.go", "src/cart.py",
    )
)  # fmt: skip


class Tree(RestOfTree):
    def paths(self) -> frozenset[str]:
        return FILES


def told(path: str, before: str, after: str) -> list[str]:
    changes = [TextChange(path, before, after)]
    tree = TreeSide(changes, Tree(), old=False)
    return [one.message.partition(": ")[0].rpartition(" ")[2] for one in narrowed(changes, tree)]


#: A command before, and after; and the option or the file that is told.
CASES = {
    "only listed": ("pytest", "pytest --collect-only", "--collect-only"),
    "an expression": ("pytest -q", "pytest -q -k 'not total'", "-k"),
    "more of an expression": (
        "pytest -m 'not slow'", "pytest -m 'not slow and not net'", "-m",
    ),
    "another expression": ("pytest -m 'not slow'", "pytest -m 'not net'", ""),
    "one more left out": (
        "pytest --deselect a", "pytest --deselect a --deselect b",
        "--deselect",
    ),
    "a folder of tests": (
        "python -m pytest", "python -m pytest tests/unit", "tests/test_cart.py",
    ),
    "a folder less": (
        "pytest tests/unit tests/test_cart.py", "pytest tests/unit",
        "tests/test_cart.py",
    ),
    "the folder of all tests": ("pytest", "pytest tests", ""),
    "another folder": ("pytest", "cd lib && pytest lib/unit", ""),
    "words of a variable": ("pytest", "pytest $TESTS", ""),
    "parted": ("pytest", "pytest tests/unit && pytest tests/test_cart.py", ""),
    "an option of the output": ("pytest", "pytest -ra --cov", ""),
    "a name": ("pytest", "pytest  # -k", ""),
    "no tests are fine": (
        "jest", "jest --passWithNoTests unit", "--passWithNoTests",
    ),
    "titles": ("npx jest", "npx jest -t total", "-t"),
    "snapshots are written": ("vitest run", "vitest run -u", "-u"),
    "a part of a path": ("vitest run", "vitest run unit", "test/cart.test.js"),
    "a mode": ("vitest", "vitest run", ""),
    "settings": ("jest", "jest --config jest.ci.js", ""),
    "a timeout of mocha": ("mocha", "mocha -t 5000 -u bdd", ""),
    "a title of mocha": ("mocha test", "mocha test --grep total", "--grep"),
    "a pattern of node": (
        "node --test", "node --test --test-name-pattern=total",
        "--test-name-pattern",
    ),
    "go, some": ("go test ./...", "go test -run TestTax ./...", "-run"),
    "go, short": ("go test -race ./...", "go test -race -short ./...", "-short"),
    "go, skipped": ("go test ./...", "go test -skip=Total ./...", "-skip"),
    "go, a package": ("go test ./...", "go test ./tax/...", "cart_test.go"),
    "go, more": ("go test .", "go test ./...", ""),
    "go, an output": ("go test ./...", "go test -json -coverprofile=c.out ./...", ""),
    "cargo, skipped": (
        "cargo test", "cargo test -- --skip sums", "--skip",
    ),
    "cargo, only built": ("cargo test", "cargo test --no-run", "--no-run"),
    "cargo, parted": ("cargo test", "cargo test --lib && cargo test --doc", ""),
    "cargo, all features": ("cargo test", "cargo test --all-features", ""),
    "maven": ("mvn verify", "mvn verify -DskipTests", "-DskipTests"),
    "gradle": ("./gradlew build", "./gradlew build -x test", "-x"),
    "gradle, without a linter": ("./gradlew build", "./gradlew build -x spotless", ""),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_command_that_runs_fewer_tests_is_found(case: str) -> None:
    before, after, said = CASES[case]
    step = "jobs:\n  a:\n    steps:\n      - run: {}\n"
    expected = [said] if said else []
    assert told(".github/workflows/ci.yml", step.format(before), step.format(after)) == expected
    assert told("Makefile", f"test:\n\t{before}\n", f"test:\n\t@{after}\n") == expected
    scripts = (json.dumps({"scripts": {"test": one}}) for one in (before, after))
    assert told("package.json", *scripts) == expected


@pytest.mark.parametrize(
    ("after", "said"),
    [
        ("echo fine", ["jest"]),
        ("eslint .", []),
        ("node --test", []),
        ("npm run test:unit", []),
    ],
)
def test_a_script_that_runs_no_tests_is_found(after: str, said: list[str]) -> None:
    texts = (json.dumps({"scripts": {"test": one}}) for one in ("jest", after))
    assert told("package.json", *texts) == said


def test_a_package_may_go_with_its_script() -> None:
    before = json.dumps({"scripts": {"test": "jest"}})
    for path, said in (("examples/a/package.json", []), ("package.json", ["jest"])):
        change = TextChange(path, before, None)
        found = narrowed([change], TreeSide([change], RestOfTree(), old=False))
        assert [one.message.partition(" runs ")[2] for one in found] == said


def test_tools_are_known_by_the_names_of_hooks_and_not_in_comments() -> None:
    assert tools("- id: ruff-check\n- id: ruff-format\n").keys() == {"ruff", "ruff-format"}
    assert (
        tools("uses: a/b@v1 # zizmor: ignore\n# run pytest\npip install pytest-asyncio\n").keys()
        == set()
    )


def test_a_command_may_move_and_be_installed() -> None:
    step = "    steps:\n      - run: pytest\n"
    assert told("ci.yml", step, step.replace("pytest", "pip install pytest -t x")) == []
    assert told("ci.yml", step, "    steps:\n      - name: pytest -k\n        run: pytest\n") == []
    assert (
        told("tox.ini", "commands =\n    pytest\n", "commands =\n    pytest -k x \\\n      -q\n")
        != []
    )
    assert told("noxfile.py", 's.run("pytest")\n', 's.run("pytest", "-k", "x")\n') != []


def test_an_option_of_another_name_leaves_out_as_much() -> None:
    step = "      - run: mvn -B {} verify\n"
    before = step.format("-DskipTests")
    for option, number in (("-Dmaven.test.skip", 0), ("-DskipITs", 1)):
        change = TextChange(".github/workflows/a.yml", before, step.format(option))
        tree = TreeSide([change], RestOfTree(), old=False)
        assert len(list(narrowed([change], tree))) == number


def test_tools_that_are_new_in_a_change_are_known() -> None:
    known = TextChange("tox.ini", "commands = mypy\n", "commands = mypy\n  pyright\n")
    moved = TextChange(".pre-commit-config.yaml", "- id: ruff\n", "- id: black\n- id: mypy\n")
    assert arrived([known, moved]) == {"pyright", "black"}
