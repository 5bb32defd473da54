"""What commands are for, by the names of their tasks and by their words."""

from __future__ import annotations

import pytest

from rlm_ci.wiki.facts.commands import by_command, by_name, purpose_of


@pytest.mark.parametrize(
    ("text", "purpose"),
    [
        ("pytest -q", "test"),
        ("python -m pytest tests", "test"),
        ("uv run --locked --with x coverage run -m pytest", "test"),
        ("CI=1 npx vitest run", "test"),
        ("tox run -e style", "check"),
        ("uv run --group dev tox run", "test"),
        ("nox -s docs", "docs"),
        ("tox -e py", "test"),
        ("tox -e changelog -- --version $VERSION", "other"),
        ("tox -e ${{ matrix.env }}", "test"),
        ("go test ./...", "test"),
        ("cargo clippy --all", "check"),
        ("cargo build --release", "build"),
        (".venv/bin/ruff check .", "check"),
        ("./gradlew --info check", "test"),
        ("npm ci", "setup"),
        ("npm run lint:js", "check"),
        ("pip install pytest", "setup"),  # what is installed does not run
        ("python -m pip install -e .", "setup"),
        ("cd web && yarn test", "test"),
        ("make", "build"),
        ("make -j2 check-format", "check"),
        ("python setup.py sdist", "build"),
        ("bash scripts/test.sh --ci", "test"),
        ("./run_tests.sh", "test"),
        ("CI=1 ci/lint.sh", "check"),
        ("bash -c 'test.sh'", ""),
        ("curl x | sh", ""),
        ("./release.sh", ""),
        ("test.sh.txt", ""),
        ("echo pytest", ""),
        ("rm -rf build", ""),
        ("pytest-runner", ""),
        ("jest.useFakeTimers();", ""),  # code that calls it
        ("mocha(done)", ""),
        ("black = colour(0)", ""),
        ("pytest.raises(ValueError)", ""),
        ("", ""),
        ("sudo", ""),
        ("uv run", ""),
    ],
)
def test_a_command_says_what_it_is_for(text: str, purpose: str) -> None:
    assert by_command(text) == purpose


@pytest.mark.parametrize(
    ("name", "purpose"),
    [
        ("test:unit", "test"), ("lint-tests", "test"), ("typecheck", "check"),
        ("build-docs", "docs"),
        ("py3.12", "test"), ("pypy310", "test"), ("dev", "run"), ("install-dev", "setup"),
        ("clean", ""), ("clean:types", ""), ("clean-docs", ""),
        ("latest", ""), ("", ""), ("--", ""),
    ],
)  # fmt: skip
def test_a_name_says_what_a_task_is_for(name: str, purpose: str) -> None:
    assert by_name(name) == purpose


def test_a_name_says_more_than_a_command() -> None:
    assert purpose_of("lint", "pytest") == "check"
    assert purpose_of("check", "cargo test") == "test"
    assert purpose_of("clean", "rm -rf dist") == "other"
