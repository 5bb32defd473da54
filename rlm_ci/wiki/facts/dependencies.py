"""What the manifests of a project say that it needs, each with its line."""

from __future__ import annotations

import ast
import json
import re

from rlm_ci.source.manifests import crates, go_modules
from rlm_ci.source.python import syntax
from rlm_ci.source.python.calls import callee
from rlm_ci.source.python.statements import every
from rlm_ci.wiki.facts.note import Statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rlm_ci.source import Outline

    Found = Iterator[tuple[str, int]]
    Known = Mapping[str, ast.expr]

_REQUIREMENT = re.compile(r"[A-Za-z0-9][\w.-]*")
_QUOTED = re.compile(r"""(["'])(.+?)\1""")
_MOST = 300
#: Pieces of a literal: a name may be a list that holds that name.
_PIECES = 2000
_LISTED = re.compile(r"(?:^|/)requirements/(?:[\w.-]+/)*[\w.-]+\.txt$")
#: What is needed to work on the program rather than by it.
_TOOLS = re.compile(
    r"(?:.*[._-])?(?:dev|develop|development|tests?|testing|docs?|lint|style|ci|tools?|pkgutils)"
    r"(?:[._-].*)?\.txt"
)


def declared(path: str, content: bytes) -> tuple[tuple[str, Statement], ...]:
    """Names of packages, and how the manifest writes each; () for any other file."""
    name = path.rpartition("/")[2]
    reader = _READERS.get(name) if name != "setup.py" else lambda _: _from_setup(content)
    if reader is None and (re.fullmatch(r"requirements[\w.-]*\.txt", name) or is_listed(path)):
        reader = _requirements
    if reader is None:
        return ()
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    found = []
    for package, number in reader(lines):
        found.append((package, number))
        if len(found) == _MOST:
            break
    numbers = [number for _, number in found]
    return tuple(
        (package, Statement(_written(package, lines, number, numbers), number, number))
        for package, number in found
    )


def is_listed(path: str) -> bool:
    """Whether a file is one of several that list what the program itself needs."""
    return bool(_LISTED.search(path)) and not _TOOLS.fullmatch(path.rpartition("/")[2])


def _written(package: str, lines: Sequence[str], number: int, numbers: Sequence[int]) -> str:
    """The requirement as it is quoted, or its line; the name if the line has several."""
    text = lines[number - 1].strip().rstrip(",")
    quoted = [told for _, told in _QUOTED.findall(text)]
    own = [told for told in quoted if re.match(rf"{re.escape(package)}(?![\w.-])", told)]
    if own and (own[0] != package or len(quoted) == 1):
        return own[0] if len(own[0]) <= 120 else package
    is_own = numbers.count(number) == 1 and len(text) <= 120 and not text.startswith("[")
    return text if is_own else package


_PROJECT = re.compile(r"[A-Za-z0-9@/._-]{1,100}")
_METADATA = re.compile(rb"(?ms)^\[metadata\](?:(?!^\[).)*?^name\s*=\s*(\S+)")


def project(read: Outline, content: bytes) -> str:
    """The name that a manifest at the top of the repository gives its project, "" for none."""
    name = ""
    if read.path == "setup.py":
        known, given = _setup(content)
        name = next((text for text, _ in _texts(given.get("name"), known)), "")
    elif read.path == "setup.cfg" and (found := _METADATA.search(content)):
        name = found[1].decode("utf-8", "replace")
    elif read.path in _READERS:
        name = next((one.name for one in read.symbols if one.kind == "module"), "")
    name = name.rpartition("/")[2] if read.path == "go.mod" else name
    return name if _PROJECT.fullmatch(name) else ""


def _requirements(lines: Sequence[str]) -> Found:
    for number, line in enumerate(lines, 1):
        match = _REQUIREMENT.match(line.strip())
        if match and not line.lstrip().startswith(("#", "-")):
            yield match[0], number


