"""Templates and schemas, and what a user's template cannot do."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci import errors
from rlm_ci.resources import loader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def rendered(source: str, **variables: object) -> str:
    template = loader.load_template("mine.j2", overrides={"mine.j2": source})
    return template(variables)


def test_templates_and_schemas_are_found_in_the_checkout() -> None:
    assert "{% block parts %}" in loader.read_template("comment.md.j2")
    assert loader.read_schema("report.schema.json")["title"] == "rlm-ci report"


def test_what_an_installation_packs_wins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    package = tmp_path / "rlm_ci"
    for top in (package / "_data", tmp_path):
        (top / "schemas").mkdir(parents=True)
    (package / "_data" / "schemas" / "a.json").write_text('{"packed": true}')
    (tmp_path / "schemas" / "a.json").write_text("{}")
    (tmp_path / "schemas" / "b.json").write_text('{"checkout": true}')
    monkeypatch.setattr(loader, "__file__", str(package / "resources" / "loader.py"))
    assert loader.read_schema("a.json") == {"packed": True}
    assert loader.read_schema("b.json") == {"checkout": True}


@pytest.mark.parametrize(
    "name", ["", "nope", "../rlm_ci/errors.py", "a/../../x", "/etc/passwd", "a\\b"]
)
def test_nothing_else_is_found(name: str) -> None:
    with pytest.raises(errors.StorageError, match="missing from this installation"):
        loader.read_template(name)


def test_validate_names_the_path_and_what_is_wrong() -> None:
    with pytest.raises(errors.ConfigError) as caught:
        loader.validate({"schema_version": 3}, "report.schema.json", "report.json")
    assert caught.value.where == "report.json"
    assert str(caught.value).startswith("$")
    assert "report.schema.json" in caught.value.hint


def test_validate_prints_no_whole_instance_and_nothing_invisible() -> None:
    with pytest.raises(errors.ConfigError) as caught:
        loader.validate(["\x1b[31m" * 10_000], "report.schema.json", "report.json")
    assert len(str(caught.value)) < 800
    assert "\x1b" not in str(caught.value)


def test_validate_of_something_wrong_all_over_ends_early() -> None:
    """A stranger's report of 5 MiB took minutes when all of its errors were weighed."""

    class Rows(list[int]):
        looked = 0

        def __iter__(self) -> Iterator[int]:
            for index in range(len(self)):
                yield self[index]

        def __getitem__(self, index: Any) -> Any:
            self.looked += 1
            return super().__getitem__(index)

    for name in ("parts", "findings", "documents"):
        rows = Rows([0] * 10_000)
        with pytest.raises(errors.ConfigError):
            loader.validate({name: rows}, "report.schema.json", "report.json")
        assert 0 < rows.looked < 100


def test_validate_survives_depth() -> None:
    deep: object = None
    for _ in range(100_000):
        deep = {"metrics": deep}
    with pytest.raises(errors.ConfigError):
        loader.validate(deep, "report.schema.json", "report.json")
    while isinstance(deep, dict):  # freed step by step: the interpreter recurses otherwise
        deep = deep["metrics"]


def test_a_template_of_the_user_wins_and_can_build_on_ours() -> None:
    assert rendered("Hello {{ name }}", name="you") == "Hello you"
    shipped = loader.load_template("comment.md.j2")
    with pytest.raises(Exception, match="is undefined"):
        shipped({})


def test_autoescape_is_for_html() -> None:
    source = {"mine.j2": "{{ name }}"}
    html = loader.load_template("mine.j2", overrides=source, autoescape=True)
    assert html({"name": "<b>"}) == "&lt;b&gt;"
    assert loader.load_template("mine.j2", overrides=source)({"name": "<b>"}) == "<b>"


