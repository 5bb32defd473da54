"""The settings: the rows of ``options``, read from flags, environment and config file.

This is the only reader of ``os.environ``. Order, highest first: flag, environment, config file,
inputs of the pipeline, default; the source of each value is kept.
"""

from __future__ import annotations

import os
from functools import lru_cache

from rlm_ci.errors import ConfigError
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, TypeVar

    Filled = TypeVar("Filled", bound=Value)

CONFIG_FILES = ("rlm-ci.toml", "pyproject.toml")
_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")
#: How the names of secrets end that people write into a config file.
_SECRETS = ("api_key", "apikey", "token", "secret", "password")
#: A key whose parts the parser of TOML would take minutes for: its time grows by their square.
_DEEP = rb"""(?<![\w\\-])(?:(?:[\w-]++|"(?:\\.|[^"\\\n]){0,200}"|'[^'\n]*+')[ \t]*+\.[ \t]*+){64}"""
_UNLIMITED = ("unlimited", "unbounded", "infinite", "infinity")
#: How the variable of a setting begins.
_PREFIX = "RLM_CI_"
#: Similarity from which on an unknown variable counts as misspelt.
_ALIKE = 0.8

#: Settings of older versions, and the value that each has now.
_FIXED = {
    "loop.agent_minutes": 60,
    "publish.least": "low",
    "publish.max_annotations": 500,
    "publish.max_comments": 50,
    "publish.max_on_files": 5,
    "publish.max_per_file": 10,
    "publish.unfinished": "action_required",
    "recursion.attempts": 2,
    "recursion.leaf_bytes": 262144,
    "recursion.leaf_files": 16,
    "recursion.max_file_bytes": 1048576,
    "review.refute_level": "high",
    "symbolic.block_seconds": 120,
    "symbolic.counts": 4,
    "symbolic.map_parts": 1000,
    "symbolic.maps": 1,
    "symbolic.max_depth": 2,
    "symbolic.searches": 4,
    "symbolic.snippet_bytes": 8192,
    "symbolic.snippets": 8,
    "symbolic.subcall_bytes": 120000,
    "templates": ".rlm-ci/templates",
}
#: Settings of older versions, and those that now say the same.
_MERGED = {"review.setup": "loop.setup", "test_bite.setup": "loop.setup"}
#: Further variables of settings of older versions.
_OLD_VARIABLES = {
    "RLM_MAX_SEARCHES_PER_ITERATION": "symbolic.searches",
    "RLM_MAX_BYTES_PER_SNIPPET": "symbolic.snippet_bytes",
    "RLM_MAX_SNIPPETS_PER_SUBCALL": "symbolic.snippets",
    "RLM_MAX_SUBCALL_INPUT_BYTES": "symbolic.subcall_bytes",
}


