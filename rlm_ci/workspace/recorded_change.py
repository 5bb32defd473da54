"""What changes a copy of the work tree, as a fact of the run's record."""

from __future__ import annotations

from rlm_ci.errors import DamagedError
from rlm_ci.system.process import Clipped, StreamResult
from rlm_ci.text.object_id import is_object_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.runs import Fact
    from rlm_ci.workspace.workspace import Workspace


def recorded(
    fact: Fact,
    copy: Workspace,
    fact_address: tuple[str, str],
    key: Mapping[str, Any],
    produce: Callable[[], Mapping[str, Any]],
) -> Mapping[str, Any]:
    """A fact with the tree that it leaves: afterwards the copy holds that tree.

    ``fact_address`` is the kind of the fact and where in the run it is. Raises DamagedError for a
    record that names no tree.
    """

    def produced() -> Mapping[str, Any]:
        record = produce()
        copy.settled = None
        tree = copy.settled_tree()
        removed = [[file.path, file.reason] for file in copy.removed_at(tree)]
        return {**record, "tree": tree, "removed": removed}

    facts = fact(*fact_address, {**key, "tree": copy.settled_tree()}, produced)
    if not is_object_id(facts.get("tree")):  # it is put on command lines
        raise _damaged(f"the {fact_address[0]} left something that is not a tree", fact_address[1])
    if copy.settled != facts["tree"]:
        copy.restore(facts["tree"])
        copy.settled = facts["tree"]
    removed = facts.get("removed", [])
    if any([type(item) for item in pair] != [str, str] for pair in removed):
        raise _damaged("something was taken out of the copy which has no name", fact_address[1])
    copy.recall(facts["tree"], removed)
    return facts


def record_of(ended: StreamResult) -> dict[str, Any]:
    """``ended`` as JSON has it, with a replacement for what is no UTF-8."""
    output = ended.output.without_seam()
    if not output.omitted:  # a character may lie across the seam
        output = Clipped(output.head + output.tail)
    return {
        "returncode": ended.returncode,
        "reason": ended.reason,
        "seconds": round(ended.seconds, 3),
        "head": output.head.decode("utf-8", "replace"),
        "tail": output.tail.decode("utf-8", "replace"),
        "omitted": output.omitted,
    }


def ended_of(record: Mapping[str, Any]) -> StreamResult:
    """What ``record_of`` made its record of."""
    head, tail = (record[name].encode("utf-8", "replace") for name in ("head", "tail"))
    output = Clipped(head, tail, record["omitted"])
    return StreamResult(record["returncode"], record["reason"], output, record["seconds"])


def _damaged(what: str, step: str) -> DamagedError:
    return DamagedError(f"the record says that {what}", where=step, hint="start a new run")
