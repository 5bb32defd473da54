"""Blocks of code for a session, from a file of ``tests/environments/repl/cases``."""

from __future__ import annotations

import re
from pathlib import Path

_CASES = Path(__file__).parent.parent / "environments" / "repl" / "cases"


def blocks(name: str, **places: object) -> list[tuple[dict[str, str], str, str]]:
    """Each block: what its head says by name, its code, and what it prints after ``-->``.

    In the file a block begins with ``===``, and words such as ``error: ...``.
    """
    text = (_CASES / f"{name}.txt").read_text(encoding="utf-8")
    for place, value in places.items():
        text = text.replace(place, str(value))
    found = []
    for block in text.removeprefix("===").split("\n==="):
        head, _, body = block.partition("\n")
        code, _, output = body.partition("\n-->\n")
        words = re.split(r" (title|error|answer): ", head)[1:]
        found.append(
            (dict(zip(words[::2], words[1::2], strict=True)), code.strip(), output.rstrip("\n"))
        )
    assert len(found) > 5
    return found
