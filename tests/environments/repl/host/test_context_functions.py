"""``read``, ``search`` and ``peek``: bytes with a pointer that can be cited, and no secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.environments.repl.host.context_functions import ContextFunctions
from rlm_ci.environments.symbolic.visible_context import VisibleContext
from testing.scripted_questions import REDACT, SECRET, harbour

if TYPE_CHECKING:
    from pathlib import Path


def test_they_return_text_with_its_place(tmp_path: Path) -> None:
    with harbour(tmp_path) as context:
        own = f"ctx:{context.object_id}#"
        functions = ContextFunctions(VisibleContext(context, REDACT, len(SECRET)))
        peeked = functions.peek(10, 30)
        assert (peeked["start"], peeked["end"]) == (10, 40)
        assert peeked["pointer"] == f"{own}bytes:10-40"
        assert peeked["text"] == context.raw(10, 40).decode()
        assert peeked["where"] == "gate.log:1"
        assert functions.read(peeked["pointer"]) == peeked
        assert (
            functions.read("chunk:c000002", 5, 3)["text"]
            == context.read(context.pointer(1), 5, 3).text
        )
        assert functions.peek(1 << 40)["text"] == ""
        found = functions.search("GATE reports", 2)
        assert (found["total"], len(found["hits"])) == (59, 2)
        assert found["hits"][0]["text"].startswith("0000 the gate reports")
        whole = functions.peek(0, 1 << 40)["text"] + str(functions.search("keeper"))
        assert SECRET not in whole
        wrong: list[tuple[str, list[Any]]] = [
            ("read", [7]), ("read", ["bytes:0-99999999"]), ("read", ["chunk:c000001", -1]),
            ("peek", ["0"]), ("peek", [True]), ("search", [None]), ("search", ["a", 1.5]),
        ]  # fmt: skip
        for name, args in wrong:
            with pytest.raises(ValueError, match=r"must be|not part of"):
                getattr(functions, name)(*args)
