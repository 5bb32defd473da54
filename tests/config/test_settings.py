"""The table of settings: kinds, order of sources, and what a bad value is told."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rlm_ci import checks
from rlm_ci.config.core_options import COMMON, CORE
from rlm_ci.config.options import PROGRAM
from rlm_ci.config.settings import Setting, Settings, convert, nearest, parse_config
from rlm_ci.errors import ConfigError
from rlm_ci.values import Value

ROWS = (
    Setting("plain", "a text"),
    Setting("count", "a number", 7, "integer", minimum=0, flag="--count", env=("LEGACY_COUNT",)),
    Setting("ratio", "a ratio", 0.5, "number", minimum=0),
    Setting("on", "a switch", default=False, kind="boolean"),
    Setting("level", "a choice", "low", "choice", choices=("low", "high")),
    Setting("names", "a list", (), "list"),
    Setting("run_only", "not in a file", file=False),
    Setting("token", "a secret", secret=True),
    Setting("deep.max_files", "in a section", 25, "integer", minimum=0),
    Setting("deep.rules", "a table", (), "table", columns=(
        Setting("glob", "which paths", required=True),
        Setting("weight", "how much", 1.0, "number", minimum=0),
    )),
)  # fmt: skip


def effective(
    flags: dict[str, Any] | None = None,
    environ: dict[str, str] | None = None,
    file: dict[str, Any] | None = None,
) -> Settings:
    settings = Settings(ROWS, flags, environ or {})
    settings.apply(file or {}, "rlm-ci.toml", ROWS)
    return settings


# -- order --------------------------------------------------------------------------------------


def test_the_strongest_source_wins_and_is_remembered() -> None:
    flags = {"count": "1"}
    environ = {"RLM_CI_COUNT": "2", "LEGACY_COUNT": "3"}
    file = {"count": 4}
    steps = [
        (effective(flags, environ, file), 1, "--count"),
        (effective(None, environ, file), 2, "RLM_CI_COUNT"),
        (effective(None, {"LEGACY_COUNT": "3"}, file), 3, "LEGACY_COUNT"),
        (effective(None, {"LEGACY_COUNT": "  ", "RLM_CI_COUNT": ""}, file), 4, "rlm-ci.toml"),
        (effective(), 7, "default"),
    ]
    for settings, value, source in steps:
        assert (settings.count, settings.sources["count"]) == (value, source)


def test_a_section_is_read_as_attributes() -> None:
    settings = effective(None, {"RLM_CI_DEEP_MAX_FILES": "3"}, {"deep": {"rules": [{"glob": "*"}]}})
    assert settings.deep.max_files == 3
    assert settings.deep.rules == ({"glob": "*", "weight": 1.0},)
    for absent in ("nothing", "deep.nothing"):
        with pytest.raises(AttributeError, match="nothing"):
            _ = settings.nothing if absent == "nothing" else settings.deep.nothing


def test_a_secret_is_never_shown_nor_read_from_a_file() -> None:
    settings = effective(None, {"RLM_CI_TOKEN": "s3cret"})
    assert settings.token == "s3cret"
    assert "s3cret" not in repr([(value, source) for _, value, source in settings.items()])
    with pytest.raises(ConfigError, match=r"unknown setting 'token' \(rlm-ci.toml\)"):
        effective(file={"token": "s3cret"})


@pytest.mark.parametrize(
    ("key", "names"),
    [
        ("models.api_key", "OPENAI_API_KEY"),
        ("openai.api_key", "OPENAI_API_KEY"),
        ("github.token", "GITHUB_TOKEN"),
        ("anthropic_api_key", "OPENAI_API_KEY"),
        ("review.password", "OPENAI_API_KEY"),
    ],
)
def test_who_writes_a_secret_into_a_file_is_told_where_it_belongs(key: str, names: str) -> None:
    section, _, last = key.rpartition(".")
    entry = {last: "x"}
    with pytest.raises(ConfigError, match=f"unknown setting '{key}'") as caught:
        Settings(PROGRAM, {}, {}).apply({section: entry} if section else entry, "c.toml", PROGRAM)
    assert "a secret comes from the environment alone" in caught.value.hint
    assert names in caught.value.hint


@pytest.mark.parametrize(("raw", "word"), [(True, "on"), (False, "off")])
def test_a_mode_is_no_boolean(*, raw: bool, word: str) -> None:
    row = next(row for row in PROGRAM if row.key == "review.enabled")
    with pytest.raises(ConfigError, match="must be one of auto, on, off") as caught:
        convert(row, raw, "rlm-ci.toml")
    assert caught.value.hint == f'write "{word}", with quotes'


def test_a_file_of_another_encoding_is_named_as_such() -> None:
    for encoding in ("utf-16", "latin-1"):
        with pytest.raises(ConfigError, match=r"it is not UTF-8 .* save it as UTF-8"):
            parse_config('a = "é"'.encode(encoding), "rlm-ci.toml", None)


# -- kinds --------------------------------------------------------------------------------------

_GOOD: list[tuple[str, Any, Any]] = [
    ("plain", "a b", "a b"),
    ("count", "0", 0),
    ("count", 12, 12),
    ("ratio", "2.5", 2.5),
    ("ratio", 3, 3.0),
    ("on", "YES", True),
    ("on", "off", False),
    ("on", True, True),
    ("level", "high", "high"),
    ("names", "a, b,,c ", ("a", "b", "c")),
    ("names", "a, b\nc", ("a, b", "c")),
    ("names", ["x", "y"], ("x", "y")),
    ("deep.rules", [{"glob": "a"}], ({"glob": "a", "weight": 1.0},)),
]
_BAD: list[tuple[str, Any, str]] = [
    ("plain", 3, "a text, not '3'"),
    ("plain", "a\0b", r"a text, not 'a\\x00b'"),
    ("count", "-1", "a whole number of at least 0, not '-1'"),
    ("count", "1.5", "a whole number"),
    ("count", 1.0, "a whole number"),
    ("count", True, "a whole number"),
    ("count", "1_000", "a whole number"),
    ("count", "٣", "a whole number"),
    ("count", "9" * 5000, "a whole number"),
    ("count", 10**20, "a whole number"),
    ("count", "--5", "a whole number"),
    ("count", "", "a whole number"),
    ("count", [1], "a whole number"),
    ("ratio", "nan", "a number of at least 0, not 'nan'"),
    ("ratio", float("nan"), "a number"),
    ("ratio", float("inf"), "a number"),
    ("ratio", "1e-9", "a number of at least 0, in plain digits, not '1e-9'"),
    ("ratio", "1e18", "a number of at least 0, in plain digits, not '1e18'"),
    ("ratio", "1_5", "a number of at least 0, in plain digits"),
    ("ratio", "1.2.3", "a number"),
    ("on", "maybe", "true or false, not 'maybe'"),
    ("on", 1, "true or false"),
    ("level", "middle", "one of low, high, not 'middle'"),
    ("level", ["low"], "one of low, high, not"),
    ("level", True, "one of low, high, not 'True'"),
    ("names", 3, "a list of texts"),
    ("names", ["a", 3], "a list of texts"),
    ("names", {"a": 1}, "a list of texts"),
    ("deep.rules", {"glob": "a"}, r"a list of tables: \[\[deep.rules\]\]"),
    ("deep.rules", ["a"], "a list of tables"),
]


@pytest.mark.parametrize(("key", "raw", "value"), _GOOD)
def test_a_good_value_is_converted(key: str, raw: Any, value: Any) -> None:
    row = next(row for row in ROWS if row.key == key)
    converted = convert(row, raw, "here")
    assert converted == value
    assert type(converted) is type(value)


@pytest.mark.parametrize(("key", "raw", "wanted"), _BAD)
def test_a_bad_value_names_setting_value_and_source(key: str, raw: Any, wanted: str) -> None:
    row = next(row for row in ROWS if row.key == key)
    with pytest.raises(ConfigError, match=rf"{key} must be {wanted}.*\(the source\)") as caught:
        convert(row, raw, "the source")
    assert caught.value.code == 5
    assert len(str(caught.value)) < 300
    assert row.help in caught.value.hint


def test_another_programs_word_for_yes_is_a_yes() -> None:
    for word, value in (("true", True), ("woodpecker", True), ("1", True), ("False", False)):
        assert Settings(CORE, {}, {"CI": word}).ci is value
    with pytest.raises(ConfigError, match="RLM_CI_QUIET"):
        Settings(CORE, {}, {"RLM_CI_QUIET": "woodpecker"})


def test_a_day_of_toml_is_a_text() -> None:
    entry = parse_config(
        b'[[suppressions]]\nrule = "a"\nreason = "b"\nuntil = 2027-01-31\n', "", None
    )
    settings = Settings(CORE, {}, {})
    settings.apply(entry, "rlm-ci.toml", CORE)
    assert settings.suppressions[0]["until"] == "2027-01-31"


# -- the file -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "said", "hint"),
    [
        ({"cuont": 3}, "unknown setting 'cuont'", "did you mean count?"),
        ({"deep": {"max_file": 3}}, "unknown setting 'deep.max_file'", "deep.max_files"),
        (
            {"depe": {"max_files": 3}},
            "unknown setting 'depe.max_files'",
            "did you mean deep.max_files?",
        ),
        ({"general": {"count": 3}}, "unknown setting 'general.count'", "did you mean count?"),
        ({"deep": {}, "dep": {}}, "unknown setting 'dep'", ""),
        ({"nonsense": {}}, "unknown setting 'nonsense'", "known are: "),
        (
            {"publish": {"max_comments": 7}},
            "unknown setting 'publish.max_comments'",
            "remove it: it is always 50 now",
        ),
        ({"run_only": "x"}, "unknown setting 'run_only'", ""),
        ({"deep": 3}, "unknown setting 'deep'", ""),
        ({"count": {"x": 1}}, "count must be a whole number", ""),
        ({"a\nb\x1b": 1}, r"unknown setting 'a\\nb\\x1b'", ""),
        ({"deep": {"rules": [{"glob": "a"}, {"weight": 1}]}}, "glob is missing", "which paths"),
        ({"deep": {"rules": [{"glob": " "}]}}, "glob is missing", ""),
        ({"deep": {"rules": [{"glob": "a", "wieght": 2}]}}, "unknown key 'wieght'", "weight"),
    ],
)
def test_the_file_is_refused_with_its_name(record: dict[str, Any], said: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=rf"{said}.*\(rlm-ci.toml") as caught:
        effective(file=record)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("record", "hint"),
    [
        ({"checks": {"ai-policy": {"preset": "linux"}}}, "write it as [ai_policy]"),
        ({"checks": {"test_guard": {}}}, "write it as [test_guard]"),
        ({"fail_level": {"scope": []}}, "write it as [[scope]]"),
    ],
)
def test_a_table_in_the_wrong_place_is_shown_its_own(record: dict[str, Any], hint: str) -> None:
    rows = (*CORE, *checks.rows(checks.names()))
    with pytest.raises(ConfigError, match=" has no table '") as caught:
        Settings(rows, {}, {}).apply(record, "rlm-ci.toml", rows)
    assert caught.value.hint.startswith(hint)


def test_an_entry_of_a_table_is_named_by_its_number() -> None:
    entries = [{"glob": "a"}, {"glob": "b", "weight": -1}]
    with pytest.raises(ConfigError, match=r"rlm-ci.toml, \[\[deep.rules\]\] number 2"):
        effective(file={"deep": {"rules": entries}})


def test_the_file_is_checked_even_where_something_stronger_wins() -> None:
    with pytest.raises(ConfigError, match="count must be"):
        effective({"count": "1"}, None, {"count": "many"})


@pytest.mark.parametrize(
    "data",
    [
        b"= 3",
        b"a = 'x",
        b"\xff\xfe",
        b"a = " + b"[" * 100_000,
        b"a = " + b"9" * 5000,
        b"a = 1\na = 2",
        b"a = 2026-02-31",
    ],
    ids=["no key", "open quote", "no UTF-8", "deep", "huge number", "twice", "no day"],
)
def test_what_is_no_toml_is_told_in_one_line(data: bytes) -> None:
    with pytest.raises(ConfigError, match=r"not valid TOML: .*\(rlm-ci.toml\)") as caught:
        parse_config(data, "rlm-ci.toml", None)
    assert str(caught.value).isprintable()


def test_pyproject_is_asked_for_our_table_only() -> None:
    assert parse_config(b'[tool.rlm-ci]\nfail_level = "low"', "p", "rlm-ci") == {
        "fail_level": "low"
    }
    marked = '\ufefffail_level = "low"'.encode()  # as Notepad saves it
    assert parse_config(marked, "rlm-ci.toml", None) == {"fail_level": "low"}
    assert parse_config(b"[tool.ruff]\nx = 1\n# rlm-ci", "p", "rlm-ci") == {}
    assert parse_config(b"this is no TOML", "p", "rlm-ci") == {}
    assert parse_config(b"tool = 3 # rlm-ci", "p", "rlm-ci") == {}
    with pytest.raises(ConfigError, match=r"\[tool.rlm-ci\] must be a table \(p\)"):
        parse_config(b"[tool]\nrlm-ci = 3", "p", "rlm-ci")


def test_the_nearest_name_or_all_names() -> None:
    assert nearest("bse", ["base", "head"]) == "did you mean base?"
    assert nearest("zzz", ["b", "a"]) == "known are: a, b"


def test_a_name_in_several_sections_and_the_names_of_a_section() -> None:
    known = ["loop.auto.files", "budget.files", "budget.lines", "count"]
    assert nearest("files", known) == "did you mean budget.files or loop.auto.files?"
    assert nearest("budget.q", known) == "known are: budget.files, budget.lines"
    assert nearest("zzz", known) == "known are: budget, count, loop"


def test_a_misspelt_choice_names_the_nearest() -> None:
    row = Setting("level", "a choice", "low", "choice", choices=("low", "high"))
    for given, hint in {"hgh": "did you mean high?", "zzz": "level: a choice"}.items():
        with pytest.raises(ConfigError) as caught:
            convert(row, given, "--level")
        assert caught.value.hint == hint


# -- the table itself ---------------------------------------------------------------------------


def test_every_row_can_be_told_apart_and_read() -> None:
    rows = (*CORE, *checks.rows(checks.names()))
    keys = [row.key for row in rows]
    assert len(keys) == len(set(keys))
    variables = [name for row in rows for name in row.variables]
    # RLM_CI_DIFF_BUDGET_BASE and the like: no variable may mean two settings.
    assert len(variables) == len(set(variables))
    for group in (COMMON, rows):
        options = [name for row in group for name in (row.flag, row.short) if name]
        assert len(options) == len(set(options))
    for row in rows:
        assert re.fullmatch(r"[a-z_]+(\.[a-z_]+)?", row.key), row.key
        assert row.help, row.key
        # No value of a variable would be taken for a list of tables.
        assert not (row.columns and row.variables), row.key
        assert (row.kind == "choice") == bool(row.choices), row.key
        if row.default is not None and row.kind not in ("table", "list"):
            assert convert(row, row.default, "default") == row.default, row.key
    assert Settings(rows, {}, {}).fail_level == "high"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("part", ["a", '"a"', "'a'", '"\\""', '"."', " a "])
@pytest.mark.parametrize("form", ["{} = 1", "[{}]", "[[{}]]", "x = {{ {} = 1 }}"])
def test_a_key_of_many_parts_is_refused_at_once(part: str, form: str) -> None:
    text = form.format(".".join([part] * 60_000))
    with pytest.raises(ConfigError, match=r"not valid TOML: a key has more than 64 parts \(it\)"):
        parse_config(text.encode(), "it", None)


@pytest.mark.timeout(20)
def test_texts_with_many_dots_are_read() -> None:
    words = "Some words. More words. " * 5000
    text = f'[a.b."c.d"]\ne = "{words}"\nf = "{"." * 5000}"\ng = """\n{words}"""\n'
    found = parse_config(text.encode(), "it", None)
    assert found["a"]["b"]["c.d"]["e"] == words


def test_a_record_takes_what_it_lacks_from_the_settings_of_its_names() -> None:
    class Limits(Value):
        max_iterations: int
        max_calls: int
        goal: str
        max_minutes: int = 5

    settings = Settings(PROGRAM, {"loop.max_iterations": "3"}, {})
    made = settings.filled(Limits, "loop", goal="go", max_calls=7)
    assert made == Limits(3, 7, "go", 5), "what has a default is no setting's"
