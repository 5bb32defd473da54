"""What a snapshot ignores, as one file of patterns that nobody inside the copy can edit.

Git reads ``.gitignore`` from the work tree, where an agent may write. So the rules of the
snapshot are gathered once, each anchored to its folder, deeper folders later: with the last
match winning, that says the same as the many files did.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

#: What tools leave behind beside the sources. Not part of a snapshot unless it is tracked.
CACHES = (
    "__pycache__/", "*.py[co]", ".pytest_cache/", ".mypy_cache/", ".ruff_cache/", ".hypothesis/",
    ".coverage", ".coverage.*", "node_modules/", ".venv/", ".tox/", ".nox/",
    ".eggs/", ".DS_Store", ".rlm-ci-*.tmp", ".rlm-ci-*.old",
)  # fmt: skip
#: Where we ourselves write.
OURS = ("/.runs/", "/out/")


def gathered(sources: Iterable[tuple[str, bytes]]) -> bytes:
    """The patterns of all ``sources``, pairs of folder ("" for the top) and content.

    The weakest come first; a deeper folder is stronger.
    """
    lines: list[bytes] = []
    for folder, content in sources:
        prefix = _literal(folder)
        for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
            pattern = _anchored(line.removesuffix(b"\r"), prefix)
            if pattern:
                lines.append(pattern)
    return b"".join(line + b"\n" for line in lines)


def anchored(folder: str) -> str:
    """The pattern of exactly one folder."""
    return _literal(folder).decode("utf-8", "surrogateescape")


def _literal(folder: str) -> bytes:
    name = folder.encode("utf-8", "surrogateescape")
    for sign in (b"\\", b"*", b"?", b"["):
        name = name.replace(sign, b"\\" + sign)
    # A line cannot hold a line break: any one character stands for it.
    name = name.replace(b"\n", b"?")
    return b"/" + name + b"/" if name else b""


def _anchored(line: bytes, prefix: bytes) -> bytes:
    if not prefix or not line.strip() or line.startswith(b"#"):
        return line
    sign, body = (b"!", line[1:]) if line.startswith(b"!") else (b"", line)
    if not body.strip(b"/ "):
        return b""
    inner = body.rstrip(b" ").removesuffix(b"/")
    return sign + prefix + (body.lstrip(b"/") if b"/" in inner else b"**/" + body)
