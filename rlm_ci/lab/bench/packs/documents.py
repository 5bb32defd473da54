"""Reads YAML, JSON and JSONL into plain values, with the line of each where it is known."""

from __future__ import annotations

import json
import math

from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.system import files, installation
from rlm_ci.text.printable import encodable, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

    Place = tuple[str | int, ...]

#: Bytes of a file of cases; YAML is read a hundred times more slowly.
_LIMIT, _YAML_LIMIT = 32 << 20, 2 << 20
#: Levels of lists and mappings.
_DEPTH = 32
#: Values of a file of YAML, where a few aliases can stand for billions.
_VALUES = 50_000
_YAML = (".yaml", ".yml")
ENDINGS = (*_YAML, ".json", ".jsonl")


class PackDocument(Value):
    """A file's value; ``lines`` has the line of the parts that are known."""

    path: str
    value: Any
    lines: Mapping[Place, int]

    def wrong(self, place: Place, what: str, hint: str) -> ConfigError:
        """An error about a part, with the file and the nearest line that is known."""
        line = next(
            (
                self.lines[place[:end]]
                for end in range(len(place), -1, -1)
                if place[:end] in self.lines
            ),
            None,
        )
        where = printable(self.path) + (f", line {line}" if line else "")
        at = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in place).lstrip(".")
        return ConfigError(f"{printable(at)[:120]}: {what}" if at else what, where=where, hint=hint)


def read(path: str) -> PackDocument:
    """The value of a file. Raises ConfigError, UnavailableError."""
    ending = next((suffix for suffix in ENDINGS if path.lower().endswith(suffix)), None)
    if ending is None:
        raise ConfigError(
            "a file of cases ends in .yaml, .yml, .json or .jsonl",
            where=printable(path),
            hint="rename it, or name another file",
        )
    try:
        limit = _YAML_LIMIT if ending in _YAML else _LIMIT
        text = files.read(path, limit).decode("utf-8-sig")
    except files.UnreadableError as error:
        raise ConfigError(
            f"the pack cannot be read: {error}", where=printable(path), hint="name a file of cases"
        ) from None
    except UnicodeDecodeError:
        raise ConfigError(
            "the pack is not UTF-8", where=printable(path), hint="save it as UTF-8"
        ) from None
    reader = _Reader(path)
    try:
        if ending in _YAML:
            value = reader.yaml(text)
        else:
            value = reader.json(text) if ending == ".json" else reader.json_lines(text)
        reader.require_plain(value)
    except RecursionError:
        reader.refuse("it is nested too deeply")
    return PackDocument(path, value, reader.lines)


class _Reader:
    def __init__(self, path: str) -> None:
        self.lines: dict[Place, int] = {}
        self._path = path

    def refuse(self, what: str, line: int | None = None) -> NoReturn:
        where = printable(self._path) + (f", line {line}" if line else "")
        raise ConfigError(what, where=where, hint="fix the file")

    def json(self, text: str, line: int = 0) -> Any:
        try:
            return json.loads(text, object_pairs_hook=self._members, parse_constant=self._constant)
        except json.JSONDecodeError as error:
            self.refuse(f"not valid JSON: {error.msg}", line or error.lineno)
        except ValueError as error:
            self.refuse(f"not valid JSON: {error}", line or None)

    def json_lines(self, text: str) -> list[Any]:
        values: list[Any] = []
        for number, line in enumerate(text.split("\n"), 1):
            if line.strip():
                self.lines[len(values),] = number
                values.append(self.json(line, number))
        return values

    @staticmethod
    def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        members: dict[str, Any] = {}
        for name, value in pairs:
            if name in members:
                raise ValueError(f"the key {printable(name)[:80]!r} is there twice")
            members[name] = value
        return members

    @staticmethod
    def _constant(name: str) -> NoReturn:
        raise ValueError(f"{name} is no number of JSON")

    def yaml(self, text: str) -> Any:
        try:
            import yaml
        except ImportError:
            raise UnavailableError(
                "reading YAML needs the package PyYAML",
                where=printable(self._path),
                hint=f"{installation.command('bench')}; or write the pack as JSON",
            ) from None
        try:
            loader = yaml.SafeLoader(text)
            node = loader.get_single_node()
            return None if node is None else self._value(loader, node, ())
        except yaml.MarkedYAMLError as error:
            line = error.problem_mark.line + 1 if error.problem_mark else None
            self.refuse(f"not valid YAML: {printable(str(error.problem))[:200]}", line)
        except (yaml.YAMLError, ValueError, OverflowError, KeyError) as error:  # of a value's tag
            self.refuse(f"not valid YAML: {printable(str(error))[:200]}")

    def _value(self, loader: Any, node: Any, place: Place) -> Any:
        line = node.start_mark.line + 1
        self.lines[place] = line
        if len(self.lines) > _VALUES:
            self.refuse(f"it has more than {_VALUES:,} values, aliases written out", line)
        if len(place) > _DEPTH:
            self.refuse("it is nested too deeply", line)
        kind = node.id
        if kind == "sequence":
            listed = enumerate(node.value)
            return [self._value(loader, item, (*place, at)) for at, item in listed]
        if kind == "mapping":
            members: dict[str, Any] = {}
            for key_node, member in node.value:
                key = key_node.value if key_node.id == "scalar" else None
                if key is None or key == "<<" or key in members:
                    what = "is there twice" if key in members else "cannot be a key here"
                    shown = printable(str(key))[:80]
                    self.refuse(f"{shown!r} {what}", key_node.start_mark.line + 1)
                members[key] = self._value(loader, member, (*place, key))
            return members
        value = loader.construct_object(node)
        plain = value is None or isinstance(value, (str, int, float, bool))
        return value if plain else node.value  # a date stays as it is written

    def require_plain(self, value: Any) -> None:
        """Refuse what is nested too deeply, numbers that are none, and texts that are none."""
        waiting: list[tuple[Any, Place]] = [(value, ())]
        while waiting:
            part, place = waiting.pop()
            if len(place) > _DEPTH:
                self.refuse("it is nested too deeply", self.lines.get(place[:1]))
            if wrong := _flaw(part) or _flaw(place[-1:] and place[-1]):
                self.refuse(wrong, self.lines.get(place) or self.lines.get(place[:1]))
            listed = (
                part.items()
                if isinstance(part, dict)
                else enumerate(part)
                if isinstance(part, list)
                else ()
            )
            waiting += [(inner, (*place, key)) for key, inner in listed]


def _flaw(value: object) -> str:
    """Why a number or a text cannot be used; "" if it can."""
    if isinstance(value, str):
        return "a text has half of a pair of surrogates" if encodable(value) != value else ""
    if not isinstance(value, (int, float)):
        return ""
    try:
        return "" if math.isfinite(value) else "a number must be finite"
    except OverflowError:
        return "a number is too large"