def _pyproject(lines: Sequence[str]) -> Found:
    table, inside = "", False
    for number, line in enumerate(lines, 1):
        bare = line.strip()
        if not inside and bare.startswith("["):
            table = bare.strip("[] ")
            continue
        begins = table == "project" and re.match(r"dependencies\s*=\s*\[", bare)
        begins = begins or (
            table == "project.optional-dependencies" and re.match(r"[\"\w.-]+\s*=\s*\[", bare)
        )
        if begins:
            inside = True
            bare = bare.partition("[")[2]
        if inside:
            for _, text in _QUOTED.findall(bare):
                match = _REQUIREMENT.match(text)
                if match:
                    yield match[0], number
            inside = not re.sub(r"\[[\w,. -]*\]", "", _QUOTED.sub("", bare)).count("]")
        elif table == "tool.poetry.dependencies":
            match = re.match(r"([\w.-]+)\s*=", bare)
            if match and match[1] != "python":
                yield match[1], number


def _package_json(lines: Sequence[str]) -> Found:
    try:
        record = json.loads("\n".join(lines))
    except (ValueError, RecursionError):
        return
    tables = ("dependencies", "peerDependencies", "optionalDependencies")
    for table in tables if isinstance(record, dict) else ():
        inner = record.get(table)
        if not isinstance(inner, dict):
            continue
        begins = next((n for n, line in enumerate(lines) if f'"{table}"' in line), 0)
        for name in inner:
            written = json.dumps(name, ensure_ascii=False)
            places = (n for n in range(begins, len(lines)) if written in lines[n])
            number = next(places, None)
            if number is not None:
                yield name, number + 1


def _cargo(lines: Sequence[str]) -> Found:
    for name, number, table in crates(lines):
        if not table.startswith("dev"):
            yield name, number


def _go_mod(lines: Sequence[str]) -> Found:
    for name, number, is_indirect in go_modules(lines):
        if not is_indirect:
            yield name, number


def _setup_cfg(lines: Sequence[str]) -> Found:
    table, inside = "", False
    for number, line in enumerate(lines, 1):
        if line.startswith("["):
            table = line.strip().strip("[]").strip()
        extra = table == "options.extras_require" and not line.startswith((" ", "\t", "["))
        begins = re.match(r"[\w.-]+\s*=" if extra else r"install_requires\s*=", line)
        inside = bool(begins) or (inside and line.startswith((" ", "\t")))
        match = _REQUIREMENT.match((line[begins.end() :] if begins else line).strip())
        if inside and match:
            yield match[0], number


_READERS = {
    "pyproject.toml": _pyproject,
    "package.json": _package_json,
    "Cargo.toml": _cargo,
    "go.mod": _go_mod,
    "setup.cfg": _setup_cfg,
}

# ── setup.py: read, and not run ──


def _from_setup(content: bytes) -> Found:
    known, given = _setup(content)
    extras = _resolved(given.get("extras_require"), known)
    nodes = [
        given.get("install_requires"),
        *(extras.values if isinstance(extras, ast.Dict) else ()),
    ]
    for text, number in (one for node in nodes for one in _texts(node, known)):
        match = _REQUIREMENT.match(text)
        if match:
            yield match[0], number


def _setup(content: bytes) -> tuple[Known, Known]:
    """The values of names, and the arguments of ``setup``."""
    file = syntax.read(content) if b"setup" in content else None
    known: dict[str, ast.expr] = {}
    given: dict[str, ast.expr] = {}
    for node in sorted(every(file.module), key=lambda one: one.lineno) if file is not None else ():
        if isinstance(node, ast.Assign):
            known |= {one.id: node.value for one in node.targets if isinstance(one, ast.Name)}
        elif isinstance(node, ast.Expr) and callee(node.value) == "setup":
            keywords: list[ast.keyword] = getattr(node.value, "keywords", [])
            given |= {one.arg: one.value for one in keywords if one.arg}
    return known, given


def _resolved(node: ast.expr | None, known: Known) -> ast.expr | None:
    return known.get(node.id) if isinstance(node, ast.Name) else node


def _texts(node: ast.expr | None, known: Known) -> Iterator[tuple[str, int]]:
    """The texts of a text, a list of texts, or the sum of such, line by line."""
    stack = [node]
    for _ in range(_PIECES):
        if not stack:
            return
        one = _resolved(stack.pop(), known)
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add):
            stack += [one.right, one.left]
        elif isinstance(one, ast.List | ast.Tuple | ast.Set):
            stack += reversed(one.elts)
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            lines = one.value.split("\n")
            # Lines of the value are not the file's where it is put together or escaped.
            runs = len(lines) - 1 == (one.end_lineno or one.lineno) - one.lineno
            for number, text in enumerate(lines):
                if text.strip():
                    yield text.strip(), one.lineno + (number if runs else 0)
