"""What is of the program, what of its tests, and what stands beside both."""

from __future__ import annotations

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
