"""What every surface says in the same words: verdicts, counts, how to override."""

from __future__ import annotations

from rlm_ci.report.findings import (
    CLEAN,
    FINDINGS,
    INCOMPLETE,
    NOT_RUN,
    OLD,
    REVIEW,
    Severity,
)
from rlm_ci.text import printable
from rlm_ci.text.error_text import explain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from rlm_ci.report.findings import Finding, Location, Part, RefutedClaim, Report, Usage
    from rlm_ci.report.proof import Proof

#: What a person reads for a part's verdict, or for its state: off, or a review without files that
#: a tool knows.
OFF = "off"
UNSEEN = "unseen"
#: A check that ran, and had no rule, stub or claim to judge by.
NOTHING = "nothing to judge"
#: A clean check with findings that fail no run by themselves.
REPORTED = "reported"
LABELS = {
    FINDINGS: "findings", NOT_RUN: "not run", INCOMPLETE: "incomplete", CLEAN: "clean",
    UNSEEN: "not looked at", REPORTED: "reported only", NOTHING: NOTHING,
}  # fmt: skip

#: The part of a fix loop.
LOOP = "rlm"
#: The part of an episode.
EPISODE = "run"
#: The mode in which that part answers a question.
QUESTION = "symbolic"
#: The part that cannot be overridden.
TAMPER = "tamper"
#: The part that compares two benchmarks: its gates have tolerances of their own.
BENCH = "bench"
#: The check of archive stubs.
_ARCHIVE = "doc-archive"
#: The check of tests, which fails for some authors alone.
_GUARD = "test-guard"
#: The checks whose findings get no tick, though they fail for some authors alone.
_REPORTING = (_GUARD, "test-bite", "together")
_WIKI = "wiki"
#: The version of these words, which a run records: of one with others, ``verify`` expects no file
#: that shows a report to be the same. Raise it with each change of what a stored report shows.
WORDS = 2
#: The metrics that are all 0 or missing where a check had nothing to judge.
_SUBJECTS = {
    _ARCHIVE: ("stubs",), "scope": ("rules",), "ai-policy": ("requirements",),
    "description": ("claims", "not_checked", "notes"), "together": ("changes",),
}  # fmt: skip
#: The finding of a fix loop whose agent failed in all of its turns.
IDLE = "rlm/agent-failed"
#: What a fix loop ends as, where that says more than its verdict.
_DONE = "Done"
_PASSED, _NO_CHANGE, _BLOCKED, _PAUSED = "passed", "no_change", "blocked", "paused"

#: How to override a check, besides ``[[suppressions]]``.
OVERRIDES = {
    "diff-budget": "Set `DIFF_BUDGET_OVERRIDE_REASON` to the reason; or, on a pull request, add "
    "the label `diff-budget-override` and the line `Diff budget override: <reason>` to its body, "
    "or comment `/rlm-ci override diff-budget: <reason>` where that is set up.",
    "test-guard": "Set `TEST_GUARD_OVERRIDE_REASON` to the reason; or, on a pull request, add "
    "the label `test-guard-override` and the line `Test guard override: <reason>` to its body, "
    "or comment `/rlm-ci override test-guard: <reason>` where that is set up.",
    "ai-policy": "Set `AI_POLICY_OVERRIDE_REASON` to the reason; or, on a pull request, add the "
    "label `ai-policy-override` and the line `AI policy override: <reason>` to its body, or "
    "comment `/rlm-ci override ai-policy: <reason>` where that is set up.",
    "scope": "Set `SCOPE_OVERRIDE_REASON` to the reason; or, on a pull request, add the label "
    "`scope-override` and the line `Scope override: <reason>` to its body, or comment "
    "`/rlm-ci override scope: <reason>` where that is set up.",
    "test-bite": "Set `TEST_BITE_OVERRIDE_REASON` to the reason; or, on a pull request, add the "
    "label `test-bite-override` and the line `Test bite override: <reason>` to its body, or "
    "comment `/rlm-ci override test-bite: <reason>` where that is set up.",
    "delegation-guard": "Set `DELEGATION_GUARD_OVERRIDE_REASON` to the reason.",
    "review": "Run `rlm-ci suppress PATH:LINE --reason TEXT`, and commit the config file to the "
    "base branch; or, with write access, reply `won't fix` to the review comment, resolve it, or "
    "give it a thumbs down.",
}
#: Findings that nothing shows that ran, on a surface for people: ``report.json`` has all of them.
ARGUED_SHOWN = 3
#: Characters of the id of a proof.
_SHORT_ID = 8
#: Files that were left out for one reason and are listed one by one.
_APART = 3

