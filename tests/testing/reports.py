"""Reports to render: a typical one, and hostile ones made by hypothesis."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from rlm_ci import errors
from rlm_ci.report.findings import (
    Coverage,
    Finding,
    Location,
    Part,
    RefutedClaim,
    Report,
    Severity,
    Subject,
)
from rlm_ci.report.proof import ARGUED, LEVELS, PROVEN, REPRODUCED, Proof

HEAD = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
BASE = "a" * 40
MERGE_BASE = "b" * 40
BLOCK = """\
Delegation guard: issues detected
 - Missing: no run of a subagent of 0042-queue
 - Expected manifests: .runs/0042-queue-*/cli/*/manifest.json
 - Fix: start the work through the orchestrator
 - Override: DELEGATION_GUARD_OVERRIDE_REASON="why"
"""

_STUB = """\
# Plan for the queue

> Archived: the full text is in the branch doc-archives,
> <https://github.com/acme/rocket/blob/doc-archives/docs/plans/queue.md>
"""


def subject() -> Subject:
    return Subject("acme/rocket", BASE, HEAD, MERGE_BASE, pull_request=12)


def typical() -> Report:
    """One of everything that the checks have to say."""
    split = "Split the change: `git diff --stat main...` shows where the weight lies."
    budget = Part(
        "diff-budget",
        "31 files (limit 25), 1,843 lines (limit 1,200)",
        {"files": 31, "max_files": 25, "lines": 1843, "max_lines": 1200, "added": 1800,
         "deleted": 43, "ignored_files": 2, "ignored_lines": 5120, "binary_files": 1},
        (
            Finding("diff-budget/files", Severity.HIGH,
                    "31 files changed (limit 25)", split),
            Finding("diff-budget/lines", Severity.HIGH,
                    "1,843 lines changed (limit 1,200)", split),
            Finding("diff-budget/path-budget", Severity.HIGH,
                    "src/generated/ may change by 200 lines; it changes by 911.",
                    "Raise the limit on the base branch, or split the change.",
                    (Location("src/generated/api client.py", 120, 340),),
                    suppression="Regenerated from the new OpenAPI description"),
        ),
    )  # fmt: skip
    archive = Part(
        "doc-archive",
        "227 stubs: 226 valid, 1 dangling",
        {"stubs": 227, "valid": 226, "dangling": 1, "malformed": 0},
        (
            Finding("doc-archive/dangling", Severity.HIGH,
                    "The stub points to `doc-archives:docs/plans/queue.md`, which is not there.",
                    "Run `rlm-ci archive docs/plans/queue.md`, or restore the document.",
                    (Location("docs/plans/queue.md", 1, 4, "new", "c" * 40, _STUB),)),
            Finding("doc-archive/open-items", Severity.MEDIUM,
                    "The document that became a stub still had 2 open items.",
                    "Close them, or move them to an issue, before archiving.",
                    (Location("docs/plans/cache.md", 14, 15, "old", "d" * 40,
                              "- [ ] measure the hit rate\n- [ ] evict by age\n"),
                     Location("docs/plans/cache.md", 40, 40, "old"))),
        ),
    )  # fmt: skip
    guard = Part("delegation-guard", "no task id, and no tasks/index.json", {"enabled": False},
                 enabled=False)  # fmt: skip
    receipts = Part.from_error(
        "receipts",
        errors.ConfigError(
            "the branch receipts is not in this clone", hint="git fetch origin receipts"
        ),
    )
    policy = Part(
        "policy",
        "1 file that judges this change is edited by it",
        {},
        (Finding("policy/edited", Severity.INFO,
                 "The change edits rlm-ci.toml; it was judged by the one of the base commit.",
                 evidence=(Location("rlm-ci.toml"),)),),
    )  # fmt: skip
    return Report(
        subject(),
        Severity.HIGH,
        (budget, guard, archive, receipts, policy),
        title="Rework the queue",
        coverage=Coverage(31, 29, (("assets/logo.png", "binary"), ("big.json", "over 1 MiB"))),
        run_id="2026-11-20T12-45-00Z-0123abcd",
    )


def clean() -> Report:
    part = Part(
        "diff-budget", "3 files (limit 25), 120 lines (limit 1,200)", {"files": 3, "lines": 120}
    )
    return Report(subject(), Severity.HIGH, (part,))


_TEST = """\
from urls import URL


def test_a_colon_in_the_name_stays_in_the_name():
    url = URL("http://h", username="a:b", password="c")
    assert url.password == "c"
"""
REPAIR = """\
--- a/src/urls.py
+++ b/src/urls.py
@@ -41,2 +41,2 @@
     def userinfo(self):
-        return self.username + ":" + self.password
+        return quote(self.username) + ":" + quote(self.password)
"""
#: Code that Markdown, GitHub or the Actions runner would take for theirs.
HOSTILE_CODE = """\
# ::error::x</code></pre></details> @alice #1 https://evil.example
::error file=a::owned
##[error]owned
<!-- rlm-ci:report -->
```suggestion
\tif a < b && c | d:  # $x$ :tada:
~~~~
"""


def proven() -> Report:
    """What a model claims: proven, reproduced and argued, with refuted claims."""

    def claim(number: int, level: str, severity: Severity, message: str, **more: Any) -> Finding:
        place = Location(
            "src/urls.py",
            number,
            number,
            "new",
            "c" * 40,
            '        return self.username + ":" + self.password',
        )
        known = {"why": "it fails at the head, twice, and passes at the merge base, twice"}
        proof = Proof(level, more.pop("why", known["why"]), **more.pop("proof", {}))
        return Finding(
            f"review/kind-{number}",
            severity,
            message,
            evidence=(place,),
            domain="quality",
            confidence=0.9,
            source="model:m-1",
            proof=proof,
            **more,
        )

    ran = {
        "command": "python -m pytest tests/test_user_info.py",
        "path": "rlm/artifacts/review/proofs/42",
        "reproduction": _TEST,
    }
    findings = (
        claim(42, PROVEN, Severity.HIGH,
              '`URL("http://h", username="a:b")` sends password `b:c`; at the base it sent `c`.',
              proof={**ran, "head": "E  AssertionError: assert 'b:c' == 'c'\n1 failed in 0.04s\n",
                     "base": "1 passed in 0.03s\n", "repair": REPAIR,
                     "repair_reason": "the reproduction passes; your tests could not be run"}),
        claim(60, REPRODUCED, Severity.MEDIUM, "`parse` takes a tab for the end of the host.",
              why="it fails at the head; the function is new", proof={**ran, "head": "1 failed\n"},
              suggested_fix=f"````suggestion\n{HOSTILE_CODE}````"),
        *(claim(70 + number, ARGUED, Severity.MEDIUM, f"Argument number {number}.",
                why="nothing can run here: no sandbox", suggested_fix="if a:\n\treturn `b`")
          for number in range(5)),
        claim(90, REPRODUCED, Severity.LOW, "The docstring names the wrong exception.",
              why="it fails at the head", proof={"head": "x"},
              suggested_fix="Name `ValueError`, which is what it raises."),
    )  # fmt: skip
    refuted = (
        RefutedClaim(findings[1].replace(message="`join` loses the port.", proof=None),
                     "its reproduction passes at head"),
    )  # fmt: skip
    part = Part("review", "8 findings in 66 files, 3 of them changed", {"model": "m-1"}, findings)
    return Report(subject(), Severity.HIGH, (part,), refuted=refuted,
                  run_id="2026-11-20T12-45-00Z-0123abcd")  # fmt: skip


def guarded() -> Report:
    """The delegation guard alone, failing, with its own block."""
    finding = Finding("delegation-guard/no-subagent-manifest", Severity.HIGH, "No run.", "Run it.")
    part = Part("delegation-guard", "no evidence", {}, (finding,), block=BLOCK)
    return Report(Subject(), Severity.HIGH, (part,))


def many(number: int, message: str = "The stub points to nothing.") -> Report:
    """``number`` findings, each in a file of its own, with a quote of 20 lines."""
    quote = "".join(f"line {line} of it\n" for line in range(20))
    findings = tuple(
        Finding("doc-archive/dangling", Severity.HIGH, message, "Restore the payload.",
                (Location(f"docs/plan-{index:05}.md", 1, 20, "new", "c" * 40, quote),))
        for index in range(number)
    )  # fmt: skip
    return Report(subject(), Severity.HIGH, (Part("doc-archive", "broken", {}, findings),))


#: Pieces of what a pull request can write into any text that we show.
FRAGMENTS = (
    "@alice", "@acme/owners", "#1", "GH-12", "acme/rocket#4", "PROJ-77", HEAD, HEAD[:7],
    "https://evil.example/x?y=1", "HTTP://EVIL.EXAMPLE", "www.evil.example", "WWW.evil.example",
    "ftp://evil.example", "mailto:a@evil.example", "bob@evil.example", "xmpp:a@evil.example",
    "![pixel](https://evil.example/p.png)", "[click](https://evil.example)", "[click][1]",
    "[1]: https://evil.example", "<img src=x onerror=alert(1)>", "<script>alert(1)</script>",
    "</details>", "<details>", "</summary>", "<!-- rlm-ci:report -->", "<!--", "-->", "<!", "<",
    "```", "````", "`", "``", "~~~", "|", "\\|", "\\", "| a | b |", "|---|---|", "\n", "\n\n",
    "\r", "\r\n", "\t", "- ", "* ", "+ ", "1. ", "2) ", "# ", "## ", "===", "---", "***", "> ",
    "> [!NOTE]", "    ", "$x^2$", "$$", "$`x`$", "&lt;", "&#64;alice", "&commat;bob", "&", "**b**",
    "_i_", "~~s~~", "[^1]", "[ ]", ":tada:", "\x1b[31m", "\x07", "\x00", "\x7f", "\x9b", "\u202e",
    "\u2066", "\u200b", "\u200d", "\ufeff", "\u2028", "\u0085", "\U000e0041", "\udcff", "\ud83d",
    "::error::owned", "::error file=a::owned", "##[error]owned", "###[", "%0A::error::owned",
    "::stop-commands::x", "{{ 7 * 7 }}", "{% raw %}", "{0}", "](", "é", "漢字", "🙂", "word", " ",
    "<span>", "</code>", "' onload='x", '"', "javascript:alert(1)", "../..", "//evil.example",
)  # fmt: skip


# What is drawn from is made once: Hypothesis looks through all of a strategy that it does not know.


@cache
def hostile(most: int = 8) -> st.SearchStrategy[str]:
    """Texts of hostile fragments, and any text at all."""
    fragments = st.lists(st.sampled_from(FRAGMENTS), max_size=most).map("".join)
    anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=20)
    return st.one_of(fragments, anything)


@cache
def locations() -> st.SearchStrategy[Location]:
    lines = st.one_of(
        st.just((None, None)),
        st.tuples(st.integers(1, 90), st.integers(0, 9)).map(lambda two: (two[0], sum(two))),
    )
    return st.builds(
        lambda path, span, side, blob, quote: Location(path, span[0], span[1], side, blob, quote),
        hostile().map(_as_path), lines, st.sampled_from(("new", "old")),
        st.sampled_from((None, "c" * 40, "d" * 64)), st.none() | hostile(20),
    )  # fmt: skip


def _as_path(text: str) -> str:
    """``text`` as a path that git could hand us: bytes without NUL, not empty."""
    raw = text.encode("utf-8", "replace" if _has_half_a_pair(text) else "surrogateescape")
    return raw.replace(b"\0", b"").decode("utf-8", "surrogateescape") or "a"


def _has_half_a_pair(text: str) -> bool:
    return any(0xD800 <= ord(char) <= 0xDFFF and not 0xDC80 <= ord(char) <= 0xDCFF for char in text)


@cache
def proofs() -> st.SearchStrategy[Proof]:
    return st.builds(Proof, st.sampled_from(LEVELS), *[hostile()] * 7)


@cache
def findings(rule: str) -> st.SearchStrategy[Finding]:
    return st.builds(
        Finding, st.just(rule), st.sampled_from(Severity), hostile(), st.none() | hostile(),
        st.lists(locations(), max_size=3).map(tuple), st.none() | st.just("security"),
        st.none() | st.floats(0, 1), st.none() | hostile(), st.none() | hostile(),
        st.none() | hostile(), st.sampled_from(("check", "analyzer:ruff", "model:x/y")),
        st.none() | proofs(),
    )  # fmt: skip


@cache
def parts(part_id: str) -> st.SearchStrategy[Part]:
    metrics = st.dictionaries(
        st.sampled_from(("files", "ignored_files", "ignored_lines", "binary_files", "task_id")),
        st.one_of(st.integers(-5, 10**9), hostile(), st.none(), st.booleans()),
    )
    return st.builds(
        Part, st.just(part_id), hostile(), metrics,
        st.lists(findings(f"{part_id}/edited"), max_size=4).map(tuple),
        st.sampled_from((None, "not_run", "incomplete")),
    )  # fmt: skip


@cache
def reports() -> st.SearchStrategy[Report]:
    """Any report that follows the schema, hostile wherever an outsider can write."""
    ids = ("diff-budget", "delegation-guard", "doc-archive", "policy")
    some_parts = st.lists(st.sampled_from(ids), unique=True, max_size=4).flatmap(
        lambda chosen: st.tuples(*map(parts, chosen))
    )
    shas = st.sampled_from((None, HEAD, BASE, "e" * 64))
    subjects = st.builds(
        Subject, st.sampled_from((None, "acme/rocket")), shas, shas, shas, st.booleans(),
        st.none() | st.integers(1, 9999),
    )  # fmt: skip
    omitted = st.lists(st.tuples(hostile().map(_as_path), hostile()), max_size=3)
    return st.builds(
        Report, subjects, st.sampled_from(Severity), some_parts, hostile(),
        coverage=st.builds(Coverage, st.just(9), st.just(3), omitted.map(tuple)),
        run_id=st.sampled_from((None, "2026-11-20T12-45-00Z-0123abcd")),
        refuted=st.lists(st.builds(RefutedClaim, findings("policy/edited"), hostile()),
                         max_size=2).map(tuple),
    )  # fmt: skip
