"""Does the validator read what was changed? It must fail once that is broken in the copy.

In the sandbox there is nothing else to read. Without one, an editable install or a package of a
workspace can lead to the user's work tree, and a test of it says nothing about the copy.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_WORD = "planted by rlm-ci"
_THROWS = f'\nthrow new Error("{_WORD}");\n'
#: What ends a program once it has loaded a file, and that a linter or a type checker accepts.
_ENDINGS = {
    ".py": f'\n\nraise ImportError("{_WORD}")\n',
    ".go": f'\nfunc init() {{\n\tpanic("{_WORD}")\n}}\n',
    ".rb": f'\nraise LoadError, "{_WORD}"\n',
    **dict.fromkeys((".js", ".mjs", ".cjs", ".jsx", ".ts", ".mts", ".cts", ".tsx"), _THROWS),
}
#: No language reads this.
_GARBAGE = f"\0)]}}> {_WORD} <{{[(\n".encode()


def raising(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """Those of the files that can be made to fail when they are loaded, changed to do so."""
    files = {}
    for path, content in contents.items():
        stem, kind = os.path.splitext(path)
        if kind in _ENDINGS and not stem.endswith(".d"):
            files[path] = content.rstrip() + b"\n" + _ENDINGS[kind].encode()
    return files


def unreadable(contents: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files with a content that none of their readers accepts."""
    return dict.fromkeys(contents, _GARBAGE)
