"""The form of a receipt: what is written is read, and no other bytes raise, hang or pass."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlm_ci.receipts.receipt import LIMIT, InvalidReceiptError, Receipt, ReceiptRun, WorkflowRun
from rlm_ci.receipts.receipt import parse as read
from rlm_ci.resources import loader

RUN = ReceiptRun("0101-docs", "r1", "succeeded", "2026-01-05T09:04:00Z", "a" * 64)
PLAIN = Receipt("0101", "b" * 40, "c" * 40, (RUN, RUN.replace(run_id="r2", completed_at=None)))
MADE = WorkflowRun("a/b", "1", "2", "a/b/.github/workflows/c.yml@refs/heads/x", "d" * 40, "refs/x")
SIGNED = PLAIN.replace(workflow=MADE, token="e.f.g")


RECORDED = PLAIN.replace(runs=(RUN, RUN.replace(run_id="r2", recorded_by="Codex 0.171")))


@pytest.mark.parametrize("receipt", [PLAIN, SIGNED, RECORDED])
def test_what_is_written_is_read(receipt: Receipt) -> None:
    data = receipt.to_bytes()
    assert read(data) == receipt
    assert read(data).to_bytes() == data
    assert loader.misfit(json.loads(data), "receipt.schema.json") == ""


def test_a_token_is_for_all_but_itself() -> None:
    assert SIGNED.audience() == SIGNED.replace(token="x").audience()
    others = [
        SIGNED.replace(task_id="0102"), SIGNED.replace(tree="d" * 40), SIGNED.replace(runs=(RUN,)),
        SIGNED.replace(commit="d" * 40), SIGNED.replace(workflow=MADE.replace(run_id="2")),
    ]  # fmt: skip
    assert len({one.audience() for one in (SIGNED, *others)}) == len(others) + 1


def changed(path: str, value: Any) -> bytes:
    record = json.loads(SIGNED.to_bytes())
    place: Any = record
    *above, name = (int(key) if key.isdigit() else key for key in path.split("."))
    for key in above:
        place = place[key]
    if value is KeyError:
        del place[name]
    else:
        place[name] = value
    return json.dumps(record).encode()


#: What is changed, in a receipt or as the whole of it, and the reason.
WRONG: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "it is not valid JSON"),
    "no text": (b"\xff\xfe{}", "it is not valid JSON"),
    "deep": (b"[" * LIMIT, "it is not valid JSON"),
    "deep in a value": (changed("token", 0)[:-2] + b"[" * LIMIT, "it is not valid JSON"),
    "many digits": (b'{"schema_version": ' + b"9" * 9999 + b"}", "it is not valid JSON"),
    "a list": (b"[]", "it is not a JSON object"),
    "no version": (changed("schema_version", KeyError), "it has no valid schema_version"),
    "true is no version": (changed("schema_version", True), "it has no valid schema_version"),
    "newer": (changed("schema_version", 2), "a newer version of rlm-ci wrote it"),
    "unknown key": (changed("x\u202ey", 1), "it has the unknown key x\\u202ey"),
    "task with a folder": (changed("task_id", "../x"), "it has no valid task_id"),
    "short tree": (changed("tree", "abc"), "it has no valid tree"),
    "commit with a line": (changed("commit", "a" * 39 + "\n"), "it has no valid commit"),
    "no runs": (changed("runs", []), "it has no valid runs"),
    "too many runs": (changed("runs", [1] * 4001), "it has no valid runs"),
    "run no object": (changed("runs.0", 1), "runs[0] is not a JSON object"),
    "run twice": (changed("runs.1.run_id", "r1"), "it names a run twice"),
    "unknown status": (changed("runs.0.status", "in_progress"), "runs[0] has no valid status"),
    "status a list": (changed("runs.1.status", ["succeeded"]), "runs[1] has no valid status"),
    "no sum": (changed("runs.0.manifest_sha256", "a" * 40), "runs[0] has no valid manifest_sha256"),
    "bidi program": (changed("runs.0.recorded_by", "x\u202ey"), "runs[0] has no valid recorded_by"),
    "end no time": (changed("runs.0.completed_at", "soon"), "runs[0] has no valid completed_at"),
    "nan": (changed("runs.0.completed_at", float("nan")), "runs[0] has no valid completed_at"),
    "bidi workflow": (changed("workflow.ref", "\u202e"), "workflow has no valid ref"),
    "number as run": (changed("workflow.run_id", "१"), "workflow has no valid run_id"),
    "long token": (changed("token.0", "x" * 20_000), "it has no valid token"),
    "token in one piece": (changed("token", "e.f.g"), "it has no valid token"),
    "token alone": (changed("workflow", None),
                    "a workflow and a token belong together, and one is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_anything_else_is_refused_with_a_reason(name: str) -> None:
    data, reason = WRONG[name]
    with pytest.raises(InvalidReceiptError) as caught:
        read(data)
    assert str(caught.value) == reason
    if name not in ("token alone", "run twice") and not reason.startswith("it is not valid"):
        assert loader.misfit(json.loads(data), "receipt.schema.json")
