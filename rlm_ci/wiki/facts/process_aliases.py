"""By what names a file starts programs: only what it has from where programs are started counts."""

from __future__ import annotations

import re
from itertools import islice

from rlm_ci.source.definitions.rust import spread
from rlm_ci.wiki.facts import note as kinds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Patterns = tuple[tuple[str, str], ...]

#: What starts a program, by the module of JavaScript that it comes from; "" is the module itself.
_MODULE = r"['\"](?:node:)?child_process['\"]"
_STARTS: Mapping[str, str] = {
    **dict.fromkeys(("exec", "execSync"), kinds.SHELL),
    **dict.fromkeys(("spawn", "spawnSync", "execFile", "execFileSync", "fork"), kinds.PROGRAM),
}
_IMPORT = re.compile(r"\bimport\b")
_REQUIRE = re.compile(r"\b(?:require|import)\s*\($")
_BOUND = re.compile(r"(?:\{[^{}]*\}|[\w$]+)$")
_MEMBER = re.compile(r"\s*\)\s*(?:\.\s*(\w+))?")
#: So many imports of the module are looked at, and so many characters before each.
_IMPORTS, _BEFORE = 20, 2000
_LISTED = re.compile(r"(\w+)(?:\s*(?::|\bas\b)\s*(\w+))?")
_PROMISED = re.compile(
    r"\b(?:const|let|var)\s+(\w+)\s*=\s*(?:\w+\.)?promisify\(\s*(?:(\w+)\.)?(\w+)\s*\)"
)


def of_script(text: str) -> Patterns:
    """How a file of JavaScript or TypeScript starts programs."""
    if "child_process" not in text:
        return ()
    modules: set[str] = set()
    names: dict[str, str] = {}
    for found in islice(re.finditer(_MODULE, text), _IMPORTS):
        clause, member = _clause(text, found.start(), found.end())
        listed = re.search(r"\{([^{}]*)\}", clause)
        for there, here in _LISTED.findall(listed[1]) if listed else ():
            names[here or there] = there
        own = re.match(r"\s*(?:\*\s*as\s+)?(\w+)", clause)
        if own and member:
            names[own[1]] = member
        elif own:
            modules.add(own[1])
    for name, module, there in _PROMISED.findall(text):
        if module in modules or there in names:
            names[name] = there if module else names[there]
    return tuple(_calls(modules, names))


def _clause(text: str, start: int, end: int) -> tuple[str, str]:
    """What the module there is bound to, and the member of it that is, "" for the whole."""
    before = text[max(0, start - _BEFORE) : start].rstrip()
    if before.endswith("from"):
        return _IMPORT.split(before.removesuffix("from"))[-1], ""
    call = _REQUIRE.search(before)
    rest = before[: call.start()].rstrip().removesuffix("await").rstrip() if call else ""
    bound = _BOUND.search(rest.removesuffix("=").rstrip()) if rest.endswith("=") else None
    member = _MEMBER.match(text[end : end + 200])
    return bound[0] if bound else "", (member[1] if member else None) or ""


def _calls(modules: Iterable[str], names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    held = "|".join([*sorted(modules), rf"require\({_MODULE}\)"])
    for kind in (kinds.SHELL, kinds.PROGRAM):
        members = "|".join(there for there in _STARTS if _STARTS[there] == kind)
        calls = [rf"(?:{held})\.(?:{members})"]
        calls += [name for name, there in sorted(names.items()) if _STARTS.get(there) == kind]
        yield rf"(?<![.\w$])(?:{'|'.join(calls)})\(", kind


_USE = re.compile(r"\buse\s+([^;]{1,2000});")
_AS = re.compile(r"\s+as\s+")
#: Crates whose ``process::Command`` starts a program.
_CRATES = ("std", "tokio", "async_std", "async_process")


def of_rust(text: str) -> Patterns:
    """How a file of Rust starts programs: many a crate has a ``Command`` of its own."""
    names = [r"(?:\w+::)*process::Command"]
    for said in _USE.findall(text) if "Command" in text else ():
        for path in spread("".join(_AS.sub("@", said).split())):
            there, _, here = path.partition("@")
            parts = there.removeprefix("::").split("::")
            if parts[0] in _CRATES and parts[-1] == "Command":
                names.append(here or "Command")
    return ((rf"(?<![\w:])(?:{'|'.join(dict.fromkeys(names))})::new\(", kinds.PROGRAM),)
