"""description: is what the change says of itself in the change, and does it say what it does?

Title, body and commit messages are read for what can be held against the difference. Nothing is
run, nobody is accused: each finding is information.
"""

from __future__ import annotations

from rlm_ci.report.findings import Finding, Part, Severity
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.checks._description.compare import Description
    from rlm_ci.config.settings import Setting, Settings
    from rlm_ci.runs.store import RunStore

ID = "description"
SUMMARY = "what the change says of itself is in the change"
RULES = dict.fromkeys(("not-found", "differs", "unsaid", "placeholder"), Severity.INFO)
OPTIONS: tuple[Setting, ...] = ()
HOOKS: dict[str, dict[str, tuple[str, ...]]] = {}

#: Commits whose messages are read, the newest first, and findings.
_MOST_COMMITS, _MOST = 40, 20
_HINTS = {
    "not-found": "correct the description, or add what it names",
    "differs": "correct the description, or the change",
    "unsaid": "say it in the description, so that a reviewer looks at it",
    "placeholder": "say what the change does, and why",
}


def applies(changes: ChangeSet, _options: Settings) -> str | None:
    """Why the check is off: without a pull request it reads commit messages only if named."""
    return None if changes.pull_request else "no pull request describes the change"


def run(changes: ChangeSet, _options: Settings, _runs: RunStore) -> Part:
    """One part, whose findings fail nothing."""
    if changes.worktree or changes.merge_base is None:
        return Part(ID, "nothing describes what is not committed")
    from rlm_ci.checks._description.compare import compare

    descriptions = list(_descriptions(changes))
    if not descriptions:
        return Part(ID, "no commit and no text to read")
    compared = compare(descriptions, changes)
    findings = [
        Finding(f"{ID}/{item.rule}", RULES[item.rule], item.message, hint=_HINTS[item.rule],
                subject=item.subject)
        for item in compared.flaws[:_MOST]
    ]  # fmt: skip
    left = len(changes.messages) - _MOST_COMMITS
    flaws = len(compared.flaws)
    summary = f"{count(compared.confirmed, 'claim')} found in the change"
    summary += f", {count(flaws, 'remark')}" if flaws else ""
    if not (compared.confirmed or flaws):
        summary = f"{count(len(descriptions), 'description')} read, without a claim to look up"
    summary += f"; {count(compared.unchecked, 'claim')} not checked" if compared.unchecked else ""
    summary += f"; the messages of {count(left, 'older commit')} not read" if left > 0 else ""
    summary = "; ".join((summary, *compared.notes))
    if changes.label:
        summary = f"{printable(changes.label)}: {summary}"
    metrics = {
        "descriptions": len(descriptions),
        "claims": compared.confirmed + flaws,
        "not_checked": compared.unchecked,
        "notes": len(compared.notes),
        "remarks": flaws,
    }
    return Part(ID, summary, metrics, tuple(findings))


def _descriptions(changes: ChangeSet) -> list[Description]:
    """What describes the change: the pull request as a whole, each commit for itself."""
    from rlm_ci.change import change_set
    from rlm_ci.checks._description.compare import Description

    results = []
    if pull := changes.pull_request:
        body = "" if pull.by_bot else pull.body
        results.append(Description("the pull request", pull.title, body, changes))
    messages = changes.messages
    for item in messages[:_MOST_COMMITS]:
        title, _, body = item.text.partition("\n")
        if title.startswith(("fixup! ", "squash! ", "amend! ", "Merge ", "Revert ")):
            continue
        if item.is_by_bot:  # it quotes what others say of other repositories
            body = ""
        is_all = len(messages) == 1
        change = changes if is_all else change_set.from_commit(changes.repository, item.commit)
        results.append(Description(f"commit {item.commit[:12]}", title, body, change))
    return results
