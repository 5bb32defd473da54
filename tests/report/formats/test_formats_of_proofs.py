"""What every surface shows of proofs: reproductions folded, code to the letter."""

from __future__ import annotations

import json
import re

import pytest

from rlm_ci.report.details.fixes_and_proofs import proof_of
from rlm_ci.report.findings import Finding, Location, Report, Severity
from rlm_ci.report.formats import markdown
from rlm_ci.report.markdown_report import MarkdownSurface
from rlm_ci.report.proof import Proof
from rlm_ci.report.render import render
from rlm_ci.text import neutralise
from testing import reports
from testing.markup_judges import Page, github_commands, github_html

PEOPLE = ("text", "markdown", "summary", "html", "github", "sarif")


@pytest.mark.parametrize("surface", PEOPLE)
@pytest.mark.parametrize("verbose", [False, True])
def test_people_see_three_arguments_and_how_many_there_are(surface: str, *, verbose: bool) -> None:
    report = Report.from_dict(reports.proven().to_dict())  # as whoever posts it reads it
    text = render(report, surface, verbose=verbose)
    seen = len(set(re.findall(r"Argument number \d", text)))
    assert seen == (0 if surface == "github" else 3)
    told = "5 argued" if surface != "sarif" else "2 argued findings left out"
    assert (told in text) == (surface != "github")
    assert github_commands(text) == [] or surface == "github"
    assert not any("Argument" in message for _, _, message in github_commands(text))


def test_machines_get_all() -> None:
    record = json.loads(render(reports.proven(), "json"))
    levels = [one["proof"]["level"] for one in record["findings"]]
    assert sorted(levels) == ["argued"] * 5 + ["proven"] + ["reproduced"] * 2
    assert [one["reason"] for one in record["refuted"]] == ["the reproduction passes at the head"]


@pytest.mark.parametrize("surface", ["markdown", "summary"])
def test_a_reproduction_is_folded_and_code_is_to_the_letter(surface: str) -> None:
    text = render(reports.proven(), surface)
    page = github_html(text)
    assert not page.stray
    assert page.comments == [" rlm-ci:report "]
    folds = [one.all("summary")[0].text() for one in page.root.all("details")]
    assert folds[:3] == [
        "Reproduction: it fails here, and passes at the base",
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
    assert "Refuted: the reproduction passes at the head" in refuted.text()


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
    short = proof_of(first, MarkdownSurface(), 10, 5)
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
    assert "`join` loses the port. (the reproduction passes at the head)" in told


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
        assert "layers" not in text, form


@pytest.mark.parametrize(("kinds", "headline"), [
    ((70,), "1 claim to read, not shown by a run"),
    ((70, 71, 72, 73), "4 claims to read, not shown by a run"),
    ((60, 70), "1 finding below the fail level, 1 claim to read, not shown by a run"),
    ((60, 90), "2 findings below the fail level"),
])  # fmt: skip
def test_nothing_is_clean_over_a_claim_that_stands(kinds: tuple[int, ...], headline: str) -> None:
    report = reports.proven()
    (part,) = report.parts
    kept = tuple(one for one in part.findings if int(one.rule.rpartition("-")[2]) in kinds)
    left = report.replace(parts=(part.replace(findings=kept),), refuted=())
    assert (left.verdict(), left.exit_code()) == ("clean", 0)
    assert render(left, "text").splitlines()[-1] == f"– {headline}"
    assert render(left, "text", quiet=True).splitlines()[-1] == f"– {headline}"
    for surface in ("text", "markdown", "summary", "html"):
        text = render(left, surface)
        assert headline in text
        assert "reported only" in text
        for clean in ("nothing to fix", "Clean", "✅", "✓"):
            assert clean not in text, surface
    accepted = tuple(one.replace(suppression="we want it so") for one in kept)
    done = left.replace(parts=(part.replace(findings=accepted),))
    assert render(done, "text").splitlines()[-1] == "✓ Clean: 1 check, nothing to fix"
