"""What a reproduction does to the code under test besides calling it is seen where it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from rlm_ci.review.proofs.launch import WATCHED
from rlm_ci.review.proofs.reproduction import ProjectUse, Reproduction, shows_nothing
from rlm_ci.review.proofs.runner import ProofRunner
from testing.proofs_stage import Facts, changed

if TYPE_CHECKING:
    from collections.abc import Iterator

PATH = "src/shop/__init__.py"
#: The claim is about it.
SUBJECT = {(PATH, ""), (PATH, "password"), (PATH, "Cart.total")}
HEAD = '''"""A shop."""
import json
import os
import time

LIMIT = 3
HERE = os.path.dirname(__file__)


def total(prices):
    return sum(prices)


def password(text):
    return text.rpartition(":")[2]


def fetch():
    return password("a:" + json.dumps(ask()))


def ask():
    raise OSError("there is no network")


def data():
    with open(os.path.join(HERE, "data.txt")) as file:
        return password(file.read())


def source():
    with open(__file__) as file:
        return password("a:" + file.readline())


class Cart:
    size = 1

    def total(self):
        return password("a:b:c")

    def now(self):
        return password(f"a:{int(time.time())}:c")
'''
DATA = {"src/shop/data.txt": "a:b:c"}
IMPORTS = """import ast, functools, importlib, inspect, os, pathlib, pytest, shutil, subprocess, sys
import time, unittest
from unittest import mock
import shop
from shop import Cart, password

ROOT = os.path.dirname(shop.__file__)