count = printable.count


def gathered(omitted: Iterable[tuple[str, str]]) -> list[tuple[str, str, str]]:
    """What was not looked at: a path, how many others share its reason in words, the reason."""
    alike: dict[str, list[str]] = {}
    for path, reason in omitted:
        word, colon, details = reason.partition(":")  # the word is one for machines
        alike.setdefault(f"{word.replace('_', ' ')}{colon}{details}", []).append(path)
    groups = []
    for reason, paths in alike.items():
        if len(paths) > _APART:
            groups.append((paths[0], f" and {count(len(paths) - 1, 'more file')}", reason))
        else:
            groups += [(path, "", reason) for path in paths]
    return groups


def state(part: Part, fail_level: Severity) -> str:
    """The part's verdict, or one of the states above."""
    if part.enabled and _had_nothing_to_judge(part):
        return NOTHING
    if part.enabled:
        verdict = part.verdict(fail_level)
        return REPORTED if verdict == CLEAN and _only_reports(part) else verdict
    # Pages of a wiki that could not be compared are no choice of somebody.
    return UNSEEN if part.id == _WIKI or (part.id == REVIEW and "reach" in part.metrics) else OFF


def _only_reports(part: Part) -> bool:
    """Whether something is there to read, and fails nothing here.

    That is a weakened or a hollow test, pull requests that break together, a stale page of a wiki,
    or a claim of a model.
    """
    is_stale = part.id == _WIKI and amount(part.metrics, "stale") > 0
    return is_stale or reported([part]) > 0 or bool(_claims_left([part]))


def reported(parts: Iterable[Part], ids: Collection[str] = _REPORTING) -> int:
    """The findings of the checks ``ids`` that nobody accepts, and that are no mere information."""
    findings = [finding for part in parts if part.id in ids for finding in part.findings]
    return sum(
        finding.suppression is None and finding.severity > Severity.INFO for finding in findings
    )


def _claims_left(parts: Iterable[Part]) -> str:
    """The claims of a model that fail nothing and are left, in numbers; "" for none.

    These are the ones that nobody accepts, those that could not be checked, and those that nothing
    but an argument refutes.
    """
    unchecked = disputed = 0
    findings: list[Finding] = []
    for part in parts:
        findings += part.findings
        unchecked += amount(part.metrics, "unchecked")
        disputed += amount(part.metrics, "disputed")
    live, argued = parted(findings)
    counts = []
    if argued:
        counts.append(f"{count(len(argued), 'claim')} to read, not shown by a run")
    if unchecked:
        counts.append(f"{count(unchecked, 'claim')} could not be checked")
    if disputed:
        counts.append(f"{count(disputed, 'claim')} refuted by an argument alone")
    if live and (counts or any(finding.proof is not None for finding in live)):
        fail = "fails" if len(live) == 1 else "fail"
        counts.insert(0, f"{count(len(live), 'finding')} that {fail} nothing")
    begins = "" if live or argued or not counts else "Nothing shown: "
    return f"{begins}{', '.join(counts)}"


def rows(report: Report) -> tuple[Part, ...]:
    """The parts that a comment and a terminal list.

    Those that are off, or that had nothing to judge, are listed only where no other part is.
    """
    listed = tuple(part for part in report.parts if state(part, report.fail_level) != OFF)
    judged = tuple(part for part in listed if not _had_nothing_to_judge(part))
    return judged or listed or report.parts


def _had_nothing_to_judge(part: Part) -> bool:
    subjects = _SUBJECTS.get(part.id, ())
    is_quiet = part.enabled and part.state is None and not part.findings
    return is_quiet and bool(subjects) and not any(amount(part.metrics, name) for name in subjects)


def result(part: Part, fail_level: Severity, *, cure: bool = True) -> str:
    """The part's summary, led by its state where the summary alone might mislead.

    Without ``cure`` it leaves out the hint of the error that stopped the part.
    """
    verdict, summary = state(part, fail_level), part.summary
    if not cure and hint(part):
        summary = printable.printable(str(part.error))
    if verdict in (CLEAN, FINDINGS, NOTHING):
        return summary
    label = LABELS.get(verdict, verdict)
    is_labelled = summary[: len(label)].lower() == label
    return summary if is_labelled else f"{label}: {summary}" if summary else label


