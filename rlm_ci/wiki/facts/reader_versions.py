"""Who reads the sources: what is known of a file depends on that, too."""

from __future__ import annotations

import sys
from functools import cache

from rlm_ci import __version__
from rlm_ci.source.grammars import LANGUAGES, is_known
from rlm_ci.wiki import FACTS, VERSION

#: Packages of grammars that are called otherwise than their language.
_PACKAGES = {"C#": "c-sharp", "C++": "cpp", "TSX": "typescript"}


@cache
def readers() -> str:
    """The versions of this program, of Python, and of the libraries that read for it."""
    from importlib.metadata import PackageNotFoundError, version

    found = [__version__, f"{VERSION}.{FACTS}", ".".join(map(str, sys.version_info[:2]))]
    libraries = ["markdown-it-py"]
    if any(map(is_known, LANGUAGES)):
        names = {_PACKAGES.get(name, name.lower()) for name in LANGUAGES}
        libraries += ["tree-sitter", *(f"tree-sitter-{name}" for name in sorted(names))]
    for name in libraries:
        try:
            found.append(version(name))
        except PackageNotFoundError:
            found.append("none")
    return " ".join(found)
