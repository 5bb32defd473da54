"""ai-policy: does the change keep the project's own rule on the use of AI?

It decides by what commits say: their authors, and the trailers and lines of their messages. Nothing
is guessed from style, so a commit that says nothing breaks no rule.
"""

from __future__ import annotations

from rlm_ci.checks._override import OverrideWords, accept, stated
from rlm_ci.config.settings import Setting, Settings
from rlm_ci.errors import ConfigError
from rlm_ci.report.findings import INCOMPLETE, Finding, Part, Severity
from rlm_ci.text import dates
from rlm_ci.text.printable import count, printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.change.commit_messages import CommitMessage
    from rlm_ci.github.session import Access
    from rlm_ci.runs.store import RunStore

ID = "ai-policy"
SUMMARY = "the change keeps the project's rule on the use of AI"
RULES = dict.fromkeys(
    ("forbidden", "attribution", "signed-off", "author", "issue", "override-incomplete"),
    Severity.HIGH,
)
REQUIRED, ALLOWED, FORBIDDEN, ACCEPTED = "required", "allowed", "forbidden", "accepted"
PEOPLE, ANYONE = "people", "anyone"


class Policy(Value):
    """A project's rule. ``trailers`` are the keys that may name an agent, () for any form."""

    use: str = ALLOWED
    attribution: str = ALLOWED
    trailers: tuple[str, ...] = ()
    sign_off: str = ANYONE
    author: str = ANYONE
    issue: str = ALLOWED
    issue_label: str = ""
    source: str = ""


_ASSISTED, _GENERATED = "assisted-by", "generated-by"
#: The published policies that commits can be held against, as read in 2026.
PRESETS = {
    "ansible": Policy(
        author=PEOPLE,
        source="https://docs.ansible.com/ansible/latest/community/ai_policy.html",
    ),
    "apache": Policy(
        attribution=REQUIRED, trailers=(_GENERATED,),
        source="https://www.apache.org/legal/generative-tooling.html",
    ),
    "fedora": Policy(
        attribution=REQUIRED, trailers=(_ASSISTED,), author=PEOPLE,
        source="https://pagure.io/Fedora-Council/council-docs/pull-request/268",
    ),
    "gentoo": Policy(
        use=FORBIDDEN, source="https://wiki.gentoo.org/wiki/Project:Council/AI_policy"
    ),
    "linux": Policy(
        attribution=REQUIRED, trailers=(_ASSISTED,), sign_off=PEOPLE, author=PEOPLE,
        source="https://docs.kernel.org/process/coding-assistants.html",
    ),
    "llvm": Policy(
        attribution=REQUIRED, author=PEOPLE, source="https://llvm.org/docs/AIToolPolicy.html"
    ),
    "netbsd": Policy(
        use=FORBIDDEN, source="https://www.netbsd.org/developers/commit-guidelines.html"
    ),
    "openinfra": Policy(
        attribution=REQUIRED, trailers=(_ASSISTED, _GENERATED),
        source="https://openinfra.dev/legal/ai-policy/",
    ),
}  # fmt: skip
_VARIABLE = "AI_POLICY_OVERRIDE_REASON"
_OVERRIDE = OverrideWords(_VARIABLE, "ai-policy-override", "AI policy override")
OPTIONS = (
    Setting("ai_policy.preset", "a published policy to begin with; the other settings change it",
            kind="choice", choices=tuple(PRESETS)),
    Setting("ai_policy.use", "whether agents may take part at all (default: allowed)",
            kind="choice", choices=(ALLOWED, FORBIDDEN)),
    Setting("ai_policy.attribution", "whether a commit that an agent wrote must name it by a "
            "trailer (default: allowed)", kind="choice", choices=(REQUIRED, ALLOWED, FORBIDDEN)),
    Setting("ai_policy.trailers", "the trailers that may name an agent, such as Assisted-by "
            "(default: any)", kind="list", metavar="KEY"),
    Setting("ai_policy.sign_off", "who may sign off (default: anyone)", kind="choice",
            choices=(PEOPLE, ANYONE)),
    Setting("ai_policy.author", "who may be the author of a commit (default: anyone)",
            kind="choice", choices=(PEOPLE, ANYONE)),
    Setting("ai_policy.issue", "whether a change that an agent wrote must name an issue, or one "
            "that GitHub has open (accepted; default: allowed)", kind="choice",
            choices=(ACCEPTED, REQUIRED, ALLOWED)),
    Setting("ai_policy.issue_label", "label that an accepted issue must have (default: none)",
            metavar="LABEL"),
    Setting("ai_policy.override_reason", "why the change may break the policy; '(until "
            "YYYY-MM-DD)' in it ends the override", env=(_VARIABLE,), own_env=False, file=False),
)  # fmt: skip
HOOKS = {ID: {"args": (), "stages": ("pre-push",)}}