def hint(part: Part) -> str:
    """The hint of the error that stopped ``part``, if its summary is that error; else ""."""
    error = part.error
    is_error = error is not None and part.summary == explain(error)
    return printable.printable(error.hint or "") if error is not None and is_error else ""


def has_one_cause(report: Report) -> bool:
    """Whether one error stopped all parts."""
    return len({str(part.error) if part.error else part.id for part in report.parts}) == 1 and all(
        part.error is not None and part.state == NOT_RUN for part in report.parts
    )


def overrides(report: Report) -> list[tuple[str, str]]:
    """For a terminal: the parts that fail, each with how to accept its findings with a reason."""
    failing = [part for part in report.parts if part.verdict(report.fail_level) == FINDINGS]
    ways = []
    for part in (part.id for part in failing if part.block is None):  # a block says it itself
        variable = f"{part.replace('-', '_').upper()}_OVERRIDE_REASON"
        if variable in OVERRIDES.get(part, ""):
            ways.append((part, f'set {variable}="why" and run it again'))
        elif part == REVIEW:
            ways.append(
                (
                    part,
                    'run rlm-ci suppress PATH:LINE --reason "why"; merge rlm-ci.toml to the base',
                )
            )
        elif part == _ARCHIVE:
            ways.append((part, "add [[suppressions]] with a reason to rlm-ci.toml"))
    return ways


def ignored(metrics: Mapping[str, Any]) -> str:
    """``1 file with 5,000 lines ignored``, from a part's metrics."""
    files, lines = amount(metrics, "ignored_files"), amount(metrics, "ignored_lines")
    return f"{count(files, 'file')} with {count(lines, 'line')} ignored" if files or lines else ""


def amount(metrics: Mapping[str, Any], name: str) -> int:
    """The number of that name; 0 for anything else in a report from outside."""
    value = metrics.get(name)
    return value if type(value) is int and value > 0 else 0


def subject(report: Report) -> str:
    """What a finding without a place is about."""
    if is_question(report):
        return "the question"
    first = report.parts[0].id if report.parts else ""
    subjects = {LOOP: "the run", _WIKI: "the wiki", EPISODE: "the task", BENCH: "the candidate"}
    return subjects.get(first, "the change as a whole")


def is_question(report: Report) -> bool:
    return any(part.id == LOOP and part.metrics.get("mode") == QUESTION for part in report.parts)


def headline(report: Report) -> str:
    """The verdict in a few words, of our own and the ids of parts only."""
    verdict = report.verdict()
    loop = next((part for part in report.parts if part.id == LOOP), None)
    if is_question(report) and verdict != NOT_RUN:
        ends = {CLEAN: _answered(report), FINDINGS: "Not answered: the planner gave up"}
        return ends.get(verdict, "Not answered: the run ended before it had an answer")
    episode = next((part for part in report.parts if part.id == EPISODE), None)
    if verdict != NOT_RUN and episode is not None:
        done = "answered" if "session" in episode.metrics else "solved"
        ends = {CLEAN: done.title(), FINDINGS: f"Not {done}: the episode ended without an answer"}
        return ends.get(verdict, f"Not {done}: the steps or another budget are used up")
    if report.parts and report.parts[0].id == BENCH and verdict in (CLEAN, FINDINGS):
        return f"The candidate {'passes' if verdict == CLEAN else 'does not pass'} its gates"
    if verdict == FINDINGS:
        failing = len(report.failing())
        return f"{count(failing, 'finding')} {'fails' if failing == 1 else 'fail'} this change"
    if verdict == CLEAN and _idle(report):
        return "Nothing was done: the agent failed in all of its turns"
    if loop and (text := _fixed(loop, verdict, leads=loop is report.parts[0])):
        doubts = suspicious(report) if text == _DONE else []
        return f"{text}, with {count(len(doubts), 'suspicious finding')}" if doubts else text
    wiki = next((part.metrics for part in report.parts if "prose" in part.metrics), None)
    if wiki is not None and verdict in (CLEAN, INCOMPLETE):
        text = ", ".join(filter(None, (count(wiki["pages"], "page"), wiki["prose"])))
        # A wiki that is only compared has "stale"; one that is made has "new".
        done = "Up to date" if wiki.get("new", wiki.get("stale")) == 0 else "Written"
        return f"{done if verdict == CLEAN else 'Not finished'}: {text}"
    stopped = join([part.id for part in report.parts if part.state == verdict])
    if len(report.parts) > 1 and has_one_cause(report):
        stopped = ""  # some of them may be off, which nobody could read
    if verdict == NOT_RUN:
        return f"Not checked: {stopped or 'no check'} {'did not run' if stopped else 'ran'}"
    if verdict == INCOMPLETE:
        return f"Not fully checked: {stopped} did not finish"
    checks = sum(part.enabled for part in rows(report))
    if not checks:
        return "Nothing was checked: every check is off"
    return _claims_left(report.parts) or _clean(report, checks)


