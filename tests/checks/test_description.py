"""description on real repositories: what is held against the change, and what is left alone."""

from __future__ import annotations

import os
from typing import Any

import pytest

from rlm_ci.change import change_set
from rlm_ci.change.change_set import ChangeSet, PullRequest
from rlm_ci.checks import description
from rlm_ci.checks._description.facts import ChangeFacts
from rlm_ci.config.settings import Settings
from rlm_ci.git.repository import Repository, discover
from rlm_ci.report import wording
from rlm_ci.report.findings import CLEAN, Part, Report, Severity, Subject
from rlm_ci.runs.store import RunStore
from testing.repositories.git_repo import GitRepo

CART = """\
def total(cart):
    return sum(cart)


def count(cart):
    return len(cart)
"""
MANIFEST = '[project]\nname = "shop"\nversion = "1"\ndependencies = [%s]\n'


@pytest.fixture
def shop(repo: GitRepo) -> GitRepo:
    repo.write("shop/__init__.py", "").write("shop/cart.py", CART).write("README.md", "# Shop\n")
    repo.write("pyproject.toml", MANIFEST % "").write("tests/test_cart.py", "assert True\n")
    repo.commit("Sell things")
    return repo


def last_commits(repo: GitRepo, number: int = 1, **more: Any) -> ChangeSet:
    opened = Repository(*discover(os.fspath(repo)), os.environ)
    return change_set.from_range(opened, f"HEAD~{number}", "HEAD", "test", **more)


def judge(change: ChangeSet) -> Part:
    return description.run(change, Settings((), {}), RunStore("", ""))


def remarks(repo: GitRepo, message: str, **files: str) -> list[tuple[str, str]]:
    """The rules and messages for one commit that writes these files."""
    for name, content in files.items():
        repo.write(name.replace("__", "/").replace("_dot_", "."), content)
    repo.commit(message)
    part = judge(last_commits(repo))
    assert part.verdict(Severity.MEDIUM) == CLEAN
    return [(one.rule.removeprefix("description/"), one.message) for one in part.findings]


MORE = CART + "\n\ndef mean(cart):\n    return total(cart) / count(cart)\n"
OTHER = CART.replace("count", "size")


def test_a_name_that_no_file_has_is_a_remark(shop: GitRepo) -> None:
    ((rule, message),) = remarks(shop, "Add `/health` and `mean`", shop__cart_dot_py=MORE)
    assert rule == "not-found"
    assert message.endswith("`/health` is said to be added, and is in no changed file")


@pytest.mark.parametrize(
    "message",
    [
        "Add `mean`",
        "feat(cart): add mean()",
        "Add shop/cart.py and cart.mean",
        "Use `total` for the mean of a cart",
        "Make carts answer\n\nAs `pip install shop` does, see https://example.com/a/b_c.html",
        "Add `mean`\n\n    $ frobnicate_the_cart\n\n> Add `quoted_name`\n\nReviewed-by: some_body",
        "Add `mean`\n\n```\nAdd `other_name`\n```\n",
        "Add mean, closes #12, all tests pass",
    ],
)
def test_what_is_in_the_change_is_no_remark(shop: GitRepo, message: str) -> None:
    assert remarks(shop, message, shop__cart_dot_py=MORE) == []


@pytest.mark.parametrize(
    ("message", "what"),
    [
        ("Add `mean`, with tests", "no test is changed"),
        ("Add `mean`\n\nThis changes 3 files.", "the change has 1 file"),
        ("Add `mean`\n\nDocs only.", "2 lines of code differ"),
        ("Fix `median_of_carts` for empty carts", "is in no file of the repository"),
        ("Rename `mean_of_cart` to `average_of_cart`", "does not rename it"),
        ("Remove the unused helper `old_mean_helper`", "was in no changed file"),
    ],
)
def test_what_the_change_does_not_show_is_a_remark(shop: GitRepo, message: str, what: str) -> None:
    found = remarks(shop, message, shop__cart_dot_py=MORE)
    assert [what in one for _, one in found] == [True], found


def test_what_no_change_can_show_is_counted_and_leaves_it_clean(shop: GitRepo) -> None:
    shop.write("shop/cart.py", MORE).commit("Add mean, closes #12, all tests pass")
    change = last_commits(shop)
    part = judge(change)
    assert part.metrics["not_checked"] == 2
    report = Report(Subject(), Severity.HIGH, (part,))
    assert wording.headline(report) == "Clean: 1 check, nothing to fix"