class Setting(Value):
    """One row of the table.

    ``key`` is ``name``, ``section.name`` or ``section.part.name``; ``kind`` one of text, integer,
    number, boolean, choice, list, cap (a number, or unlimited), table, tables (by name), data
    (checked elsewhere). Environment: ``RLM_CI_<KEY>`` first, but for tables, then ``env`` in order.
    ``flag`` is the option's name, ``input`` that of the action. ``file=False`` keeps a row out of
    config files; a ``secret`` is read from the environment only and never printed. ``columns`` are
    the rows of a table's entry; ``off`` is the help of the flag that turns a boolean off.
    """

    key: str
    help: str
    default: Any = None
    kind: str = "text"
    env: tuple[str, ...] = ()
    flag: str | None = None
    short: str | None = None
    metavar: str = "TEXT"
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    input: str | None = None
    file: bool = True
    own_env: bool = True
    secret: bool = False
    required: bool = False
    columns: tuple[Setting, ...] = ()
    off: str = ""

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment names, the strongest first."""
        if not self.own_env or self.columns:  # a table does not fit in a variable
            return self.env
        return (_variable(self.key), *self.env)


def environment() -> Mapping[str, str]:
    """The process environment; no other module reads it."""
    return os.environ


class Section:
    """The settings of one section as attributes; ``settings.diff_budget.max_files``."""

    def __init__(self, settings: Settings, prefix: str) -> None:
        self._settings = settings
        self._prefix = prefix

    def __getattr__(self, name: str) -> Any:
        try:
            return self._settings.values[self._prefix + name]
        except KeyError:
            raise AttributeError(self._prefix + name) from None


class Settings:
    """The effective values of ``rows``, with the source that each came from."""

    def __init__(
        self,
        rows: Iterable[Setting],
        flags: Mapping[str, Any] | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """``flags`` maps keys to what the command line says. Raises ConfigError."""
        self.rows = {row.key: row for row in rows}
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.environ = environment() if environ is None else environ
        flags = flags or {}
        for key, row in self.rows.items():
            raw, source = self._value_and_source(row, flags)
            self.values[key] = row.default if raw is None else convert(row, raw, source)
            self.sources[key] = source

    def _value_and_source(self, row: Setting, flags: Mapping[str, Any]) -> tuple[Any, str]:
        if row.key in flags:
            return flags[row.key], row.flag or "the command line"
        for name in row.variables:
            text = self.environ.get(name, "").strip()
            if text:
                return text, name
        return None, "default"

    def __getattr__(self, name: str) -> Any:
        if name in self.values:
            return self.values[name]
        if any(key.startswith(f"{name}.") for key in self.rows):
            return Section(self, f"{name}.")
        raise AttributeError(name)

    def filled(self, cls: type[Filled], *sections: str, **fields: Any) -> Filled:
        """A record of ``cls``: what it needs besides its ``fields`` has the name of a setting.

        ``sections`` are those of the settings, in the order in which a name is looked up.
        """
        for name in cls._required.difference(fields):
            keys = (f"{section}.{name}" for section in sections)
            fields[name] = self.values[next(key for key in keys if key in self.values)]
        return cls(**fields)

    def apply(self, record: Mapping[str, Any], source: str, settings: Iterable[Setting]) -> None:
        """Take a config file's values where nothing stronger is set; ``settings`` are all rows."""
        rows = {row.key: row for row in settings}
        for key, raw in _flatten(record, rows):
            row = rows.get(key)
            if row is None or not row.file or row.secret:
                raise _unknown_setting(key, rows.values(), source)
            _require_no_section(row, raw, rows, source)
            value = convert(row, raw, source)
            if key in self.rows and self.sources[key] == "default":
                self.values[key], self.sources[key] = value, source

    def changed_values(self) -> dict[str, list[Any]]:
        """Value and source of all that is not the default, without secrets, for JSON."""
        pairs = {key: [self.values[key], self.sources[key]] for key in self.rows}
        return {
            key: pair
            for key, pair in pairs.items()
            if not self.rows[key].secret and pair != [self.rows[key].default, "default"]
        }

    def recall(self, recorded: Mapping[str, Sequence[Any]]) -> None:
        """Let the values of ``recorded`` override all others."""
        for key in self.rows.keys() & recorded.keys():
            value, self.sources[key] = recorded[key]
            self.values[key] = tuple(value) if isinstance(value, list) else value

    def items(self) -> Iterator[tuple[Setting, Any, str]]:
        """Row, value and source of each setting; the value of a secret is hidden."""
        for key, row in self.rows.items():
            shown = "(set)" if row.secret and self.values[key] else self.values[key]
            yield row, shown, self.sources[key]


def convert(row: Setting, raw: Any, source: str) -> Any:
    """``raw`` as the kind of ``row``. Raises ConfigError that names value and source."""
    reader: Callable[[Setting, Any, str], Any] = _CONVERT.get(row.kind, _text)
    return reader(row, raw, source)


def _variable(key: str) -> str:
    return _PREFIX + key.upper().replace(".", "_")