def _clean(report: Report, checks: int) -> str:
    if all(map(_had_nothing_to_judge, rows(report))):
        return f"Nothing to judge: {count(checks, 'check')}"
    is_left = any(finding.suppression is None for finding in report.findings)
    left = "no finding fails" if is_left else "nothing to fix"
    begins = "Checks clean, code not reviewed" if is_unread(report) else "Clean"
    if number := reported(report.parts):
        unread = ", code not reviewed" if is_unread(report) else ""
        what = "weakening" if reported(report.parts, (_GUARD,)) == number else "finding"
        begins = f"{count(number, what)} reported only{unread}"
    return f"{begins}: {count(checks, 'check')}, {left}"


def _answered(report: Report) -> str:
    evidence = report.evidence
    wrong = evidence.offered - evidence.verified
    of = f"{wrong:,} of {count(evidence.offered, 'citation')}"
    return f"Answered, but {of} could not be verified" if wrong else "Answered"


def _fixed(loop: Part, verdict: str, *, leads: bool) -> str:
    """The headline of a fix loop; "" where other parts decide."""
    metrics = loop.metrics
    if verdict == CLEAN and metrics.get("not_applied"):
        return "Not applied: the result is in the patch of this run alone"
    if verdict == CLEAN and metrics.get("patch") and not metrics.get("applied"):
        return "Green with the patch of this run, not without it"
    if not leads or verdict not in (CLEAN, INCOMPLETE):
        return ""
    status, is_unchanged = metrics.get("status"), metrics.get("files") == 0
    if verdict == INCOMPLETE:
        if status == _NO_CHANGE:
            return "Not done: the agent changed nothing"
        if status == _BLOCKED:
            return "Blocked: the agent asks, or says that no edit can reach the goal"
        if metrics.get("gates") and status == _PAUSED:
            return "Waiting: a person must approve the result"
        what = "all gates" if metrics.get("gates") else "the validator"
        return f"Not done: it stopped before {what} passed"
    if is_unchanged and status == _PASSED:
        return "Nothing to do: the validator passes without a change"
    return "Nothing was done: the agent changed nothing" if is_unchanged else _DONE


def suspicious(report: Report) -> list[Finding]:
    """What nothing refuses of a fix, and a person should look at."""
    return [
        finding
        for finding in report.findings
        if finding.domain == "tamper"
        and finding.suppression is None
        and Severity.MEDIUM <= finding.severity < report.fail_level
    ]


def not_applied(report: Report) -> str:
    """Why a green result is not applied, and the command that applies it; or ""."""
    loop = next((part for part in report.parts if part.id == LOOP), None)
    if loop is None or report.verdict() != CLEAN or not loop.metrics.get("not_applied"):
        return ""
    why, by_hand = loop.metrics["not_applied"], loop.metrics.get("by_hand")
    return f"Not applied: {why}{f'; to apply the patch: {by_hand}' if by_hand else ''}"


def verdict_line(report: Report) -> str:
    """The headline with what "clean" is said of."""
    limits = _limits(report) if report.verdict() == CLEAN else ""
    return f"{headline(report)} ({limits})" if limits else headline(report)


def _reach(report: Report) -> Mapping[str, Any] | None:
    """How much a review without a model looked at; None for any other report."""
    for part in report.parts:
        reach = part.metrics.get("reach") if part.id == REVIEW else None
        if isinstance(reach, dict) and part.metrics.get("model") is None:
            return reach
    return None


