"""What the tests of plans and planners start from: a context's measures, steps, and no secrets."""

from __future__ import annotations

from typing import Any

from rlm_ci.context.context import Excerpt, Hit, QueryResult, SourceFile
from rlm_ci.environments.symbolic.iteration import (
    Iteration,
    ReadResult,
    SearchResult,
    SubcallResult,
)
from rlm_ci.environments.symbolic.planner.file_map import FileMap
from rlm_ci.environments.symbolic.planner.prompt import ContextMetadata

OBJECT = f"sha256:{'ab' * 32}"
CHUNK = f"ctx:{OBJECT}#chunk:c000001"
PIECES = (
    SourceFile("c.txt", 0, 50, None),
    SourceFile("src/a.py", 50, 900, None),
    SourceFile("src/b.py", 900, 999, None),
)
CONTEXT = ContextMetadata(OBJECT, 1 << 30, 17_477, 65_536, 4_096, FileMap(PIECES))


def search(query: str, *previews: str, at: int = 0, reason: str = "") -> SearchResult:
    """The hits of a query, 1,000 bytes apart, each shown by its preview."""
    hits = tuple(
        Hit(
            CHUNK, at + 1000 * rank, at + 1000 * rank + len(query), len(previews) - rank, preview,
            at + 1000 * rank, at + 1000 * rank + len(preview.encode()),
        )
        for rank, preview in enumerate(previews)
    )  # fmt: skip
    return SearchResult(query, 20, QueryResult(query, len(hits), len(hits), hits), reason)


def read(text: str, *, at: int = 0, pointer: str = CHUNK, reason: str = "") -> ReadResult:
    end = at + len(text.encode())
    return ReadResult(pointer, Excerpt(at, end, text, truncated=True), reason)


def subcall(output: str, *, iteration: int = 0, number: int = 1, **more: Any) -> SubcallResult:
    ident = f"sc{number:04d}"
    fields: dict[str, Any] = {
        "id": ident,
        "purpose": "summarize",
        "pointer": f"subcall:{iteration}:{ident}",
        "status": "succeeded",
        "output": output,
        "error": None,
        "input_bytes": 100,
        "output_bytes": len(output.encode()),
        "clamped": (),
        "artifact_paths": {},
        "spans": ((0, 100),),
    }
    return SubcallResult(**{**fields, **more})


def step(iteration: int, *done: SearchResult | ReadResult | SubcallResult) -> Iteration:
    return Iteration(
        iteration,
        tuple(one for one in done if isinstance(one, SearchResult)),
        tuple(one for one in done if isinstance(one, ReadResult)),
        tuple(one for one in done if isinstance(one, SubcallResult)),
    )
