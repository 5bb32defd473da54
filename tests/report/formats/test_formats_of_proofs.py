"""What every surface shows of proofs: reproductions folded, code to the letter."""

from __future__ import annotations

import json
import re

import pytest

from rlm_ci.report.details.fixes_and_proofs import ProofLimits, proof_of
from rlm_ci.report.findings import (
    KNOWN,
    Finding,
    Location,
    Part,
    RefutedClaim,
    Report,
    Severity,
)
from rlm_ci.report.formats import markdown
from rlm_ci.report.formats.markdown import MarkdownSurface
from rlm_ci.report.overview.changes import Area, ModelWords, Overview, SaidSentence
from rlm_ci.report.proof import Proof
from rlm_ci.report.render import render
from rlm_ci.text import neutralise
from testing import reports
from testing.markup_judges import Page, github_commands, github_html

PEOPLE = ("text", "markdown", "summary", "html", "github", "sarif")


@pytest.mark.parametrize("surface", PEOPLE)
@pytest.mark.parametrize("verbose", [False, True])
def test_people_see_three_arguments_in_full_and_how_many_there_are(
    surface: str, *, verbose: bool
) -> None:
    report = Report.from_dict(reports.proven().to_dict())  # as whoever posts it reads it
    text = render(report, surface, verbose=verbose)
    seen = len(set(re.findall(r"Argument number \d", text)))
    all_of_them = ("markdown", "summary", "html")  # the others in a line
    assert seen == (0 if surface == "github" else 5 if surface in all_of_them else 3)
    if surface in all_of_them:
        assert text.count("nothing can run here") == 3
    told = "5 argued" if surface != "sarif" else "2 argued findings left out"
    assert (told in text) == (surface != "github")
    assert github_commands(text) == [] or surface == "github"
    assert not any("Argument" in message for _, _, message in github_commands(text))


def test_machines_get_all() -> None:
    record = json.loads(render(reports.proven(), "json"))
    levels = [one["proof"]["level"] for one in record["findings"]]
    assert sorted(levels) == ["argued"] * 5 + ["proven"] + ["reproduced"] * 2
    assert [one["reason"] for one in record["refuted"]] == ["its reproduction passes at head"]


@pytest.mark.parametrize("surface", ["markdown", "summary"])
def test_a_reproduction_is_folded_and_code_is_to_the_letter(surface: str) -> None:
    text = render(reports.proven(), surface)
    page = github_html(text)
    assert not page.stray
    assert page.comments == [" rlm-ci:report "]
    folds = [one.all("summary")[0].text() for one in page.root.all("details")]
    assert folds[:4] == [
        "Reproduction: it fails here, and passes at the base",
        "The repair",
        *["Reproduction: it fails here, and the base has nothing to compare with"] * 2,
    ]
    assert "3 of 5 findings argued only: nothing that ran shows them" in folds
    blocks = [one.text() for one in page.root.all("pre")]
    assert reports.HOSTILE_CODE in blocks
    assert reports.REPAIR in blocks
    assert "python -m pytest tests/test_user_info.py\n" in blocks
    assert blocks.count("if a:\n\treturn `b`\n") == 3
    assert neutralise.GAP not in "".join(one.text() for one in page.root.all("pre", "code"))
    assert "Suggested: Name `ValueError`" in text


def test_the_page_has_them_too() -> None:
    page = Page(render(reports.proven(), "html"))
    blocks = [one.text() for one in page.root.all("pre")]
    for code in (reports.HOSTILE_CODE, reports.REPAIR, "if a:\n\treturn `b`\n"):
        assert code.rstrip("\n") in blocks
    refuted = page.root.all("details")[-2]
    assert refuted.all("summary")[0].text() == "1 refuted claim"
    assert "Refuted: its reproduction passes at head" in refuted.text()


def test_the_page_has_the_output_of_the_base_beside_that_of_the_head() -> None:
    report = reports.proven()
    (part,) = report.parts
    first = part.findings[0]
    assert first.proof is not None
    for base, shown in (("1 passed in 0.03s",) * 2, ("", "It passes, and prints nothing.")):
        silent = first.replace(proof=first.proof.replace(base=base))
        one = report.replace(parts=(part.replace(findings=(silent,)),))
        page = Page(render(one, "html"))
        (sides,) = [each for each in page.root.all("div") if "sides" in each.attributes.values()]
        here, there = sides.all("div")
        assert here.text().startswith("Here")
        assert "assert 'b:c' == 'c'" in here.text()
        assert there.text().startswith("At the base")
        assert there.all("pre")[0].text() == shown
        comment = github_html(render(one, "markdown"))
        assert f"{shown}\n" in [each.text() for each in comment.root.all("pre")]


