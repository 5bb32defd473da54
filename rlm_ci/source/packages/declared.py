"""The packages that a manifest or a ``setup.py`` asks for; the latter is read, and not run."""

from __future__ import annotations

import ast
import json
import re
from itertools import islice

from rlm_ci.config.settings import parse_config
from rlm_ci.source.manifests import go_modules
from rlm_ci.source.python import syntax
from rlm_ci.source.python.names import callee, text_of
from rlm_ci.source.python.statements import every
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any


#: Pieces of a literal: a name may be a list that holds that name.
_PIECES = 2000


class SetupScript:
    """The arguments of ``setup``, by name. Raises ValueError for what is not Python."""

    def __init__(self, content: bytes) -> None:
        file = syntax.read(content)
        if file is None:
            raise ValueError("not Python")
        self._values: dict[str, ast.expr] = {}
        self._arguments: dict[str, ast.expr] = {}
        for node in sorted(every(file.module), key=lambda node: node.lineno):
            if isinstance(node, ast.Assign):
                names = (target.id for target in node.targets if isinstance(target, ast.Name))
                self._values |= dict.fromkeys(names, node.value)
            elif isinstance(node, ast.Expr) and callee(node.value) == "setup":
                keywords: list[ast.keyword] = getattr(node.value, "keywords", [])
                self._arguments |= {word.arg: word.value for word in keywords if word.arg}

    def texts(self, argument: str) -> Iterator[tuple[str, int]]:
        """The texts of an argument that is one, a list of them, or the sum of such; their lines."""
        return self._texts(self._arguments.get(argument))

    def tables(self, argument: str) -> Iterator[tuple[str, Iterator[tuple[str, int]]]]:
        """The keys of an argument that is a table, each with the texts of its value."""
        table = self._resolved(self._arguments.get(argument))
        if isinstance(table, ast.Dict):
            for key, value in zip(table.keys, table.values, strict=True):
                yield text_of(key), self._texts(value)

    def _resolved(self, node: ast.expr | None) -> ast.expr | None:
        return self._values.get(node.id) if isinstance(node, ast.Name) else node

    def _texts(self, node: ast.expr | None) -> Iterator[tuple[str, int]]:
        stack = [node]
        for _ in range(_PIECES):
            if not stack:
                return
            part = self._resolved(stack.pop())
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add):
                stack += [part.right, part.left]
            elif isinstance(part, ast.List | ast.Tuple | ast.Set):
                stack += reversed(part.elts)
            elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                lines = part.value.split("\n")
                # Lines of the value are not the file's where it is put together or escaped.
                runs = len(lines) - 1 == (part.end_lineno or part.lineno) - part.lineno
                for number, text in enumerate(lines):
                    if text.strip():
                        yield text.strip(), part.lineno + (number if runs else 0)


#: The most packages that are read of a manifest.
_MOST = 2000
PYTHON, NPM, CARGO, GO, RUBY, PHP = "Python", "npm", "Cargo", "Go", "Ruby", "PHP"
#: Scripts that npm runs at an installation.
_AT_INSTALL = ("preinstall", "install", "postinstall", "prepare")
SCRIPT = "script"
_REQUIREMENT = re.compile(r"([A-Za-z0-9][\w.-]*)(?:\s*\[[^\]]*\])?\s*(.*)")
_GEM = re.compile(r"""\s*gem\s+["']([\w.-]+)["'](?:\s*,\s*["']([^"']*)["'])?""")


class Declared(Value):
    """What a manifest asks for: ``group`` is "" for what the program itself needs.

    With the group SCRIPT, ``version`` is a command that runs at an installation. ``line`` is
    1-based, 0 of what is read as a whole, as JSON and TOML are.
    """

    name: str
    version: str
    group: str = ""
    line: int = 0


def ecosystem_of(path: str) -> str:
    """Whose manifest a file is; "" for any other file."""
    name = path.rpartition("/")[2]
    return _ECOSYSTEMS.get(name, PYTHON if _is_requirements(path) else "")


def declared(path: str, content: bytes) -> list[Declared]:
    """What the manifest at ``path`` asks for. Raises ValueError where it cannot be read."""
    name = path.rpartition("/")[2]
    reader = _READERS.get(name, _requirements)
    stem = name.rpartition(".")[0]
    try:
        packages = list(islice(reader(content), _MOST))
    except (AttributeError, TypeError, KeyError, RecursionError) as error:
        raise ValueError(f"not of the form of a manifest: {error}") from None
    # A list beside the main one is for something: requirements/dev.txt.
    is_beside = reader is _requirements and stem != "requirements"
    return [package.replace(group=stem) for package in packages] if is_beside else packages


def is_pinned(path: str, packages: list[Declared]) -> bool:
    """Whether a list of requirements has one version of each, as tools write them."""
    return _is_requirements(path) and all(package.version.startswith("==") for package in packages)


def _is_requirements(path: str) -> bool:
    name = path.rpartition("/")[2]
    return bool(re.fullmatch(r"requirements[\w.-]*\.(?:txt|in)", name)) or bool(
        re.search(r"(?:^|/)requirements/[\w.-]+\.(?:txt|in)$", path)
    )


def _toml(content: bytes) -> Mapping[str, Any]:
    from rlm_ci.errors import ConfigError

    try:
        return parse_config(content, "", None)
    except ConfigError as error:
        raise ValueError(str(error)) from None