@pytest.mark.parametrize(
    ("source", "line", "what"),
    [
        ("a\n{% if %}", 2, "Expected an expression"),
        ("a\n\n{{ nobody }}", 3, "'nobody' is undefined"),
        ("{{ part.nothing }}", 1, "no attribute 'nothing'"),
        ("a\n{{ ''.__class__.__mro__ }}", 2, "unsafe"),
        ("{{ cycler.__init__.__globals__.os }}", 1, "unsafe"),
        ("{{ part.update({'a': 1}) }}", 1, "unsafe"),
        ("{% include 'other.j2' %}", 1, "no template other.j2"),
        ("{% include '../pyproject.toml' %}", 1, "no template ../pyproject.toml"),
        ("\n{{ 1 // 0 }}", 2, "zero"),
        ("{{ items | nofilter }}", 1, "nofilter"),
    ],
)
def test_a_fault_names_file_line_and_a_way_out(source: str, line: int, what: str) -> None:
    with pytest.raises(errors.ConfigError) as caught:
        rendered(source, part={}, items=[])
    assert what in caught.value.what
    assert caught.value.where == f"mine.j2, line {line}"
    assert "fix that line" in caught.value.hint


ENDLESS = [
    "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
    "{% for a in range(9999) recursive %}{{ loop(range(9999)) if loop.depth < 5 }}{% endfor %}",
]
TOO_LONG = [
    "{{ range(10**9) }}",
    "{% for a in range(10**9) %}{% endfor %}",
    "{{ 'x' * 10**9 }}",
    "{{ 10**9 * ['x'] }}",
    "{{ 9 ** (9 ** 9) }}",
    "{% set a = 'a' * 9999999 %}{% for i in range(99999) %}{{ a }}{% endfor %}",
    "{% block a %}{% set a = 'a' * 9999999 %}{{ a }}{{ a }}{{ a }}{% endblock %}",
    "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
    "{% macro f(n) %}{% if n %}{{ f(n - 1) * 2 }}{% else %}a{% endif %}{% endmacro %}{{ f(40) }}",
]


@pytest.mark.parametrize("source", ENDLESS)
def test_a_template_that_loops_without_end_is_stopped(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loader, "TEMPLATE_SECONDS", 0.2)
    with pytest.raises(errors.ConfigError, match=r"does not end.*mine\.j2, line 1"):
        rendered(source)


@pytest.mark.parametrize("source", TOO_LONG)
def test_a_template_that_makes_too_much_is_stopped(source: str) -> None:
    with pytest.raises(errors.ConfigError, match=r"too|recursion.*mine\.j2, line 1"):
        rendered(source)


def test_what_is_bounded_still_works() -> None:
    source = """\
{{ 'a-b'.replace('-', '+') }} {{ ', '.join(items) }} {{ items | join(';') }} {{ 2 * 3 + 4 }}
{{ 'a' ~ 1 ~ items }} {{ 'x\\ny' | indent(2) }} {{ 2.345 | round(1) }} {{ [1, 2] | sum }}
{{ items | batch(3, '-') | list }} {{ {'a': 1} | tojson }} {{ 'ab'[1:] }} {{ 'a' * 3 }}
{{ items | map('upper') | join }} {{ [{'n': 1}, {'n': 2}] | join('/', attribute='n') }}
{{ 'a-b' | replace('-', '') }} {{ none }} {{ (items + ['c']) | length }}
"""
    told = """\
a+b a, b a;b 10
a1['a', 'b'] x
  y 2.3 3
[['a', 'b', '-']] {"a": 1} b aaa
AB 1/2
ab None 3
"""
    assert rendered(source, items=["a", "b"]) == told


def test_escaping_is_as_it_was() -> None:
    source = {"mine.j2": "{{ '<' ~ name }} {{ name | join('&') }} {{ name + '>' }}"}
    html = loader.load_template("mine.j2", overrides=source, autoescape=True)
    assert html({"name": "<b"}) == "&lt;&lt;b &lt;&amp;b &lt;b&gt;"


def test_the_deadline_leaves_tracing_as_it_was() -> None:
    before = sys.gettrace()
    assert rendered("{% for a in range(10) %}{{ a }}{% endfor %}") == "0123456789"
    assert sys.gettrace() is before


def test_a_shipped_template_that_fails_is_a_bug_not_a_setting() -> None:
    template = loader.load_template("comment.md.j2", overrides={"other.j2": "x"})
    with pytest.raises(Exception, match="undefined") as caught:
        template({})
    assert not isinstance(caught.value, errors.RlmCiError)