def variable_doubts(environ: Mapping[str, str], rows: Iterable[Setting]) -> list[ConfigError]:
    """A doubt for each variable that none of ``rows`` reads, and that looks like one of theirs.

    Raises ConfigError for the variable of a setting that older versions had.
    """
    variables = {name for row in rows for name in row.variables}
    old = {_variable(key): key for key in (*_FIXED, *_MERGED)} | _OLD_VARIABLES
    unread = [name for name in sorted(environ) if name not in variables and environ[name].strip()]
    doubts = []
    for name in unread:
        if name in old:
            key = old[name]
            hint = f"unset it: it is always {_FIXED[key]} now" if key in _FIXED else ""
            hint = hint or f"set {_variable(_MERGED[key])} in place of it"
            raise ConfigError(f"unknown setting {name}", where="the environment", hint=hint)
        if name.startswith(_PREFIX) and (alike := _similar_variables(name, sorted(variables))):
            text = f"no setting reads {name[:80]}"
            hint = f"did you mean {' or '.join(alike)}?"
            doubts.append(ConfigError(text, where="the environment", hint=hint))
    return doubts


def _similar_variables(name: str, variables: Sequence[str]) -> list[str]:
    """The one that is spelt most like ``name``, else those of a section or a key of that name.

    Each hook asks this, so it loads no library: who misspells a name gets most of its beginning
    and of its end right.
    """
    word = name.removeprefix(_PREFIX)
    words = [other.removeprefix(_PREFIX) for other in variables if other.startswith(_PREFIX)]
    similar = [(_similarity(word, other), other) for other in words]
    close = [max(similar)[1]] if similar and max(similar)[0] >= _ALIKE else []
    close = close or [other for other in words if other == f"{word}_ENABLED"]
    close = close or [other for other in words if other.endswith(f"_{word}")][:3]
    return [_PREFIX + match for match in close]


def _similarity(first: str, second: str) -> float:
    """The part of the longer word that both begin and end with."""
    shorter, longer = sorted((first, second), key=len)
    begin = 0
    while begin < len(shorter) and shorter[begin] == longer[begin]:
        begin += 1
    end = 0
    while end < len(shorter) - begin and shorter[-1 - end] == longer[-1 - end]:
        end += 1
    return (begin + end) / len(longer)


def _unknown_setting(key: str, rows: Iterable[Setting], source: str) -> ConfigError:
    """The error of a key that no config file has, such as a secret."""
    if key in _FIXED or key in _MERGED:
        hint = f"remove it: it is always {_FIXED[key]} now" if key in _FIXED else ""
        hint = hint or f"write it as {_MERGED[key]}"
        return ConfigError(f"unknown setting {key!r}", where=source, hint=hint)
    option = next((row for row in rows if row.key == key and row.flag and not row.secret), None)
    if option is not None:
        flag = str(option.flag)
        if option.default is True:  # a file said only that it is off
            flag = f"--no-{flag[2:]}"
        names = " or ".join((flag, *option.variables[:1]))
        hint = f"remove it, and give it to the command: {names}"
        return ConfigError(f"unknown setting {key!r}", where=source, hint=hint)
    last = key.rpartition(".")[2]
    if not last.lower().endswith(_SECRETS):
        allowed = [row.key for row in rows if row.file and not row.secret]
        return _unknown("setting", key, allowed, source)
    settings = [row for row in rows if row.secret and row.own_env]
    alike = [setting for setting in settings if setting.key.endswith(last)]
    names = " or ".join(setting.variables[-1] for setting in alike or settings)
    hint = f"a secret comes from the environment alone: remove it, and set {names}"
    return ConfigError(f"unknown setting {key[:80]!r}", where=source, hint=hint)


def _require_no_section(row: Setting, raw: Any, rows: Mapping[str, Setting], source: str) -> None:
    """Raises ConfigError for a section below a setting, such as ``[checks.ai-policy]``."""
    if not isinstance(raw, dict) or row.kind in ("data", "tables"):
        return
    sections = {key.partition(".")[0] for key in rows if "." in key}
    for name in raw:
        if (section := name.replace("-", "_")) in sections:
            what = f"{row.key} has no table {name[:80]!r}"
            form = f"[[{section}]]" if section in rows else f"[{section}]"
            raise ConfigError(what, where=source, hint=f"write it as {form}")


def _list(row: Setting, raw: Any, source: str) -> tuple[str, ...]:
    items = raw
    if isinstance(raw, str):
        parts = raw.split("\n" if "\n" in raw else ",")
        items = [part.strip() for part in parts if part.strip()]
    if isinstance(items, (list, tuple)) and all(isinstance(item, str) for item in items):
        return tuple(items)
    raise _bad(row, raw, source, "a list of texts")


