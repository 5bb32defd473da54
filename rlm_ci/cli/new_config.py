"""A configuration file for a repository that has none: what people change first, or all of it."""

from __future__ import annotations

import json

from rlm_ci import checks
from rlm_ci.config.options import PROGRAM
from rlm_ci.system.installation import URL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from rlm_ci.config.settings import Setting

_NONE: Mapping[str, Any] = {}


def short(chosen: Mapping[str, Any] = _NONE) -> str:
    """The settings that people change first, in at most 20 lines."""
    rows = {row.key: row for row in _table()}

    def line(key: str, note: str = "") -> str:
        value = chosen.get(key, rows[key].default)
        return f"{key.rpartition('.')[2]} = {toml(value)}{f'  # {note}' if note else ''}"

    return "\n".join(
        (
            "# A pull request is checked with the settings of its base branch.",
            f"# All settings: rlm-ci config, or {URL}/blob/main/docs/configuration.md",
            line("fail_level", "severity from which on a finding fails the change"),
            *([line("checks", "test-bite runs tests")] if "checks" in chosen else ()),
            *([line("model")] if "model" in chosen else ()),
            "",
            "[diff_budget]",
            line("diff_budget.max_files"),
            line("diff_budget.max_lines"),
            line("diff_budget.ignore", 'paths that do not count, such as "generated/**"'),
            "",
            "[review]",
            line("review.enabled", "on fails a change of which nothing was read; auto, off"),
            *(
                [line("review.analyzers", "the tools that the repository sets up")]
                if "review.analyzers" in chosen
                else ()
            ),
            "",
            "[test_guard]",
            line("test_guard.fail", "true: for every author, false: for bots, agents"),
            *(
                [line("test_guard.strict_authors", "and these accounts")]
                if "test_guard.strict_authors" in chosen
                else ()
            ),
            *(
                ["", "[agent_hooks]", line("agent_hooks.after_edit")]
                if "agent_hooks.after_edit" in chosen
                else ()
            ),
            "",
        )
    )


def full_config(chosen: Mapping[str, Any] = _NONE) -> str:
    """Every setting at its default, commented out, but for what is chosen."""
    return "\n".join([*_lines(chosen), ""])


def _table() -> list[Setting]:
    return [row for row in (*PROGRAM, *checks.rows(checks.names())) if row.file and not row.secret]


def _lines(chosen: Mapping[str, Any]) -> Iterator[str]:
    table = _table()
    yield "# The settings of rlm-ci, each with its default, or with an example if it has none."
    yield "# On a pull request, the file of the base applies."
    section, is_first = "", False
    keys = {row.key for row in table}
    prefixes = [row.key.rpartition(".")[0] for row in table]

    def order(row: Setting) -> tuple[int, int]:
        """TOML has each table once, and those within others last."""
        return row.key.count("."), prefixes.index(row.key.rpartition(".")[0])

    for row in sorted(table, key=order):
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
                value = f"{{ {inner.key.rpartition('.')[2]} = {toml(inner.default)} }}"
                yield from ("", f"# {inner.help}; instead of the line above:")
                yield f"#   {name} = {value}"


def _row(row: Setting, name: str, chosen: Mapping[str, Any]) -> Iterator[str]:
    if row.kind in ("table", "tables") and row.key not in chosen:
        heading = f'[{row.key}."a name"]' if row.kind == "tables" else f"[[{row.key}]]"
        yield from (f"# {row.help}:", f"# {heading}")
        for column in row.columns:
            yield f"# {column.key} = {_example(column)}  # {column.help}"
        return
    has_none = row.default is None
    yield f"# {row.help}{' (not set)' if has_none else ''}"
    if row.key in chosen:
        yield f"{name} = {toml(chosen[row.key])}"
    else:
        yield f"# {name} = {_example(row) if has_none else toml(row.default)}"


def toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return json.dumps(value)
    return str(value) if isinstance(value, (int, float)) else json.dumps(value or "")


def _example(column: Setting) -> str:
    if column.choices:
        return f'"{column.choices[0]}"'
    if column.kind == "boolean":
        return "true"
    return {"integer": "100", "number": "0.5", "cap": "60"}.get(column.kind, '"…"')
