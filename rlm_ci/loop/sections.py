"""Files that hold settings of many tools: which of them decide what green means."""

from __future__ import annotations

import json

from rlm_ci.errors import ConfigError
from rlm_ci.settings import parse_config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

#: Dotted names; what ends in ``*`` stands for every name that begins so.
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
    "lib.harness", "bin*", "package.autotests", "package.build", "patch*", "replace*",
)  # fmt: skip


def changed(path: str, old: bytes, new: bytes) -> list[str]:
    """The sections of ``path`` that matter here and differ, by name; "" for the whole file.

    An empty content stands for a file that is not there.
    """
    found = _FORMS.get(path.rpartition("/")[2].lower())
    if found is None:
        return []
    read, patterns = found
    try:
        before, after = read(old), read(new)
    except (ValueError, RecursionError, ConfigError):
        return [""] if old != new else []
    names = sorted(
        name for name in before.keys() | after.keys() if before.get(name) != after.get(name)
    )
    return [name for name in names if any(_matches(name, pattern) for pattern in patterns)]


def values(path: str, content: bytes, section: str) -> Mapping[str, Any]:
    """What stands in one section of a settings file of TOML or INI; empty if none can be read."""
    try:
        found: Any = (
            parse_config(content, "a settings file", None)
            if path.endswith(".toml")
            else _ini_sections(content)
        )
        for name in section.split(".") if path.endswith(".toml") else [section]:
            found = found.get(name, {})
    except (AttributeError, ValueError, RecursionError, ConfigError):
        return {}
    return found if isinstance(found, dict) else {}


def is_sectioned(path: str) -> bool:
    """Whether the file of this name holds settings of many tools."""
    return path.rpartition("/")[2].lower() in _FORMS


def _matches(name: str, pattern: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


def _flat(record: object, prefix: str = "") -> dict[str, str]:
    """A nested record as dotted names of its leaves."""
    if not isinstance(record, dict) or not record:
        return {prefix: json.dumps(record, sort_keys=True, default=str)} if prefix else {}
    flat: dict[str, str] = {}
    for name, value in record.items():
        flat.update(_flat(value, f"{prefix}.{name}" if prefix else str(name)))
    return flat


def _toml(data: bytes) -> Mapping[str, Any]:
    return _flat(parse_config(data, "a settings file", None))


def _json(data: bytes) -> Mapping[str, Any]:
    return _flat(json.loads(data) if data.strip() else {})


def _ini(data: bytes) -> Mapping[str, Any]:
    return _flat(_ini_sections(data))


def _ini_sections(data: bytes) -> dict[str, Any]:
    from configparser import Error, RawConfigParser

    parser = RawConfigParser(strict=False)
    try:
        parser.read_string(data.decode())
    except Error as error:
        raise ValueError(str(error)) from None
    return {name: dict(parser[name]) for name in parser.sections()}


def _go_mod(data: bytes) -> Mapping[str, Any]:
    """The lines that put other code in the place of a module."""
    lines = [" ".join(line.split(b"//")[0].decode().split()) for line in data.split(b"\n")]
    return {"replace": "\n".join(line for line in lines if "=>" in line)}


_FORMS: dict[str, tuple[Callable[[bytes], Mapping[str, Any]], tuple[str, ...]]] = {
    "pyproject.toml": (_toml, _PYPROJECT),
    "pipfile": (_toml, ("scripts*",)),
    "setup.cfg": (_ini, _INI),
    "package.json": (_json, _PACKAGE),
    "composer.json": (_json, ("scripts*",)),
    "cargo.toml": (_toml, _CARGO),
    "go.mod": (_go_mod, ("replace",)),
}
