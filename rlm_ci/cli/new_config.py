"""A configuration file for a repository that has none: what people change first, or all of it."""

from __future__ import annotations

import json

from rlm_ci import checks
from rlm_ci.config.options import PROGRAM
from rlm_ci.system.installation import URL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.config.settings import Setting


def short(*, model: str = "", review: bool = True) -> str:
    """The settings that people change first, in at most 15 lines."""
    rows = {row.key: row for row in _table()}

    def line(key: str, note: str = "", value: object = None) -> str:
        value = rows[key].default if value is None else value
        return f"{key.rpartition('.')[2]} = {_toml(value)}{f'  # {note}' if note else ''}"

    return "\n".join(
        (
            "# A pull request is checked with the settings of its base branch.",
            f"# All settings: rlm-ci config, or {URL}/blob/main/docs/configuration.md",
            line("fail_level", "severity from which on a finding fails the change"),
            *([line("model", value=model)] if model else ()),
            "",
            "[diff_budget]",
            line("diff_budget.max_files"),
            line("diff_budget.max_lines"),
            line("diff_budget.ignore", 'paths that do not count, such as "generated/**"'),
            "",
            "[review]",
            line("review.enabled", "auto, on or off", None if review else "off"),
            "",
        )
    )


def whole(*, model: str = "", review: bool = True) -> str:
    """Every setting at its default, commented out, but for what is chosen."""
    chosen = {"model": model} if model else {}
    chosen |= {} if review else {"review.enabled": "off"}
    return "\n".join([*_lines(chosen), ""])


def _table() -> list[Setting]:
    return [row for row in (*PROGRAM, *checks.rows(checks.names())) if row.file and not row.secret]


def _lines(chosen: dict[str, str]) -> Iterator[str]:
    table = _table()
    yield "# The settings of rlm-ci, each with its default, or with an example if it has none."
    yield "# On a pull request, the file of the base applies."
    section, is_first = "", False
    keys = {row.key for row in table}
    for row in sorted(table, key=lambda row: row.key.count(".")):
        prefix, _, name = row.key.rpartition(".")
        if prefix in keys:  # TOML allows either a value or a table here
            continue
        if prefix != section:
            section, is_first = prefix, True
            yield from ("", f"[{section}]")
        if not is_first:
            yield ""
        is_first = False
        yield from _row(row, name, chosen)
        for inner in table:
            if inner.key.rpartition(".")[0] == row.key:
                value = f"{{ {inner.key.rpartition('.')[2]} = {_toml(inner.default)} }}"
                yield from ("", f"# {inner.help}; instead of the line above:")
                yield f"#   {name} = {value}"


def _row(row: Setting, name: str, chosen: dict[str, str]) -> Iterator[str]:
    if row.kind in ("table", "tables"):
        heading = f'[{row.key}."a name"]' if row.kind == "tables" else f"[[{row.key}]]"
        yield from (f"# {row.help}:", f"# {heading}")
        for column in row.columns:
            yield f"# {column.key} = {_example(column)}  # {column.help}"
        return
    has_none = row.default is None
    yield f"# {row.help}{' (not set)' if has_none else ''}"
    if row.key in chosen:
        yield f"{name} = {_toml(chosen[row.key])}"
    else:
        yield f"# {name} = {_example(row) if has_none else _toml(row.default)}"


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return "[]"
    return str(value) if isinstance(value, (int, float)) else json.dumps(value or "")


def _example(column: Setting) -> str:
    if column.choices:
        return f'"{column.choices[0]}"'
    if column.kind == "boolean":
        return "true"
    return {"integer": "100", "number": "0.5", "cap": "60"}.get(column.kind, '"…"')
