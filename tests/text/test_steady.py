"""What differs from run to run is cut from what programs print, and nothing that they compute."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from rlm_ci.text.steady import steady

NOW = datetime(2026, 11, 27, 17, 44, 29, tzinfo=UTC)
#: What a program prints, and what is left of it.
PRINTED = {
    "<shop.Cart object at 0x7f3a2c01bd90>": "<shop.Cart object at …>",
    "assert <A at 0x7F3A2C01BD90> == <B at 0x55d0c0>": "assert <A at …> == <B at …>",
    "1 failed, 3 passed in 0.12s": "1 failed, 3 passed in …",
    "Ran 2 tests in 0.001s": "Ran 2 tests in …",
    "/tmp/tmpab_12xyz/a.txt": "/tmp/…/a.txt",
    "2026-11-27 17:44:29,123 INFO shop: paid": "<time> INFO shop: paid",
    "a\n[2026-11-26T23:59:59.5+00:00] GET /": "a\n[<time>] GET /",
    # what may be the fault
    "assert '0xdeadbeef' == '0xdeadbee0'": None,
    "assert '0.12s' == '0.15s'": None,
    "AssertionError: 2026-11-27 17:44:29 != 2026-11-27 18:44:29": None,
    "2019-05-01 10:00:00 is the first day": None,
    "tmp_prices.txt is at 0x1f": None,
}


@pytest.mark.parametrize("printed", PRINTED)
def test_only_what_differs_by_chance_is_cut(printed: str) -> None:
    assert steady(printed, NOW) == (PRINTED[printed] or printed)
