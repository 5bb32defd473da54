"""Signs that a lost test or claim went with its subject, or is there in other words."""

from __future__ import annotations

import pytest

from rlm_ci.guard import weaker
from rlm_ci.guard.weakened_tests.subjects import OBSOLETE, REWRITTEN
from rlm_ci.guard.weakening import TextChange, Weakening

PATH = "tests/test_till.py"
TILL = """\
def due(prices, discount):
    price = discount.apply(prices)
    if discount.rounded:
        discount.round(price, 19)
    return price
"""
ROUNDS = "    if discount.rounded:\n        discount.round(price, 19)\n"
LESS = "def due(prices, discount):\n    price = sum(prices)\n    return price\n"
MORE = f"{TILL}\n\ndef paid(prices):\n    return bool(prices)\n"
KEPT = "def test_paid():\n    assert paid([20])\n"
LOST = """\
def test_discount_is_rounded():
    discount = Coupon(percent=7)
    discount.rounded = True
    assert due([20], discount) == 19
"""
ANEW = """\
def test_half_price(till, clerk):
    coupon = Coupon(percent=50, shop=till.shop, until=clerk.tomorrow)
    till.sell(coupon, clerk, apples=3, pears=4)


def test_by_hand(till, clerk):
    till.open(clerk)
    discount = clerk.discount_for(till, plums=5)
    till.sell(discount.rounded, clerk, plums=5, paid=due)
"""
OTHER = "def test_change():\n    assert change(50, 20) == 30\n    assert change(20, 20) == 0\n"
HELPER = ANEW.replace("test_", "sold_")
CALLS = (
    "def test_all(till, clerk):\n    sold_half_price(till, clerk)\n    sold_by_hand(till, clerk)\n"
)
CLAIMS = """\
def test_sums():
    assert due([1, 2], None) == 3
    assert due([4, 5], None) == 9
    assert due([6], None) == 6
"""
#: The product's new text, or None if it did not change; the file of tests after; the sign.
GONE: dict[str, tuple[str | None, str, str]] = {
    "only removed": (None, KEPT, ""),
    "the product says its names less often": (LESS, KEPT, OBSOLETE),
    "the product says more": (MORE, KEPT, ""),
    "new text of the tests says its names": (MORE, KEPT + ANEW, REWRITTEN),
    "without the product, too": (None, KEPT + ANEW, REWRITTEN),
    "in a function that a test calls": (MORE, KEPT + HELPER + CALLS, REWRITTEN),
    "in a function that nobody calls": (MORE, KEPT + HELPER, ""),
    "it is no test any more": (MORE, KEPT + LOST.replace("test_", ""), ""),
    "the file has more tests and claims": (MORE, f"{KEPT}{OTHER}{CALLS}", REWRITTEN),
    "the file has more tests, and no code changed": (None, f"{KEPT}{OTHER}{CALLS}", ""),
    "the code only lost lines with a value of the test": (TILL.replace(ROUNDS, ""), KEPT, OBSOLETE),
    "the code only lost other lines": (TILL.replace("    return price\n", ""), KEPT, ""),
    "one for one, as strong": (MORE, KEPT + OTHER.partition("    assert change(20")[0], REWRITTEN),
    "one for one, that asks for less": (MORE, f"{KEPT}def test_a():\n    assert change(50)\n", ""),
}  # fmt: skip
ANOTHER = "def test_{0}():\n    assert change({1}) == {1}\n"
#: The file before and after where no code changed; the sign.
OVERHAULED = {
    "most tests are others": (
        KEPT + LOST + ANOTHER.format("a", 2),
        ANOTHER.format("x", 30) + ANOTHER.format("y", 41) + ANOTHER.format("z", 52), REWRITTEN,
    ),
    "most stay": (KEPT + LOST + ANOTHER.format("a", 2), KEPT + ANOTHER.format("a", 2) + OTHER, ""),
}  # fmt: skip


def changed(code: str | None, before: str, after: str, path: str = PATH) -> tuple[Weakening, ...]:
    product = [] if code is None else [TextChange("till.py", TILL, code)]
    changes = [*product, TextChange(path, before, after)]
    return weaker.compared(changes, code_changed=code is not None).weakenings


@pytest.mark.parametrize("case", GONE)
def test_a_sign_speaks_for_a_test_that_is_gone(case: str) -> None:
    code, after, sign = GONE[case]
    found = changed(code, KEPT + LOST, after)
    assert [(one.rule, one.doubt) for one in found] == [("test-removed", sign)]


@pytest.mark.parametrize("case", OVERHAULED)
def test_where_no_code_changed_most_tests_of_the_file_are_others(case: str) -> None:
    before, after, sign = OVERHAULED[case]
    found = changed(None, before, after)
    assert {one.doubt for one in found if one.rule == "test-removed"} == {sign}


def test_most_of_a_file_speak_for_the_rest() -> None:
    """Where two of three have the sign, the third has it; where one of two, the other has none."""
    name = "def test_{}(discount):\n    assert discount.{}\n"
    first, second = name.format("a", "rounded"), name.format("b", "round")
    third = "def test_c():\n    assert tall(4)\n"
    signs = [one.doubt for one in changed(LESS, KEPT + first + second + third, KEPT)]
    assert signs == [OBSOLETE] * 3
    signs = [one.doubt for one in changed(LESS, KEPT + first + third, KEPT)]
    assert signs == [OBSOLETE, ""]


