"""Packs in their five shapes, and what is said about one that is wrong."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rlm_ci.errors import ConfigError, RlmCiError, UnavailableError
from rlm_ci.lab.bench import generators, prepare
from rlm_ci.lab.bench.packs import pack
from rlm_ci.system import files

TOP = Path(__file__).resolve().parents[4]
CASE = {"id": "sum", "task": "What is 1 + 1?", "expected_answer": 2}


def written(folder: Path, value: Any, name: str = "sums.json") -> str:
    path = folder / name
    if isinstance(value, str):
        path.write_text(value, "utf-8")
    else:
        ending = path.suffix
        if ending == ".jsonl":
            path.write_text("\n".join(map(json.dumps, value)), "utf-8")
        else:
            path.write_text(yaml.safe_dump(value) if ending == ".yaml" else json.dumps(value))
    return str(path)


ADK = {
    "eval_set_id": "memory",
    "eval_cases": [
        {
            "eval_id": "two-turns",
            "conversation": [
                {
                    "user_content": {"parts": [{"text": "My name is Ada."}]},
                    "final_response": {"parts": [{"text": "Hello Ada."}]},
                },
                {
                    "user_content": {"parts": [{"text": "Who am I?"}]},
                    "final_response": {"parts": [{"text": "Ada"}]},
                },
            ],
        }
    ],
}
EVALS = {
    "name": "capitals",
    "cases": [
        {"name": "france", "inputs": "Capital of France?", "expected_output": "Paris"},
        {"name": "spain", "inputs": {"question": "Capital of Spain?", "context": "…"},
         "expected_output": "Madrid", "metadata": {"level": 1}},
        {"name": "poem", "inputs": "A poem", "evaluators": [{"LLMJudge": {"rubric": "It rhymes"}}]},
    ],
}  # fmt: skip


@pytest.mark.parametrize("ending", ["json", "yaml"])
@pytest.mark.parametrize(
    ("value", "presets"),
    [
        (
            {"presets": {"a": [CASE], "b": {"description": "two", "cases": [CASE]}}},
            {"a": 1, "b": 1},
        ),
        ({"a": [CASE], "b": {"cases": [CASE]}}, {"a": 1, "b": 1}),
        (EVALS, {"capitals": 3}),
        (ADK, {"memory": 1}),
        *(({key: [CASE]}, {"sums": 1}) for key in ("records", "items", "examples", "data")),
        ([{"question": "1 + 1?", "answers": ["2", "two"]}], {"sums": 1}),
    ],
)
def test_the_five_shapes(tmp_path: Path, ending: str, value: Any, presets: dict[str, int]) -> None:
    found = pack.read(written(tmp_path, value, f"sums.{ending}"))
    assert {preset.name: len(preset.cases) for preset in found} == presets


def test_jsonl_is_a_list_of_records(tmp_path: Path) -> None:
    [preset] = pack.read(written(tmp_path, [CASE, {**CASE, "id": "more"}], "sums.jsonl"))
    assert [case.case_id for case in preset.cases] == ["sum", "more"]
    assert (preset.cases[0].environment, preset.cases[0].max_steps) == ("generic", 4)


def test_cases_of_other_programs_keep_what_they_expect(tmp_path: Path) -> None:
    [evals] = pack.read(written(tmp_path, EVALS))
    france, spain, poem = evals.cases
    assert (france.task, france.expected_answer, france.scorer) == (
        "Capital of France?", "Paris", "exact"
    )  # fmt: skip
    assert (spain.task, spain.context, spain.environment) == ("Capital of Spain?", "…", "pure_rlm")
    assert (poem.scorer, poem.rubric) == ("rubric", "It rhymes")
    [memory] = pack.read(written(tmp_path, ADK))
    [case] = memory.cases
    assert (case.task, case.expected_answer) == ("Who am I?", "Ada")
    assert case.context == "User: My name is Ada.\nAssistant: Hello Ada.\n"


#: Nine lines that stand for 10 ** 8 values.
BOMB = "a0: &a0 [1]\n" + "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("a:\n  - id: x\n    task: y\n", r"a\[0\]: it has no expected answer .*line 2"),
        ("a:\n  - id: x\n    taks: y\n", r"a\[0\].taks: unknown key .*line 3"),
        ("a:\n  - id: x\n    task: y\n    max_steps: 0\n", r"max_steps.*line 4"),
        ("a:\n  - task: y\n    scorer: exat\n    expected: 1\n", "no scorer 'exat'.*line 3"),
        ("a:\n  - task: y\n    scorer: numeric\n    expected: many\n", "must be a number.*line 2"),
        ("a:\n  - task: y\n    context: {path: x, seed: 1}\n    expected: 1\n", "needs `path` or"),
        ("a:\n  - context: {generator: nedle}\n", "no generator 'nedle'.*line 2"),
        ("a:\n  - {id: x, task: y, expected: 1}\n  - {id: x, task: z, expected: 1}\n", "twice"),
        ("a: [*b]\n", "not valid YAML"),
        ("a: &a [*a]\n", "nested too deeply"),
        (BOMB, "more than 50,000 values"),
        ("a: 1\na: 2\n", "'a' is there twice.*line 2"),
        ("a: !!python/object:os.system {}\n", "not valid YAML|neither a list"),
        ("a:\n  - {task: y, expected: .nan}\n", "finite.*line 2"),
        ("a: []\n", "has no case"),
        ("a:\n  - {task: y, expected: !!bool maybe}\n", "not valid YAML"),
        (f"a:\n  - {{task: y, expected: {'1:' * 400}1.5}}\n", "not valid YAML"),
        (f"a:\n  - {{task: y, expected: 0x{'f' * 8000}}}\n", "too large.*line 2"),
        ("", "neither a mapping nor a list"),
        ("[" * 400, "nested too deeply|not valid YAML"),
        ("3", "neither a mapping nor a list"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, value: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pack.read(written(tmp_path, value, "sums.yaml"))
    assert re.search(told, str(caught.value)), str(caught.value)
    assert "sums.yaml" in caught.value.where
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.json", '{"a": 1', "not valid JSON.*line 1"),
        ("a.json", '{"a": [], "a": []}', "'a' is there twice"),
        ("a.json", "[NaN]", "NaN is no number"),
        ("a.json", "[" * 100_000, "nested too deeply"),
        ("a.jsonl", '{"task": "x", "expected": 1}\n{"task": 1}', r"task.*line 2"),
        ("a.jsonl", '{"task": "x", "expected": 1}\n\n{"t', r"line 3"),
        ("a.txt", "", "ends in .yaml"),
        ("a.json", '{"presets": []}', "must map names"),
        ("a.json", f'[{{"task": "x", "expected": 1{"0" * 400}}}]', "too large"),
        ("a.json", '[{"task": "x", "expected": "\\ud800"}]', "half of a pair"),
        ("a.json", '{"\\ud800": []}', "half of a pair"),
        ("a.json", '[{"task": "x", "expected": ""}]', "no expected answer"),
        ("a.json", '[{"task": "x", "expected": ["a", "?"]}]', "no expected answer"),
        ("a.json", '{"cases": [{"inputs": "x", "expected_output": {"y": 1}}]}', "must be a text"),
        ("a.json", '{"eval_cases": [{"eval_id": "x"}]}', "no conversation"),
    ],
)
def test_what_is_wrong_in_json(tmp_path: Path, name: str, text: str, told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        pack.read(written(tmp_path, text, name))
    assert re.search(told, str(caught.value)), str(caught.value)


def test_the_pack_of_the_documentation_is_one(tmp_path: Path) -> None:
    page = (TOP / "docs" / "benchmarks.md").read_text("utf-8")
    [block] = re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    [preset] = pack.read(written(tmp_path, block, "invoices.yaml"))
    assert [case.scorer for case in preset.cases] == ["numeric", "rubric", ""]
    for name in generators.names():
        assert f"`{name}`" in page
        assert all(option in page for option in generators.load(name).OPTIONS)


def test_without_pyyaml_the_way_out_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(UnavailableError) as caught:
        pack.read(written(tmp_path, "a: []", "sums.yaml"))
    assert "[bench]" in caught.value.hint
    assert "as JSON" in caught.value.hint


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.sampled_from(["x", "", "id", "needle"]),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(
            ["id", "task", "expected", "context", "generator", "path", "cases", "presets", "data",
             "eval_cases", "conversation", "inputs", "evaluators", "LLMJudge", "rubric", "scorer"]
        ),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip


@given(JSON)
def test_any_json_is_a_pack_or_an_error(value: Any) -> None:
    with files.scratch("rlm-ci-test-") as folder:
        path = f"{folder}/a.json"
        files.write(path, json.dumps(value).encode())
        try:
            found = pack.read(path)
        except RlmCiError as error:
            told = (bool(error.hint), "a.json" in str(error))
        else:
            told = (True, True)
            assert all(preset.cases for preset in found)
        assert told == (True, True)


def test_a_context_is_a_file_of_the_packs_folder(tmp_path: Path) -> None:
    folder = tmp_path / "pack"
    folder.mkdir()
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "log.txt").write_text("a log")
    (folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    for path, is_fine in (
        ("log.txt", True), ("../secret.txt", False), (str(tmp_path / "secret.txt"), False),
        ("link.txt", False), ("none.txt", False), ("log.txt\0", False),
    ):  # fmt: skip
        value = [{"task": "What?", "expected": "x", "context": {"path": path}}]
        [preset] = pack.read(written(folder, value))
        if is_fine:
            prepared = prepare.prepare(preset.cases[0], preset.folder, str(tmp_path / "case"))
            assert prepared.context == str(folder / "log.txt")
            before = prepare.suite(preset)
            (folder / "log.txt").write_text("another log")
            assert prepare.suite(preset) != before
        else:
            with pytest.raises(ConfigError, match="context cannot be read"):
                prepare.suite(preset)


@pytest.mark.full
def test_every_bundled_case_has_a_context_an_answer_and_a_scorer(tmp_path: Path) -> None:
    loaded = pack.load()
    assert loaded.keys() >= {
        "dspy_quick",
        "dynamic_web_filtering",
        "needle",
        "aggregation",
        "pairs",
    }
    for preset in loaded.values():
        assert preset.description
        for number, case in enumerate(preset.cases):
            assert case.scorer, case.case_id
            assert case.description
            assert isinstance(case.context, dict)
            small = {**case.context}
            if small["generator"] != "broken-repository":
                small["tokens"] = 1 << 15 if small["generator"] == "code-questions" else 512
            assert generators.arguments(case.context)
            scorer, case.scorer, case.context = case.scorer, "", small
            folder = tmp_path / f"{preset.name}-{number}"
            prepared = prepare.prepare(case, preset.folder, str(folder))
            answered = prepared.case.expected_answer is not None or prepared.calls
            assert answered, case.case_id
            assert prepared.case.task
            assert prepared.context or prepared.workdir
            assert prepared.case.scorer == scorer


def test_an_unknown_preset_is_an_error_that_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        pack.choose("neddle")
    assert "did you mean needle?" in caught.value.hint
    assert "dspy_quick" in caught.value.hint
    path = written(tmp_path, {"needle": [CASE]})
    with pytest.raises(ConfigError, match="'needle' is in"):
        pack.load([path])
    two = written(tmp_path, {"a": [CASE], "b": [CASE]}, "two.json")
    with pytest.raises(ConfigError, match="has 2 presets: a, b"):
        pack.choose(two)
    assert pack.choose("b", [two]).cases[0].case_id == "sum"


def test_a_seed_or_a_length_makes_another_suite_and_a_limit_does_not() -> None:
    preset = pack.choose("needle")
    same = prepare.suite_hash(prepare.suite(preset))
    assert prepare.suite_hash(prepare.suite(pack.choose("needle"))) == same
    for changed in ({"seed": 9, "tokens": None}, {"seed": None, "tokens": 1024}):
        other = prepare.with_options(preset, **changed)
        assert prepare.suite_hash(prepare.suite(other)) != same
    # How a case is run is no part of what is asked.
    for case in preset.cases:
        case.environment, case.max_steps = "generic", 99
    assert prepare.suite_hash(prepare.suite(preset)) == same
