"""What the manifests of a project say that it needs, each with its line."""

from __future__ import annotations

import re
from contextlib import suppress
from itertools import islice

from rlm_ci.source.manifests import crates
from rlm_ci.source.packages.declared import SetupScript
from rlm_ci.source.packages.declared import declared as manifest
from rlm_ci.wiki.facts.note import Statement

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from rlm_ci.source import Outline
    from rlm_ci.source.packages.declared import Declared

#: How the parts of a manifest begin in which its user finds what the program needs, by group.
_BEGINS: dict[str, dict[str, str]] = {
    "pyproject.toml": {
        "": r"^\s*dependencies\s*=|^\s*\[tool\.poetry\.dependencies\]",
        "extra": r"optional-dependencies",
    },
    "package.json": {
        "": r'"dependencies"', "peer": r'"peerDependencies"', "optional": r'"optionalDependencies"',
    },
    "Cargo.toml": {}, "go.mod": {"": ""}, "setup.cfg": {"": "", "extra": ""},
    "setup.py": {"": "", "extra": ""},
}  # fmt: skip
_QUOTED = re.compile(r"""(["'])(.+?)\1""")
_MOST = 300
_LISTED = re.compile(r"(?:^|/)requirements/(?:[\w.-]+/)*[\w.-]+\.txt$")
#: What is needed to work on the program rather than by it.
_TOOLS = re.compile(
    r"(?:.*[._-])?(?:dev|develop|development|tests?|testing|docs?|lint|style|ci|tools?|pkgutils)"
    r"(?:[._-].*)?\.txt"
)


def declared(path: str, content: bytes) -> tuple[tuple[str, Statement], ...]:
    """Names of packages, and how the manifest writes each; () for any other file."""
    if not _is_told(path):
        return ()
    lines = content.decode("utf-8", "surrogateescape").split("\n")
    packages = list(islice(_needed(path, content, lines), _MOST))
    numbers = [number for _, number in packages]
    return tuple(
        (package, Statement(_written(package, lines, number, numbers), number, number))
        for package, number in packages
    )


def _is_told(path: str) -> bool:
    """Whether the wiki says what this manifest asks for."""
    name = path.rpartition("/")[2]
    is_list = re.fullmatch(r"requirements[\w.-]*\.txt", name) or is_listed(path)
    return name in _BEGINS or bool(is_list)


def _needed(path: str, content: bytes, lines: Sequence[str]) -> Iterator[tuple[str, int]]:
    """What the program itself needs, with the line of each; nothing where it cannot be read."""
    name = path.rpartition("/")[2]
    if name == "Cargo.toml":  # by its lines: a workspace may be written in pieces
        yield from ((package, at) for package, at, table in crates(lines) if table[:3] != "dev")
        return
    with suppress(ValueError):
        for package in manifest(path, content):
            begins = _begins(name, package.group)
            if begins and (at := package.line or _line_of(package, begins, lines)):
                yield package.name, at


def _begins(name: str, group: str) -> list[str]:
    """How the part of a manifest begins, from outside to inside, that has what the program needs.

    Empty for other parts.
    """
    kind, _, extra = group.partition(" ") if group.startswith("extra ") else (group, "", "")
    begins = _BEGINS.get(name, {group: ""}).get(kind)
    key = rf"""^\s*(?:[\w-]+\.)*["']?{re.escape(extra)}["']?\s*="""
    return [] if begins is None else [begins, key] if extra else [begins]


def _line_of(package: Declared, begins: Iterable[str], lines: Sequence[str]) -> int:
    """The first line behind ``begins`` that names a package, if one does with its version.

    0 for none.
    """
    name = re.escape(package.name)
    sign = re.compile(rf"""["']{name}(?![\w.-])|^\s*{name}\s*[.=]""")
    start = 0
    for pattern in begins:
        rows = range(start, len(lines))
        start = next((at for at in rows if re.search(pattern, lines[at])), start)
    naming = [at for at in range(start, len(lines)) if sign.search(lines[at])]
    exact = (at for at in naming if package.version in lines[at])
    return next(exact, naming[0] if naming else -1) + 1


def is_listed(path: str) -> bool:
    """Whether a file is one of several that list what the program itself needs."""
    return bool(_LISTED.search(path)) and not _TOOLS.fullmatch(path.rpartition("/")[2])


def _written(package: str, lines: Sequence[str], number: int, numbers: Sequence[int]) -> str:
    """The requirement as it is quoted, or its line; the name if the line has several."""
    text = lines[number - 1].strip().rstrip(",")
    quoted = [quote for _, quote in _QUOTED.findall(text)]
    matching = [quote for quote in quoted if re.match(rf"{re.escape(package)}(?![\w.-])", quote)]
    if matching and (matching[0] != package or len(quoted) == 1):
        return matching[0] if len(matching[0]) <= 120 else package
    is_own = numbers.count(number) == 1 and len(text) <= 120 and not text.startswith("[")
    return text if is_own else package


_PROJECT = re.compile(r"[A-Za-z0-9@/._-]{1,100}")
_METADATA = re.compile(rb"(?ms)^\[metadata\](?:(?!^\[).)*?^name\s*=\s*(\S+)")


def project(read: Outline, content: bytes) -> str:
    """The name that a manifest at the top of the repository gives its project, "" for none."""
    name = ""
    if read.path == "setup.py":
        with suppress(ValueError):
            name = next((text for text, _ in SetupScript(content).texts("name")), "")
    elif read.path == "setup.cfg" and (match := _METADATA.search(content)):
        name = match[1].decode("utf-8", "replace")
    elif read.path in _BEGINS:
        name = next((symbol.name for symbol in read.symbols if symbol.kind == "module"), "")
    if read.path == "go.mod":  # a major version is no name
        name = re.sub(r"/v\d+$", "", name).rpartition("/")[2]
    return name if _PROJECT.fullmatch(name) else ""