_SET = (
    "preset", "use", "attribution", "trailers", "sign_off", "author", "issue", "issue_label",
)  # fmt: skip
_NO_POLICY = "no ai_policy is set"
#: Findings that are listed one by one.
_MOST = 20


def applies(changes: ChangeSet, options: Settings) -> str | None:
    """Why the check is off: the project has not set a policy, or there is no commit to read."""
    if not _is_set(options):
        return _NO_POLICY
    return "nothing is committed yet" if changes.worktree else None


def _is_set(options: Settings) -> bool:
    return any(options.values[f"ai_policy.{name}"] is not None for name in _SET)


def run(
    changes: ChangeSet,
    options: Settings,
    _runs: RunStore,
    today: Callable[[], str] = dates.today,
) -> Part:
    """One part; a commit without a sign of an agent breaks no rule but that of its issue."""
    from rlm_ci.change import agent_authors

    policy = policy_of(options)
    messages = changes.messages
    by_agents = [
        item
        for item in messages
        if agent_authors.of_message(item) or any(agent_authors.trailers(item.text))
    ]
    findings = [finding for item in messages for finding in _broken(item, policy)]
    issue, unknown = "", ""
    if by_agents and policy.issue != ALLOWED:
        issue, unknown = _issue(changes, options, policy)
    if issue:
        message = f"{_commits(len(by_agents))} of an agent, and {issue}"
        hint = "name the accepted issue, as in: Closes #12"
        findings.append(_finding("issue", message, hint, "issue"))
    left = len(findings) - _MOST
    findings = findings[:_MOST]
    if left > 0:
        first = findings[0]
        findings.append(first.replace(message=f"and {left:,} more like these", subject="more"))
    summary = f"{_commits(len(messages))}, {len(by_agents):,} of an agent"
    if not _is_set(options):
        summary = f"{_NO_POLICY}, so nothing is required: {summary}"
    if changes.authors.is_cut:
        summary += "; older commits are not known: shallow clone"
    if policy.source:
        summary += f"; policy: {policy.source}"
    if unknown:
        summary += f"; whether the issue is accepted was not looked up: {unknown}"
    is_open = bool(unknown)
    if findings or unknown:
        reason = options.values["ai_policy.override_reason"]
        override = stated(_OVERRIDE, reason, changes.pull_request, today())
        incomplete = _finding("override-incomplete", "", "", "override")
        findings, accepted = accept(findings, override, incomplete)
        summary += accepted
        # A hook waits for no network: CI looks the issue up.
        is_open = is_open and not override.reason and not options.values.get("hook")
    metrics = {
        "commits": len(messages),
        "by_agents": len(by_agents),
        "broken": len(findings),
        "requirements": int(_is_set(options)),
    }
    return Part(ID, summary, metrics, tuple(findings), INCOMPLETE if is_open else None)