WORKFLOW = "on: push\njobs: {}\n"


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({".github/workflows/ci.yml": WORKFLOW}, "`.github/workflows/ci.yml` differs"),
        ({"pyproject.toml": MANIFEST % '"left-pad>=1"'}, "`pyproject.toml` differs"),
        ({"package.json": "{}\n", "go.mod": "module shop\n"}, "`go.mod` and 1 more file differ"),
    ],
)
def test_texts_only_is_doubted_for_workflows_and_manifests(
    shop: GitRepo, files: dict[str, str], what: str
) -> None:
    ((rule, message),) = remarks(shop, "Tell more of the shop\n\nDocs only.", **files)
    assert rule == "differs"
    assert message.endswith(f"“Docs only” is said, and {what}")


@pytest.mark.parametrize(
    "files",
    [
        {"README.md": "# The shop\n"},
        {"docs/requirements.txt": "sphinx\n", ".readthedocs.yml": "version: 2\n"},
        {"pyproject.toml": "# The manifest\n" + MANIFEST % ""},
    ],
)
def test_texts_only_holds_for_texts_and_what_builds_them(
    shop: GitRepo, files: dict[str, str]
) -> None:
    assert remarks(shop, "Tell more of the shop\n\nDocs only.", **files) == []


def test_an_interface_that_is_another_is_no_same_interface(shop: GitRepo) -> None:
    ((rule, message),) = remarks(shop, "Refactor the cart, no API change", shop__cart_dot_py=OTHER)
    assert rule == "differs"
    assert "`count` is no longer what it was" in message


def test_a_small_word_for_much_code_is_a_remark(shop: GitRepo) -> None:
    code = "".join(f"\n\ndef price_{n}(cart):\n    return {n} * total(cart)\n" for n in range(9))
    ((rule, message),) = remarks(shop, "Fix typo", shop__cart_dot_py=CART + code)
    assert rule == "differs"
    assert "18 lines of code differ" in message


TEXTS = "\n".join(f"    Line {number} of a text." for number in range(20))


@pytest.mark.parametrize(
    ("before", "after", "number"),
    [
        (CART, CART.replace("cart):\n", f'cart):\n    """Of a cart.\n\n{TEXTS}\n    """\n', 1), 0),
        ('"""Carts."""\n\n', f'"""Carts.\n\n{TEXTS}\n"""\n\n', 0),
        ("RATE = 1\n", f'RATE = 1\n"""The rate.\n\n{TEXTS}\n"""\n', 0),
        # Code that a docstring quotes, and that stands beside one, is code.
        ("RATE = 1\n", "class A:\n    '''E.g.\n\n    rate = 2\n    '''\n\n    rate = 2\n", 3),
        ("def f(): ...\n", "def f(): 'None.'; g()\n", 2),
        ("def f():\n    1\n", "def f():\n    'None.'; g()\n", 2),
        ("def f():\n    1\n", "def f():\n    'None.'  # so\n", 1),
        ('NOTE = """\n"""\n', f'NOTE = """\n{TEXTS}\n"""\n', 20),  # a value, and no docstring
    ],
)
def test_lines_of_docstrings_beside_code_are_no_code(
    shop: GitRepo, before: str, after: str, number: int
) -> None:
    shop.write("shop/cart.py", f"{before}LIMIT = 1\n").commit("Limit carts")
    shop.write("shop/cart.py", f"{after}LIMIT = 2\n").commit("Limit carts again")
    facts = ChangeFacts(last_commits(shop))
    assert facts.code_lines == number + 2


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("shop__cart_dot_py", CART.replace("cart):\n", 'cart):\n    """Of a cart."""\n')),
        ("shop__cart_dot_py", CART.replace("(cart)", "( cart )")),
        ("README_dot_md", "# The shop\n" * 40),
        ("tests__test_cart_dot_py", "assert 1 + 1 == 2\n" * 40),
    ],
)
def test_a_small_word_for_texts_and_layout_is_none(shop: GitRepo, name: str, content: str) -> None:
    assert remarks(shop, "docs: fix typos", **{name: content}) == []


def test_words_that_say_nothing_are_a_placeholder(shop: GitRepo) -> None:
    found = remarks(shop, "Update code", shop__cart_dot_py=MORE)
    assert [rule for rule, _ in found] == ["placeholder"]


