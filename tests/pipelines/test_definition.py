"""Pipelines are read strictly, with the file and the key of what is wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.pipelines import definition
from rlm_ci.pipelines.definition import Stage


def table(*stages: Any, name: str = "ci", **more: Any) -> dict[str, Any]:
    return {"id": name, "stages": list(stages)} | more


def from_json(record: Any) -> dict[str, definition.Pipeline]:
    return definition.from_json(json.dumps(record).encode(), "codex.orchestrator.json")


FULL = {
    "defaultPipeline": "ci",
    "stageSets": {"build": [{"kind": "command", "title": "Build", "command": "make"}]},
    "pipelines": [
        {
            "id": "ci", "title": "CI", "description": "all of it", "tags": ["x"],
            "guardrailsRequired": False, "metadata": {"a": 1},
            "stages": [
                {"kind": "stage-set", "ref": "build"},
                {"kind": "command", "id": "test", "title": "Test", "command": "make test",
                 "cwd": "sub", "env": {"B": "2", "A": "1"}, "timeoutMs": 1500,
                 "allowFailure": True, "summaryHint": "tested", "session": {"id": "x"}},
                {"kind": "subpipeline", "pipeline": "docs", "optional": True},
                {"kind": "stage-set", "ref": "build"},
            ],
        },
        {"id": "docs", "stages": [{"kind": "command", "title": "Docs", "command": "make docs"}]},
    ],
}  # fmt: skip


def test_an_existing_file_is_understood() -> None:
    found = definition.merge(from_json(FULL))
    assert sorted(found) == ["ci", "docs", "review", "rlm", "run", "wiki"]
    ci = found["ci"]
    assert (ci.title, ci.description, ci.source) == ("CI", "all of it", "codex.orchestrator.json")
    assert ci.stages == (
        Stage("Build", "Build", command="make"),
        Stage("test", "Test", "command", "make test", "sub", (("A", "1"), ("B", "2")), 1.5,
              allow_failure=True, summary_hint="tested"),
        Stage("docs", "docs", "subpipeline", pipeline="docs", optional=True),
        Stage("Build-2", "Build", command="make"),
    )  # fmt: skip


def test_the_configuration_says_it_in_its_own_words() -> None:
    stages = [
        {"title": "Test", "command": ["pytest", "a b"], "timeout_ms": 10, "allow_failure": True},
        {"pipeline": "rlm", "optional": False},
    ]
    found = definition.from_settings([table(*stages)], "rlm-ci.toml")["ci"]
    assert found.stages[0].command == ("pytest", "a b")
    assert found.stages[0].shown == "pytest 'a b'"
    assert found.stages[0].timeout == 0.01
    assert found.stages[1].kind == "subpipeline"


def test_the_configuration_wins_over_the_file_and_both_over_what_is_built_in() -> None:
    stage = {"kind": "command", "command": "x"}
    toml = definition.from_settings([table(stage, title="mine")], "rlm-ci.toml")
    foreign = from_json({"pipelines": [table(stage), table(stage, name="rlm", title="theirs")]})
    found = definition.merge(toml, foreign)
    assert found["ci"].title == "mine"
    assert found["rlm"].title == "theirs"
    assert definition.merge(toml)["rlm"].source == "built in"
    assert definition.choose(found, "ci").title == "mine"
    with pytest.raises(UsageError, match="there is no pipeline 'cii'") as caught:
        definition.choose(found, "cii")
    assert caught.value.hint == "did you mean ci?"


GOOD = {"kind": "command", "command": "x"}


@pytest.mark.parametrize(
    ("record", "key"),
    [
        ([], "the file must be an object"),
        ({"pipelines": {}}, None),
        ({"pipelines": 7}, "pipelines must be a list"),
        ({"pipelines": ["x"]}, r"pipelines\[0\] must be a table"),
        ({"pipelines": [{}]}, r"pipelines\[0\]\.id"),
        ({"pipelines": [table(GOOD, name="../x")]}, r"pipelines\[0\]\.id"),
        ({"pipelines": [table(GOOD), table(GOOD)]}, r"pipelines\[1\]\.id .*twice"),
        ({"pipelines": [table()]}, r"pipelines\[0\]\.stages must be a list of at least one"),
        ({"pipelines": [{"id": "ci"}]}, r"pipelines\[0\]\.stages"),
        ({"pipelines": [table("x")]}, r"stages\[0\] must be a table"),
        ({"pipelines": [table({"kind": "x"})]}, r"stages\[0\]\.kind must be one of"),
        ({"pipelines": [table({"kind": "own", "pipeline": "rlm"})]}, r"\.kind must be one of"),
        ({"pipelines": [table({"kind": ["x"]})]}, r"stages\[0\]\.kind must be one of"),
        ({"pipelines": [table({"kind": "command"})]}, r"stages\[0\]\.command"),
        ({"pipelines": [table(GOOD | {"command": " "})]}, r"stages\[0\]\.command"),
        ({"pipelines": [table(GOOD | {"command": []})]}, r"stages\[0\]\.command"),
        ({"pipelines": [table(GOOD | {"command": ["a\0b"]})]}, r"stages\[0\]\.command"),
        ({"pipelines": [table(GOOD, GOOD | {"cwd": 7})]}, r"stages\[1\]\.cwd"),
        ({"pipelines": [table(GOOD | {"env": {"A": 1}})]}, r"stages\[0\]\.env\.A"),
        ({"pipelines": [table(GOOD | {"env": {"A=B": "1"}})]}, r"stages\[0\]\.env\.A=B"),
        ({"pipelines": [table(GOOD | {"env": ["A"]})]}, r"stages\[0\]\.env"),
        ({"pipelines": [table(GOOD | {"timeoutMs": 0})]}, r"stages\[0\]\.timeoutMs"),
        ({"pipelines": [table(GOOD | {"timeoutMs": True})]}, r"stages\[0\]\.timeoutMs"),
        ({"pipelines": [table(GOOD | {"timeoutMs": 1e300})]}, r"stages\[0\]\.timeoutMs"),
        ({"pipelines": [table(GOOD | {"allowFailure": "no"})]}, r"stages\[0\]\.allowFailure"),
        ({"pipelines": [table({"kind": "subpipeline"})]}, r"stages\[0\]\.pipeline"),
        ({"pipelines": [table({"kind": "stage-set", "ref": "x"})]}, r"stages\[0\]\.ref"),
        ({"stageSets": [], "pipelines": []}, None),
        ({"stageSets": ["x"]}, "stageSets must be an object"),
        ({"stageSets": {"a": [{"kind": "stage-set", "ref": "a"}]},
          "pipelines": [table({"kind": "stage-set", "ref": "a"})]}, "cannot contain another one"),
    ],
)  # fmt: skip
def test_a_wrong_key_is_named(record: Any, key: str | None) -> None:
    if key is None:
        assert from_json(record) == {}
        return
    with pytest.raises(ConfigError, match=key) as caught:
        from_json(record)
    assert caught.value.where == "codex.orchestrator.json"
    assert caught.value.hint


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_said_to_be_none(data: bytes) -> None:
    with pytest.raises(ConfigError, match="not valid JSON"):
        definition.from_json(data, "codex.orchestrator.json")


@pytest.mark.parametrize(
    ("stage", "more", "hint"),
    [
        ({"command": "x", "timeoutMs": 3}, {}, "timeout_ms"),
        ({"pipeline": "rlm", "command": "x"}, {}, "known are"),
        ({"command": "x"}, {"titel": "x"}, "title"),
    ],
)
def test_the_configuration_has_no_unknown_keys(
    stage: dict[str, Any], more: dict[str, Any], hint: str
) -> None:
    with pytest.raises(ConfigError, match="unknown key") as caught:
        definition.from_settings([table(stage, **more)], "rlm-ci.toml")
    assert hint in caught.value.hint


# -- sub-pipelines -------------------------------------------------------------------------------


def chain(**edges: str) -> dict[str, definition.Pipeline]:
    """Pipelines of which each contains the one that it is mapped to."""
    return definition.from_settings(
        [table({"pipeline": to} if to else GOOD, name=name) for name, to in edges.items()], "x.toml"
    )


@pytest.mark.parametrize(
    ("edges", "circle"),
    [
        ({"a": "a"}, "a → a"),
        ({"a": "b", "b": "a"}, "a → b → a"),
        ({"a": "b", "b": "c", "c": "b"}, "a → b → c → b"),
    ],
)
def test_a_pipeline_never_contains_itself(edges: dict[str, str], circle: str) -> None:
    with pytest.raises(ConfigError, match="contains itself") as caught:
        definition.merge(chain(**edges))
    assert circle in str(caught.value)


def test_a_circle_over_both_files_is_one() -> None:
    foreign = from_json({"pipelines": [table({"kind": "subpipeline", "pipeline": "a"}, name="b")]})
    with pytest.raises(ConfigError, match="contains itself"):
        definition.merge(chain(a="b"), foreign)


def test_a_long_chain_and_a_diamond_are_fine() -> None:
    names = [f"p{number}" for number in range(3000)]
    definition.merge(chain(**dict(zip(names, [*names[1:], ""], strict=True))))
    both = table({"pipeline": "b"}, {"pipeline": "c"}, name="a")
    tables = [both, table({"pipeline": "d"}, name="b"), table({"pipeline": "d"}, name="c")]
    definition.merge(definition.from_settings([*tables, table(GOOD, name="d")], "x.toml"))


def test_a_pipeline_that_is_missing_is_named_unless_it_is_optional() -> None:
    with pytest.raises(ConfigError, match="'doks', which there is not"):
        definition.merge(chain(ci="doks", docs=""))
    stage = {"pipeline": "doks", "optional": True}
    definition.merge(definition.from_settings([table(stage)], "x.toml"))


def test_the_digest_changes_with_whatever_would_be_done() -> None:
    def digest(**edges: str) -> str:
        return definition.digest(definition.merge(chain(**edges)), "a")

    assert digest(a="b", b="") == digest(a="b", b="", c="")
    assert digest(a="b", b="") != digest(a="b", b="c", c="")
    assert digest(a="") != digest(a="rlm")
    assert len(digest(a="")) == 64


def test_inputs_are_defaults_of_what_the_stages_read() -> None:
    """'Pipeline input defaults (from the selected rlm pipeline definition)'."""
    foreign = {"pipelines": [{"id": "rlm", "inputs": {"maxIterations": 4, "validator": "make"}}]}
    own = from_json(foreign)["rlm"]
    assert own.inputs == (("max_iterations", 4), ("validator", "make"))
    assert own.stages == definition.BUILT_IN["rlm"].stages
    assert own.variables() == {"RLM_MAX_ITERATIONS": "4", "RLM_VALIDATOR": "make"}
    plain = definition.merge()
    assert definition.digest({**plain, "rlm": own}, "rlm") != definition.digest(plain, "rlm")


@pytest.mark.parametrize(
    "record",
    [
        {"id": "ci", "inputs": {"validator": "x"}},
        {"id": "rlm", "inputs": ["validator"]},
        {"id": "rlm"},
    ],
)
def test_inputs_replace_no_stages_of_a_pipeline_that_has_none(record: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"pipelines\[0\]\.(stages|inputs) must be"):
        definition.from_settings([record], "rlm-ci.toml")


def test_our_own_stages_are_known_to_be_replaced_however_deep() -> None:
    ours = definition.BUILT_IN["rlm"]
    own = definition.from_settings([table(GOOD, name="rlm")], "rlm-ci.toml")
    inputs = definition.from_settings([{"id": "rlm", "inputs": {"validator": "x"}}], "rlm-ci.toml")
    around = chain(a="b", b="rlm", c="")
    for layers, replaced in (
        ((around,), None), ((inputs, around), None), ((own, around), own["rlm"]),
    ):  # fmt: skip
        known = definition.merge(*layers)
        assert [definition.replaced(known, name) for name in ("rlm", "a", "c", "nope")] == [
            replaced, replaced, None, None
        ]  # fmt: skip
    assert definition.merge()["rlm"] == ours


def test_an_input_sets_nothing_that_a_file_of_settings_cannot() -> None:
    """'A repository must not be able to open the door of its own cage.'"""
    inputs = {"allowTestEdits": True, "apply": True, "goal": "x", "validator": "make"}
    [found] = from_json({"pipelines": [{"id": "rlm", "inputs": inputs}]}).values()
    assert found.variables() == {"RLM_VALIDATOR": "make"}
