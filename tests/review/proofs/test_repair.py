"""A patch is tried: it mends the fault and harms nothing, or it is no repair."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

import pytest

from rlm_ci.review.proofs.repair import recounted
from rlm_ci.review.proofs.reproduction import Reproduction
from rlm_ci.review.proofs.runner import ProofRunner
from rlm_ci.system.command_line import Command
from testing.proofs_stage import BASE, HEAD, Facts

if TYPE_CHECKING:
    from rlm_ci.review.proofs.trees import ProofPlace

SHOP = "src/shop/__init__.py"
CLAIM = Reproduction(
    "tests/test_claim.py",
    "from shop import password\n\ndef test_claim():\n    assert password('a:b:c') == 'b:c'\n",
    "test",
    "AssertionError",
)


ENDS = "    return text.rpartition(':')[2]"
MEND = {ENDS: "    return text.partition(':')[2]"}


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
    place = shop.replace(
        validator=Command.of("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider")
    )
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
            assert reason in refused.reason, (patch, refused)