def _limits(report: Report) -> str:
    """What a review without a model says of itself; "" for any other report."""
    reach = _reach(report)
    if reach is None:
        return ""
    of = "change" if reach.get("change") else "repository"
    files, looked = amount(reach, "files"), amount(reach, "looked")
    if not files:
        return f"this {of} leaves no file to look at"
    if looked == files:
        return f"no model read this {of}"
    share = f"{looked:,} of {count(files, 'changed file' if of == 'change' else 'file')}"
    return f"no model read this {of}, and analyzers read {share if looked else 'no file of it'}"


def is_unread(report: Report) -> bool:
    """Whether a review looked at no file, though some of them are code."""
    reach = _reach(report)
    return reach is not None and not amount(reach, "looked") and advice(report) is not None


def advice(report: Report) -> tuple[str, str] | None:
    """What would look at the rest of a review's files, and the configuration for it.

    None where everything was looked at that a tool knows, or is code.
    """
    reach = _reach(report)
    if reach is None:
        return None
    from rlm_ci.report import review_advice  # no hook has a review

    others = reach.get("others")
    numbers = {name: amount(others, name) for name in others} if isinstance(others, dict) else {}
    is_change, auto = bool(reach.get("change")), bool(reach.get("auto"))
    return review_advice.advice(numbers, auto=auto, is_change=is_change)


def tone(report: Report) -> str:
    """The verdict whose mark precedes the headline: no tick where something is open."""
    verdict = report.verdict()
    if verdict != CLEAN:
        return verdict
    loop = next((part for part in report.parts[:1] if part.id == LOOP), None)
    is_open = loop is not None and (
        loop.metrics.get("not_applied")
        or (loop.metrics.get("files") == 0 and loop.metrics.get("status") != _PASSED)
    )
    if not any(part.enabled for part in report.parts):
        return OFF
    if all(map(_had_nothing_to_judge, rows(report))):
        return NOTHING
    is_open = is_open or (is_question(report) and _answered(report) != "Answered")
    if is_open or _idle(report) or is_unread(report):
        return INCOMPLETE
    is_reported = _claims_left(report.parts) or reported(report.parts)
    return REPORTED if is_reported else CLEAN


def _idle(report: Report) -> bool:
    return any(finding.rule == IDLE for finding in report.findings)


def remarks(report: Report, *, beside_line: bool = False) -> str:
    """What the headline leaves out, on one line.

    ``beside_line``: without what ``verdict_line`` says.
    """
    verdict = report.verdict()
    marked = [finding for finding in report.findings if finding.suppression in OLD]
    old = len(marked)
    suppressed = sum(finding.suppression is not None for finding in report.findings) - old
    only_argued = sum(
        finding.is_argued and finding.suppression is None for finding in report.findings
    )
    below = len(report.findings) - len(report.failing()) - suppressed - old - only_argued
    notes = []
    if below:
        notes.append(f"{count(below, 'finding')} less severe than {report.fail_level.label}")
    if suppressed:
        notes.append(f"{suppressed:,} suppressed")
    if old:
        claims = [
            f"{printable.printable(finding.rule)} at {position(finding.evidence[0])}"
            for finding in marked
            if finding.proof and finding.evidence
        ]
        among = "among them " if len(claims) < old else ""
        notes.append(f"{old:,} not of this change{f' ({among}{join(claims)})' if claims else ''}")
    if only_argued:
        notes.append(f"{only_argued:,} argued only")
    if report.refuted:
        notes.append(f"{count(len(report.refuted), 'claim')} refuted")
    for name, what in ((NOT_RUN, "did not run"), (INCOMPLETE, "did not finish")):
        stopped = join([part.id for part in report.parts if part.state == name])
        if stopped and name != verdict:
            notes.append(f"{stopped} {what}")
    limits = "" if beside_line and verdict == CLEAN else _limits(report)
    authors = by_agents(report.subject.commits, report.subject.agents)
    if any(authors in part.summary for part in report.parts):
        authors = ""
    return "; ".join(filter(None, (", ".join(notes), limits, authors)))


def by_agents(commits: int, agents: Iterable[tuple[str, int]]) -> str:
    """``2 of 5 commits by Claude Code, 1 by Codex``; "" where no agent wrote one."""
    first, *others = [f"{number:,} by {name}" for name, number in agents] or [""]
    first = first.replace(" by ", f" of {count(commits, 'commit')} by ", 1)
    return ", ".join(filter(None, (first, *others)))