def _json(content: bytes) -> Mapping[str, Any]:
    record = json.loads(content)
    if not isinstance(record, dict):
        raise ValueError("no object")
    return record


def _required(texts: Iterable[object], group: str) -> Iterator[Declared]:
    return _at_lines(((text, 0) for text in texts if isinstance(text, str)), group)


def _at_lines(texts: Iterable[tuple[str, int]], group: str) -> Iterator[Declared]:
    """What requirements ask for, each given with its line."""
    for text, line in texts:
        match = _REQUIREMENT.match(text.strip())
        if match and not match[2].startswith("://"):
            yield Declared(match[1], match[2].partition(" #")[0].strip(), group, line)


def _rows(content: bytes) -> Iterator[tuple[str, int]]:
    lines = content.decode("utf-8", "replace").split("\n")
    return ((text, number) for number, text in enumerate(lines, 1))


def _tables(table: object, group: str) -> Iterator[Declared]:
    """A table of names and versions, or of names and tables with a version."""
    for name, value in table.items() if isinstance(table, dict) else ():
        version = value.get("version") or value.get("git") or value.get("path") if isinstance(
            value, dict
        ) else value  # fmt: skip
        yield Declared(name, version if isinstance(version, str) else "", group)


def _pyproject(content: bytes) -> Iterator[Declared]:
    record = _toml(content)
    project = record.get("project", {})
    yield from _required(project.get("dependencies", ()), "")
    for name, inner in project.get("optional-dependencies", {}).items():
        yield from _required(inner, f"extra {name}")
    for name, inner in record.get("dependency-groups", {}).items():
        yield from _required(inner, name)
    yield from _required(record.get("build-system", {}).get("requires", ()), "build")
    poetry = record.get("tool", {}).get("poetry", {})
    yield from (
        table for table in _tables(poetry.get("dependencies"), "") if table.name != "python"
    )
    yield from _tables(poetry.get("dev-dependencies"), "dev")
    for name, inner in poetry.get("group", {}).items():
        yield from _tables(inner.get("dependencies"), name)


def _requirements(content: bytes) -> Iterator[Declared]:
    rows = (row for row in _rows(content) if not row[0].lstrip().startswith(("#", "-")))
    return _at_lines(rows, "")


def _setup_cfg(content: bytes) -> Iterator[Declared]:
    table, group = "", None
    for text, number in _rows(content):
        if text.startswith("["):
            table = text.strip().strip("[]").strip()
        is_extra = table == "options.extras_require"
        begins = re.match(r"([\w.-]+)\s*=" if is_extra else r"(install_requires)\s*=", text)
        if begins:
            group = f"extra {begins[1]}" if is_extra else ""
        elif not text[:1].isspace():
            group = None
        if group is not None:
            yield from _at_lines([(text[begins.end() :] if begins else text, number)], group)


def _setup_py(content: bytes) -> Iterator[Declared]:
    script = SetupScript(content)
    yield from _at_lines(script.texts("install_requires"), "")
    for extra, texts in script.tables("extras_require"):
        yield from _at_lines(texts, f"extra {extra}")


def _package_json(content: bytes) -> Iterator[Declared]:
    record = _json(content)
    for key, group in (
        ("dependencies", ""), ("devDependencies", "dev"), ("peerDependencies", "peer"),
        ("optionalDependencies", "optional"),
    ):  # fmt: skip
        yield from _tables(record.get(key), group)
    scripts = record.get("scripts", {})
    for name in _AT_INSTALL:
        if isinstance(scripts.get(name), str):
            yield Declared(f"scripts.{name}", scripts[name], SCRIPT)


def _cargo(content: bytes) -> Iterator[Declared]:
    record = _toml(content)
    tables = [record, record.get("workspace", {}), *record.get("target", {}).values()]
    for table in tables:
        for key, group in (
            ("dependencies", ""), ("dev-dependencies", "dev"), ("build-dependencies", "build"),
        ):  # fmt: skip
            yield from _tables(table.get(key), group)


def _go_mod(content: bytes) -> Iterator[Declared]:
    lines = [text for text, _ in _rows(content)]
    for name, number, is_indirect in go_modules(lines):
        version = re.search(r"\s(v\d\S*)", lines[number - 1])
        group = "indirect" if is_indirect else ""
        yield Declared(name, version[1] if version else "", group, number)


def _gemfile(content: bytes) -> Iterator[Declared]:
    for line in content.decode("utf-8", "replace").splitlines():
        if match := _GEM.match(line):
            yield Declared(match[1], match[2] or "")


def _composer(content: bytes) -> Iterator[Declared]:
    record = _json(content)
    for key, group in (("require", ""), ("require-dev", "dev")):
        yield from (table for table in _tables(record.get(key), group) if "/" in table.name)


_READERS: Mapping[str, Callable[[bytes], Iterator[Declared]]] = {
    "pyproject.toml": _pyproject, "setup.cfg": _setup_cfg, "setup.py": _setup_py,
    "package.json": _package_json, "Cargo.toml": _cargo, "go.mod": _go_mod,
    "Gemfile": _gemfile, "composer.json": _composer,
}  # fmt: skip
_ECOSYSTEMS = {
    "pyproject.toml": PYTHON, "setup.cfg": PYTHON, "setup.py": PYTHON, "package.json": NPM,
    "Cargo.toml": CARGO, "go.mod": GO, "Gemfile": RUBY, "composer.json": PHP,
}  # fmt: skip
