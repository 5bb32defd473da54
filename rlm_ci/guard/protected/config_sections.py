"""Files with settings of many tools, and which of them decide what green means."""

from __future__ import annotations

import json

from rlm_ci.config.settings import parse_config
from rlm_ci.errors import ConfigError
from rlm_ci.guard.protected import broken_config
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Read = Callable[[bytes], Mapping[str, Any]]

#: In place of a section: the old file says too little to compare with.
UNKNOWN = "?"
_BROKEN = (ValueError, RecursionError, ConfigError)
#: Dotted names; what ends in ``*`` stands for every name that begins so, with ``~`` before it only
#: where it was there at first.
_PYPROJECT = (
    "tool.pytest*", "tool.coverage*", "tool.ruff*", "tool.mypy*", "tool.pyright*",
    "tool.basedpyright*", "tool.pylint*", "tool.flake8*", "tool.isort*", "tool.black*",
    "tool.bandit*", "tool.tox*", "tool.nox*", "tool.hatch.envs*", "tool.pdm.scripts*",
    "tool.poe*", "tool.taskipy*", "tool.rye.scripts*", "tool.pyre*", "tool.ty*",
    "tool.interrogate*", "tool.vulture*", "tool.rlm-ci*", "project.entry-points.pytest11*",
    "tool.poetry.plugins.pytest11*", "tool.setuptools.py-modules*",
)  # fmt: skip
_INI = (
    "tool:pytest*", "pytest*", "coverage:*", "flake8*", "mypy*", "pylint*", "isort*", "testenv*",
    "tox*", "aliases*", "pycodestyle*", "pydocstyle*", "bandit*", "options.entry_points*",
)  # fmt: skip
_PACKAGE = (
    "scripts*", "jest*", "mocha*", "ava*", "nyc*", "c8*", "tap*", "vitest*", "eslintConfig*",
    "eslintIgnore*", "prettier*", "stylelint*", "husky*", "lint-staged*", "babel*", "xo*",
    "packageManager*", "type", "imports*", "workspaces*",
)  # fmt: skip
_CARGO = (
    "lints*", "workspace.lints*", "test*", "bench*", "profile.test*", "lib.test", "lib.doctest",
    "lib.harness", "lib.path", "features.default", "~features*", "bin*",
    "package.autotests", "package.build", "patch*", "replace*",
)  # fmt: skip


def changed(path: str, old: bytes, new: bytes) -> list[str]:
    """The names of the sections that matter and differ; "" for the whole file.

    Empty content means no file. UNKNOWN: of the old file too little can be read.
    """
    form = _FORMS.get(path.rpartition("/")[2].lower())
    if form is None:
        return []
    read, patterns = form
    if old == new:
        return []
    try:
        after = _flat(read(new))
    except _BROKEN:
        return [""]
    try:
        names = [pattern.strip("~*") for pattern in patterns]
        befores = [_flat(reading) for reading in _readings(read, old, names)]
    except _BROKEN:
        return [UNKNOWN]
    old_names = {name for before in befores for name in before}
    return [
        name
        for name in sorted(old_names | after.keys())
        if all(before.get(name) != after.get(name) for before in befores)
        and any(
            _matches(name, pattern.removeprefix("~"))
            for pattern in patterns
            if name in old_names or not pattern.startswith("~")
        )
    ]


def section_words(section: str) -> str:
    """A section in words."""
    if section == UNKNOWN:
        return "what could not be read before, so it cannot be compared: fix it by hand first"
    return f"the setting {printable(section)}" if section else "what cannot be read"


def is_sectioned(path: str) -> bool:
    return path.rpartition("/")[2].lower() in _FORMS


def settings(path: str, data: bytes) -> dict[str, str] | None:
    """All settings of a file of TOML, JSON or INI as JSON, by dotted names; None if unreadable."""
    read = {"toml": _toml, "json": _json}.get(path.rpartition(".")[2].lower(), _ini)
    try:
        return _flat(read(data))
    except _BROKEN:
        return None


def _readings(read: Read, old: bytes, names: list[str]) -> list[Mapping[str, Any]]:
    """What ``old`` says; after an unfinished merge, what each side says.

    Raises one of _BROKEN if a setting of ``names`` may be in an unreadable part.
    """
    try:
        return [read(old)]
    except _BROKEN:
        return [_repaired(read, side, names) for side in broken_config.sides(old)]


def _repaired(read: Read, text: str, names: list[str]) -> Mapping[str, Any]:
    try:
        return read(text.encode())
    except _BROKEN:
        if read is _json:
            return read(broken_config.json(text).encode())
    parts = []
    for head, part in broken_config.parts(text):
        try:
            read(part.encode())
        except _BROKEN:
            if broken_config.decides(head, part, names):
                raise
        else:
            parts.append(part)
    return read("".join(parts).encode())


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _flat(record: object, prefix: str = "") -> dict[str, str]:
    """The leaves of a nested record by dotted names."""
    if not isinstance(record, dict) or not record:
        return {prefix: json.dumps(record, sort_keys=True, default=str)} if prefix else {}
    flat: dict[str, str] = {}
    for name, value in record.items():
        flat.update(_flat(value, f"{prefix}.{name}" if prefix else str(name)))
    return flat


def _toml(data: bytes) -> Mapping[str, Any]:
    return parse_config(data, "a settings file", None)


def _json(data: bytes) -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads(data) if data.strip() else {}
    return content


def _ini(data: bytes) -> Mapping[str, Any]:
    from configparser import Error, RawConfigParser

    parser = RawConfigParser(strict=False)
    try:
        parser.read_string(data.decode())
    except Error as error:
        raise ValueError(str(error)) from None
    return {name: dict(parser[name]) for name in parser.sections()}


def _go_mod(data: bytes) -> Mapping[str, Any]:
    """The lines that replace a module by other code."""
    lines = [" ".join(line.split(b"//")[0].decode().split()) for line in data.split(b"\n")]
    return {"replace": "\n".join(line for line in lines if "=>" in line)}


_FORMS: dict[str, tuple[Read, tuple[str, ...]]] = {
    "pyproject.toml": (_toml, _PYPROJECT),
    "pipfile": (_toml, ("scripts*",)),
    "setup.cfg": (_ini, _INI),
    "package.json": (_json, _PACKAGE),
    "composer.json": (_json, ("scripts*",)),
    "cargo.toml": (_toml, _CARGO),
    "go.mod": (_go_mod, ("replace",)),
}