def _boolean(row: Setting, raw: Any, source: str) -> bool:
    if isinstance(raw, bool):
        return raw
    word = raw.strip().lower() if isinstance(raw, str) else ""
    if word in _TRUE or word in _FALSE:
        return word in _TRUE
    if word and not row.own_env:  # another program's variable: CI=woodpecker means yes
        return True
    raise _bad(row, raw, source, "true or false")


def _text(row: Setting, raw: Any, source: str) -> str:
    if hasattr(raw, "isoformat"):  # TOML has days without quotes
        raw = raw.isoformat()
    if row.kind == "choice" and raw not in row.choices:
        word = {True: "on", False: "off"}.get(raw) if isinstance(raw, bool) else None
        hint = f'write "{word}", with quotes' if word in row.choices else ""
        raise _bad(row, raw, source, f"one of {', '.join(row.choices)}", row.choices, hint=hint)
    if not isinstance(raw, str) or "\0" in raw:
        raise _bad(row, raw, source, "a text")
    return raw


def _cap(row: Setting, raw: Any, source: str) -> float | None:
    """A limit, a whole number if the default is; None for no limit."""
    if isinstance(raw, str) and raw.strip().lower() in _UNLIMITED:
        return None
    kind = "integer" if isinstance(row.default, int) else "number"
    number: float = _number(row.replace(kind=kind, minimum=0), raw, source)
    return number or None


def _number(row: Setting, raw: Any, source: str) -> Any:
    expected = "a whole number" if row.kind == "integer" else "a number"
    if row.minimum is not None:
        expected += f" of at least {row.minimum}"
    try:
        if isinstance(raw, bool) or (row.kind == "integer" and isinstance(raw, float)):
            raise ValueError(raw)
        # int() would also take "1_000" and other digits than ASCII ones.
        if isinstance(raw, str) and not (
            raw.isascii() and raw.replace(".", "").lstrip("-").isdigit()
        ):
            expected += ", in plain digits" if _is_number(raw) else ""
            raise ValueError(raw)
        number = int(raw) if row.kind == "integer" else float(raw)
    except (TypeError, ValueError):
        raise _bad(row, raw, source, expected) from None
    if not -(10**15) < number < 10**15:
        raise _bad(row, raw, source, f"{expected}, with 15 digits at most")
    if row.minimum is not None and number < row.minimum:
        raise _bad(row, raw, source, expected)
    return number


def _is_number(raw: str) -> bool:
    """Whether a text is a number with an exponent, or in other digits."""
    try:
        return abs(float(raw)) < float("inf")
    except ValueError:
        return False


def _table(row: Setting, raw: Any, source: str) -> tuple[dict[str, Any], ...] | str:
    if isinstance(raw, str) and raw in row.choices:
        return raw
    if not isinstance(raw, list) or not all(isinstance(entry, dict) for entry in raw):
        words = "".join(f', or "{choice}"' for choice in row.choices)
        raise _bad(row, raw, source, f"a list of tables: [[{row.key}]]{words}")
    return tuple(
        _entry(row, entry, f"{source}, [[{row.key}]] number {number}")
        for number, entry in enumerate(raw, 1)
    )


def _tables(row: Setting, raw: Any, source: str) -> dict[str, dict[str, Any]]:
    if not isinstance(raw, dict) or not all(isinstance(entry, dict) for entry in raw.values()):
        raise _bad(row, raw, source, f'named tables: [{row.key}."NAME"]')
    return {
        name: _entry(row, entry, f'{source}, [{row.key}."{name[:80]}"]')
        for name, entry in raw.items()
    }


def _entry(row: Setting, entry: dict[str, Any], label: str) -> dict[str, Any]:
    columns = {column.key: column for column in row.columns}
    for name in entry:
        if name not in columns:
            raise _unknown("key", name, list(columns), label)
    values = {name: column.default for name, column in columns.items()}
    values.update((name, convert(columns[name], value, label)) for name, value in entry.items())
    for name, column in columns.items():
        if column.required and (values[name] is None or not str(values[name]).strip()):
            raise ConfigError(f"{name} is missing", where=label, hint=f"add {name}: {column.help}")
    return values