def test_a_comment_with_much_to_prove_fits_and_its_code_is_whole() -> None:
    report = reports.proven()
    (part,) = report.parts
    long = "".join(f"line {number}\n" for number in range(300))
    first = part.findings[0]
    assert first.proof is not None
    proof = first.proof.replace(reproduction=long, repair=long, head=long, base=long)
    fix = f"```suggestion\n{long}```"
    many = (first.replace(proof=proof), first.replace(suggested_fix=fix, proof=None)) * 30
    for findings in (many[:2], many[:12], many):
        text = render(report.replace(parts=(part.replace(findings=findings),)), "markdown")
        assert markdown.ROOM.has(text)
        assert not github_html(text).stray
        assert "line 7\n" not in text or "line 299\n" in text
    short = proof_of(first, MarkdownSurface(), ProofLimits(10, 5))
    assert short is not None
    assert (short["repair"], short["code"]) == (None, None)
    assert "`repair.patch`" in short["left_out"]


def test_the_terminal_shows_the_way_to_see_it() -> None:
    text = render(reports.proven(), "text")
    # The file of a proof is in its run: what works from where the user stands names the run.
    assert f"To run it: rlm-ci verify {reports.proven().run_id} --proof 42\n" in text
    assert "test_a_colon" not in text
    loose = render(reports.proven().replace(run_id=None), "text")
    assert "To run it: python -m pytest tests/test_user_info.py\n" in loose
    told = render(reports.proven(), "text", verbose=True)
    assert "    │ def test_a_colon_in_the_name_stays_in_the_name():\n" in told
    assert "`join` loses the port. (its reproduction passes at head)" in told


def test_what_is_cut_is_cut_between_folds_and_blocks() -> None:
    notes = tuple(f"`</details>` or `</pre>` or `<details>` {number}" for number in range(1500))
    text = render(reports.proven(), "markdown", notes=notes)
    assert markdown.ROOM.has(text)
    assert not github_html(text).stray


@pytest.mark.parametrize(("head", "last"), [
    ("", ""),
    ("Traceback:\n  x()\nValueError: b\n\n", "ValueError: b"),
    ("E   assert 3 == 2\nE    +  where 3 = f()\n\na.py:3: Error\n1 failed", "assert 3 == 2"),
    (('test_a\n  File "t.py", line 4, in test_a\n    assert x() == "a"\nAssertionError: b == a\n'
     "  \n  - a\n  ?  ^\n  + b\n  Use -v to get more diff\n"), "AssertionError: b == a"),
    ('  File "t.py", line 4, in f\nx.Odd: b\nmore\n--- Captured stdout call ---\nlast\n',
     "x.Odd: b"),
    ("✖ adds\n  AssertionError [ERR_ASSERTION]: not equal:\n\n  3 !== 4\n\n    at a.js:3\n",
     "AssertionError [ERR_ASSERTION]: not equal: 3 !== 4"),
    (("● cart › empty\n\n    expect(received).toBe(expected)\n\n    Expected: 0\n\n"
     "    > 5 |     expect(total([])).toBe(0);\n        |      ^\n\n      at a:5:23\n1 failed\n"),
     "> 5 |     expect(total([])).toBe(0);"),
    ("thread 'a' panicked at src/lib.rs:16:9:\nassertion `left == right` failed: odd\n  left: 1\n",
     "assertion `left == right` failed: odd"),
    ("--- FAIL: TestTotal (0.00s)\n    cart_test.go:9: total = 3, want 4\nFAIL\n",
     "cart_test.go:9: total = 3, want 4"),
    ("--- FAIL: TestTotal (0.00s)\nFAIL", "FAIL"),
])  # fmt: skip
def test_the_line_that_a_reproduction_fails_with(head: str, last: str) -> None:
    assert Proof("proven", "x", head=head).failing_line == last


