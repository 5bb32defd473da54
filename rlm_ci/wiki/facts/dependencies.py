"""What the manifests of a project say that it needs, and what it is, each with its lines.

Of a folder that has its own wiki, also those of the repository around it.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from hashlib import sha256
from itertools import islice

from rlm_ci.git.objects import parse_tree
from rlm_ci.source.manifests import crates
from rlm_ci.source.outline import outline
from rlm_ci.source.packages.declared import SetupScript
from rlm_ci.source.packages.declared import declared as manifest
from rlm_ci.system import files
from rlm_ci.values import Value
from rlm_ci.wiki.facts.note import Statement
from rlm_ci.wiki.pages.paths import folder_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from rlm_ci.git.repository import Repository
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


#: The tables in which a manifest may describe its project; "" where it has none.
_DESCRIBING = {
    "pyproject.toml": ("project", "tool.poetry"), "Cargo.toml": ("package",),
    "setup.cfg": ("metadata",), "package.json": ("",), "composer.json": ("",),
}  # fmt: skip
_TABLE = re.compile(r"\s*\[([^\[\]]+)\]")
_DESCRIBED = re.compile(
    r"""\s*(?:"description"\s*:|description\s*=|\w+\.summary\s*=)\s*("{3}|["']?)(.*?)(\1,?\s*|)$"""
)
#: Lines of a description, and its words.
_DESCRIPTION_LINES, _DESCRIPTION_WORDS = 6, 2


def description(path: str, content: bytes) -> Statement | None:
    """How a manifest describes its project, in a text of a few lines; None for any other file."""
    name = path.rpartition("/")[2]
    text, first, last = "", 0, 0
    if name == "setup.py":
        with suppress(ValueError):
            text, first = next(SetupScript(content).texts("description"), (text, first))
        last = first
    else:
        tables = ("",) if name.endswith(".gemspec") else _DESCRIBING.get(name, ())
        lines = content.decode("utf-8", "replace").split("\n") if tables else []
        text, first, last = _description(lines, tables)
    text = " ".join(text.split())
    return Statement(text, first, last) if len(text.split()) >= _DESCRIPTION_WORDS else None


def _description(lines: Sequence[str], tables: Iterable[str]) -> tuple[str, int, int]:
    """The text, its first line and its last; zeros for none."""
    table = ""
    for number, row in enumerate(lines, start=1):
        begun, match = _TABLE.match(row), _DESCRIBED.match(row)
        if begun:
            table = begun[1].strip()
        elif match and table in tables:
            if match[1] != '"""' or match[3]:
                return match[2], number, number
            ends = range(number, min(number + _DESCRIPTION_LINES, len(lines)))
            last = next((at for at in ends if '"""' in lines[at]), number - 1)
            text = " ".join((match[2], *lines[number : last + 1])).partition('"""')[0]
            return text, number, last + 1
    return "", 0, 0


#: They say what a project needs, and by which name its parts are imported.
_MANIFEST = re.compile(
    r"pyproject\.toml|setup\.(?:py|cfg)|package\.json|Cargo\.toml|go\.mod"
    r"|requirements[\w.-]*\.txt|(?:ts|js)config(?:\.[\w.-]+)?\.json"
)
#: So many of them are read, the nearest to the top, and so many bytes of each.
_MANIFESTS, _LONGEST = 500, 1 << 20


class OuterProject(Value):
    """The repository around the folder ``under``: its paths, and the contents of its manifests."""

    under: str
    paths: tuple[str, ...] = ()
    manifests: Mapping[str, bytes] = {}

    @classmethod
    def at_commit(cls, repository: Repository, commit: str, under: str) -> OuterProject:
        with repository.start_tree(commit, sizes=True) as listing:
            tree = parse_tree(listing.finish())
        paths = _beyond((path for path, entry in tree.items() if entry.is_file), under)
        manifests = [
            manifest for manifest in _manifests(paths) if 0 <= tree[manifest].size <= _LONGEST
        ]
        contents = repository.read(*(tree[path].oid for path in manifests)) if manifests else []
        pairs = zip(manifests, contents, strict=True)
        return cls(under, paths, {path: data for path, data in pairs if data is not None})

    @classmethod
    def on_disk(cls, repository: Repository, every: Iterable[str], under: str) -> OuterProject:
        """``every``: the files of the work tree."""
        paths, manifests = _beyond(every, under), {}
        for path in _manifests(paths):
            with suppress(files.UnreadableError):
                manifests[path] = files.read_inside(repository.root, path, _LONGEST)
        return cls(under, paths, manifests)

    def digest(self) -> str:
        parts = [self.under, *self.paths]
        parts += [f"{path}\0{sha256(data).hexdigest()}" for path, data in self.manifests.items()]
        return sha256("\0".join(parts).encode("utf-8", "surrogateescape")).hexdigest()

    def outlines(self) -> list[Outline]:
        return [outline(path, data) for path, data in self.manifests.items()]

    def needed(self) -> frozenset[str]:
        """The packages that the manifests above the folder declare."""
        above = [
            (path, data)
            for path, data in self.manifests.items()
            if f"{self.under}/".startswith(f"{_home(path)}/") or not _home(path)
        ]
        return frozenset(name for path, data in above for name, _ in declared(path, data))


def _home(path: str) -> str:
    return path.rpartition("requirements/")[0].rstrip("/") if is_listed(path) else folder_of(path)


def _beyond(every: Iterable[str], under: str) -> tuple[str, ...]:
    return tuple(
        sorted(path for path in every if path != under and not path.startswith(f"{under}/"))
    )


def _manifests(paths: Sequence[str]) -> list[str]:
    manifests = [
        path for path in paths if _MANIFEST.fullmatch(path.rpartition("/")[2]) or is_listed(path)
    ]
    return sorted(manifests, key=lambda path: (path.count("/"), path))[:_MANIFESTS]


def listed(repository: Repository) -> list[str]:
    """The files of a work tree that git knows or does not ignore. Raises what git raises."""
    with repository.start_listing() as listing:
        names = dict.fromkeys(listing.finish().split(b"\0"))
    return [os.fsdecode(name).replace(os.sep, "/") for name in names if name]