"""
#: Bodies of a test that shows nothing of the claim, and a word of the reason.
REFUSED = {
    "opens": ("text = open(ROOT + '/__init__.py').read()", "looks at"),
    "reads by path": ("text = next(pathlib.Path('.').rglob('__ini*.py')).read_text()", "looks at"),
    "reads by descriptor": (
        "text = os.read(os.open(shop.__file__, os.O_RDONLY), 9999).decode()", "looks at",
    ),
    "copies": (
        ("shutil.copy(shop.__file__, '/tmp/mine.py'); sys.path.insert(0, '/tmp')\n"
        "    import mine; text = str(mine)"), "looks at",
    ),
    "loads": ("text = shop.__loader__.get_source('shop')", "looks at"),
    "gets data": ("text = __import__('pkgutil').get_data('shop', '__init__.py')", "looks at"),
    "has resources": (
        ("from importlib import resources\n"
        "    text = resources.files('shop').joinpath('__init__.py').read_text()"), "looks at",
    ),
    "runs cat": ("text = subprocess.check_output(['cat', shop.__file__])", "looks at"),
    "runs grep": ("text = subprocess.getoutput(f'grep -c r {shop.__file__}')", "looks at"),
    "runs python": (
        "text = subprocess.check_output([sys.executable, '-c', f'open({shop.__file__!r})'])",
        "looks at",
    ),
    "inspects": ("text = getattr(inspect, 'get' + 'source')(password)", "looks at"),
    "signature": ("text = inspect.signature(password)", "looks at"),
    "defaults": ("text = getattr(password, '__de' + 'faults__')", "looks at"),
    "code": ("text = password.__code__.co_names", "looks at"),
    "executes": ("exec('text = open(shop.__file__).read()')", "looks at"),
    "sets": (
        ("before = shop.password\n    shop.password = lambda text: before(text)\n"
        "    try:\n        assert shop.password('a:b:c') == 'b:c'\n"
        "    finally:\n        shop.password = before"), "replaces `password`",
    ),
    "sets in vars": (
        "vars(shop).update(password=lambda text: 1)", "replaces `password`",
    ),
    "patches": (
        "with mock.patch('shop.password', lambda text: text): shop.password('a:b')",
        "replaces `password`",
    ),
    "patches a class": (
        ("with mock.patch.object(Cart, 'total', return_value='c'):\n"
        "        assert Cart().total() == 'b:c'"), "replaces `Cart.total`",
    ),
    "changes code": ("password.__code__ = (lambda text: 'c').__code__", "replaces `password`"),
    "replaces the module": (
        ("with mock.patch.dict(sys.modules, {'shop': mock.Mock()}):\n"
        "        import shop as other; other.total(1)"), "replaces",
    ),
    "stops the watch": ("sys.settrace(None)", "turns off"),
}  # fmt: skip
LAST = "\n    assert password('a:b:c') == 'b:c'\n"
#: What a test may do, and what is seen of it.
FINE = {
    "calls": ("pass", ""),
    "mocks a collaborator": (
        "with mock.patch('shop.ask', return_value=3):\n        shop.fetch()", "ask",
    ),
    "mocks a clock": ("with mock.patch('time.time', return_value=3):\n        Cart().now()", ""),
    "mocks what is imported": (
        ("with mock.patch('shop.time') as clock:\n        clock.time.return_value = 3\n"
        "        Cart().now()"), "",
    ),
    "mocks by specification": ("mock.create_autospec(Cart)().total(); mock.Mock(spec=Cart)", ""),
    "changes a setting": ("with mock.patch.object(shop, 'LIMIT', 1):\n        pass", "LIMIT"),
    "lets code open files": ("assert shop.data() == 'c'; shop.source()", ""),
    "writes its own": ("open('/tmp/x', 'w').write('x'); assert open('/tmp/x').read() == 'x'", ""),
    "loads again": ("importlib.reload(shop)", ""),
    "imports anew": ("del sys.modules['shop']; importlib.import_module('shop')", ""),
    "runs it": ("subprocess.check_output([sys.executable, shop.__file__])", ""),
    "runs it as a module": ("subprocess.check_output([sys.executable, '-m', 'shop'])", ""),
    "shows a traceback": (
        ("try:\n        shop.ask()\n    except OSError:\n"
        "        __import__('traceback').format_exc()"), "",
    ),
    "asks for its kind": ("inspect.iscoroutinefunction(password); callable(password)", ""),
    "wraps it": ("functools.wraps(password)(lambda: 1)", ""),
}  # fmt: skip


TABLES = {"refused": REFUSED, "fine": FINE}
QUICK = ("reads by path", "sets", "mocks a collaborator")


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProofRunner]:
    place = changed(tmp_path_factory.mktemp("uses"), {PATH: HEAD, **DATA})
    with ProofRunner(place, Facts()) as made:
        yield made


@pytest.mark.parametrize(
    ("table", "name"),
    [
        pytest.param(table, name, marks=() if name in QUICK else pytest.mark.full)
        for table, cases in TABLES.items()
        for name in cases
    ],
)
def test_what_a_test_does_to_the_code_of_a_claim_is_seen(
    runner: ProofRunner, table: str, name: str
) -> None:
    body, words = TABLES[table][name]
    text = f"{IMPORTS}def test_it():\n    {body}{LAST}"
    one = Reproduction("tests/test_it.py", text, "test", "AssertionError")
    uses = runner._ran(one, "head", 1, WATCHED).uses
    why = shows_nothing(uses, SUBJECT, "password() is wrong")
    if table == "refused":
        assert words in why
        assert why
    else:
        assert not why
        assert words in "; ".join(map(str, uses))


#: Tests of several functions, and a script.
OTHERS = {
    "a decorator": "@mock.patch('shop.password', lambda text: 'c')\ndef test_it():\n    {}",
    "a fixture": (
        "@pytest.fixture(autouse=True)\ndef other(monkeypatch):\n"
        "    monkeypatch.setattr(shop, 'password', lambda text: 'c')\n\ndef test_it():\n    {}"
    ),
    "a class": (
        "class TestIt(unittest.TestCase):\n    def setUp(self):\n"
        "        shop.password = lambda text: 'c'\n    def test_it(self):\n        {}"
    ),
    "at the top": "shop.password = lambda text: 'c'\n\ndef test_it():\n    {}",
    "script": "shop.password = lambda text: 'c'\n{}",
}


@pytest.mark.full
@pytest.mark.parametrize("name", OTHERS)
def test_it_is_seen_wherever_it_stands(runner: ProofRunner, name: str) -> None:
    text = IMPORTS + OTHERS[name].format("assert shop.password('a:b:c') == 'b:c'\n")
    kind, path = ("script", "it.py") if name == "script" else ("test", "tests/test_it.py")
    uses = runner._ran(Reproduction(path, text, kind, "AssertionError"), "head", 1, WATCHED).uses
    assert "replaces `password`" in shows_nothing(uses, SUBJECT, "password() is wrong")


@pytest.mark.full
def test_a_proof_tells_what_was_seen(runner: ProofRunner) -> None:
    text = f"{IMPORTS}def test_it():\n    {FINE['mocks a collaborator'][0]}{LAST}"
    text = text.replace("'shop.ask'", "'shop.total'").replace("shop.fetch()", "pass")
    text = text.replace("import Cart, password", "import password")
    found = runner.check(Reproduction("tests/test_it.py", text, "test", "AssertionError"))
    assert found.level == "proven", found
    assert [str(one) for one in found.uses] == [f"replaces total of {PATH}"]


@pytest.mark.parametrize(
    ("use", "claim", "is_shown"),
    [
        (("reads", PATH, ""), "password() is wrong", False),
        (("reads", PATH, ""), "The comment of password() is wrong", True),
        (("reads", "src/shop/data.txt", ""), "password() is wrong", True),
        (("reads", "tests/data/code.py", ""), "password() is wrong", True),
        (("inspects", PATH, "total.__defaults__"), "The default of total() is 2", True),
        (("inspects", PATH, "total.__code__"), "The default of total() is 2", False),
        (("inspects", PATH, "total.__code__"), "The signature loses a parameter", True),
        (("replaces", PATH, "password"), "The source of password() is wrong", False),
        (("replaces", PATH, "total"), "password() is wrong", True),
        (("replaces", "src/shop/net.py", ""), "password() is wrong", True),
        (("stops the watch on", "", ""), "password() is wrong", False),
        (("stops the watch on", "", ""), "The profiler is lost", True),
    ],
)
def test_a_claim_may_be_about_how_code_is_written(
    use: tuple[str, str, str], claim: str, is_shown: bool
) -> None:
    assert (not shows_nothing([ProjectUse(*use)], SUBJECT, claim)) is is_shown