@pytest.mark.parametrize("path", ["proofs/42; rm -rf ~", "proofs/$(x)", "proofs/", ""])
def test_a_command_has_no_id_that_a_shell_reads(path: str) -> None:
    report = reports.proven()
    (part,) = [one for one in report.parts if one.findings]
    first = next(one for one in part.findings if one.proof and one.proof.path)
    assert first.proof is not None
    odd = first.replace(proof=first.proof.replace(path=path))
    text = render(report.replace(parts=(part.replace(findings=(odd,)),)), "text")
    assert "--proof" not in text
    assert f"To run it: {first.proof.command}\n" in text


def test_what_is_argued_is_chosen_by_confidence_and_a_line_comes_before_architecture() -> None:
    proof = Proof("argued", "x")
    claims = [
        Finding(f"review/{name}", Severity.MEDIUM, name, evidence=(Location("a.py", 1, 1),),
                domain=domain, confidence=sure, source="model:m", proof=proof)
        for name, domain, sure in (
            ("layers", "architecture", 0.95), ("unsure", "quality", 0.2),
            ("sure", "quality", 0.9), ("surer", "security", 0.93),
        )
    ]  # fmt: skip
    report = reports.proven()
    shown = report.replace(parts=(report.parts[0].replace(findings=tuple(claims)),))
    for form in ("text", "markdown", "sarif"):
        text = render(shown, form)
        order = [text.index(f"review/{name}") for name in ("surer", "sure", "unsure")]
        assert order == sorted(order), form
        # In a comment it comes last, and in a line.
        last = text.rindex("a.py") if form == "markdown" else len(text)
        assert text.find("layers", 0, last) == -1, form


@pytest.mark.parametrize(("kinds", "headline"), [
    ((70,), "1 claim to read, not shown by a run"),
    ((70, 71, 72, 73), "4 claims to read, not shown by a run"),
    ((60, 70), "1 finding that fails nothing, 1 claim to read, not shown by a run"),
    ((60, 90), "2 findings that fail nothing"),
])  # fmt: skip
def test_nothing_is_clean_over_a_claim_that_stands(kinds: tuple[int, ...], headline: str) -> None:
    report = reports.proven()
    (part,) = report.parts
    kept = tuple(one for one in part.findings if int(one.rule.rpartition("-")[2]) in kinds)
    left = report.replace(parts=(part.replace(findings=kept),), refuted=())
    assert (left.verdict(), left.exit_code()) == ("clean", 0)
    assert render(left, "text").splitlines()[-1] == f"! {headline}"
    assert render(left, "text", quiet=True).splitlines()[-1] == f"! {headline}"
    for surface in ("text", "markdown", "summary", "html"):
        text = render(left, surface)
        assert headline in text
        assert "reported only" in text
        for clean in ("nothing to fix", "Clean", "✅", "✓"):
            assert clean not in text, surface
    accepted = tuple(one.replace(suppression="we want it so") for one in kept)
    done = left.replace(parts=(part.replace(findings=accepted),))
    assert render(done, "text").splitlines()[-1] == "✓ Clean: 1 check, nothing to fix"


@pytest.mark.parametrize(("metrics", "kept", "headline"), [
    ({"unchecked": 3}, (), "Nothing shown: 3 claims could not be checked"),
    ({"disputed": 1}, (), "Nothing shown: 1 claim refuted by an argument alone"),
    ({"unchecked": 1, "disputed": 2}, (70,),
     ("1 claim to read, not shown by a run, 1 claim could not be checked, "
      "2 claims refuted by an argument alone")),
    ({"unchecked": 1}, (90,), "1 finding that fails nothing, 1 claim could not be checked"),
])  # fmt: skip
def test_nothing_is_clean_over_a_claim_that_nobody_could_check(
    metrics: dict[str, int], kept: tuple[int, ...], headline: str
) -> None:
    report = reports.proven()
    (part,) = report.parts
    findings = [one for one in part.findings if int(one.rule.rpartition("-")[2]) in kept]
    part = part.replace(findings=tuple(findings), metrics={**part.metrics, **metrics})
    left = report.replace(parts=(part,), refuted=())
    assert (left.verdict(), left.exit_code()) == ("clean", 0)
    assert render(left, "text").splitlines()[-1] == f"! {headline}"
    for surface in ("text", "markdown", "summary", "html"):
        text = render(left, surface)
        assert headline in text
        for clean in ("nothing to fix", "Clean", "✅", "✓"):
            assert clean not in text, surface


