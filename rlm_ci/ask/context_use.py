"""What a question has shown of its text, and whether its counts come out again.

All other files of a question follow from its record (``solve/verify_record``). A count is a fact of
the record, for how long an expression may take depends on the machine: so it is counted again.
"""

from __future__ import annotations

import json
import os

from rlm_ci.environments.symbolic import loop
from rlm_ci.environments.symbolic.iteration import REFUSED, merged
from rlm_ci.environments.symbolic.planner.prompt import spans_of
from rlm_ci.system import files
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rlm_ci.context.context import Context

#: The folder of the planner's prompts in the ``rlm/`` of a run.
PLANNER = "planner"
_LIMIT = 64 << 20


class ContextUse(Value):
    """The text of the source that a run showed to its planner.

    ``prompts`` is their number, ``largest`` the bytes of the longest, which ``limit`` bounds;
    ``excerpt_bytes`` are the bytes of the source in them, each counted once. ``counts`` were
    counted again. ``maps`` were reduced again with the run.
    """

    prompts: int
    largest: int
    limit: int
    excerpt_bytes: int
    counts: int
    maps: int
    problems: tuple[str, ...]


def examine(folder: str, context: Context) -> ContextUse:
    """Look at the files in ``folder``, the ``rlm/`` of a run, which follow from its record.

    Raises StorageError, DamagedError for a source that has changed.
    """
    state = json.loads(files.read_inside(folder, "state.json", _LIMIT))
    turns = state["symbolic_iterations"]
    entries = [entry for turn in turns for entry in turn.get("counts", ())]
    sizes, spans = [], []
    for path in _attempts(folder):
        sizes.append(os.path.getsize(os.path.join(path, "prompt.txt")))
        meta = json.loads(files.read_inside(path, "meta.json", _LIMIT))
        spans += [span for section in meta["sections"] for span in spans_of(section)]
    return ContextUse(
        len(sizes),
        max(sizes, default=0),
        state["budgets"]["prompt_bytes"],
        sum(end - start for start, end in merged(spans)),
        sum(entry["found"]["error"] is None for entry in entries),
        sum(entry["status"] != REFUSED for turn in turns for entry in turn.get("maps", ())),
        tuple(
            printable(f"state.json, {entry['pointer']}: the context has other hits")
            for entry in entries
            if not _is_right(entry, context)
        ),
    )


def _attempts(folder: str) -> Iterator[str]:
    """The folders of the planner's questions."""
    planner = os.path.join(folder, PLANNER)
    for iteration in os.listdir(planner) if os.path.isdir(planner) else ():
        for attempt in os.listdir(os.path.join(planner, iteration)):
            yield os.path.join(planner, iteration, attempt)


def _is_right(entry: dict[str, Any], context: Context) -> bool:
    """Whether a count comes out again; one that an expression's time ended is not counted."""
    fact = entry["found"]
    return fact["error"] is not None or loop.counted(loop.from_state(entry), context) == fact