_CONVERT: dict[str, Callable[[Setting, Any, str], Any]] = {
    "data": lambda _row, raw, _source: raw,
    "table": _table,
    "tables": _tables,
    "cap": _cap,
    "list": _list,
    "boolean": _boolean,
    "integer": _number,
    "number": _number,
}


def _flatten(
    record: Mapping[str, Any], rows: Mapping[str, Setting], prefix: str = ""
) -> Iterator[tuple[str, Any]]:
    """Values by the keys of their settings; of an unknown section, by the names in it."""
    for name, value in record.items():
        key = f"{prefix}{name}"
        is_section = any(row.startswith(f"{key}.") for row in rows)
        is_unknown = bool(value) and not prefix and key not in rows
        if isinstance(value, dict) and (is_section or is_unknown):
            yield from _flatten(value, rows, f"{key}.")
        else:
            yield key, value


def _bad(
    row: Setting,
    raw: Any,
    source: str,
    expected: str,
    choices: Sequence[str] = (),
    *,
    hint: str = "",
) -> ConfigError:
    from difflib import get_close_matches

    shown = (raw if isinstance(raw, str) else repr(raw))[:80]
    close = get_close_matches(shown, choices, 1) if isinstance(raw, str) else []
    hint = hint or (f"did you mean {close[0]}?" if close else f"{row.key}: {row.help}")
    return ConfigError(f"{row.key} must be {expected}, not {shown!r}", where=source, hint=hint)


def _unknown(what: str, name: str, names: Sequence[str], source: str) -> ConfigError:
    return ConfigError(f"unknown {what} {name[:80]!r}", where=source, hint=nearest(name, names))


def nearest(name: str, candidates: Sequence[str], *, cutoff: float = 0.6) -> str:
    """A hint for a misspelt ``name``: the most similar ones, if ``cutoff`` similar, or its section.

    A name whose section is unknown gets the names that a file may have at its top.
    """
    from difflib import get_close_matches

    section, _, last = name.rpartition(".")
    beside = [key for key in candidates if section and key.startswith(f"{section}.")]
    if beside:
        names = [key[len(section) + 1 :] for key in beside]
        close = [f"{section}.{match}" for match in get_close_matches(last, names, 1, cutoff)]
    else:  # a missing section is more frequent than a misspelt name
        close = [key for key in candidates if key == last or key.endswith(f".{name}")]
        close = sorted(close, key=lambda key: key.count("."))[:3]
        close = close or get_close_matches(name, candidates, 1, cutoff)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return (
        f"known are: {', '.join(beside or sorted({key.partition('.')[0] for key in candidates}))}"
    )


def parse_config(data: bytes, source: str, table: str | None) -> dict[str, Any]:
    """The settings in a config file, or in its ``[tool.<table>]``. Raises ConfigError."""
    if not data or (table is not None and table.encode() not in data):
        return {}  # most pyproject.toml have no such table, and the parser costs 8 ms
    record, why = _parsed(data)
    if why:
        raise ConfigError(f"not valid TOML: {why}", where=source, hint="fix the file")
    if table is None:
        return record
    tools = record.get("tool")
    section = tools.get(table, {}) if isinstance(tools, dict) else {}
    if not isinstance(section, dict):
        raise ConfigError(f"[tool.{table}] must be a table", where=source, hint="fix the file")
    return section


@lru_cache(maxsize=16)
def _parsed(data: bytes) -> tuple[dict[str, Any], str]:
    """What a file of TOML says, or why it is none.

    Several ask for the same one, and none changes it.
    """
    import re
    import tomllib

    try:
        if re.search(_DEEP, data):
            return {}, "a key has more than 64 parts"
        return tomllib.loads(data.decode("utf-8-sig")), ""  # as Windows saves it
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1:,} is 0x{data[error.start]:02x}"
        return {}, f"it is not UTF-8 ({byte}); save it as UTF-8"
    except (ValueError, RecursionError) as error:
        return {}, printable(str(error))[:200] or type(error).__name__
