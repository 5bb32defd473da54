"""``rlm-ci review`` of a change: what a model claims is shown by something that runs."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.report import render as surfaces
from rlm_ci.report.findings import UNTOUCHED, Report
from testing.leftovers import eventually
from testing.loopback_model.fixture import llm
from testing.pipelines_stage import Stage
from testing.proving_model import BASE, CLAIM, HEAD, MENDS, SHOWS, TESTS, ProvingModel, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from testing.loopback_model.server import ModelServer
    from testing.program import Cli, Ended
    from testing.repositories.git_repo import GitRepo

__all__ = ["llm"]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap")


#: A new file with functions far enough apart for a claim on each.
NEWS = "".join(f"def plus_{number}(value):\n    return value + {number}\n\n\n\n"
               for number in range(12))  # fmt: skip


@pytest.fixture
def stage(repo: GitRepo, cli: Cli) -> Iterator[Stage]:
    found = Stage(repo, cli)
    repo.write("shop.py", BASE).commit()
    repo.write("shop.py", HEAD).write("news.py", NEWS).commit()
    yield found
    found.clean()


def reviewed(
    stage: Stage,
    llm: ModelServer,
    model: ProvingModel,
    *more: str,
    validator: str = "auto",
    repair_level: str = "high",
) -> Ended:
    llm.script(model)
    env = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}
    env["RLM_CI_REVIEW_REPAIR_LEVEL"] = repair_level
    env["RLM_CI_LOOP_VALIDATOR"] = validator
    words = ("review", "--base", "HEAD~1", "--model", "m", "--format", "json", *more)
    return stage.cli(*words, env=env)


def claims(report: dict[str, Any]) -> dict[str, Any]:
    return {one["message"]: one for one in report["findings"] if one["source"] == "model:m"}


@pytest.mark.full
def test_a_fault_that_runs_is_proven_and_nothing_is_asked_or_run_again(
    stage: Stage, llm: ModelServer
) -> None:
    model = ProvingModel()
    ended = reviewed(stage, llm, model)
    found = claims(ended.json())[CLAIM["message"]]
    proof = found["proof"]
    assert (ended.code, found["severity"], proof["level"]) == (1, "high", "proven"), proof
    assert proof["reason"].startswith(SHOWS["breaks"])
    folder = stage.folder(stage.only()) / proof["path"]
    assert (folder / "reproduction.py").read_text() == proof["reproduction"] == SHOWS["content"]
    assert "ZeroDivisionError" in (folder / "head.txt").read_text()
    assert "+    return sum(prices) / len(prices) if prices else 0" in proof["repair"]
    assert (folder / "repair.patch").read_text() == proof["repair"]
    assert json.loads((folder / "proof.json").read_text())["outcome"]["level"] == "proven"
    asked = len(llm.completions)
    checked = stage.cli("verify", "latest", "--run-proofs")
    assert checked.code == 0, checked
    assert "1 proof run again: as before" in checked.stdout
    alone = stage.cli("verify", "latest", "--proof", proof["path"].rpartition("/")[2])
    assert (alone.code, "1 proof run again: as before" in alone.stdout) == (0, True)
    wrong = stage.cli("verify", "latest", "--proof", "ab")
    assert (wrong.code, "the run has no proof ab" in wrong.stderr) == (2, True)
    replayed = stage.cli("replay", "latest", "--check")
    assert replayed.code == 0, replayed
    assert len(llm.completions) == asked == ended.json()["usage"]["calls"]


@pytest.mark.full
@pytest.mark.parametrize("verb", ["review", "pr"])
def test_the_command_on_the_terminal_runs_as_it_is_printed(
    stage: Stage, llm: ModelServer, cli: Cli, tmp_path: Path, verb: str
) -> None:
    llm.script(ProvingModel())
    env = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url, "RLM_CI_REVIEW_ENABLED": "on"}
    words = (verb, "--base", "HEAD~1", "--model", "m")
    where = str(stage.repo.path)
    ended = cli(*words, "-C", where, env=env, cwd=tmp_path)
    line = next(one for one in ended.stdout.splitlines() if "To run it: " in one)
    assert line.startswith("  Proven: ZeroDivisionError: division by zero · To run it: rlm-ci ")
    command = shlex.split(line.partition("To run it: rlm-ci ")[2])
    assert command[-2:] == ["-C", where]
    alone = cli(*command, cwd=tmp_path)
    assert (alone.code, "1 proof run again: as before" in alone.stdout) == (0, True), alone


SUGGESTED = "```suggestion\n{}    return sum(prices) / {} if prices else 0\n```"
#: What is suggested and answered, the questions for a repair, and why it is one, or none is.
REPAIRS = {
    "complete": (SUGGESTED.format("", "len(prices)"), MENDS, 0, "your tests could not be run"),
    "wrong": (SUGGESTED.format("", "1"), {"edits": []}, 1, "its suggestion: 1 test more fails"),
    "no suggestion": (None, MENDS, 1, "the reproduction passes; your tests could not be run"),
    "prose": ("Return 0 for an empty list.", MENDS, 1, "the reproduction passes"),
    "broken": (
        SUGGESTED.format("if (", "2"), {"edits": []}, 1,
        "its suggestion: with the patch the reproduction does not pass",
    ),
    "knows none": (None, {"edits": []}, 1, "the model knows no edit that mends it"),
    "fits nowhere": (
        None, {"edits": [{"path": "shop.py", "old": "x = 1", "new": ""}]}, 1, "does not fit",
    ),
    "cannot be read": (None, {"edits": 3}, 2, "could not be read"),
}  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("case", REPAIRS)
def test_each_repair_says_why_it_is_one_and_why_not(
    stage: Stage, llm: ModelServer, case: str
) -> None:
    suggested, edits, questions, reason = REPAIRS[case]
    stage.repo.write("shop.py", BASE).write("test_shop.py", TESTS).commit()
    stage.repo.write("shop.py", HEAD).commit()
    validator = "python3 -m unittest -q" if case == "wrong" else "pytest-of-nobody"
    model = ProvingModel(claims=({**CLAIM, "suggested_fix": suggested},), repair=edits)
    ended = reviewed(stage, llm, model, validator=validator)
    found = claims(ended.json())[CLAIM["message"]]
    proof = found["proof"]
    is_kept = edits is MENDS
    assert (ended.code, proof["level"], model.asked["mend"]) == (1, "proven", questions), proof
    assert reason in proof["repair_reason"], proof
    assert bool(proof["repair"]) == is_kept
    asked = {kind_of(one): str(one.messages[0]["content"]) for one in llm.completions}
    if questions == 1:  # what a question repeats comes first, so that a provider keeps it
        for kind, last in (("reproduce", CLAIM["message"]), ("judge", SHOWS["content"].strip())):
            before = asked[kind].partition(last)[0]
            assert asked["mend"].startswith(f"{before}{last}")
    # What was run, and does not hold, is offered to nobody.
    assert bool(found["suggested_fix"]) == (case in {"complete", "prose"})
    report = Report.from_dict(ended.json())
    for surface in ("text", "markdown", "html"):
        title = "Repair, which was run" if is_kept else "No repair"
        assert title in surfaces.render(report, surface, surfaces.RenderOptions()), surface
    assert stage.cli("verify", "latest", "--run-proofs").code == 0


#: Severity of the claim, the level, what is suggested; why there is no repair, "" if there is.
ASKED_FOR = {
    "below": ("medium", "high", None, "not asked for: severity medium, and review.repair_level is"),
    "off": ("critical", "off", None, "not asked for: severity critical, and review.repair_level"),
    "chosen": ("medium", "medium", None, ""),
    "own": ("medium", "high", SUGGESTED.format("", "len(prices)"), ""),
}


@pytest.mark.full
@pytest.mark.parametrize("case", ASKED_FOR)
def test_a_repair_is_asked_for_from_a_severity_and_a_suggestion_is_always_tried(
    stage: Stage, llm: ModelServer, case: str
) -> None:
    severity, level, suggested, why_not = ASKED_FOR[case]
    model = ProvingModel(claims=({**CLAIM, "severity": severity, "suggested_fix": suggested},))
    ended = reviewed(stage, llm, model, validator="pytest-of-nobody", repair_level=level)
    proof = claims(ended.json())[CLAIM["message"]]["proof"]
    assert (proof["level"], model.asked["mend"]) == ("proven", case == "chosen")
    assert bool(proof["repair"]) == (not why_not)
    if why_not:
        assert why_not in proof["repair_reason"]


def script(content: str, expects: str = "AssertionError") -> dict[str, Any]:
    return {**SHOWS, "content": content, "expects": expects}


IMPORT = "from shop import average\n"
#: What a lying model sends in for a claim, and words of the reason why it shows nothing.
LIES = {
    "has no reproduction": ({"kind": "none", "breaks": "it is so"}, "no reproduction"),
    "tests nothing": (script(f"{IMPORT}assert False\n"), "fails at the base, too"),
    "imports what never was": (
        script("from shop import nonsense\n", "ImportError"), "fails at the base, too",
    ),
    "fails in the new file alone": (
        script("import news\nnews.plus_1(1)\nassert False\n"), "whatever the project's code",
    ),
    "edits the project": (
        script("open('shop.py', 'w').write('')\n", "OSError"), "change files of the project",
    ),
    "fails otherwise than it says": (
        script(f"{IMPORT}average([])\n", "KeyError"), "which is not what is claimed",
    ),
    "blames the base": (
        script(f"{IMPORT}assert average([2, 4]) == 4\n"), "fails at the base, too",
    ),
    "cannot be read": ({"kind": "test", "breaks": "no content"}, "no reproduction"),
}  # fmt: skip


def claim(words: str, number: int) -> dict[str, Any]:
    """A claim on a function of its own, so that no two are taken for one."""
    line = 5 * number + 2
    place = {"path": "news.py", "line_start": line, "line_end": line}
    quote = f"    return value + {number}"
    return {**CLAIM, **place, "quote": quote, "message": words, "rule": f"rule-{number}"}


_APART = "".join(f"\n\ndef apart_{number}():\n    pass\n" for number in range(4))
ELSEWHERE = f"\n{_APART}\n\n".join((
    "def user(name):\n    return {}.get(name)\n\n\ndef guest(name):\n    return name",
    "def pay(name):\n    who = user(name)\n\n    if who is None:\n        raise OSError\n",
    "def first(rows):\n    if not rows:\n        return 0\n    # of all\n\n    return rows[0]",
    "def rate(kind='net'):\n    return {'net': 1, 'gross': 2}[kind]",
    "def price():\n    return 10 * rate()",
    "def top(margin=None):\n    return margin or 9",
    "def bottom(margin=None):\n    return margin or 8 + 1",
    "def half(number):\n    return number / 0",
    "def third(number):\n    return number / (3 - 3)\n",
))  # fmt: skip
CHANGES = {
    "who = user(name)": "who = guest(name)",
    "    if not rows:\n        return 0\n": "",
    "kind='net'": "kind='gross'",
    "return margin or 9": "return 9 if margin is None else margin",
}
#: The line that a claim names, and what shows the fault; None: at the base, too; "": nothing.
PLACES = {
    "    if who is None:": "try:\n    pay('x')\nexcept OSError:\n    pass\nelse:\n    assert 0",
    "    return rows[0]": "try:\n    first([])\nexcept IndexError:\n    assert 0",
    "    return 10 * rate()": "assert price() == 10",
    "    return margin or 8 + 1": "assert top(0) == bottom(0)",
    "    return number / 0": None,
    "    return number / (3 - 3)": "",
}


@pytest.mark.full
def test_a_run_tells_whether_the_change_has_made_what_a_claim_says_of_other_lines(
    stage: Stage, llm: ModelServer
) -> None:
    head = ELSEWHERE
    for old, new in CHANGES.items():
        head = head.replace(old, new)
    stage.repo.write("pay.py", ELSEWHERE).commit()
    stage.repo.write("pay.py", head).commit()
    every, shown = [], {}
    for number, (quote, text) in enumerate(PLACES.items()):
        line = head.splitlines().index(quote) + 1
        words = f"It is wrong, by number {number}"
        place = {"path": "pay.py", "line_start": line, "line_end": line, "quote": quote}
        every.append({**CLAIM, **place, "message": words, "rule": f"rule-{number}"})
        content = "half(2)" if text is None else text
        shown[words] = {
            "kind": "script" if content else "none", "path": "shows.py", "breaks": "It breaks",
            "content": f"from pay import *\n\n{content}\n",
            "expects": "ZeroDivisionError" if text is None else "AssertionError",
        }  # fmt: skip
    model = ProvingModel(shown, claims=tuple(every), repair={"edits": []})
    ended = reviewed(stage, llm, model)
    found = claims(ended.json())
    levels = [(found[words]["suppression"], found[words]["proof"]["level"]) for words in shown]
    assert levels == [
        *[(None, "proven")] * 4, (UNTOUCHED, "argued"), (None, "argued"),
    ], [one["proof"]["reason"] for one in found.values()]  # fmt: skip
    line = head.splitlines().index("    return number / 0") + 1
    told = " ".join(surfaces.render(Report.from_dict(ended.json()), "text").split())
    assert f"not of this change (among them review/rule-4 at pay.py:{line})" in told
    assert UNTOUCHED in found["It is wrong, by number 5"]["proof"]["reason"]
    assert ended.code == 1


@pytest.mark.full
def test_a_lying_model_proves_nothing(stage: Stage, llm: ModelServer) -> None:
    passing = script(f"{IMPORT}assert average([2, 4]) == 3\n")
    told = {words: one for words, (one, _) in LIES.items()} | {"passes": passing}
    every = tuple(claim(words, number) for number, words in enumerate((*LIES, "passes")))
    ended = reviewed(stage, llm, ProvingModel(told, claims=every))
    found = claims(ended.json())
    for words, (_, why) in LIES.items():
        one = found[words]
        assert (one["severity"], one["proof"]["level"]) == ("medium", "argued"), words
        assert why in one["proof"]["reason"], words
    assert "its reproduction passes at head" in found["passes"]["proof"]["reason"]
    assert ended.code == 0  # an argument fails nobody


LINE = "assert average([]) == 0"
PART = "An empty list divides by zero."
BOTH = f"{PART} All carts are lost, and nobody is told."
DEFAULTS = script(f"{IMPORT}assert average.__doc__ == 'x'\n")
QUICK = "shows less"
#: The reproduction, what the judge adds to "fault"; the level, severity and message.
JUDGEMENTS = {
    "as claimed": (SHOWS, {"line": LINE, "severity": "high"}, "proven", "high", BOTH),
    "shows less": (
        SHOWS, {"line": LINE, "severity": "low", "shown": PART}, "proven", "low", PART,
    ),
    "says more": (
        SHOWS, {"shown": "The rest is safe."}, "proven", "high", BOTH,
    ),
    "names an empty line": (SHOWS, {"line": ""}, "argued", "medium", BOTH),
    "names another line": (
        SHOWS, {"line": "from shop import average"}, "argued", "medium", BOTH,
    ),
    "raises it": (SHOWS, {"severity": "critical"}, "proven", "high", BOTH),
    "names no line of it": (SHOWS, {"line": "x = 1"}, "argued", "medium", BOTH),
    "looks at the code": (DEFAULTS, {}, "argued", "medium", BOTH),
}  # fmt: skip


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.full) if case != QUICK
             else case for case in JUDGEMENTS]
)  # fmt: skip
def test_a_proof_shows_its_claim_and_no_more(stage: Stage, llm: ModelServer, case: str) -> None:
    shows, judgement, level, severity, message = JUDGEMENTS[case]
    model = ProvingModel({BOTH: shows}, claims=({**CLAIM, "message": BOTH},), judgement=judgement)
    ended = reviewed(stage, llm, model)
    found = claims(ended.json())[message]
    assert (found["proof"]["level"], found["severity"]) == (level, severity), found
    asked = [one.messages[0]["content"] for one in llm.completions]
    judged = [text for text in asked if "A test was written to show" in text]
    assert bool(judged) == (case != "looks at the code")
    assert all(f"The claim (high, shop.py, lines 6-6):\n{CLAIM['message']}" in text
               for text in judged)  # fmt: skip


MISSES = script(f"{IMPORT}assert average([2, 4]) == 3\n")
REPLACES = script(
    "import shop\n\nbefore = shop.average\nshop.average = lambda prices: before(prices[1:])\n"
    "assert shop.average([1]) == 0\n",
    SHOWS["expects"],
)
NO_OTHER = {"kind": "none", "breaks": "nothing else comes to mind"}
#: Severity, reproductions, the second look's verdict; the level, and words of the reason.
SECOND_TRIES = {
    "misses twice": ("critical", [MISSES], "upheld", "argued", "its reproduction passes at head"),
    "knows no other": ("medium", [MISSES, NO_OTHER], "unsure", "argued", "nothing else comes"),
    "shows it then": ("high", [MISSES, SHOWS], "refuted", "proven", "passes at the base"),
    "agrees": ("high", [MISSES, NO_OTHER], "refuted", "refuted", "nobody calls it so"),
}


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.full) if at else case
             for at, case in enumerate(SECOND_TRIES)]
)  # fmt: skip
def test_a_reproduction_that_passes_at_head_does_not_refute_by_itself(
    stage: Stage, llm: ModelServer, case: str
) -> None:
    severity, tries, verdict, level, why = SECOND_TRIES[case]
    claimed = {**CLAIM, "severity": severity}
    model = ProvingModel({CLAIM["message"]: tries}, claims=(claimed,), refuted=verdict)
    ended = reviewed(stage, llm, model)
    report = ended.json()
    assert model.asked["reproduce"] == 2
    again = next(one for one in llm.completions if len(one.messages) == 3)
    assert "it may miss the fault" in again.messages[2]["content"]
    assert model.asked["refute"] == (level != "proven")
    assert ended.code == (level == "proven")
    comment, terminal = (
        surfaces.render(Report.from_dict(report), surface, surfaces.RenderOptions())
        for surface in ("markdown", "text")
    )
    assert CLAIM["message"].rstrip(".") in comment
    assert CLAIM["message"].rstrip(".") in terminal
    if level != "refuted":
        proof = claims(report)[CLAIM["message"]]["proof"]
        assert (proof["level"], why in proof["reason"]) == (level, True), proof
        assert "refuted" not in report
        return
    [refuted] = report["refuted"]
    assert refuted["finding"]["severity"] == severity
    assert why in refuted["reason"]
    assert "Reproduction: it passes here" in comment
    assert "assert average([2, 4]) == 3" in comment


@pytest.mark.full
@pytest.mark.parametrize("tries", [[REPLACES, SHOWS], [REPLACES]])
def test_a_test_that_replaces_what_the_claim_is_about_shows_nothing(
    stage: Stage, llm: ModelServer, tries: list[dict[str, Any]]
) -> None:
    model = ProvingModel({CLAIM["message"]: tries})
    proof = claims(reviewed(stage, llm, model).json())[CLAIM["message"]]["proof"]
    why = "it replaces `average`, which the claim is about"
    assert proof["level"] == ("proven" if SHOWS in tries else "argued")
    assert (why in proof["reason"]) == (SHOWS not in tries)
    assert model.asked["judge"] == (SHOWS in tries)
    again = next(one for one in llm.completions if len(one.messages) == 3)
    assert why in again.messages[2]["content"]


def test_an_argument_refutes_nothing_that_ran_and_that_no_judge_calls_wrong(
    stage: Stage, llm: ModelServer
) -> None:
    model = ProvingModel(verdict="unsure", refuted="refuted")
    report = reviewed(stage, llm, model).json()
    proof = claims(report)[CLAIM["message"]]["proof"]
    assert (proof["level"], "refuted" in report) == ("argued", False)
    for words in ("its judge says nothing certain", "a second look: nobody calls it so"):
        assert words in proof["reason"], proof["reason"]
    assert proof["reproduction"] == SHOWS["content"]


@pytest.mark.full
@pytest.mark.parametrize("calls", range(4))
def test_a_budget_that_ends_early_loses_nothing_that_ran(
    stage: Stage, llm: ModelServer, calls: int
) -> None:
    later = "adds another number"
    model = ProvingModel(claims=(CLAIM, {**claim(later, 3), "severity": "medium"}))
    short = reviewed(stage, llm, model, "--max-calls", str(calls))
    found = claims(short.json())
    assert short.code == (1 if calls >= 3 else 3)
    assert (CLAIM["message"] in found) == (calls >= 1)
    if calls == 2:
        proof = found[CLAIM["message"]]["proof"]
        assert (proof["level"], proof["reproduction"]) == ("argued", SHOWS["content"])
        assert "it fails at head, passes at the base; " in proof["reason"]
        assert "was run, and not judged" in proof["reason"]
        assert "was not run" in found[later]["proof"]["reason"]
    env = {"OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}
    assert stage.cli("resume", "latest", "--max-calls", "20", env=env).code == 1
    run = stage.folder(stage.only())
    again = claims(json.loads((run / "report.json").read_text()))[CLAIM["message"]]["proof"]
    assert again["level"] == "proven"
    assert [model.asked[kind] for kind in ("find", "reproduce", "judge")] == [1, 2, 2]
    assert again["repair"] or "no repair was asked for" in again["repair_reason"]
    assert stage.cli("replay", "latest", "--check").code == 0
    assert stage.cli("verify", "latest").code == 0


@pytest.mark.full
@pytest.mark.parametrize("facts", [9, 21])
def test_a_killed_review_goes_on_where_it_was(stage: Stage, llm: ModelServer, facts: int) -> None:
    """It ends with the bytes of one that nobody killed, and pays for nothing twice."""
    model = ProvingModel(claims=(CLAIM, claim("adds another number", 3)))
    whole = reviewed(stage, llm, model).json()
    [first] = stage.ids()
    paid = len(llm.completions)
    env = {**os.environ, "OPENAI_API_KEY": llm.key, "OPENAI_BASE_URL": llm.url}
    words = ("review", "--base", "HEAD~1", "--model", "m")

    def recorded() -> bool:
        later = [stage.folder(one) / "calls.jsonl" for one in stage.ids() if one != first]
        return any(path.exists() and path.read_bytes().count(b"\n") >= facts for path in later)

    with subprocess.Popen(
        [sys.executable, "-I", "-m", "rlm_ci", *words], cwd=stage.repo, env=env,
        stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
    ) as child:  # fmt: skip
        assert eventually(recorded)
        child.kill()
    [killed] = [one for one in stage.ids() if one != first]
    assert not (stage.folder(killed) / "report.json").exists()
    ended = stage.cli("resume", killed, env=env)
    again = json.loads((stage.folder(killed) / "report.json").read_text())
    assert ended.code == 1, ended
    assert (again["findings"], again["parts"]) == (whole["findings"], whole["parts"])
    for made in (stage.folder(first) / "rlm/artifacts").rglob("*.*"):
        other = stage.folder(killed) / made.relative_to(stage.folder(first))
        assert other.read_bytes() == made.read_bytes(), made.name
    # One call may have been on its way when the process died.
    assert len(llm.completions) - paid in (paid, paid + 1)
    assert again["usage"]["calls"] == whole["usage"]["calls"]


SENTENCE = "An average of no prices is 0."
WHOLE_CENTS = {
    **CLAIM,
    "guideline": {"path": "AGENTS.md", "line_start": 2, "line_end": 2, "quote": SENTENCE},
}


@pytest.mark.full
@pytest.mark.parametrize("answers", [
    ("high", SHOWS, "wrong_test"),
    ("high", {"kind": "none", "breaks": "nobody promises a value"}, "fault"),
    ("low", SHOWS, "fault"),
])  # fmt: skip
def test_a_guideline_of_the_base_is_enough_for_a_finding(
    repo: GitRepo, cli: Cli, llm: ModelServer, answers: tuple[str, dict[str, Any], str]
) -> None:
    """Its sentence is in each question; what speaks against it is not said beside it."""
    severity, shows, verdict = answers
    stage = Stage(repo, cli)
    repo.write("AGENTS.md", f"# Prices\n{SENTENCE}\n").write("shop.py", BASE).commit()
    repo.write("shop.py", HEAD).commit()
    claim = {**WHOLE_CENTS, "severity": severity}
    model = ProvingModel({CLAIM["message"]: shows}, claims=(claim,), verdict=verdict)
    ended = reviewed(stage, llm, model)
    found = claims(ended.json())[CLAIM["message"]]
    assert (ended.code, found["severity"], found["proof"]["level"]) == (0, "medium", "guideline")
    assert found["hint"] == f"The maintainers ask for it, AGENTS.md:2: {SENTENCE}"
    for asked in llm.completions:
        if kind_of(asked) in ("reproduce", "judge", "refute"):
            assert found["hint"] in asked.messages[0]["content"]
    run = stage.folder(stage.only())
    told = Report.from_dict(json.loads((run / "report.json").read_text()))
    for form in ("text", "markdown"):
        shown = " ".join(surfaces.render(told, form).split())
        assert shown.count(SENTENCE) == 1, shown
        assert "nobody" not in shown
        assert "documented" not in shown
    assert stage.cli("replay", "latest", "--check").code == 0
    config = f"[[review.guidelines]]\nlevel = 'high'\ntext = '{SENTENCE}'\n"
    base = repo.sha("HEAD~1")
    repo.checkout(base).write("rlm-ci.toml", config).commit()
    repo.write("shop.py", HEAD).commit()
    named = {"path": "rlm-ci.toml", "line_start": 3, "line_end": 3, "quote": SENTENCE}
    again = ProvingModel(
        {CLAIM["message"]: shows}, claims=({**claim, "guideline": named},), verdict=verdict
    )
    ended = reviewed(stage, llm, again)
    assert (ended.code, claims(ended.json())[CLAIM["message"]]["severity"]) == (1, "high")
    stage.clean()


@pytest.mark.full
def test_a_run_shows_more_than_a_guideline_and_a_repair_hears_of_it(
    repo: GitRepo, cli: Cli, llm: ModelServer
) -> None:
    stage = Stage(repo, cli)
    repo.write("AGENTS.md", f"# Prices\n{SENTENCE}\n").write("shop.py", BASE).commit()
    repo.write("shop.py", HEAD).commit()
    ended = reviewed(stage, llm, ProvingModel(claims=(WHOLE_CENTS,)))
    found = claims(ended.json())[CLAIM["message"]]
    assert (ended.code, found["severity"], found["proof"]["level"]) == (1, "high", "proven")
    (mend,) = [one for one in llm.completions if kind_of(one) == "mend"]
    assert SENTENCE in mend.messages[0]["content"]
    stage.clean()
