"""What is of the program, what of its tests, and what stands beside both."""

from __future__ import annotations

import pytest

from rlm_ci.source.import_graph import ImportGraph
from rlm_ci.wiki.facts.file_facts import facts_of
from rlm_ci.wiki.pages.layout import laid_out

PROGRAM = {
    "shop/__init__.py": "",
    "shop/till.py": "def count():\n    return 1\n",
    "tests/test_till.py": "import shop.till\nimport testing.fixtures\n",
    "testing/__init__.py": "",
    "testing/fixtures.py": "import shop.till\ndef make():\n    return shop.till.count()\n",
    "testing/resources/tool/setup.py": "setup(name='tool')\n",
    "extras/chart.py": "import shop.till\ndef chart():\n    return 1\n",
    "shop/testutil/server.py": "def serve():\n    return 1\n",
    "shop/templates/main.go": "package main\n\nfunc main() {}\n",
}


def laid(files: dict[str, str]) -> tuple[set[str], set[str], set[str]]:
    """The paths of the program, of tests, and of what is beside."""
    facts = [facts_of(path, text.encode()) for path, text in sorted(files.items())]
    graph = ImportGraph.of([one.outline for one in facts], sorted(files))
    layout = laid_out(facts, graph)
    tests, beside = (
        {one.path for inner in group.values() for one in inner}
        for group in (layout.tests, layout.beside)
    )
    return set(layout.owner), tests, beside


def test_what_only_tests_need_is_no_part_of_the_program() -> None:
    program, tests, beside = laid(PROGRAM)
    assert program == {"shop/__init__.py", "shop/till.py"}
    assert tests == {path for path in PROGRAM if "test" in path}
    assert beside == {"extras/chart.py", "shop/templates/main.go"}


def test_what_the_program_imports_is_a_part_of_it_whatever_it_is_called() -> None:
    files = PROGRAM | {
        "shop/__init__.py": "import testing.fixtures\nfrom shop.testutil import server\n",
        "shop/till.py": "import extras.chart\n",
    }
    program, tests, _ = laid(files)
    assert {"testing/fixtures.py", "extras/chart.py", "shop/testutil/server.py"} <= program
    assert tests == {"tests/test_till.py"}


def test_a_file_of_go_is_of_the_program_where_a_manifest_builds_it() -> None:
    program, _, _ = laid(PROGRAM | {"go.mod": "module x.org/shop\n"})
    assert "shop/templates/main.go" in program
    assert "main.go" in laid({"main.go": "package main\n\nfunc main() {}\n"})[0]


CHECK = "from shop import till\n\n\nclass TillTest:\n    def test_it(self): ...\n"
SPEC = "import { count } from '../lib/till.js'\n\nit('counts', () => {})\n"
SETTINGS = {
    "pytest": ({
        "pyproject.toml": '[tool.pytest.ini_options]\ntestpaths = ["checks", "shop"]\n',
        "shop/__init__.py": "",
        "shop/till.py": "def count():\n    return 1\n",
        "checks/till.py": CHECK,
        "checks/util.py": "def make():\n    return 1\n",
    }, {"checks/till.py", "checks/util.py"}),
    "jest": ({
        "package.json": '{"name": "shop", "jest": {"testMatch": ["<rootDir>/proofs/**/*.js"]}}',
        "lib/till.js": "export const count = () => 1\n",
        "proofs/deep/till.js": SPEC,
    }, {"proofs/deep/till.js"}),
    "vitest": ({
        "package.json": '{"name": "shop"}',
        "vitest.config.ts": "export default defineConfig({ test: { // all\n"
        "  coverage: { include: ['lib/**'] },\n"
        "  projects: [{ test: { include: ['{bin,lib}/**/*.check.js'] } }],\n} })\n",
        "lib/till.js": "export const count = () => 1\n",
        "lib/till.check.js": SPEC,
    }, {"lib/till.check.js"}),
}  # fmt: skip


@pytest.mark.parametrize("runner", SETTINGS)
def test_what_the_settings_of_a_runner_take_for_tests_is_no_part_of_the_program(
    runner: str,
) -> None:
    files, expected = SETTINGS[runner]
    program, tests, _ = laid(files)
    assert tests == expected
    assert not program & expected
    assert any("till" in path for path in program)


def test_what_the_program_imports_is_a_part_of_it_whatever_a_setting_says() -> None:
    files, _ = SETTINGS["pytest"]
    door = {"shop/__init__.py": "from checks import util\n", "checks/__init__.py": ""}
    program, tests, _ = laid(files | door)
    assert tests == set()
    assert "checks/util.py" in program
