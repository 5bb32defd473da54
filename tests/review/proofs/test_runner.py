"""A claim is proven by what runs, and what proves nothing stays argued."""

from __future__ import annotations

import pytest

from rlm_ci.errors import ConfigError
from rlm_ci.review.proofs.reproduction import Reproduction
from rlm_ci.review.proofs.runner import ProofRunner
from rlm_ci.sandbox.none import Unsandboxed
from rlm_ci.system.command_line import Command
from rlm_ci.trials.trees import ProofPlace
from testing.proofs_stage import Facts

PASSWORD = "from shop import password\nfound = password('a:b:c')\nassert found == 'b:c', found\n"


def script(text: str, expects: str = "AssertionError") -> Reproduction:
    return Reproduction("script.py", text, "script", expects)


def case(text: str, expects: str = "AssertionError") -> Reproduction:
    return Reproduction("tests/test_claim.py", text, "test", expects)


@pytest.mark.full
def test_a_fault_of_head_is_proven_and_not_run_again(shop: ProofPlace) -> None:
    facts = Facts()
    one = case(
        "from shop import password, total\n\ndef test_claim(prices):\n"
        "    assert total(prices) == 6\n    assert password('a:b:c') == 'b:c'\n",
        "AssertionError: assert 'c' == 'b:c'",
    )
    told: list[str] = []
    with ProofRunner(shop, facts, tell=told.append) as runner:
        assert not runner.available
        first = runner.check(one)
    assert told == ["running the reproduction tests/test_claim.py"]
    assert first.level == "proven", first
    assert first.command == "python -m pytest tests/test_claim.py"
    assert "assert 'c' == 'b:c'" in first.head.output
    assert first.base is not None
    assert first.base.status == "passed"
    assert str(shop.repository.root) not in repr(first)
    made = facts.made
    assert made == 6  # whether anything can be run, twice on each side, and what it does there
    with ProofRunner(shop, facts, tell=told.append) as again:
        assert again.check(one) == first
    assert (facts.made, len(told)) == (made, 1)


@pytest.mark.full
def test_scripts(runner: ProofRunner) -> None:
    """What differs is proven, and all else is argued."""
    proven = runner.check(script(PASSWORD, "AssertionError: c"))
    assert proven.level == "proven", proven
    cases = (
        ("from shop import total\nassert total([1]) == 1\n", "AssertionError", "passes at head"),
        ("assert False\n", "AssertionError", "at the base, too, alike"),
        ("from shop import never\n", "ImportError", "at the base, too, alike"),
        (PASSWORD, "ValueError", "not what is claimed"),
        ("from shop import password\nassert password('a:[redacted]')\n", "Error", "like a secret"),
    )
    for text, expects, reason in cases:
        found = runner.check(script(text, expects))
        assert found.level == "argued", (text, found)
        assert reason in found.reason, (text, found)
        assert (found.head.status == "passed") == (reason == "passes at head")


IMPORTS = "import pytest, sys\nfrom shop import password\n\n"
#: A test, and the statement in which it fails.
STATEMENTS = {
    "def test_it():\n    assert (\n        password('a:b:c')\n        == 'b:c'\n    )\n": (
        "assert ( password('a:b:c') == 'b:c' )"
    ),
    "def test_it():\n    with pytest.raises(ZeroDivisionError):\n"
    "        1 / (password('a:b:c') == 'c')\n": (
        "with pytest.raises(ZeroDivisionError): 1 / (password('a:b:c') == 'c')"
    ),
    "def fits(text):\n    assert text == 'b:c'\n\ndef test_it():\n    sys.tracebacklimit = 0\n"
    "    fits(password('a:b:c'))\n": "assert text == 'b:c'",
    "def test_it():\n    for _ in range(password('a:b:c') != 'c', 0, password('a:b:c') != 'c'):\n"
    "        pass\n": "for _ in range(password('a:b:c') != 'c', 0, password('a:b:c') != 'c'):",
}  # fmt: skip


@pytest.mark.full
def test_the_statement_that_fails_is_told(runner: ProofRunner) -> None:
    for text, line in STATEMENTS.items():
        expects = "ValueError" if "range" in text else "AssertionError"
        found = runner.check(case(f"{IMPORTS}{text}", expects))
        assert found.line == (line if found.level == "proven" else ""), (text, found)


@pytest.mark.full
def test_new_code_is_reproduced_if_its_own_code_decides(runner: ProofRunner) -> None:
    new = "from shop import double\nassert double(3) == 6, double(3)\n"
    found = runner.check(script(new))
    assert found.level == "reproduced", found
    assert found.base is not None
    assert found.base.status == "not_applicable"
    for text in (
        "from shop import double\ndouble(3)\nassert False\n",
        "import shop.never\n",
        "from shop import double\nassert False, double\n",
        "from shop import double\nraise AssertionError(double(3))\n",
    ):
        assert runner.check(script(text)).level == "argued", text


@pytest.mark.parametrize("variables", [{}, {"PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": "error"}])
def test_both_sides_are_printed_for_a_comparison(
    shop: ProofPlace, variables: dict[str, str]
) -> None:
    """They are the same whatever the caller's own Python is told."""
    named = {name: value for name, value in shop.environ.items() if not name.startswith("PYTHON")}
    with ProofRunner(shop.replace(environ={**named, **variables}), Facts()) as runner:
        text = "import shop\nprint(object(), shop.password('a:b:c'))\nshop.double\n"
        head, base = runner.compare(text)
    assert head == "<object object at …> c"  # an address is no difference
    assert base.startswith("<object object at …> b:c\n")
    assert base.endswith("AttributeError: module 'shop' has no attribute 'double']")


@pytest.mark.full
def test_a_setup_makes_the_environment_of_both_trees(shop: ProofPlace) -> None:
    """Both see what it adds, wherever that lies, and neither what it changes."""
    make = (
        "mkdir -p tools src/shop/data && echo 7 >tools/number && echo 8 >src/shop/data/more && "
        "echo 9 >src/shop/new.txt && ln -s number tools/link && ln -s ../tools src/tools && "
        "echo 'LIMIT = 4' >src/shop/__init__.py"
    )
    text = (
        "import shop\nplaces = ('tools/number', 'tools/link', 'src/tools/number', "
        "'src/shop/data/more', 'src/shop/new.txt')\n"
        "print(shop.LIMIT, *(open(one).read().strip() for one in places))\n"
        "open('tools/number', 'w')\n"
    )
    with ProofRunner(shop.replace(setup=Command.parse(make)), Facts()) as runner:
        assert not runner.available
        for told in runner.compare(text):
            assert told.startswith("3 7 7 7 8 9\n"), told
            assert told.endswith("[it tries to change files of the project]")
    broken = shop.replace(setup=Command.parse("echo no such package; exit 3"))
    with ProofRunner(broken, Facts()) as runner:
        assert runner.available == "the setup failed: exit code 3: no such package"
        assert runner.check(script(PASSWORD)).head.output == "no such package"


def test_without_a_sandbox_nothing_is_run(shop: ProofPlace) -> None:
    def broken() -> Unsandboxed:
        raise ConfigError("bubblewrap does not work here")

    for sandbox, why in ((Unsandboxed, "a real one"), (broken, "bubblewrap does not work")):
        with ProofRunner(shop.replace(sandbox=sandbox), Facts()) as runner:
            assert why in runner.available
            found = runner.check(script(PASSWORD))
            assert (found.level, found.head.status) == ("argued", "not_run")
            assert runner.compare("print(1)") == (f"not run: {runner.available}",) * 2
