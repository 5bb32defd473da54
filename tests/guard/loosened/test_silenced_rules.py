"""Rules that a configuration switches off."""

from __future__ import annotations

import pytest

from rlm_ci.guard import weaker
from rlm_ci.guard.loosened.silenced_rules import is_read, not_read, switched_off
from rlm_ci.guard.weakening import TextChange

RUFF = '[tool.ruff.lint]\nselect = ["E", "F"]\nignore = ["E501"]\n'
#: A file, before, after, and how often something is switched off.
CASES: dict[str, tuple[str, str, str, int]] = {
    "a rule": ("pyproject.toml", RUFF, RUFF.replace('"E501"', '"E501", "F401"'), 1),
    "a rule of a new selection": (
        "pyproject.toml", RUFF,
        RUFF.replace('"F"]', '"F", "ANN"]').replace('"E501"', '"E501", "ANN001"'), 0,
    ),
    "a group of which one rule is new": (
        "setup.cfg", "[flake8]\nextend-ignore = E501\n",
        "[flake8]\nextend-ignore = E501,B\nextend-select = B006\n", 0,
    ),
    "a tool that is new": ("pyproject.toml", "[project]\n", RUFF, 0),
    "a rule that was not looked for": (
        "pyproject.toml", RUFF, RUFF.replace('"E501"', '"E501", "ANN"'), 0,
    ),
    "a rule that may be looked for by what is added to": (
        "pyproject.toml", RUFF.replace("select", "extend-select"),
        RUFF.replace("select", "extend-select").replace('"E501"', '"E501", "W291"'), 1,
    ),
    "a section that ruff moved": (
        "pyproject.toml", RUFF.replace(".lint", ""),
        '[tool.ruff.lint]\nextend-select = ["E", "F"]\nextend-ignore = ["E501"]\n', 0,
    ),
    "a selection that has the rule": (
        "pyproject.toml", RUFF, RUFF.replace('"E", "F"', '"ALL"'), 0,
    ),
    "a selection of a part": ("pyproject.toml", RUFF, RUFF.replace('"E", "F"', '"E7", "F"'), 1),
    "a rule less": ("pyproject.toml", RUFF, RUFF.replace('["E501"]', "[]"), 0),
    "a selection less": ("pyproject.toml", RUFF, RUFF.replace('"E", "F"', '"E"'), 1),
    "per file": (
        "ruff.toml", "line-length = 99\n[lint.per-file-ignores]\n",
        'line-length = 99\n[lint.per-file-ignores]\n"a.py" = ["S101"]\nlint.x = 1\n', 1,
    ),
    "strict": ("mypy.ini", "[mypy]\nstrict = true\n", "[mypy]\nwarn_x = 1\n", 1),
    "all for some": (
        "mypy.ini", "[mypy]\nstrict_equality = true\nwarn_unused_ignores = true\n",
        "[mypy]\nstrict = true\n", 0,
    ),
    "all for some, of another section": (
        "mypy.ini", "[mypy]\nx = 1\nstrict_equality = true\n[mypy-a.*]\nx = 1\n",
        "[mypy]\nx = 1\n[mypy-a.*]\nstrict = true\n", 1,
    ),
    "errors": ("mypy.ini", "[mypy]\nx = 1\n", "[mypy]\nx = 1\nignore_errors = True\n", 1),
    "eslint": (".eslintrc.json", '{"rules": {"eqeqeq": "error"}}', '{"rules": {"eqeqeq": "off"}}',
               1),
    "typescript": ("tsconfig.json", '{"strict": true, // x\n}', '{"strict": false}', 1),
    "where coverage finds the same file": (
        "pyproject.toml", '[tool.coverage.paths]\nsource = ["src", "lib"]\n',
        '[tool.coverage.paths]\nsource = ["src", ".tox"]\n', 0,
    ),
    "of no tool": ("pyproject.toml", '[tool.x]\nignore = ["a"]\n', '[tool.x]\nignore = ["a", "b"]',
                   0),
    "broken": ("pyproject.toml", RUFF, "[tool.ruff", 0),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_rule_that_is_switched_off_is_found(case: str) -> None:
    path, before, after, number = CASES[case]
    assert is_read(path)
    assert len(list(switched_off([TextChange(path, before, after)]))) == number


@pytest.mark.parametrize(
    ("path", "after"),
    [("pyproject.toml", "[tool.ruff"), ("mypy.ini", "strict = 1\n"),
     ("ruff.toml", f"{'a.' * 70}b = 1\n")],
)  # fmt: skip
def test_settings_that_cannot_be_read_are_told(path: str, after: str) -> None:
    change = TextChange(path, "", after)
    assert list(not_read([change])) == [(path, "its settings cannot be read")]
    assert weaker.compared([change], code_changed=False).not_read == tuple(not_read([change]))
    assert list(not_read([TextChange(path, None, ""), TextChange("a.toml", "", "[")])) == []


def test_a_rule_with_its_reason_beside_it_is_a_note() -> None:
    for reason, rules in (
        (", # an argument is needed here\n", ["explained"]),
        (",\n", ["check-silenced"]),
        (', "E2", # yes\n', ["check-silenced"]),
    ):
        after = RUFF.replace('["E501"]', f'[\n"E501",\n"F401"{reason}]')
        change = TextChange("pyproject.toml", RUFF, after)
        assert [one.rule for one in switched_off([change])] == rules
    above = RUFF.replace('["E501"]', '[\n"E501",\n# the tests want it so\n"F401",\n]')
    change = TextChange("pyproject.toml", RUFF, above)
    assert [one.rule for one in switched_off([change])] == ["explained"]


@pytest.mark.parametrize(("gone", "number"), [(["examples/types.py"], 0), (["types.py"], 1)])
def test_a_file_that_is_left_out_may_move(gone: list[str], number: int) -> None:
    text = '[tool.mypy]\nexclude = ["{}/types.py"]\n'
    change = TextChange("pyproject.toml", text.format("examples"), text.format("typing"))
    assert len(list(switched_off([change], gone))) == number


@pytest.mark.parametrize(("rule", "number"), [("gofumpt", 0), ("gosec", 1)])
def test_a_linter_of_go_that_is_new_may_be_silenced_by_line(rule: str, number: int) -> None:
    before = "linters:\n  enable:\n    - gosec\n"
    config = TextChange(".golangci.yml", before, f"{before}    - gofumpt\n")
    code = TextChange("a.go", "f()\n", f"f() //nolint:{rule}\n")
    assert len(weaker.compared([config, code], code_changed=True).weakenings) == number


def test_where_ruff_looks_for_all_rules_only_those_it_looked_for_can_be_lost() -> None:
    before = '[lint]\nextend-select = ["B", "I", "PL"]\n'
    for rule, number in (("INP", 0), ("S603", 0), ("I001", 1), ("B", 1), ("PLR0913", 1), ("E", 1)):
        after = f'[lint]\nselect = ["ALL"]\nignore = ["{rule}"]\n'
        config = TextChange("ruff.toml", before, after)
        assert len(list(switched_off([config]))) == number, rule
        plain = TextChange("ruff.toml", before, after.partition("ignore")[0])
        code = TextChange("a.py", "f()\n", f"f()  # noqa: {rule}\n")
        assert len(weaker.compared([plain, code], code_changed=True).weakenings) == number, rule


@pytest.mark.parametrize(
    ("before", "after", "number"),
    [
        ('files = "src"', 'files = ["src", "tests"]\nexclude = ["tests/packages"]', 0),
        ('files = "src"', 'files = ["src"]\nexclude = ["src/packages"]', 1),
        ('files = "src"', 'files = ["src", "tests"]\nexclude = ["src/packages"]', 1),
        ("strict = true", 'strict = true\nfiles = ["src"]\nexclude = ["src/packages"]', 1),
    ],
)
def test_a_part_of_what_a_tool_looks_at_for_the_first_time_may_be_left_out(
    before: str, after: str, number: int
) -> None:
    texts = (f"[tool.mypy]\n{text}\n" for text in (before, after))
    assert len(list(switched_off([TextChange("pyproject.toml", *texts)]))) == number


def test_a_switch_of_typescript_may_move_to_what_it_extends() -> None:
    config = TextChange("tsconfig.json", '{"strict": true}', '{"extends": "./tsconfig-base.json"}')
    base = TextChange("tsconfig-base.json", None, '{"strict": true}')
    assert list(switched_off([config, base])) == []
    assert len(list(switched_off([config]))) == 1


def test_rules_of_a_linter_that_takes_the_place_of_another_are_a_note() -> None:
    old = TextChange("eslint.config.mjs", "rules: { 'no-eval': 'error' }\n", None)
    new = TextChange(".oxlintrc.json", None, '{"rules": {"no-alert": "off"}}')
    assert [one.rule for one in switched_off([old, new])] == ["explained"]
    assert [one.rule for one in switched_off([new])] == ["check-silenced"]


ESLINT = '{"rules": {"no-eval": "off"}}'


@pytest.mark.parametrize(
    ("before", "after", "doubts"),
    [
        # in place of another rule, as when one is renamed
        (RUFF, RUFF.replace("E501", "E741"), ["replaced"]),
        (RUFF, RUFF.replace('"E501"', '"E501", "E741"'), [""]),
        ("[flake8]\nignore = E501\n", "[flake8]\nignore = E501,ANN101,E203\n", ["", "replaced"]),
    ],
)
def test_a_rule_in_place_of_another_or_of_a_new_plugin_is_doubtful(
    before: str, after: str, doubts: list[str]
) -> None:
    path = "setup.cfg" if "flake8" in before else "pyproject.toml"
    hook = "- id: flake8\n  additional_dependencies: [{}]\n"
    run = TextChange(".pre-commit-config.yaml", hook.format(""), hook.format("flake8-annotations"))
    found = list(switched_off([TextChange(path, before, after)], (), [run]))
    assert [one.doubt for one in found] == doubts
    assert {one.doubt for one in switched_off([TextChange(path, before, after)])} <= {*doubts, ""}


def test_rules_of_eslint_may_come_with_their_plugin_and_move_with_their_file() -> None:
    old = TextChange(".eslintrc.json", ESLINT, ESLINT.replace('"no-', '"@vitest/a": "off", "no-'))
    package = '{"devDependencies": {"@vitest/eslint-plugin": "1"}}'
    new = TextChange("package.json", "{}", package)
    assert [one.doubt for one in switched_off([old, new])] == ["replaced"]
    assert [one.doubt for one in switched_off([old])] == [""]
    assert [one.doubt for one in switched_off([old, new.replace(before=package)])] == [""]
    flat = TextChange("eslint.config.js", None, "export default [{rules: {'no-eval': 'off'}}]\n")
    inner = f'{{"scripts": {{}}, "eslintConfig": {ESLINT}}}'
    assert list(switched_off([flat, TextChange("package.json", inner, "{}")])) == []
    assert [one.doubt for one in switched_off([flat])] == ["replaced"]  # a linter that is new


def test_a_tool_that_is_new_may_be_silenced_by_line() -> None:
    code = TextChange("a.py", "a()\n", "a()  # type: ignore\n")
    for before, doubts in (("commands = pytest\n", ["replaced"]), ("commands = mypy\n", [""])):
        run = TextChange("tox.ini", before, "commands = mypy\n")
        found = weaker.compared([run, code], code_changed=True).weakenings
        assert [one.doubt for one in found if one.path == "a.py"] == doubts


def test_a_reason_above_a_list_is_one_of_its_items() -> None:
    before = "[tool.coverage.run]\nbranch = true\n[tool.coverage.report]\nshow = 1\n"
    for line, rule in (("# it only starts the run\n", "explained"), ("", "check-silenced")):
        after = before.replace("branch", f'{line}omit = [\n  "a/*",\n  "b/*",\n]\nbranch')
        found = list(switched_off([TextChange("pyproject.toml", before, after)]))
        assert [one.rule for one in found] == [rule]
