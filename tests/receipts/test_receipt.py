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
    "a list": (b"[]", "expected an object, got a list"),
    "no version": (changed("schema_version", KeyError), "schema_version: it is missing"),
    "true is no version": (changed("schema_version", True),
                           "schema_version: expected one of 1, got true or false"),
    "newer": (changed("schema_version", 2), "a newer version of rlm-ci wrote it"),
    "unknown key": (changed("x\u202ey", 1), "['x\\u202ey']: no such member is known"),
    "task with a folder": (changed("task_id", "../x"), "task_id: expected the id of a task or a"),
    "short tree": (changed("tree", "abc"), "tree: expected 40 or 64 hexadecimal digits, got"),
    "commit with a line": (changed("commit", "a" * 39 + "\n"), "commit: expected 40 or 64 hexa"),
    "no runs": (changed("runs", []), "runs: expected 1 to 4,000 items, got 0"),
    "too many runs": (changed("runs", [1] * 4001), "runs: expected 1 to 4,000 items, got 4,001"),
    "run no object": (changed("runs.0", 1), "runs[0]: expected an object, got an integer"),
    "run twice": (changed("runs.1.run_id", "r1"), "it names a run twice"),
    "unknown status": (changed("runs.0.status", "in_progress"),
                       "runs[0].status: expected one of succeeded, failed, cancelled, got"),
    "status a list": (changed("runs.1.status", ["succeeded"]), "runs[1].status: expected one of"),
    "no sum": (changed("runs.0.manifest_sha256", "a" * 40), "runs[0].manifest_sha256: expected 64"),
    "bidi program": (changed("runs.0.recorded_by", "x\u202ey"),
                     "runs[0].recorded_by: expected a string of 1 to 500 characters of [ -~], got"),
    "end no time": (changed("runs.0.completed_at", "soon"), "runs[0].completed_at: expected a"),
    "nan": (changed("runs.0.completed_at", float("nan")), "runs[0].completed_at: expected a time"),
    "bidi workflow": (changed("workflow.ref", "\u202e"), "workflow.ref: expected a string of"),
    "number as run": (changed("workflow.run_id", "१"), "workflow.run_id: expected a string of"),
    "number with a sign": (changed("workflow.run_id", "-1"), "workflow.run_id: expected a string"),
    "long token": (changed("token.0", "x" * 20_000), "token: expected the three parts of a token"),
    "token in one piece": (changed("token", "e.f.g"), "token: expected the three parts of a to"),
    "token alone": (changed("workflow", None),
                    "a workflow and a token belong together, and one is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_anything_else_is_refused_with_a_reason(name: str) -> None:
    data, reason = WRONG[name]
    with pytest.raises(InvalidReceiptError) as caught:
        read(data)
    assert reason in str(caught.value)
    assert str(caught.value).isprintable()
    if name not in ("token alone", "run twice") and reason != "it is not valid JSON":
        assert loader.misfit(json.loads(data), "receipt.schema.json")