def join(ids: list[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``; of many, the first five."""
    shown = ids[:5] + ([f"{len(ids) - 5} more"] if len(ids) > 5 else [])
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def lines(location: Location) -> str:
    """``""``, ``"3"`` or ``"3-5"``."""
    if location.line_start is None:
        return ""
    end = location.line_end
    return (
        f"{location.line_start}"
        if end in (None, location.line_start)
        else f"{location.line_start}-{end}"
    )


def position(location: Location) -> str:
    """``path:3-5``, which terminals and editors know how to open."""
    numbers = lines(location)
    before = " (before the change)" if location.side == "old" else ""
    return f"{printable.printable(location.path)}{f':{numbers}' if numbers else ''}{before}"


def spoken_lines(location: Location) -> str:
    """``""``, ``"line 3"`` or ``"lines 3-5"``."""
    numbers = lines(location)
    return f"lines {numbers}" if "-" in numbers else f"line {numbers}" if numbers else ""


def parted(findings: Iterable[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Those of ``findings`` that are not suppressed: what counts, and what is only argued."""
    live = [finding for finding in findings if finding.suppression is None]
    argued = sorted((finding for finding in live if finding.is_argued), key=surest_first)
    return [finding for finding in live if not finding.is_argued], argued


def surest_first(finding: Finding) -> tuple[bool, float]:
    """The order of what is only argued: concrete lines before remarks on the architecture."""
    return order_of_argued(finding.domain or "", finding.confidence or 0.0)


def spent(usage: Usage) -> str:
    """What models were asked, and the cost, with and without the endpoint's cache; "" for none."""
    tokens = usage.prompt_tokens + usage.completion_tokens
    if not (usage.calls or tokens):
        return ""
    calls = "" if "calls" in usage.unknown else f"{printable.count(usage.calls, 'call')}, "
    cached = f" ({usage.cached_tokens:,} of them cached)" if usage.cached_tokens else ""
    cost = "" if usage.cost_usd is None else f", ${usage.cost_usd:.4f}"
    if cost and usage.uncached_cost_usd is not None:
        cost += f" (${usage.uncached_cost_usd:.4f} without the cache)"
    lost_tokens = printable.count(usage.lost_tokens, "token")
    lost = f", about {lost_tokens} paid twice" if usage.lost_tokens else ""
    return f"{calls}{printable.count(tokens, 'token')}{cached}{cost}{lost}"


def order_of_argued(domain: str, confidence: float) -> tuple[bool, float]:
    """As ``surest_first``, of what a stored record says."""
    return domain == "architecture", -confidence


def argued(number: int) -> str:
    """What is said of findings that are only argued, of which three are shown."""
    of = f"{ARGUED_SHOWN} of " if number > ARGUED_SHOWN else ""
    shows = "it" if number == 1 else "them"
    return f"{of}{count(number, 'finding')} argued only: nothing that ran shows {shows}"


def refuted_high(report: Report) -> list[RefutedClaim]:
    """The refuted claims that were severe, each with what was said of it."""
    return [claim for claim in report.refuted if claim.finding.severity >= Severity.HIGH]


def proof_command(report: Report, proof: Proof) -> str:
    """What runs a proof alone; "" for none.

    Its own command needs its file in place. The run has all that it takes, so that is named by its
    id, and the proof by as much of its id as no other has.
    """
    number = _proof_id(proof)
    if not report.run_id or not number:
        return printable.printable(proof.command)
    claims = (*report.findings, *(claim.finding for claim in report.refuted))
    others = {_proof_id(claim.proof) for claim in claims if claim.proof} - {number}
    short = number[:_SHORT_ID]
    if any(other.startswith(short) for other in others):
        short = number
    return f"rlm-ci verify {report.run_id} --proof {short}"


def _proof_id(proof: Proof) -> str:
    """The name of its folder in the run; "" for none, and for one that a shell would read."""
    number = proof.path.rpartition("/")[2]
    return number if number.isascii() and number.replace("-", "").isalnum() else ""


def worst_first(findings: tuple[Finding, ...]) -> list[Finding]:
    """What a reader must see first: what counts before what is suppressed, worst first."""
    return sorted(
        findings, key=lambda finding: (finding.suppression is not None, -finding.severity)
    )