def test_words_that_say_nothing_are_left_alone_where_the_project_has_such_a_message(
    shop: GitRepo,
) -> None:
    shop.write("README.md", "# The shop\n").commit("tweaks")
    shop.write("README.md", "# A shop\n").commit("Progress.")
    shop.write("shop/cart.py", MORE).commit("Update code")
    part = judge(last_commits(shop))
    assert part.findings == ()
    assert "says nothing of the change, as others in this repository" in part.summary
    pull = PullRequest(7, "Update code", "")
    (found,) = judge(last_commits(shop, pull_request=pull)).findings
    assert found.rule == "description/placeholder", "it is written for its reviewer"
    shop.write("README.md", "# Shop\n").commit("[Title]\n\n<!-- Describe your changes -->")
    (found,) = judge(last_commits(shop)).findings
    assert found.rule == "description/placeholder", "a template is nobody's habit"


def test_the_messages_of_the_change_itself_show_no_habit(shop: GitRepo) -> None:
    shop.write("README.md", "# The shop\n").commit("tweaks")
    shop.write("README.md", "# A shop\n").commit("Progress.")
    shop.write("shop/cart.py", MORE).commit("Update code")
    (found,) = judge(last_commits(shop, 3)).findings
    assert found.rule == "description/placeholder"


def test_messages_without_a_claim_are_said_to_have_none(shop: GitRepo) -> None:
    shop.write("README.md", "# The shop\n").commit("Sell on Sundays")
    assert judge(last_commits(shop)).summary == "1 description read, without a claim to look up"


def test_a_package_is_said_on_a_pull_request_and_counted_in_a_commit(shop: GitRepo) -> None:
    shop.write("pyproject.toml", MANIFEST % '"left-pad>=1"').commit("Sell on Sundays")
    part = judge(last_commits(shop))
    assert part.findings == ()
    assert "says nothing of `left-pad`, a new dependency" in part.summary
    pull = PullRequest(7, "Sell on Sundays", "")
    (found,) = judge(last_commits(shop, pull_request=pull)).findings
    assert found.rule == "description/unsaid"
    said = PullRequest(7, "Sell on Sundays", "It needs padding on the left.")
    assert judge(last_commits(shop, pull_request=said)).findings == ()


def test_a_commit_is_held_against_its_own_difference(shop: GitRepo) -> None:
    shop.write("shop/cart.py", MORE).commit("Add `mean`")
    shop.write("shop/cart.py", MORE.replace("mean", "average")).commit("Call it by its name")
    part = judge(last_commits(shop, 2))
    assert part.metrics["descriptions"] == 2
    assert part.findings == ()


def test_a_bots_body_is_what_others_say(shop: GitRepo) -> None:
    shop.write("shop/cart.py", MORE)
    shop.commit()
    author = "dependabot[bot] <49699333+dependabot[bot]@users.noreply.github.com>"
    text = "Bump left-pad from 1 to 2\n\nAdd `of_another_repository`"
    shop.run("commit", "--amend", "--author", author, "--message", text)
    assert judge(last_commits(shop)).findings == ()


def test_it_is_on_for_pull_requests_alone_unless_named(shop: GitRepo) -> None:
    shop.write("shop/cart.py", MORE).commit("Add `mean`")
    options = Settings((), {})
    assert description.applies(last_commits(shop), options)
    pull = PullRequest(7, "Add `mean`", "")
    assert description.applies(last_commits(shop, pull_request=pull), options) is None
    opened = Repository(*discover(os.fspath(shop)), os.environ)
    part = judge(change_set.from_local(opened, "worktree"))
    assert part.summary == "nothing describes what is not committed"


def test_hostile_texts_end_in_time_and_show_no_control(shop: GitRepo) -> None:
    body = "\n".join((
        "Add `" + "a_" * 50_000, "`" * 60_000, "Add `bad\x1b[2J_name`", "add " * 20_000,
        "Rename `a_b_c_d` to `" + "x" * 119 + "`", "- " * 30_000, "<!--" * 20_000,
    ))  # fmt: skip
    shop.write("shop/cart.py", MORE).commit("Add `mean`")
    pull = PullRequest(7, "Fix `odd\u202ename_here`", body)
    part = judge(last_commits(shop, pull_request=pull))
    assert "\x1b" not in str([one.message for one in part.findings])
    assert "\u202e" not in str([one.message for one in part.findings])
