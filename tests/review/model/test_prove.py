"""What decides about claims: what a model is shown and may ask, and what an argument counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rlm_ci.git.patches import Hunk, HunkLine
from rlm_ci.recursion.nodes import TracedFinding
from rlm_ci.report.findings import Finding, Location, Severity
from rlm_ci.report.proof import PROVEN, Proof
from rlm_ci.review.model import metered, refute
from rlm_ci.review.model.claim_context import ROOM, Sources
from rlm_ci.review.model.prove import Prover
from rlm_ci.review.results import merge
from testing.review_leaves import Asking, closing, verdict

if TYPE_CHECKING:
    from testing.loopback_model.server import ModelServer

__all__ = ["closing"]

SHOP = b"""from tax import rate


def total(rows):
    result = 0
    for row in rows:
        result += row.price * rate(row)
    return result
"""
TAX = b"def rate(row):\n    return 1 + row.tax\n\n\ndef unrelated():\n    return 0\n"


def claimed(line: int, severity: Severity = Severity.HIGH, source: str = "model:m") -> Finding:
    place = Location("shop.py", line, line, quote="x")
    return Finding(f"review/rule-{line}", severity, f"It is wrong {line}", evidence=(place,),
                   domain="quality", confidence=0.8, source=source)  # fmt: skip


def test_a_claim_is_shown_with_its_definition_what_that_calls_and_what_was_removed() -> None:
    rows = (HunkLine("-", 7, None, "        result += row.price"),
            HunkLine("+", None, 7, "        result += row.price * rate(row)"))  # fmt: skip
    files = {"shop.py": SHOP, "tax.py": TAX}
    sources = Sources(list(files), files.get, lambda: {"shop.py": (Hunk(7, 1, 7, 1, rows),)})
    listing = sources.around(claimed(7)).listing
    for line in ("4|def total(rows):", "8|    return result", "1|def rate(row):"):
        assert line in listing
    assert "\n7-        result += row.price\n7+        result += row.price * rate(row)\n" in listing
    assert sources.around(claimed(5)) == sources.around(claimed(7))  # one prefix for both
    assert "unrelated" not in listing
    long = b"def f():\n" + b"    call(1)\n" * 10_000
    shown = Sources(["shop.py"], {"shop.py": long}.get).around(claimed(5_000)).listing
    assert "\n5000|    call(1)" in shown
    assert len(shown) <= ROOM


CART = b"""class Cart:
    size = 1

    def total(self):
        return 1

    def pay(self):
        return 2


def load_all():
    return 3
"""


def test_a_claim_is_about_definitions_at_its_lines_and_those_of_the_change_that_it_names() -> None:
    rows = (HunkLine("+", None, 8, "        return 2"), HunkLine("+", None, 12, "    return 3"))
    hunks = [Hunk(7, 0, row.new or 0, 1, (row,)) for row in rows]
    sources = Sources(["shop.py"], {"shop.py": CART}.get, lambda: {"shop.py": hunks})
    finding = claimed(5).replace(message="total() forgets what load_all gives, so they pay more")
    assert sources.around(finding).subject == {
        ("shop.py", ""), ("shop.py", "Cart"), ("shop.py", "Cart.total"), ("shop.py", "load_all"),
    }  # fmt: skip


def test_a_review_asks_no_more_than_it_may(llm: ModelServer) -> None:
    """The most severe are looked at; the others are argued, and it is not incomplete."""
    llm.script(lambda _asked: verdict("upheld"))
    asking = Asking(llm)
    found = tuple(TracedFinding(claimed(10 * n), ("leaf",)) for n in range(1, 6))
    merged, proved = Prover().settle(found, asking, (3, 1_000_000), {metered.CALLS: 1})
    assert len(asking.places) == proved.metrics[metered.CALLS] == 2
    assert (proved.metrics[refute.UPHELD], proved.metrics[refute.UNEXAMINED]) == (2, 3)
    assert proved.uncovered == ()
    assert all(one.finding.is_argued for one in merged)
    assert {one.finding.severity for one in merged} == {Severity.MEDIUM}
    tokens = Prover().settle(found, asking, (99, 1), {})[1]
    assert tokens.metrics[metered.CALLS] == 0


def test_the_limit_grows_with_the_change() -> None:
    small, large = ({"a.py": [[1, lines]], "b.py": [[1, 1 << 31]]} for lines in (1, 501))
    assert metered.limit_of({}, {})[0] < 60
    assert metered.limit_of(small, {}) == metered.limit_of(large, {})
    assert metered.limit_of({**large, "c.py": [[1, 400]]}, {})[0] == 3 * metered.limit_of({}, {})[0]


def test_an_argument_makes_what_a_tool_says_no_more_severe_and_a_proof_does() -> None:
    tool = claimed(3, Severity.LOW, "analyzer:ruff").replace(message="It is wrong 3")
    for level, severity in ((PROVEN, Severity.HIGH), ("argued", Severity.LOW)):
        claim = claimed(3).replace(proof=Proof(level, "because"))
        (one,) = merge.merge([TracedFinding(each, ("leaf",)) for each in (tool, claim)])
        assert (one.finding.source, one.finding.severity) == ("analyzer:ruff", severity)
        assert (one.finding.proof is not None) is (level == PROVEN)
        assert one.finding.fails(Severity.HIGH) is (level == PROVEN)
