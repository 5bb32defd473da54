"""The tools that would look at what a review did not.

The report may come from anywhere: only known languages are shown.
"""

from __future__ import annotations

from collections import Counter

from rlm_ci.source.languages import CODE, OTHER
from rlm_ci.text.printable import count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_SCRIPTS = "JavaScript TypeScript TSX Vue Svelte"
_ANY = (
    "C C# C++ CUDA Clojure Dart Elixir HCL Java Julia Kotlin Lua OCaml Objective-C PHP R Ruby "
    "Scala Solidity Starlark Swift"
)
#: The analyzer of a language, and whether ``review.analyzers = "auto"`` finds it.
ANALYZERS: dict[str, tuple[str, bool]] = {
    "Python": ("ruff, of rlm-ci[review]", True),
    "Go": ("staticcheck, or golangci-lint with gosec", True),
    "Rust": ("clippy", True),
    "Shell": ("shellcheck", True),
    "Dockerfile": ("hadolint", True),
    **dict.fromkeys(_SCRIPTS.split(), ("eslint", True)),
    **dict.fromkeys(_ANY.split(), ("semgrep", False)),
}
_AUTO = '[review]\nanalyzers = "auto"'
_BY_NAME = """\
[[review.analyzers]]
name = "semgrep"
command = ["semgrep", "scan", "--quiet", "--sarif", "--config", "RULES.yml", "{folder}"]"""
#: Languages that are named.
_MOST = 6


def advice(others: Mapping[str, int], *, auto: bool, is_change: bool) -> tuple[str, str] | None:
    """What would look at ``others``, numbers of files by language, and the configuration for it.

    ``auto``: the repository's own analyzers run already.
    """
    names = [name for name, number in others.items() if number and name in CODE | ANALYZERS.keys()]
    if not names:
        return None
    files = [count(others[name], f"{name} file") for name in names[:_MOST]]
    tools = [f" ({ANALYZERS[name][0]})" if name in ANALYZERS else "" for name in names[:_MOST]]
    text = ", ".join(map("".join, zip(files, tools, strict=True)))
    left = len(names) - _MOST
    text += f" and {count(left, 'more language')}" if left > 0 else ""
    text = f"Not looked at: {text}. A model (`--model PROVIDER:NAME`) reads every file"
    if ANALYZERS.keys().isdisjoint(names):
        return f"{text}.", ""
    if names == ["Python"]:
        return f"{text}; or install ruff.", ""
    set_up = f"{text}; or set up the tool in the repository, and install it"
    found_by_auto = any(ANALYZERS[name][1] for name in names if name in ANALYZERS)
    if found_by_auto and auto:
        return f"{set_up}.", ""
    where = " on the base branch" if is_change else ""
    add = f"add to `rlm-ci.toml`{where}:"
    if found_by_auto:
        return f"{set_up}; then {add}", _AUTO
    return f"{text}; or install the tool, and {add}", _BY_NAME


def unread(
    languages: Iterable[str], why: str = "no analyzer for it is set up and installed"
) -> str:
    """What is said where nothing can read files of these languages."""
    files = files_by_language(Counter(languages))
    return f"nothing reads {files}: {why}, and no model is used"


def files_by_language(numbers: Mapping[str, int]) -> str:
    """Numbers of files by language, the most frequent first: ``2 Go files, 1 Rust file``."""
    ranked = sorted(numbers.items(), key=lambda pair: (-pair[1], pair[0]))
    files = [
        count(number, f"{name if name != OTHER else OTHER.lower()} file")
        for name, number in ranked[:_MOST]
    ]
    left = sum(number for _, number in ranked[_MOST:])
    return ", ".join([*files, *([count(left, "more file")] if left else [])])
