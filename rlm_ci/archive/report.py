"""What was archived, what stays, and why: as text and as JSON."""

from __future__ import annotations

from collections import Counter
from shlex import quote

from rlm_ci.checks.diff_budget import LABEL
from rlm_ci.text.neutralise import log
from rlm_ci.text.printable import count, encodable, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from rlm_ci.archive.run import ArchiveOutcome

VERSION = 1
#: Branches that are pushed by their names.
_PUSHED = 3
#: Documents of one kind that are named without ``--verbose``.
_NAMED = 10
#: The reasons of a plan, as the terminal has them.
GOES = {
    "retention_age": "old enough",
    "line_threshold": "long",
    "registry_status": "archived or deprecated in the registry",
    "terminal_task_lifecycle": "to be archived, says the registry",
}
STAYS = {
    "not_eligible": "not old or long enough",
    "active_lifecycle_not_archive_ready": "also of a task that is not finished",
    "unchecked_checklist_items": "with open items",
    "base_unchecked_checklist_items": "with open items at the base",
    "linked_unchecked_checklist_items": "with open items in another document of the task",
    "allowlist_task_key": "of a task that the policy keeps",
    "allowlist_path": "kept by the policy",
    "preserved_historical_stub": "kept as a historical stub, says the registry",
    "retained_terminal_packet": "retained, says the registry",
    "already_archived_preserved_findings": "findings that are archived, says the registry",
    "already_stubbed": "already stubs",
    "already_on_branch": "with a stub on a branch of an earlier --split",
    "invalid_archive_stub_metadata": "wrong stubs",
    "archived_content_differs": "with another text on the archive branch",
    "uncommitted_changes": "with uncommitted changes",
    "missing_on_disk": "missing",
    "outside_repo": "outside of the repository, or links",
    "not_markdown": "not Markdown",
    "empty": "empty",
    "too_large": "too large",
    "unsupported_path": "with a path that no stub can name",
}
#: The line of a pull request that is larger than its budget.
OVERRIDE = "Diff budget override: stubs of archived documents; the full texts are on {}"


def record(outcome: ArchiveOutcome, *, dry_run: bool) -> dict[str, Any]:
    """The report as JSON has it."""
    plan = outcome.plan
    return {
        "version": VERSION,
        "dry_run": dry_run,
        "day": plan.day,
        "head": plan.head,
        "archive_branch": plan.policy.branch,
        "archive_commit": outcome.pushed,
        "over_budget": outcome.over or None,
        "totals": {
            "candidates": plan.candidates,
            "stray_candidates": plan.strays,
            "archived": len(plan.documents),
            "registry_repairs": len(plan.unmarked),
            "skipped": len(plan.skipped),
        },
        "archived": [
            {
                "path": encodable(document.path),
                "oid": document.oid,
                "reasons": list(document.reasons),
                "task": document.task or None,
                "lines": document.lines,
            }
            for document in plan.documents
        ],
        "registry_repairs": [encodable(path) for path in plan.unmarked],
        "skipped": [
            {
                "path": encodable(document.path),
                "reason": document.reason,
                "detail": encodable(document.detail),
                "task": document.task or None,
            }
            for document in plan.skipped
        ],
        "branches": [
            {
                "name": batch.branch,
                "commit": batch.commit,
                "paths": [encodable(path) for path in batch.paths],
                "over_budget": batch.over or None,
            }
            for batch in outcome.batches
        ],
    }


def text(outcome: ArchiveOutcome, *, dry_run: bool, verbose: bool, remote: str) -> str:
    """The report for people."""
    lines = [*_archived(outcome, dry_run=dry_run, verbose=verbose)]
    lines += _skipped(outcome, verbose=verbose)
    lines += _next(outcome, remote) if not dry_run else ()
    return "".join(f"{log(printable(line))}\n" for line in lines)


def _archived(outcome: ArchiveOutcome, *, dry_run: bool, verbose: bool) -> Iterator[str]:
    plan = outcome.plan
    number = count(len(plan.documents), "document")
    if not plan.documents:
        yield "nothing to archive"
    elif dry_run:
        yield f"{number} would be archived on {plan.policy.branch}"
    else:
        commit = f" (pushed {outcome.pushed[:12]})" if outcome.pushed else ", which had them"
        yield f"{number} archived on {plan.policy.branch}{commit}"
    shown = plan.documents if verbose else plan.documents[:_NAMED]
    for entry in shown:
        yield f"  {entry.path}  {', '.join(GOES.get(reason, reason) for reason in entry.reasons)}"
    if len(shown) < len(plan.documents):
        yield f"  and {len(plan.documents) - len(shown):,} more; --verbose names them"
    rows = len(plan.unmarked)
    if rows and dry_run:
        yield f"{count(rows, 'row')} of older stubs would be marked in the registry"
    elif outcome.marked:
        yield f"{count(outcome.marked, 'row')} marked in the registry"


def _skipped(outcome: ArchiveOutcome, *, verbose: bool) -> Iterator[str]:
    skipped = outcome.plan.skipped
    if not skipped:
        return
    yield f"{count(len(skipped), 'document')} left alone"
    for reason, number in sorted(Counter(document.reason for document in skipped).items()):
        yield f"  {number:>6,}  {STAYS.get(reason, reason)}"
        if verbose:
            for entry in skipped:
                if entry.reason == reason:
                    yield f"            {entry.path}{f': {entry.detail}' if entry.detail else ''}"
    if not verbose:
        yield "  --verbose names them"


def _next(outcome: ArchiveOutcome, remote: str) -> Iterator[str]:
    """What to do with the result."""
    plan = outcome.plan
    override = OVERRIDE.format(plan.policy.branch)
    needs = f"needs the label {LABEL}, and this line in its body: {override}"
    for batch in outcome.batches:
        over = f"; {batch.over}" if batch.over else ""
        yield f"{batch.branch}: {count(len(batch.paths), 'document')}{over}"
    if outcome.batches:
        names = " ".join(quote(batch.branch) for batch in outcome.batches)
        if len(outcome.batches) > _PUSHED:
            every = f"refs/heads/{outcome.batches[0].branch.rpartition('-')[0]}-*"
            names = quote(f"{every}:{every}")
        yield f"next: git push {quote(remote)} {names}"
        yield "and open a pull request for each"
        if any(batch.over for batch in outcome.batches):
            yield f"one over the budget {needs}"
    elif plan.documents:
        yield "next: commit the stubs and open a pull request"
        if outcome.over:
            yield f"the stubs are over the diff budget: {outcome.over}"
            yield f"their pull request {needs}"
            yield "or discard them, and make smaller branches: rlm-ci archive --split"
