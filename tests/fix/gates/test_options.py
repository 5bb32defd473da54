"""``[loop.gates]``: what cannot work is an error before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from rlm_ci.config.options import GATES
from rlm_ci.config.settings import Settings
from rlm_ci.errors import ConfigError
from rlm_ci.fix.gates.options import GateOptions

FILES = {"L.md": [b"- [ ] a\n- [x] b\n", b"- [ ] a\n- [ ] a\n"], "none.md": [b"# Nothing\n"]}


def options(
    table: dict[str, Any],
    *,
    validated: bool = True,
    isolated: bool = True,
    modelled: bool = False,
) -> GateOptions:
    settings = Settings(GATES, {}, {})
    settings.apply({"loop": {"gates": table}}, "rlm-ci.toml", GATES)
    return GateOptions.of(
        settings.values,
        settings.sources,
        lambda path: FILES.get(path, []),
        validated=validated,
        isolated=isolated,
        modelled=modelled,
    )


def test_nothing_is_required_by_default() -> None:
    found = options({})
    assert (found.required, found.stuck_turns) == (False, 3)
    assert GateOptions.from_dict({}) == GateOptions()  # of a run of before


def test_a_review_is_on_where_a_model_edits_and_something_decides() -> None:
    assert options({}, modelled=True).review
    assert options({"tests": {"command": "t"}}, validated=False, modelled=True).review
    assert not options({}, validated=False, modelled=True).review
    assert not options({"review": {"enabled": False}}, modelled=True).review
    assert options({"review": {"enabled": True}}).review


def test_a_record_gives_them_back_and_a_list_needs_the_items_of_all_that_is_known() -> None:
    found = options(
        {
            "promise": {"text": " I  AM DONE "},
            "validation": {"commands": ["make lint", "a && b"]},
            "checklists": {"paths": ["L.md", "L.md"]},
            "approval": {"file": "x/ok.json"},
        }
    )
    assert found.checklists == (("L.md", ("a", "a", "b")),)
    assert found.promise == "I AM DONE"
    assert found.required
    told = found.to_dict() | {
        "checklists": [["L.md", ["a", "a", "b"]]],
        "validation": ["make lint", "a && b"],
    }
    assert GateOptions.from_dict(told) == found
    with pytest.raises(ValueError, match="approval"):
        GateOptions.from_dict(told | {"approval": "../ok.json"})
    for wrong in ({"promise": 1}, {"stuck_turns": "3"}, {"checklists": [["a"]]}, {"evidence": 1},
                  {"other": 1}):  # fmt: skip
        with pytest.raises((TypeError, ValueError)):
            GateOptions.from_dict(told | wrong)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"promise": {"text": "a</promise>"}}, "must not have a <"),
        ({"tests": {"command": "pytest 'a"}}, "cannot be run: no closing quotation"),
        ({"validation": {"commands": ["make", " "]}}, "an empty command"),
        ({"checklists": {"paths": ["missing.md"]}}, "there is no checklist missing.md"),
        ({"checklists": {"paths": ["none.md"]}}, "none.md has no item"),
        ({"approval": {"file": "../ok.json"}}, "must be a path below the top level"),
        ({"approval": {"file": "/ok.json"}}, "must be a path below the top level"),
        ({"approval": {"file": ".git/ok.json"}}, "must be a path below the top level"),
    ],
)
def test_what_cannot_work_is_an_error(table: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told) as caught:
        options(table)
    assert "rlm-ci.toml" in caught.value.where


def test_an_agent_that_could_approve_or_decide_itself_is_refused() -> None:
    approval = {"approval": {"file": "ok.json"}}
    with pytest.raises(ConfigError, match="needs a sandbox"):
        options(approval, isolated=False)
    assert options(approval, validated=False).decide
    for own in ({"promise": {"text": "x"}}, {"checklists": {"paths": ["L.md"]}},
                {"evidence": {"enabled": True}}):  # fmt: skip
        with pytest.raises(ConfigError, match="the agent's word"):
            options(own, validated=False)
