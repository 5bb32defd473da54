"""The packages of a lock file, with their versions, and which run scripts at an installation.

Lock files are read line by line, or as JSON; both take time in proportion to their size.
"""

from __future__ import annotations

import json
import re

from rlm_ci.source.packages.declared import CARGO, NPM, PHP, PYTHON, RUBY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    #: A package, one of its versions, and whether it runs a script at an installation.
    Found = tuple[str, str, bool]

#: Bytes of a lock file that is read.
MAX_BYTES = 16 << 20
_PAIR = re.compile(r'(name|version) = "([^"]*)"\s*$')
_YARN = re.compile(r'"?((?:@[^@/"\s]+/)?[^@"\s,]+)@[^:]*:?.*:\s*$')
_YARN_VERSION = re.compile(r'  "?version"?:? "?([^"\s]+)"?\s*$')
_PNPM = re.compile(r"  ['\"]?/?((?:@[^@/\s'\"]+/)?[^@/\s'\"]+)[@/]([^\s('\":]+)[^:]*:\s*$")
_JSONC = re.compile(r'("(?:[^"\\]|\\.)*")|//[^\n]*|,(?=\s*[}\]])')
_GEM = re.compile(r"    ([\w.-]+) \(([^)]+)\)\s*$")


def ecosystem_of(path: str) -> str:
    """Whose lock file a file is; "" for any other file."""
    return _READERS.get(path.rpartition("/")[2], ("", _toml))[0]


def locked(path: str, content: bytes) -> dict[str, tuple[tuple[str, ...], bool]]:
    """The versions of each package, and whether it runs a script at an installation.

    Raises ValueError where the file cannot be read.
    """
    _, reader = _READERS[path.rpartition("/")[2]]
    versions: dict[str, dict[str, None]] = {}
    scripts = set()
    try:
        for name, version, has_script in reader(content):
            versions.setdefault(name, {})[version] = None
            if has_script:
                scripts.add(name)
    except (AttributeError, TypeError, LookupError, RecursionError) as error:
        raise ValueError(f"not of the form of a lock file: {error}") from None
    return {name: (tuple(sorted(numbers)), name in scripts) for name, numbers in versions.items()}


def _lines(content: bytes) -> Iterator[str]:
    return iter(content.decode("utf-8", "replace").split("\n"))


def _toml(content: bytes) -> Iterator[Found]:
    """Tables with a name and a version: ``[[package]]``, in pylock.toml ``[[packages]]``."""
    package: dict[str, str] | None = None
    for line in _lines(content):
        if line.startswith("["):
            if package and "name" in package:
                yield package["name"], package.get("version", ""), False
            package = {} if line.rstrip() in ("[[package]]", "[[packages]]") else None
        elif package is not None and (match := _PAIR.match(line)):
            package.setdefault(match[1], match[2])
    if package and "name" in package:
        yield package["name"], package.get("version", ""), False


def _npm(content: bytes) -> Iterator[Found]:
    record = json.loads(content)
    for path, package in record.get("packages", {}).items():
        if "node_modules/" in path and isinstance(package, dict):
            name = path.rpartition("node_modules/")[2]
            yield name, str(package.get("version", "")), package.get("hasInstallScript") is True
    waiting = [] if "packages" in record else [record.get("dependencies", {})]
    while waiting:
        for name, package in waiting.pop().items():
            if isinstance(package, dict):
                yield name, str(package.get("version", "")), False
                waiting.append(package.get("dependencies", {}))


def _yarn(content: bytes) -> Iterator[Found]:
    name = ""
    for line in _lines(content):
        if line[:1] not in ("", " ", "#"):
            match = _YARN.match(line) if len(line) < 2000 else None
            name = match[1] if match else ""
        elif name and (version := _YARN_VERSION.match(line)):
            yield name, version[1], False
            name = ""


def _pnpm(content: bytes) -> Iterator[Found]:
    inside, last = False, ("", "")
    for line in _lines(content):
        if line[:1] not in ("", " ", "#"):
            inside = line.startswith("packages:")
        elif inside and (match := _PNPM.match(line) if len(line) < 2000 else None):
            last = match[1], match[2]
            yield *last, False
        elif inside and last[0] and line.strip() == "requiresBuild: true":
            yield *last, True


def _bun(content: bytes) -> Iterator[Found]:
    """JSON with trailing commas. The scripts of trusted packages run, those of others do not."""
    text = content.decode("utf-8", "replace")
    record = json.loads(_JSONC.sub(lambda match: match[1] or "", text))
    trusted = frozenset(map(str, record.get("trustedDependencies", ())))
    for entry in record.get("packages", {}).values():
        spec = str(entry[0])
        tail, _, version = spec[1:].partition("@")  # a name may begin with one
        if not version.startswith("workspace:"):
            yield spec[:1] + tail, version, spec[:1] + tail in trusted


def _gems(content: bytes) -> Iterator[Found]:
    for line in _lines(content):
        if match := _GEM.match(line):
            yield match[1], match[2], False


def _composer(content: bytes) -> Iterator[Found]:
    record = json.loads(content)
    for key in ("packages", "packages-dev"):
        for package in record.get(key, ()):
            yield str(package["name"]), str(package.get("version", "")), False


def _pipfile(content: bytes) -> Iterator[Found]:
    record = json.loads(content)
    for key in ("default", "develop"):
        for name, package in record.get(key, {}).items():
            yield name, str(package.get("version", "")).removeprefix("=="), False


_READERS: Mapping[str, tuple[str, Callable[[bytes], Iterator[Found]]]] = {
    "uv.lock": (PYTHON, _toml), "poetry.lock": (PYTHON, _toml), "pdm.lock": (PYTHON, _toml),
    "Pipfile.lock": (PYTHON, _pipfile), "Cargo.lock": (CARGO, _toml),
    "package-lock.json": (NPM, _npm), "npm-shrinkwrap.json": (NPM, _npm), "yarn.lock": (NPM, _yarn),
    "pnpm-lock.yaml": (NPM, _pnpm), "bun.lock": (NPM, _bun), "pylock.toml": (PYTHON, _toml),
    "Gemfile.lock": (RUBY, _gems), "composer.lock": (PHP, _composer),
}  # fmt: skip
