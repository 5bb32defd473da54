"""A patch is tried: it mends the fault and harms nothing, or it is no repair."""

from __future__ import annotations

import json
from difflib import unified_diff
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.review.proofs.repair import recounted
from rlm_ci.review.proofs.reproduction import Reproduction
from rlm_ci.review.proofs.runner import ProofRunner
from rlm_ci.system.command_line import Command
from rlm_ci.trials.trees import validators_of
from testing.proofs_stage import BASE, HEAD, Facts, place_of
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from rlm_ci.trials.trees import ProofPlace

SHOP = "src/shop/__init__.py"
CLAIM = Reproduction(
    "tests/test_claim.py",
    "from shop import password\n\ndef test_claim():\n    assert password('a:b:c') == 'b:c'\n",
    "test",
    "AssertionError",
)


ENDS = "    return text.rpartition(':')[2]"
MEND = {ENDS: "    return text.partition(':')[2]"}
PYTEST = Command.of("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider")
ABSENT = Command.of("uv-of-nobody", "run", "pytest")
NEVER = Command.of("python3", "-m", "pytest_of_nobody")


def edit(path: str, edits: dict[str, str]) -> str:
    """A patch that puts lines in the place of others."""
    old = {**BASE, **HEAD}[path].splitlines(keepends=True)
    new = [f"{edits.get(line.strip(chr(10)), line.strip(chr(10)))}\n" for line in old]
    return "".join(unified_diff(old, new, f"a/{path}", f"b/{path}"))


MENDED = edit(SHOP, MEND)


def test_counts_of_lines_are_put_right() -> None:
    wrong = MENDED.replace("@@ -4,7 +4,7 @@", "@@ -4 +4,9 @@")
    assert wrong != MENDED
    assert recounted(wrong) == MENDED
    for text in ("", "@@", "no patch", "@@ -1 +1 @@", "--- a\n+++ b\n@@ x @@\n\n-x"):
        assert recounted(recounted(text)) == recounted(text)


@pytest.mark.full
def test_repairs(shop: ProofPlace) -> None:
    place = shop.replace(validators=(PYTEST,))
    facts = Facts()
    with ProofRunner(place, facts) as runner:
        found = runner.try_repair(MENDED.replace("-4,7", "-4,3"), CLAIM)
        assert found.ok, found
        assert found.patch == MENDED
        made = facts.made
        assert runner.try_repair(MENDED, CLAIM) == found
        assert facts.made == made
        never = edit(SHOP, {ENDS: "    return 2"}).replace(ENDS, "    return 1")
        cases = (
            (edit(SHOP, {ENDS: f"{ENDS}  # the last"}), "does not pass"),
            (edit(SHOP, MEND | {"    return sum(prices)": "    return 0"}), "1 test more fails"),
            (edit("tests/test_shop.py", {"def test_total():": "def total():"}), "is of tests"),
            (edit("tests/conftest.py", {"import pytest": "import os"}), "is of tests"),
            (edit("pyproject.toml", {"addopts = '-ra'": "addopts = ''"}), "the guard"),
            (MENDED.replace(SHOP, "../x.py"), "no file of the change"),
            (MENDED.replace(SHOP, "src/shop/never.py"), "no file of the change"),
            (never, "does not apply"),
            (MENDED + "+    # more\n" * 40, "at most 30 lines"),
            ("--- /dev/null\n+++ b/src/shop/new.py\n@@ -0,0 +1 @@\n+x = 1\n", "no patch"),
            ("mend it", "at most 30 lines"),
            ("", "at most 30 lines"),
        )
        for patch, reason in cases:
            refused = runner.try_repair(patch, CLAIM)
            assert (refused.ok, refused.patch) == (False, ""), patch
            assert refused.is_run == (reason in {"does not pass", "1 test more fails"})
            assert reason in refused.reason, (patch, refused)


@pytest.mark.parametrize(
    ("validators", "reason"),
    [
        pytest.param(
            (ABSENT, PYTEST), f"`{PYTEST.text}` is as green as before", marks=pytest.mark.full
        ),
        ((NEVER, ABSENT), "No module named pytest_of_nobody; uv-of-nobody could not be started"),
        pytest.param(
            (), "run: there is no validator, or more than one: set loop.validator",
            marks=pytest.mark.full,
        ),
    ],
)  # fmt: skip
def test_the_first_validator_that_can_run_judges(
    shop: ProofPlace, validators: tuple[Command, ...], reason: str
) -> None:
    told: list[str] = []
    place, facts = shop.replace(validators=validators), Facts()
    with ProofRunner(place, facts, tell=told.append) as runner:
        runner.start_validator()
        # A person who waits for minutes sees what for.
        running = [f"running {one.text} on the change, before repairs, 10 minutes at most"
                   for one in validators]  # fmt: skip
        assert told == running
        tried = runner.try_repair(MENDED, CLAIM)
        assert (tried.ok, tried.patch) == (True, MENDED), tried
        assert reason in tried.reason
        assert ("your tests could not be run" in tried.reason) == (PYTEST not in validators)


