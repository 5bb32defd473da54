"""What leaves tests out in a conftest.py, a plugin or a module of unittest."""

from __future__ import annotations

import pytest

from rlm_ci.guard.weakened_tests.python_cases import read


def hook(name: str, *lines: str) -> str:
    return "\n    ".join([f"def {name}:", *lines])


ITEMS = "pytest_collection_modifyitems(config, items)"
IGNORE = "pytest_ignore_collect(collection_path)"
LOAD = "load_tests(loader, tests, pattern)"
WEAK = {
    "a file": "collect_ignore = ['test_cart.py']",
    "a folder": "collect_ignore += ['unit']",
    "a glob": "collect_ignore_glob = ['*_cart.py']",
    "one more": "collect_ignore = []\ncollect_ignore.append('test_cart.py')",
    "filtered": hook(ITEMS, "items[:] = [x for x in items if x.name != 'test_total']"),
    "filtered by a call": hook(ITEMS, "items[:] = list(filter(fast, items))"),
    "emptied": hook(ITEMS, "items.clear()"),
    "deleted": hook(ITEMS, "del items[0]"),
    "removed": hook(ITEMS, "for x in list(items):", "    if 'cart' in x.name:",
                    "        items.remove(x)"),
    "deselected": hook(ITEMS, "config.hook.pytest_deselected(items=items[1:])"),
    "unless asked": hook(ITEMS, "if not config.getoption('--all'):", "    items[:] = []"),
    "ignored": hook(IGNORE, "return collection_path.name == 'test_cart.py'"),
    "ignored by a branch": hook(IGNORE, "if 'cart' in str(collection_path):", "    return True"),
    "skipped by a hook": hook("pytest_runtest_setup(item)", "pytest.skip()"),
    "reported as passed": hook("pytest_runtest_makereport(item)", "report.outcome = 'passed'"),
    "ended with 0": hook("pytest_sessionfinish(session)", "session.exitstatus = 0"),
    "by an option": hook("pytest_configure(config)", "config.option.keyword = 'not total'"),
    "not called": hook("pytest_pyfunc_call(pyfuncitem)", "return True"),
    "loads nothing": hook(LOAD, "return unittest.TestSuite()"),
    "loads some": hook(LOAD, "return unittest.TestSuite(x for x in tests if x.fast)"),
    "no loader": "load_tests = None",
    "a name is no reason": "pytest.skip('tests/test_cart.py', allow_module_level=True)",
    "nor is a dotted one": "pytest.skip('tests.test_cart', allow_module_level=True)",
    "nor is a node": "pytest.skip('test_cart.py::test_total', allow_module_level=True)",
}  # fmt: skip
HONEST = {
    "what is no test": "collect_ignore = ['setup.py', 'docs/conf.py']",
    "by version": "if sys.version_info < (3, 12):\n    collect_ignore = ['test_new.py']",
    "in order": hook(ITEMS, "items.sort(key=lambda x: x.name)"),
    "sorted": hook(ITEMS, "items[:] = sorted(items, key=str)"),
    "in two parts": hook(ITEMS, "items[:] = [x for x in items if fast(x)] + slow"),
    "when asked": hook(ITEMS, "if config.getoption('--fast'):", "    items[:] = []"),
    "marked": hook(ITEMS, "for x in items:", "    x.add_marker(pytest.mark.slow)"),
    "never ignored": hook(IGNORE, "return None"),
    "by system": hook(IGNORE, "if sys.platform == 'win32':", "    return True"),
    "loads more": hook(LOAD, "tests.addTests(DocTestSuite(cart))", "return tests"),
    "a runner": hook("pytest_pyfunc_call(pyfuncitem)", "run(pyfuncitem.obj)", "return True"),
    "a child ends": hook("test_two()", "try:", "    two()", "finally:", "    os._exit(0)"),
    "a test class": "class TestA:\n    __test__ = True",
    "a reason": "pytest.skip('tests/test_cart.py needs a bank', allow_module_level=True)",
}  # fmt: skip


@pytest.mark.parametrize("case", [*WEAK, *HONEST])
def test_what_leaves_tests_out_is_known(case: str) -> None:
    skips = [one for one in read((WEAK | HONEST)[case]).skips if not one.has_reason]
    assert len(skips) == (case in WEAK)
    assert all(one.owner == "" for one in skips)