def test_claims_that_other_tests_have_word_by_word() -> None:
    also = CLAIMS.replace("test_sums", "test_every_amount")
    twice = also + CLAIMS.replace("test_sums", "test_twice")
    one_less = also.replace("    assert due([6], None) == 6\n", "    assert due([7], None) == 7\n")
    assert [one.doubt for one in changed(None, twice, also)] == [REWRITTEN]
    assert [one.doubt for one in changed(None, CLAIMS + one_less, one_less)] == [REWRITTEN]
    assert [one.doubt for one in changed(None, CLAIMS + KEPT, KEPT)] == [""]


ASKS = """\
def test_due(till):
    till.open()
    receipt = till.receipt
    assert receipt.total == 55
    assert receipt.discount.rounded
"""
SOLD = """\
def test_due(shop):
    with shop.opened(at=now) as clerk, clerk.greeting(name):
        receipt = clerk.sell(apples, pears).printed(paper)
    assert receipt.total == 55
"""
#: The product's new text, the test after, and the sign.
CLAIM: dict[str, tuple[str | None, str, str]] = {
    "only removed": (None, ASKS.replace("    assert receipt.discount.rounded\n", ""), ""),
    "with another change of the product": (
        MORE, ASKS.replace("    assert receipt.discount.rounded\n", ""), "",
    ),
    "the product says its names less often": (
        LESS, ASKS.replace("    assert receipt.discount.rounded\n", ""), OBSOLETE,
    ),
    "a weaker one in its place": (
        MORE, ASKS.replace("assert receipt.total == 55", "assert receipt.total"), "",
    ),
    "what the test does is something else": (None, SOLD, REWRITTEN),
}  # fmt: skip


@pytest.mark.parametrize("case", CLAIM)
def test_a_sign_speaks_for_a_claim_that_is_gone(case: str) -> None:
    code, after, sign = CLAIM[case]
    found = changed(code, ASKS, after)
    assert [one.doubt for one in found] == [sign]


GO_CALLS = """\
package till

func TestDue(t *testing.T) {
	b, err := format(entry)
	if err != nil {
		t.Fatal(err)
	}
	assert.Equal(t, "55", string(b))
}
"""


@pytest.mark.parametrize(
    ("after", "sign"),
    [
        ('\tb := formatted(entry)\n\tassert.Equal(t, "55", string(b))\n', [REWRITTEN]),
        ('\tb, err := format(entry)\n\t_ = err\n\tassert.Equal(t, "55", string(b))\n', [""]),
    ],
)
def test_a_guard_of_go_goes_with_its_call(after: str, sign: list[str]) -> None:
    head = "package till\n\nfunc TestDue(t *testing.T) {\n"
    found = changed(MORE, GO_CALLS, f"{head}{after}}}\n", "till_test.go")
    assert [one.doubt for one in found] == sign


TABLE = """\
@pytest.mark.parametrize(("name", "price"), [{}])
def test_price(name, price):
    assert price_of(name) == price
"""
ROWS = ["('apples', 20)", "('pears', 35)", "('plums', 17)", "('grapes', 41)"]
STONES = """\
def test_stone():
    assert kernel_of('plums') > 17


def test_seeds():
    assert seeds_of('grapes') < 41
"""


def test_cases_that_new_text_has() -> None:
    before, after = TABLE.format(", ".join(ROWS)), TABLE.format(", ".join(ROWS[:2]))
    assert [one.doubt for one in changed(MORE, before, after)] == [""]
    assert [one.doubt for one in changed(MORE, before, after + STONES)] == [REWRITTEN]
    assert [one.doubt for one in changed(None, before, after + STONES)] == [""]


@pytest.mark.parametrize(
    ("after", "signs"),
    [
        ("    assert_eq!(first, (&0, &81));\n", [REWRITTEN]),  # both of them at once
        ("    assert_eq!(first, (&0, &80));\n", [""]),  # without one of the values
        ("    assert_eq!(rows[1], (&0, &81));\n", [""]),  # of something else
    ],
)
def test_an_equality_that_has_the_values_of_those_that_are_gone(
    after: str, signs: list[str]
) -> None:
    head = "#[test]\nfn parts() {\n    let (first, rest) = cut();\n"
    kept = "    assert_eq!(rest.len(), 9);\n}\n"
    both = "    assert_eq!(*first.0, 0);\n    assert_eq!(*first.1, 81);\n"
    found = changed(None, f"{head}{both}{kept}", f"{head}{after}{kept}", "tests/parts.rs")
    assert [one.doubt for one in found] == signs


def test_a_test_that_claims_twice_as_much() -> None:
    """A value that is no longer expected, where no code changed."""
    before = "def test_hour():\n    assert format_of('hour', 0) == 'egy'\n"
    twice = (
        "def test_hour():\n    assert format_of('hour', 2) == 'kettő'\n"
        "    assert format_of('hour', -2) == 'kettővel'\n"
    )
    once = "def test_hour():\n    assert format_of('hour', 0) == 'ein'\n"
    assert [one.doubt for one in changed(None, before, once)] == [""]
    assert [one.doubt for one in changed(None, before, twice)] == [REWRITTEN]