@pytest.mark.parametrize(
    ("script", "runner"),
    [
        ("eslint . && vitest run", "npx --no-install vitest run --coverage=false"),
        ("tap", ""),
    ],
)
def test_the_runner_of_a_script_replaces_a_manager_that_cannot_run(
    tmp_path: Path, script: str, runner: str
) -> None:
    package = {"packageManager": "pnpm@9.0.0", "scripts": {"test": script}}
    (tmp_path / "package.json").write_text(json.dumps(package))
    first, *others = [one.text for one in validators_of("auto", str(tmp_path))]
    assert (first, len(others)) == ("pnpm test", bool(runner))
    assert all(one.startswith(runner) for one in others)


@pytest.mark.full
@pytest.mark.parametrize("style", ["unittest", "pytest"])
def test_without_pytest_the_runner_of_python_judges_if_it_finds_tests(
    tmp_path: Path, style: str
) -> None:
    tests = "from shop import password\n\ndef test_it():\n    assert password('a:b') == 'b'\n"
    if style == "unittest":
        tests = (
            "import unittest\nfrom shop import password\n\nclass Password(unittest.TestCase):\n"
            "    def test_it(self):\n        self.assertEqual(password('a:b'), 'b')\n"
        )
    repo = GitRepo(tmp_path / "shop").write("pyproject.toml", "").write("tests/test_shop.py", tests)
    base = repo.write(SHOP.replace("src/", ""), BASE[SHOP]).commit()
    head = repo.write(SHOP.replace("src/", ""), HEAD[SHOP]).commit()
    validators = validators_of("auto", str(repo.path))
    place = place_of(repo, base, head, validators=validators)
    place = place.replace(environ={**place.environ, "PATH": "/usr/bin:/bin"})
    with ProofRunner(place, Facts()) as runner:
        script = "from shop import password\n\nassert password('a:b:c') == 'b:c'\n"
        claim = Reproduction("claim.py", script, "script", "AssertionError")
        tried = runner.try_repair(MENDED.replace("src/shop", "shop"), claim)
        assert tried.ok, tried
        expected = (
            "unittest discover -v -s tests` is as green" if style == "unittest" else "not be run"
        )
        assert expected in tried.reason


@pytest.mark.full
def test_a_validator_that_was_killed_midway_judges_nothing(shop: ProofPlace) -> None:
    """Tests that it did not reach would look newly failed once it does."""
    killed = Command.parse(f"sh -c '{PYTEST.text}; kill -9 $$'")
    with ProofRunner(shop.replace(validators=(killed,)), Facts()) as runner:
        tried = runner.try_repair(MENDED, CLAIM)
    assert (tried.ok, tried.patch) == (True, MENDED), tried
    assert "your tests could not be run" in tried.reason


@pytest.mark.full
@pytest.mark.parametrize("failing_runs", [{1}, {2}, {1, 2}])
def test_a_test_that_fails_now_and_then_refuses_no_repair(
    shop: ProofPlace, failing_runs: set[int]
) -> None:
    class Flaky(Facts):
        """A test more fails in some runs with the patch."""

        def __call__(
            self,
            kind: str,
            step: str,
            key: Mapping[str, Any],
            produce: Callable[[], Mapping[str, Any]],
        ) -> Mapping[str, Any]:
            ended = super().__call__(kind, step, key, produce)
            is_flaky = kind == "repair-validator" and key["side"] != "head"
            if not is_flaky or key["number"] not in failing_runs:
                return ended
            return {**ended, "code": 1, "failed": ["tests/test_net.py test_socket"]}

    with ProofRunner(shop.replace(validators=(PYTEST,)), Flaky()) as runner:
        tried = runner.try_repair(MENDED, CLAIM)
    assert tried.ok == (failing_runs != {1, 2})
    failure = "1 test more fails: tests/test_net.py test_socket"
    assert tried.reason.endswith(failure) == (1 in failing_runs), tried
    assert ("in one of two runs" in tried.reason) == (failing_runs == {1})


@pytest.mark.full
@pytest.mark.parametrize("folder", ["", "tests/", "tests/unit/"])
def test_the_conftest_of_the_head_is_taken_where_that_of_the_base_does_not_load(
    tmp_path: Path, folder: str
) -> None:
    conftest, test = f"{folder}conftest.py", f"{folder or 'tests/'}test_more.py"
    moved = {test: BASE["tests/test_shop.py"], conftest: BASE["tests/conftest.py"]}
    repo = GitRepo(tmp_path)
    for path, text in ({**BASE, "tests/conftest.py": ""} | moved).items():
        repo.write(path, text)
    base = repo.commit()
    for path, text in {SHOP: HEAD[SHOP], conftest: moved[conftest]}.items():
        repo.write(path, text.replace("LIMIT", "MOST"))
    place = place_of(repo, base, repo.commit(), validators=(PYTEST,))
    with ProofRunner(place, Facts()) as runner:
        tried = runner.try_repair(edit(SHOP, MEND).replace("LIMIT", "MOST"), CLAIM)
        assert tried.ok, tried
        assert tried.reason.endswith("with the change's own conftest.py is as green as before")
        broken = edit(SHOP, MEND | {"    return sum(prices)": "    return 0"})
        tried = runner.try_repair(broken.replace("LIMIT", "MOST"), CLAIM)
        assert "2 tests more fail" in tried.reason, tried