def policy_of(options: Settings) -> Policy:
    """The preset, if any, changed by what else is set. Raises ConfigError for a stray label."""
    settings = {name: options.values[f"ai_policy.{name}"] for name in _SET}
    preset = PRESETS.get(settings.pop("preset") or "", Policy())
    if settings["issue_label"] and settings["issue"] != ACCEPTED:
        raise ConfigError(
            "an issue is only looked at for its label where it must be accepted",
            where=options.sources["ai_policy.issue_label"],
            hint='also set ai_policy.issue = "accepted", or remove ai_policy.issue_label',
        )
    if settings["trailers"] is not None:
        keys = (key.strip().rstrip(":").lower() for key in settings["trailers"])
        settings["trailers"] = tuple(filter(None, keys))
    return preset.replace(**{key: value for key, value in settings.items() if value is not None})


def _broken(message: CommitMessage, policy: Policy) -> Iterator[Finding]:
    """What a commit does against the policy."""
    from rlm_ci.change import agent_authors

    commit = f"commit {message.commit[:12]}"
    forms = dict(agent_authors.trailers(message.text))
    authors = agent_authors.author_agents(message)
    agents = sorted({*authors, *agent_authors.of_message(message), *forms.values()})
    if not agents:
        return
    names = printable(", ".join(agents))
    if policy.use == FORBIDDEN:
        yield _finding("forbidden", f"{commit} is by {names}, and the project takes no such work",
                       "write it without", commit)  # fmt: skip
        return
    accepted = [key for key in forms if not policy.trailers or key in policy.trailers]
    wish = " or ".join(key.capitalize() for key in policy.trailers) or "Assisted-by"
    if policy.attribution == FORBIDDEN and forms:
        keys = ", ".join(sorted(forms))
        yield _finding("attribution", f"{commit} names {names} ({keys}); the project wants none",
                       "take the line out of the message", commit)  # fmt: skip
    elif policy.attribution == REQUIRED and not accepted:
        yield _finding("attribution", f"{commit} is by {names}, and has no trailer {wish}",
                       f"add a line to the message: {wish.partition(' ')[0]}: {names}",
                       commit)  # fmt: skip
    elif policy.attribution == ALLOWED and forms and not accepted:
        yield _finding("attribution", f"{commit} names {names}, but not by {wish}",
                       f"name it by: {wish.partition(' ')[0]}: {names}", commit)  # fmt: skip
    signers = sorted(set(agent_authors.signers(message.text)))
    if policy.sign_off == PEOPLE and signers:
        yield _finding("signed-off", f"{commit} is signed off by {printable(', '.join(signers))}",
                       "a person signs off who answers for it", commit)  # fmt: skip
    if policy.author == PEOPLE and authors:
        yield _finding("author", f"{commit} has {names} as its author",
                       "make the person its author who answers for it: git commit --amend "
                       "--reset-author", commit)  # fmt: skip


def _issue(changes: ChangeSet, options: Settings, policy: Policy) -> tuple[str, str]:
    """What is wrong with the issues that the change names, and why that is not known; or ""."""
    from rlm_ci.github import accepted_issue

    pull = changes.pull_request
    texts = [pull.title, pull.body] if pull else []
    texts += [item.text for item in changes.messages]
    if not accepted_issue.names_issue(texts):
        return "no issue is named", ""
    if policy.issue == REQUIRED:
        return "", ""
    if options.values.get("hook"):
        return "", "a hook asks nobody"
    name = changes.name or options.github.repository or ""
    looked_up = accepted_issue.look_up(texts, name, policy.issue_label, _access(options))
    if looked_up.refused:
        return f"no accepted issue is named: {'; '.join(looked_up.refused)}", ""
    return "", looked_up.unknown


def _access(options: Settings) -> Access | None:
    """Where GitHub is and the token, by the variables of the process; None without a token."""
    from rlm_ci.config.options import PUBLISH
    from rlm_ci.github.session import Access

    rows = tuple(row for row in PUBLISH if row.key in ("github.token", "github.api_url"))
    github = Settings(rows, {}, options.environ).github
    if not github.token:
        return None
    return Access(github.token, github.api_url) if github.api_url else Access(github.token)


def _commits(number: int) -> str:
    return count(number, "commit")


def _finding(condition: str, message: str, hint: str, subject: str) -> Finding:
    return Finding(f"{ID}/{condition}", RULES[condition], message, hint=hint, subject=subject)
