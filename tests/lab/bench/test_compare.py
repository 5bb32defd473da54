"""Two benchmarks: chosen by their start, compared by case, judged by gates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.config.core_options import FORMATS
from rlm_ci.errors import ConfigError, DamagedError
from rlm_ci.lab.bench import compare, prepare, summary, text
from rlm_ci.lab.bench.compare import Gates
from rlm_ci.report.findings import Severity
from rlm_ci.report.render import render

if TYPE_CHECKING:
    from pathlib import Path

    from rlm_ci.lab.bench.compare import Comparison


def attempt(case_id: str, score: float, **more: Any) -> dict[str, Any]:
    return {
        "case_id": case_id, "repeat": 1, "completed": score >= 1, "score": score, "steps": 2,
        "total_reward": score, "seconds": 1.0, "cost_usd": 0.01, "usage": {}, "error": "",
        "score_note": "", **more,
    }  # fmt: skip


def stored(  # noqa: PLR0917 - the last two are seldom given
    folder: Path,
    name: str,
    started: str,
    results: list[dict[str, Any]],
    suite: str = "abc",
    cancelled: str = "",
) -> str:
    """A summary of cases named by the letters of ``suite``."""
    cases = {letter: f"hash of {letter}" for letter in suite}
    head = {
        "benchmark_id": name, "preset": "letters", "mode": "native", "model": "m",
        "started_at": started, "suite": cases, "suite_hash": prepare.suite_hash(cases),
        "options": {"repeats": 1}, "total_cases": len(suite),
    }  # fmt: skip
    path = folder / name / summary.NAME
    summary.write(str(path), summary.record(head, started, results, None, cancelled=cancelled))
    return str(path)


ALL = [attempt(letter, 1.0) for letter in "abc"]


def compared(folder: Path, ours: list[dict[str, Any]], gates: Gates | None = None) -> Comparison:
    stored(folder, "old", "2026-01-01T00:00:00Z", ALL)
    stored(folder, "new", "2026-01-02T00:00:00Z", ours)
    return compare.compare(summary.of_folder(str(folder)), gates=gates)


def test_the_same_again_passes_all_gates(tmp_path: Path) -> None:
    found = compared(tmp_path, ALL, Gates(max_cost_increase=0.0, max_latency_increase=0.0))
    result = found.result
    assert (result.candidate_id, result.baseline_id) == ("new", "old")
    assert result.passed
    assert len(result.gates) == 7
    assert result.case_summary["common_cases"] == 3
    assert result.deltas["avg_steps_increase"] == 0
    report = compare.build(found)
    assert (report.verdict(), report.exit_code()) == ("clean", 0)


@pytest.mark.parametrize(
    ("change", "gates", "failed"),
    [
        ({"score": 0.5, "completed": True}, {}, {"score"}),
        ({"score": 0.5, "completed": True}, {"min_score_delta": -0.2}, set()),
        ({"completed": False}, {}, {"completion", "completion_regressions"}),
        (
            {"completed": False},
            {"min_completion_delta": -0.5, "fail_on_completion_regression": False},
            set(),
        ),
        ({"total_reward": 0.0}, {}, {"reward"}),
        ({"total_reward": 0.0}, {"min_reward_delta": None}, set()),
        ({"steps": 5}, {}, {"steps"}),
        ({"steps": 5}, {"max_steps_increase": 1.0}, set()),
        ({"seconds": 4.0}, {}, set()),
        ({"seconds": 4.0}, {"max_latency_increase": 0.5}, {"latency"}),
        ({"cost_usd": 0.04}, {"max_cost_increase": 0.5}, {"cost"}),
        ({"cost_usd": 0.04}, {"max_cost_increase": 1.0}, set()),
        ({"cost_usd": None}, {"max_cost_increase": 9.0}, {"cost"}),
    ],
)
def test_each_gate_has_its_tolerance(
    tmp_path: Path, change: dict[str, Any], gates: dict[str, Any], failed: set[str]
) -> None:
    ours = [{**ALL[0], **change}, *ALL[1:]]
    found = compared(tmp_path, ours, Gates(**gates))
    assert {name for name, passed in found.result.gates.items() if not passed} == failed
    assert found.result.passed is (not failed)
    report = compare.build(found)
    assert report.exit_code() == (1 if failed else 0)
    rules = {one.rule.removeprefix("bench/") for one in report.findings}
    assert rules == {name.replace("_regressions", "-regression") for name in failed}
    assert all(one.severity == Severity.HIGH for one in report.findings)


@pytest.mark.parametrize("letters", ["ab", "abd"])
def test_a_case_that_one_side_lacks_is_a_regression(tmp_path: Path, letters: str) -> None:
    suite = "abcd"
    stored(tmp_path, "old", "2026-01-01T00:00:00Z", ALL, suite)
    better = [attempt(letter, 1.0, total_reward=2.0) for letter in letters]
    stored(tmp_path, "new", "2026-01-02T00:00:00Z", better, suite)
    found = compare.compare(summary.of_folder(str(tmp_path)))
    missing = 3 - 2 + len(letters) - 2
    assert found.result.case_summary["missing_cases"] == missing
    assert found.result.case_summary["completion_regressions"] == missing
    assert not found.result.passed
    # Like with like: figures are of the two cases that both have.
    assert found.result.candidate_metrics["avg_reward"] == 2.0
    assert "lacks it" in "".join(one.message for one in compare.build(found).findings)


def test_what_has_no_score_is_no_result(tmp_path: Path) -> None:
    def sides(
        before: list[dict[str, Any]], now: list[dict[str, Any]], cancelled: str = ""
    ) -> Comparison:
        stored(tmp_path, "old", "2026-01-01T00:00:00Z", before, cancelled=cancelled)
        stored(tmp_path, "new", "2026-01-02T00:00:00Z", now, cancelled=cancelled)
        gates = Gates(fail_on_completion_regression=False)
        return compare.compare(summary.of_folder(str(tmp_path)), gates=gates)

    bad = [attempt(letter, 0.0) for letter in "abc"]
    unanswered = [attempt(letter, 0.0, error="no answer") for letter in "abc"]
    for before, now in (([], []), (ALL, []), (unanswered, unanswered), (bad, unanswered)):
        with pytest.raises(ConfigError, match="nothing to compare"):
            sides(before, now)
    assert sides(bad, [*bad[:1], *unanswered[1:]]).result.case_summary["missing_cases"] == 2
    # Both were stopped early, but the candidate has not done what it set out to do.
    cut = sides(ALL[:1], ALL[:1], "the budget is used up").result
    assert (cut.case_summary["missing_cases"], cut.case_summary["completion_regressions"]) == (2, 2)


def test_chance_of_repeats_is_no_regression_of_a_case_and_shows_in_the_interval(
    tmp_path: Path,
) -> None:
    def tries(*scores: float) -> list[dict[str, Any]]:
        return [attempt("a", score, repeat=at) for at, score in enumerate(scores, 1)]

    stored(tmp_path, "old", "2026-01-01T00:00:00Z", tries(1, 1, 1, 0), "a")
    stored(tmp_path, "new", "2026-01-02T00:00:00Z", tries(1, 0, 1, 0), "a")
    found = compare.compare(summary.of_folder(str(tmp_path)))
    assert found.result.case_summary["completion_regressions"] == 0
    interval = found.intervals["avg_score"]
    assert interval
    assert interval[0] < -0.25 < 0 <= interval[1]


def test_other_suites_are_refused_with_what_differs(tmp_path: Path) -> None:
    stored(tmp_path, "old", "2026-01-01T00:00:00Z", ALL, "abc")
    path = stored(tmp_path, "new", "2026-01-02T00:00:00Z", ALL, "bcd")
    record = json.loads((tmp_path / "new" / summary.NAME).read_text())
    record["suite"]["c"] = "another hash"
    summary.write(path, record)
    known = summary.of_folder(str(tmp_path))
    with pytest.raises(ConfigError) as caught:
        compare.compare(known, "new", "old")
    assert "only the candidate has d; only the baseline has a; these differ: c" in str(caught.value)
    with pytest.raises(ConfigError, match="no earlier benchmark of the suite of new"):
        compare.compare(known)


def test_previous_is_by_start_and_of_the_same_suite(tmp_path: Path) -> None:
    """Not by the age of files, nor by names; what comes of a comparison is no benchmark."""
    for name, started, suite in (
        ("z-first", "2026-01-01T00:00:00Z", "abc"), ("b-second", "2026-01-02T00:00:00Z", "abc"),
        ("c-other", "2026-01-03T00:00:00Z", "xyz"), ("a-third", "2026-01-04T00:00:00Z", "abc"),
    ):  # fmt: skip
        stored(tmp_path, name, started, [attempt(letter, 1.0) for letter in suite], suite)
    first = tmp_path / "z-first" / summary.NAME
    first.write_text(first.read_text())  # the file that was written last
    known = summary.of_folder(str(tmp_path))
    found = compare.compare(known)
    assert (found.result.candidate_id, found.result.baseline_id) == ("a-third", "b-second")
    assert compare.compare(known, "b-s").result.baseline_id == "z-first"
    (tmp_path / "report.json").write_text(render(compare.build(found), "json"))
    assert len(summary.of_folder(str(tmp_path))) == 4
    for word, told in (("nope", "no benchmark 'nope'"), ("", "no benchmark")):
        with pytest.raises(ConfigError, match=told):
            compare.compare(known, word)
    stored(tmp_path, "b-fourth", "2026-01-05T00:00:00Z", ALL)
    with pytest.raises(ConfigError, match="several benchmarks begin with 'b-'"):
        compare.compare(summary.of_folder(str(tmp_path)), "b-")


@pytest.mark.parametrize(
    "damage",
    [
        "", "[]", "{}", '{"kind": "rlm-ci benchmark", "version": 2}', "[" * 100_000,
        '{"kind": "rlm-ci benchmark", "version": 1, "benchmark_id": 3}',
    ],
)  # fmt: skip
def test_a_damaged_summary_is_named_or_left_out(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x" / summary.NAME
    path.parent.mkdir()
    path.write_text(damage)
    assert summary.of_folder(str(tmp_path)) == []
    with pytest.raises(DamagedError, match=r"x/benchmark\.json"):
        summary.choose([], str(path))


def test_a_summary_with_a_figure_of_another_kind_is_damaged(tmp_path: Path) -> None:
    changes: tuple[dict[str, object], ...] = (
        {"score": "1"},
        {"completed": 1},
        {"cost_usd": "x"},
        {"case_id": 1},
    )
    for change in changes:
        (name,) = change
        path = stored(tmp_path, "x", "2026-01-01T00:00:00Z", ALL)
        record = dict(summary.read(path).record)
        summary.write(path, {**record, "case_results": [{**ALL[0], **change}]})
        with pytest.raises(DamagedError, match=rf"case_results\[0\]\.{name}: expected "):
            summary.read(path)


def test_a_summary_of_before_lacks_the_usage_and_the_error_of_a_case(tmp_path: Path) -> None:
    path = stored(tmp_path, "x", "2026-01-01T00:00:00Z", ALL)
    older = {name: ALL[0][name] for name in ALL[0].keys() - {"usage", "error", "cost_usd"}}
    summary.write(path, {**summary.read(path).record, "case_results": [older]})
    assert summary.read(path).record["case_results"] == [{**older, "usage": {}, "error": ""}]


def test_every_format_has_the_comparison_and_hostile_names_stay_text(tmp_path: Path) -> None:
    hostile = "a|b\n::error::x <blink>*`"
    cases = {hostile: "h"}
    for name, started, score in (
        ("old", "2026-01-01T00:00:00Z", 1.0), ("new", "2026-01-02T00:00:00Z", 0.0)
    ):  # fmt: skip
        path = stored(tmp_path, name, started, [attempt(hostile, score)])
        record = {**summary.read(path).record, "suite": cases, "model": hostile}
        summary.write(path, {**record, "suite_hash": prepare.suite_hash(cases)})
    known = summary.of_folder(str(tmp_path))
    report = compare.build(compare.compare(known))
    for name in FORMATS:
        shown = render(report, name)
        assert "\n::error::x" not in shown, name
        if name in ("html", "markdown", "summary"):
            assert "<blink>" not in shown, name
    markdown = render(report, "markdown")
    assert "| score | 1 | 0 | \\-1 | – | failed |" in markdown
    assert "The candidate does not pass its gates" in markdown
    assert text.presets([], known).count("letters") == 2


@pytest.mark.parametrize("fewer", ["candidate", "baseline"])
def test_a_repeat_that_one_side_lacks_is_a_regression(tmp_path: Path, fewer: str) -> None:
    """As a missing case is; figures count each case once, whatever its repeats."""
    often = [attempt(letter, 1.0, repeat=number) for letter in "abc" for number in (1, 2, 3)]
    seldom = [*often[:3], *often[3:5], {**often[6], "error": "refused"}, *often[7:]]
    sides = [often, seldom] if fewer == "candidate" else [seldom, often]
    stored(tmp_path, "old", "2026-01-01T00:00:00Z", sides[0])
    stored(tmp_path, "new", "2026-01-02T00:00:00Z", sides[1])
    known = summary.of_folder(str(tmp_path))
    found = compare.compare(known)
    assert found.result.case_summary["missing_repeats"] == 2
    assert found.result.case_summary["completion_regressions"] == 2
    assert found.result.gates["completion_regressions"] is False
    report = compare.build(found)
    assert [one.message for one in report.findings] == [
        f"{letter}: the {fewer} has 2 of 3 repeats" for letter in "bc"
    ]
    shown = render(report, "text")
    assert f"The {fewer} lacks 2 repeats: its sample is smaller." in shown
    assert compare.compare(known, gates=Gates(fail_on_completion_regression=False)).result.passed


def test_figures_count_each_case_once(tmp_path: Path) -> None:
    ours = [attempt("a", 1.0), attempt("b", 0.0), attempt("b", 0.0, repeat=2), attempt("c", 1.0)]
    found = compared(tmp_path, ours)
    assert found.result.candidate_metrics["avg_score"] == pytest.approx(2 / 3)
