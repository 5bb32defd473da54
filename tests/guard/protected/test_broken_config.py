"""Settings that cannot be parsed, and the fix that mends them."""

from __future__ import annotations

import json

import pytest

from rlm_ci.guard.protected import broken_config, config_sections
from testing.guarded_trees import judged, rules

PACKAGE = '{\n  "name": "x",\n  "scripts": {"test": "node t.js"},\n  "files": ["a", "b"]\n}\n'
PYPROJECT = """\
[project]
name = "x"
dependencies = [
  "y",
]

[tool.ruff]
line-length = 80

[[tool.mypy.overrides]]
module = "a"

[[tool.mypy.overrides]]
module = "b"
"""
CFG = "[metadata]\nname = x\n[flake8]\nmax-line-length = 80\n"


def conflict(text: str, old: str, ours: str, theirs: str) -> str:
    """``text`` with ``old`` as two branches have it, in the form of diff3."""
    assert old in text
    marks = f"<<<<<<< HEAD\n{ours}||||||| 1a2b3c\n{old}=======\n{theirs}>>>>>>> topic\n"
    return text.replace(old, marks)


#: The file, broken and whole: what is mended sets nothing that decides.
MENDED: dict[str, tuple[str, str, str]] = {
    "a comma too many": ("package.json", PACKAGE[:-3] + ",\n}\n", PACKAGE),
    "a comma too many in a list": ("package.json", PACKAGE.replace('"b"]', '"b",]'), PACKAGE),
    "a comma too few": ("package.json", PACKAGE.replace('"x",', '"x"'), PACKAGE),
    "a bracket too few": ("package.json", PACKAGE[:-2], PACKAGE),
    "a remark": ("package.json", PACKAGE.replace('"x",', '"x", // 1, "a"'), PACKAGE),
    "a merge": (
        "package.json", conflict(PACKAGE, '  "name": "x",\n', '  "name": "a",\n', ""), PACKAGE,
    ),
    "a merge of what decides": (
        "package.json",
        conflict(PACKAGE, '  "scripts": {"test": "node t.js"},\n', '  "scripts": {"test": "a"},\n',
                 '  "scripts": {"test": "b"},\n'),
        PACKAGE.replace("node t.js", "b"),
    ),
    "another section": ("pyproject.toml", PYPROJECT.replace('"y",', '"y'), PYPROJECT),
    "a name without a value": ("pyproject.toml", PYPROJECT.replace('"x"', ""), PYPROJECT),
    "a table twice": (
        "pyproject.toml", conflict(PYPROJECT, 'name = "x"\n', 'name = "a"\n', 'name = "b"\n'),
        PYPROJECT,
    ),
    "an INI": ("setup.cfg", CFG.replace("name = x", "name\n  = x\nz"), CFG),
    "words before the first section": ("setup.cfg", f"# a\nx\n{CFG}", CFG),
    "another encoding": ("setup.cfg", CFG.replace("x", "\u00e9", 1), CFG),
}  # fmt: skip
#: As above, where more was changed than what was broken, or where nobody can tell.
BENT: dict[str, tuple[str, str, str, str]] = {
    "the scripts": (
        "package.json", PACKAGE[:-3] + ",\n}\n", PACKAGE.replace("node t.js", "true"),
        "the setting scripts.test",
    ),
    "scripts that were none": (
        "package.json", '{"name": "x",}', '{"name": "x", "jest": {"bail": 1}}',
        "the setting jest.bail",
    ),
    "what neither side had": (
        "pyproject.toml", conflict(PYPROJECT, "line-length = 80\n", "line-length = 90\n", ""),
        PYPROJECT.replace("80", "320"), "the setting tool.ruff.line-length",
    ),
    "the section itself": (
        "pyproject.toml", PYPROJECT.replace("= 80", "= "), PYPROJECT, "could not be read before",
    ),
    "a table that may hold it": (
        "pyproject.toml", "[tool]\nruff = {\n", '[tool]\nruff = {line-length = 80}\n',
        "could not be read before",
    ),
    "one of more": (
        "pyproject.toml", PYPROJECT.replace('"y",', '"y'), PYPROJECT.replace('"b"', '"c"'),
        "the setting tool.mypy.overrides",
    ),
    "a text without an end": (
        "package.json", PACKAGE.replace('"x"', '"x'), PACKAGE, "could not be read before",
    ),
    "a colon too few": (
        "package.json", PACKAGE.replace('"name":', '"name"'), PACKAGE, "could not be read before",
    ),
    "broken as before": (
        "package.json", PACKAGE[:-3] + ",\n}\n", PACKAGE[:-3] + ",,\n}\n", "what cannot be read",
    ),
    "an INI": (
        "setup.cfg", CFG + "x\n", CFG, "could not be read before",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MENDED)
def test_settings_that_were_broken_can_be_mended(case: str) -> None:
    path, old, new = MENDED[case]
    before = old.encode("latin-1") if case == "another encoding" else old
    assert judged({path: before}, {path: new}) == []


@pytest.mark.parametrize("case", BENT)
def test_a_mend_is_no_cover_for_a_setting(case: str) -> None:
    path, old, new, told = BENT[case]
    (finding,) = judged({path: old}, {path: new})
    assert finding.rule == "tamper/config-weakened"
    assert told in finding.message


@pytest.mark.parametrize(
    "text",
    [PACKAGE, "[1, 2, [3], {}]", '{"a": "b, ] } \\" //"}', "{}", '"x"', "1"],
)
def test_what_is_whole_is_read_as_it_is(text: str) -> None:
    assert json.loads(broken_config.json(text)) == json.loads(text)


@pytest.mark.sample(5)
@pytest.mark.parametrize(
    "text", ["}", "[}", '{"a": 1}]', '"', "{'a': 1}x'", "[" * 100_000, "\n" * 20_000 + "[",
             "<<<<<<<\n" * 50_000, "//" * 100_000, '"a" ' * 100_000],
    ids=range(10),
)  # fmt: skip
def test_what_is_broken_beyond_that_is_survived(text: str) -> None:
    for path in ("package.json", "pyproject.toml", "setup.cfg", "Cargo.toml", "go.mod"):
        assert config_sections.changed(path, text.encode(), b"") in ([], [config_sections.UNKNOWN])
    assert rules(judged({"package.json": text}, {"package.json": PACKAGE})) == {"config-weakened"}
