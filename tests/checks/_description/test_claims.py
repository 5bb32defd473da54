"""The claims of descriptions: which texts claim what."""

from __future__ import annotations

import pytest

from rlm_ci.checks._description import claims
from rlm_ci.checks._description.claims import claims_behaviour, closed_issues, is_placeholder


@pytest.mark.parametrize(
    ("title", "kind", "names"),
    [
        ("Add `shop.total`", claims.ADDS, ("shop.total",)),
        ("feat: adds the option `--dry-run`", claims.ADDS, ("--dry-run",)),
        ("Drop `total_of`", claims.REMOVES, ("total_of",)),
        ("Rename `total` to `sum_of`", claims.RENAMES, ("total", "sum_of")),
        ("Fix shop/cart.py", claims.NAMED, ("shop/cart.py",)),
        ("Adds tests for carts", claims.TESTS, ()),
        ("No functional change", claims.SAME_INTERFACE, ()),
        ("Documentation only", claims.TEXTS_ONLY, ()),
        ("docs: say more", claims.LITTLE, ()),
        ("Fix a few typos", claims.LITTLE, ()),
        ("Closes #12", claims.UNCHECKED, ()),
    ],
)
def test_a_claim_of_a_known_form(title: str, kind: str, names: tuple[str, ...]) -> None:
    assert (kind, names) in [(one.kind, one.names) for one in claims.claims(title, "")]


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("* add `lru_cache` to overrides\n\n* remove `lru_cache` due to hashing", []),
        ("- Drop `total_of`\n- Add `total_of` again", []),
        ("* add `sum_of`\n* remove `total_of`", ["sum_of", "total_of"]),
        ("* add `sum_of`\n* add `sum_of` for sets\n* fix `sum_of`", ["sum_of"] * 3),
    ],
)
def test_a_name_that_came_and_went_is_no_claim(body: str, names: list[str]) -> None:
    results = claims.claims("Move the sum out", body)
    assert [name for claim in results for name in claim.names] == names


def test_the_title_speaks_for_all_commits() -> None:
    results = claims.claims("Add `sum_of`", "* remove `sum_of` from the list\n* drop `total_of`")
    assert [(claim.kind, claim.names) for claim in results] == [
        (claims.ADDS, ("sum_of",)), (claims.REMOVES, ("total_of",)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "title",
    [
        "The `total` of a cart was wrong",
        "Fix total of carts",
        "Add a test job to CI",
        "Fix https://example.com/some_page/a.html",
        "Fix crash with `raise ValueError('x')`",
        "Additional words",
        "Skip slow jobs when only docs change",
        "Run no jobs if only the documentation changes",
    ],
)
def test_no_claim_of_a_known_form(title: str) -> None:
    assert claims.claims(title, "") == []


@pytest.mark.parametrize(
    "title",
    [
        "Bump to " + "1.1." * 240 + "x",
        "fix " * 240 + "x",
        "Fix a, a. a/ a& " * 60 + "x",
        "Add " + "the new " * 120 + "`x",
        "a_" * 480,
        "a/" * 480,
        "Adds a new some more tests" * 38,
        "`" * 990,
        "Rename `a_b` to " * 60,
    ],
)
def test_a_hostile_title_is_read_in_time_that_grows_with_its_length(title: str) -> None:
    """One that took exponential time would never end."""
    assert len(claims.claims(title, f"{title}\n" * 60)) <= 60
    assert isinstance(is_placeholder(title, ""), bool)


@pytest.mark.parametrize(
    ("title", "body", "is_empty"),
    [
        ("", "", True),
        ("wip", "", True),
        ("Update", "Please describe your changes here", True),
        ("Describe your changes", "", True),
        ("<!-- title -->", "", True),
        ("Fix bug", "<!-- what was wrong? -->", True),
        ("Fix #12", "", False),
        ("Fix total", "", False),
        ("Update README.md", "", False),
        ("Update", "It counts carts twice.", False),
    ],
)
def test_what_says_nothing(title: str, body: str, *, is_empty: bool) -> None:
    assert is_placeholder(title, body) is is_empty


@pytest.mark.parametrize(
    ("title", "body", "issues"),
    [
        ("Fix #7", "", ["#7"]),
        ("Work", "Closes: #7, resolves acme/shop#8 and FIXED #9.", ["#7", "acme/shop#8", "#9"]),
        ("Work", "fixes https://github.com/acme/shop/issues/7", ["acme/shop#7"]),
        ("Work", "See #7. This prefixes #8, and fixes the #9th.", []),
        ("Work", "<!-- fixes #7 -->\n```\nfixes #8\n```\nfix #9\nFix #9", ["#9"]),
        ("fix " * 100_000, "fix #" * 100_000, []),
    ],
)
def test_issues_that_a_description_closes(title: str, body: str, issues: list[str]) -> None:
    assert closed_issues(title, body) == issues


@pytest.mark.parametrize("title", [
    "Add reduced prices", "fix: round the total", "feat(cart): reduce prices", "Fixes the total",
    "Support reduced prices", "fix!: the total of a line",
    "feat: build the index in parallel", "fix: crash when comments are empty",
    "fix: null release date crashes", "fix: example.com is refused", "Fix release dates of carts",
    "Add packages to the cart", "Support wheels of carts", "feat: hooks for carts",
    "fix: types of rows that were lost", "Fix warnings shown twice",
    "Fix fields of typing.Optional",
])  # fmt: skip
def test_a_title_of_behaviour(title: str) -> None:
    assert claims_behaviour(title)


@pytest.mark.parametrize("title", [
    "Refactor the cart", "Add tests for the total", "docs: add prices", "test: fix the total",
    "add codespell pre-commit hook", "Fix typo", "Fix mypy errors", "Rename total to sum",
    "fix: formatting, no functional changes", "feat: better type supports (#20)",
    "fix(types): accept tuples", "fix variable shadowing in py2", "Fix staticcheck errors",
    "Fix paths on Windows",
    "feat(cart)!: new docs", "fix: wrong types", "Fix return type hints (#7)", "fix: Python 2.7",
    "fix(release): the name of the tag", "fix: broken build",
    "Create binary wheels with mypyc (#242)", "Add manylinux wheels", "feat: sdist with tests",
    "fix(packaging): the name of the package", "Support compilation with mypyc",
    "fix(build) Fix new mypy errors caused by typestub updates (#460)", "fix(ci) a flaky job",
    "Support unicode usernames and passwords in Python 2.", "Fix the paths of all carts on Windows",
    "fix: a crash of the total of prices under PyPy (#3)",
])  # fmt: skip
def test_a_title_of_something_else(title: str) -> None:
    assert not claims_behaviour(title)
