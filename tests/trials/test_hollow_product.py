"""Code of the project that does nothing while a touched test calls it, run by this Python."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from rlm_ci.trials.hollow_product import CALLED, SAME, hollow
from rlm_ci.trials.touched_tests import touched

if TYPE_CHECKING:
    from pathlib import Path

SHOP = """\
\"\"\"A shop.\"\"\"
from __future__ import annotations
import contextlib

def doubled(number):
    "Twice."
    return number * 2

LIMIT = doubled(2)

def each(number):
    for one in range(number):
        yield one

async def later(number):
    return number

@contextlib.contextmanager
def opened(name):
    yield name

def remembered(function):
    seen = {}
    def remember(number):
        key = doubled(number)
        if key not in seen:
            seen[key] = function(number)
        return seen[key]
    return remember

def is_twice(number):
    return doubled(number) == doubled(number)

class Cart:
    def __init__(self, size):
        self.size = size

    @property
    def free(self):
        return LIMIT - self.size

    def short(self): return self.size
"""
CASES = {
    "assert shop.doubled(1) == 2": "",
    "assert shop.doubled(1) == shop.doubled(1)": SAME,
    "assert shop.doubled(1) == shop.doubled(2)": "",
    "assert shop.doubled(1).x[0] == shop.doubled(1).x[0]": SAME,
    "assert list(shop.each(2)) == list(shop.each(2))": SAME,
    "assert list(shop.each(2)) == [0, 1]": "",
    "assert shop.Cart(1).size == shop.Cart(1).size": SAME,
    "assert shop.Cart(1).free == shop.Cart(1).free": SAME,
    "assert shop.Cart(1).size == 1": "",
    "assert not shop.doubled(0)": "",
    # The project compares, and no claim: what a wrapper of it does is no value of it.
    "assert [OWN(2), OWN(2), len(CALLS)] == [3, 3, 1]": "passes",
    "assert shop.is_twice(1)": "",
    "assert OWN(2) == OWN(2)": "passes",
    "keys = {shop.doubled(2): 1}\n    assert keys[shop.doubled(2)] == 1": SAME,
    "assert shop.LIMIT == 4": "passes",
    "with shop.opened('x') as name:\n        assert name == 'x'": "",
    "shop.doubled(1)": "passes",
    "import asyncio\n    assert asyncio.run(shop.later(1)) == asyncio.run(shop.later(1))": SAME,
}


@pytest.mark.parametrize(("body", "what"), CASES.items())
def test_a_test_fails_unless_it_looks_at_nothing(body: str, what: str, tmp_path: Path) -> None:
    head = "import shop\nCALLS = []\nOWN = shop.remembered(lambda n: CALLS.append(n) or n + 1)\n"
    test = f"{head}\ndef test_it():\n    {body}\n".encode()
    tests = touched({"test_shop.py": (None, test)}).tests
    product = hollow({"shop.py": SHOP.encode()}, tests, str(tmp_path), "")
    for path, text in {"test_shop.py": test, **product.texts}.items():
        (tmp_path / path).write_bytes(text)
    program = "import test_shop\ntest_shop.test_it()"
    ended = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True,
                           check=False)  # fmt: skip
    events = product.events(str(tmp_path)).get(tests[0].key, set())
    assert (ended.returncode == 0) == bool(what), ended.stderr.decode()
    assert (SAME in events) == (what == SAME)
    assert (CALLED in events) == ("LIMIT ==" not in body)