@pytest.mark.parametrize(("reason", "title"), [
    ("its reproduction passes at head; nobody calls it so", "Reproduction: it passes here"),
    ("it fails at head, but its judge says that the test is wrong: it is as documented",
     "What was run, which does not show it"),
])  # fmt: skip
def test_a_refuted_claim_says_how_its_test_ended(reason: str, title: str) -> None:
    report = reports.proven()
    (part,) = report.parts
    claim = part.findings[0]
    assert claim.proof is not None
    output = "".join(f"out {number}\n" for number in range(6)) + "KeyError: 3\n"
    claim = claim.replace(proof=claim.proof.replace(level="argued", head=output))
    report = report.replace(
        parts=(part.replace(findings=part.findings[:3]),),
        refuted=(RefutedClaim(claim, reason),),
    )
    text = render(report, "markdown")
    fold = github_html(text.partition("<b>1 refuted claim</b>")[2])
    assert title in [one.text() for one in fold.root.all("summary")]
    assert f"Refuted: {reason}" in text
    assert output in [one.text() for one in fold.root.all("pre")]


PATCH = (
    "--- a/{0}\n+++ b/{0}\n@@ -9,7 +9,7 @@\n"
    " a\n b\n c\n-    if n <= 1:\n+    if n == 1:\n d\n e\n f\n"
)


def eight(patch: str, number: int = 8) -> Report:
    """Proven findings, each in a file of its own, with a quote of six lines and a repair."""
    report = reports.proven()
    (part,) = report.parts
    first = part.findings[0]
    assert first.proof is not None
    quote = "".join(f"    line {line}\n" for line in range(6))
    findings = tuple(
        first.replace(
            rule=f"review/kind-{at}",
            message=f"Claim {at} is wrong for zero.",
            evidence=(Location(f"src/m{at}.py", 9, 14, quote=quote),),
            proof=first.proof.replace(
                path=f"proofs/{at:02}{'a' * 30}",
                repair=patch.format(f"src/m{at}.py"),
                reproduction="".join(f"test {at} {line}\n" for line in range(15)),
                head="".join(f"out {line}\n" for line in range(12)) + f"KeyError: {at}\n",
            ),
        )
        for at in range(number)
    )
    return report.replace(parts=(part.replace(findings=findings),))


@pytest.mark.parametrize("extra", [0, 25])
def test_a_comment_on_eight_findings_is_read_at_once_and_has_what_a_person_needs(
    extra: int,
) -> None:
    text = render(eight(PATCH + " more\n" * extra), "markdown")
    assert text.count("\n") <= 200
    for at in range(8):
        for needed in (
            f"**high** · proven · [`src/m{at}.py:9-14`](",
            f"**Claim {at} is wrong for zero.**",
            f"it ends with `KeyError: {at}`",
            f"To run it: `rlm-ci verify 2026-11-20T12-45-00Z-0123abcd --proof {at:02}aaaaaa`",
        ):
            assert needed in text
    # The worst keep their patch; where the rest is, the comment says.
    shown = 2 if extra else 8
    assert text.count("```diff") == shown
    assert ("6 of 8 repairs" in text) == bool(extra)
    assert "8 of 8 reproductions with output" in text
    assert "All of it is in `report.json` and `report.html` of this run." in text
    page = render(eight(PATCH + " more\n" * extra), "html")
    assert all(f"test {at} 14" in page for at in range(8))
    assert not github_html(text).stray


@pytest.mark.parametrize("number", [4, 28, 900])
def test_many_findings_of_one_rule_leave_the_room_of_a_comment_to_what_was_proven(
    number: int,
) -> None:
    report = eight(PATCH, 4)
    alike = tuple(
        Finding(
            "test-guard/test-removed",
            Severity.MEDIUM,
            f"test_{at} is gone",
            "bring the test back",
            (Location(f"tests/test_{at % 7}.py", at + 1, quote="def test():\n" * 3),),
        )
        for at in range(number)
    )
    single = alike[0].replace(rule="test-guard/assertion-weakened", message="test_x asks for less")
    checks = Part("test-guard", "weakenings", {}, (*alike, single))
    text = render(report.replace(parts=(checks, *report.parts)), "markdown")
    assert text.count("\n") <= 200
    assert "There was no room here for the quoted lines of" in text
    # What was proven comes before, with its test and its repair.
    folded = text.index(f"<b>{number} findings by rule</b>")
    assert f"🟠 **medium** · `test-guard/test-removed` · {number} findings" in text
    assert all(0 < text.index(f"Claim {at} is") < folded for at in range(4))
    assert "test 0 14" in text
    assert text.count("```diff") == 4
    # One row each, with its place; of more there is the number.
    rows = re.findall(
        r"^  - \[`tests/test_\d\.py:(\d+)`\]\(\S+\): test\\?_\d+ is gone$", text, re.MULTILINE
    )
    assert len(set(rows)) == len(rows) >= 3
    assert f"  - and {number - len(rows)} more" in text
    assert "test\\_x asks for less" in text[:folded]
    assert not github_html(text).stray


