"""Schemas that are written by hand know what the program writes, and ask for nothing else.

Each of their records comes in forms that no annotation says: by status, by kind, or with what
others have already left out.
"""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.context.scope import Scope
from rlm_ci.environments.symbolic.planner.plan import Count, Map, Plan, PlanLimits, Read, Search
from rlm_ci.errors import LimitError
from rlm_ci.models import Completion, TokenUsage
from rlm_ci.models.budget import Charge
from rlm_ci.models.record import errors
from rlm_ci.recursion.journal import node_records
from rlm_ci.recursion.nodes import NodeResult
from rlm_ci.report.findings import Evidence, Finding, Location, Severity
from rlm_ci.resources import loader
from rlm_ci.runs.state import ERROR, EXIT_CODES, FinalState

_OF_JOURNAL = {"seq": 1, "crc": "00000000"}
_NODE, _CHILD = "0" * 16, "1" * 16
_LEFT = {"calls": 1.0, "usd": None}
_SHARED = {"run_id": "r", "objective": "review", "domain": "quality"}
_LOCATION = Location("a.py", 1, 2)
_FINDING = Finding("rule", Severity.LOW, "What is wrong.", evidence=(_LOCATION,))
_RESULT = NodeResult(_NODE, "completed", "Nothing.", 0.5, evidence=(_LOCATION,))


def properties(schema: str, *path: str) -> dict[str, Any]:
    """The properties of the object at ``path``."""
    node: Any = loader.read_schema(schema)
    for step in path:
        node = node[step]
    members: dict[str, Any] = node["properties"]
    return members


@pytest.mark.parametrize(
    ("form", "record", "older"),
    [
        (
            "queued",
            node_records.queued(_NODE, None, 0, ("repo", "", 0, 2, 0, 0, 9), _SHARED),
            set(),
        ),
        (
            "running",
            node_records.running(_NODE, ("split", "too_large", 1.0), [_CHILD, "2" * 16], 1, _LEFT),
            {"children"},
        ),
        ("ended", node_records.ended(_NODE, "failed", [(3, "Why.", True)], _RESULT), set()),
    ],
)
def test_a_node_has_each_member_of_its_form(
    form: str, record: dict[str, Any], older: set[str]
) -> None:
    assert loader.misfit({**_OF_JOURNAL, **record}, "node.schema.json") == ""
    members = properties("node.schema.json", "$defs", form)
    assert members.keys() - _OF_JOURNAL - older == record.keys()


def test_a_result_has_each_member_of_its_schema() -> None:
    record = {**_OF_JOURNAL, **node_records.result(_RESULT)}
    assert loader.misfit(record, "result.schema.json") == ""
    members = properties("result.schema.json").keys()
    assert members - {"children", "gathered"} == record.keys()
    assert record.keys() - _OF_JOURNAL == {*NodeResult._fields}
    assert properties("result.schema.json", "properties", "counts").keys() == {*Evidence._fields}
    assert properties("result.schema.json", "$defs", "place").keys() >= _LOCATION.to_dict().keys()
    assert properties("result.schema.json", "$defs", "finding").keys() >= _FINDING.to_dict().keys()


def test_a_call_has_each_member_of_its_schema() -> None:
    schema = "calls.schema.json"
    assert properties(schema, "$defs", "completion").keys() == {*Completion._fields}
    assert properties(schema, "$defs", "usage").keys() == {*TokenUsage._fields}
    failed = properties(schema, "$defs", "failed")
    assert failed["charge"]["oneOf"][1]["properties"].keys() == {*Charge._fields}
    error = errors.to_dict(LimitError("No calls are left.", budget="max_calls"), str)
    assert failed["error"]["properties"].keys() == error.keys() == {*failed["error"]["required"]}


def test_the_state_of_a_run_ends_as_runs_do() -> None:
    final = properties("state.schema.json", "properties", "final")
    assert {*final["status"]["enum"]} == {*EXIT_CODES, ERROR}
    assert final.keys() == {"status", "exitCode", "reason"}
    assert len(final) == len(FinalState._fields)


def test_the_state_of_a_question_has_each_of_its_limits() -> None:
    budgets = properties("state.schema.json", "$defs", "symbolic")["budgets"]
    whole_run = {"max_iterations"}
    assert budgets["properties"].keys() == {*PlanLimits._fields} - whole_run


def test_a_plan_has_each_member_that_is_read() -> None:
    """Its schema is what reads it, and is part of prompts: it stays as it is."""
    members = properties("plan.schema.json")
    assert members.keys() == {"schema_version", *Plan._fields}
    records: dict[str, Any] = {"searches": Search, "counts": Count, "maps": Map, "reads": Read}
    for name, record in records.items():
        fields = {*record._fields}
        if "scope" in fields:
            fields = fields - {"scope"} | {*Scope._fields}
        if "size" in fields:
            fields = fields - {"size"} | {"bytes"}
        assert members[name]["items"]["properties"].keys() == fields