def test_findings_of_one_rule_are_in_full_up_to_three_and_where_nothing_was_run() -> None:
    report = eight(PATCH, 2)
    alike = tuple(
        Finding("a/b", Severity.LOW, f"This is {at}", "", (Location(f"{at}.py", 1, quote="x\n"),))
        for at in range(4)
    )
    few = report.replace(parts=(Part("a", "", {}, alike[:3]), *report.parts))
    loose = report.replace(parts=(Part("a", "", {}, alike),))
    for one in (few, loose):
        assert "`a/b` · " not in render(one, "markdown")
    many = report.replace(parts=(Part("a", "", {}, alike), *report.parts))
    assert "`a/b` · 4 findings" in render(many, "markdown")
    assert "`a/b` · 4 findings" not in render(many, "summary")
    for severity, fold in ((Severity.MEDIUM, "<details>"), (Severity.HIGH, "<details open>")):
        worse = tuple(one.replace(severity=severity) for one in alike)
        shown = render(report.replace(parts=(Part("a", "", {}, worse), *report.parts)), "markdown")
        assert f"{fold}<summary><b>4 findings by rule</b></summary>" in shown


@pytest.mark.parametrize("number", [4, 5, 6])
def test_a_comment_leaves_reproductions_out_one_by_one_the_worst_last(number: int) -> None:
    report = eight("", number)
    (part,) = report.parts
    worst = part.findings[-1].replace(severity=Severity.CRITICAL)
    report = report.replace(parts=(part.replace(findings=(*part.findings[:-1], worst)),))
    text = render(report, "markdown")
    assert text.count("\n") <= 200
    order = (number - 1, *range(number - 1))
    shown = [f"test {at} 14" in text for at in order]
    assert shown[0]
    assert shown == sorted(shown, reverse=True)
    left_out = shown.count(False)
    assert left_out < number
    # Without a run, nobody could run what is not shown.
    loose = render(report.replace(run_id=None), "markdown")
    assert loose.count("To run it: `python -m pytest ") == number - left_out
    told = re.findall(r"(\d) of \d reproductions with output", text)
    assert told == ([str(left_out)] if left_out else [])
    assert not github_html(text).stray


def test_a_comment_on_two_findings_has_their_reproductions() -> None:
    text = render(eight(PATCH, 2), "markdown")
    assert text.count("\n") <= 200
    assert "test 1 14" in text
    assert "There was no room" not in text


def test_a_comment_says_that_it_has_not_all_of_what_changes() -> None:
    said = ModelWords("m", (), (SaidSentence("It waits.", (), ("a.py",)),))
    overview = Overview(
        areas=(Area("src", 8, 30, 9),), limits=("2 packages are not listed",), said=said
    )
    fold, folded = "All of it: names, callers, dependencies, files", "2 packages are not listed"
    few, many = (render(eight(PATCH, at).replace(overview=overview), "markdown") for at in (1, 8))
    assert fold in few
    assert "the whole of what changes" not in few
    assert fold not in many
    assert "the whole of what changes" in many
    assert folded in few
    assert folded in many
    assert "It waits." in few
    assert "No words of a model: no room here for what it says of the files" in many


def test_a_refuted_claim_below_high_and_a_claim_of_before_have_a_line_in_the_comment() -> None:
    report = reports.proven()
    (part,) = report.parts
    old = part.findings[0].replace(message="It was so before.", suppression=KNOWN)
    text = render(report.replace(parts=(part.replace(findings=(old,)),)), "markdown")
    assert "`join` loses the port. (its reproduction passes at head)" in text
    assert "1 claim not of this change" in text
    assert "It was so before." in text
