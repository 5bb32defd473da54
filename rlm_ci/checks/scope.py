"""scope: does an agent's change stay within the paths that it may touch by itself?

The rules are ``[[scope]]`` of the configuration, which is the base's for a change from outside. A
task can name its own paths. Paths after ``--`` are asked about before they are touched.
"""

from __future__ import annotations

from rlm_ci.checks._override import OverrideWords, accept, stated
from rlm_ci.config.settings import Setting
from rlm_ci.errors import ConfigError
from rlm_ci.report.findings import Finding, Location, Part, Severity
from rlm_ci.text import dates
from rlm_ci.text.printable import count, printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.settings import Settings
    from rlm_ci.runs.store import RunStore

ID = "scope"
SUMMARY = "an agent's change stays within the paths that it may touch"
RULES = dict.fromkeys(("person", "together", "task", "override-incomplete"), Severity.HIGH)
#: Groups of paths that a rule can name instead of patterns.
GROUPS = {
    "ci": (".github/", ".gitlab-ci.yml", ".circleci/", "Jenkinsfile", ".buildkite/",
           "azure-pipelines.yml", ".pre-commit-config.yaml", "rlm-ci.toml"),
    "auth": ("auth/", "*auth*.*", "login*", "*permission*.*", "*session*.*", "*password*.*",
             "*crypto*.*", "oauth/", "security/"),
    "migrations": ("migrations/", "migrate/", "alembic/versions/", "db/schema.*", "flyway/"),
    "instructions": ("AGENTS.md", "CLAUDE.md", "GEMINI.md", ".claude/", ".codex/", ".cursor/",
                     ".cursorrules", ".gemini/", ".github/copilot-instructions.md",
                     ".github/instructions/", ".windsurfrules", ".clinerules", ".mcp.json"),
}  # fmt: skip
AGENTS, ALL = "agents", "all"
_VARIABLE = "SCOPE_OVERRIDE_REASON"
_OVERRIDE = OverrideWords(_VARIABLE, "scope-override", "Scope override")
OPTIONS = (
    Setting("scope", "paths that an agent's change may not touch without a person, or only "
            "together with others", (), "table", columns=(
                Setting("paths", "patterns of the paths", (), "list", metavar="PATTERN"),
                Setting("groups", f"groups of paths: {', '.join(GROUPS)}", (), "list",
                        metavar="NAME"),
                Setting("together", "patterns: a change of the paths must change one of these, "
                        "too; without it, a person must agree", (), "list", metavar="PATTERN"),
                Setting("who", "whose changes: those of agents, or all", AGENTS, "choice",
                        choices=(AGENTS, ALL)),
                Setting("reason", "what a finding says of the rule"),
            )),
    Setting("scope.override_reason", "why the change may leave its scope; '(until YYYY-MM-DD)' in "
            "it ends the override", env=(_VARIABLE,), own_env=False, file=False),
)  # fmt: skip
HOOKS = {
    ID: {"args": (), "stages": ("pre-push",)},
    f"{ID}-staged": {"args": ("--staged",), "stages": ("pre-commit",)},
}

_LINE = "scope:"
#: Paths that a finding points to, and findings.
_PLACES, _MOST = 20, 20
#: Paths that a message names.
_NAMED = 5
_INDEX_LIMIT = 4 << 20
_NO_RULE = "no [[scope]] is set, and no task names its paths"


def applies(changes: ChangeSet, options: Settings) -> str | None:
    """Why the check is off: no rule is set, and no task names its paths."""
    try:
        if options.values["scope"] or _of_task(changes, options):
            return None
    except ConfigError as error:  # the delegation guard fails on such an index
        return str(error)
    return _NO_RULE


def run(
    changes: ChangeSet,
    options: Settings,
    _runs: RunStore,
    today: Callable[[], str] = dates.today,
) -> Part:
    """One part. Raises ConfigError for a pattern or a group that cannot be read."""
    from rlm_ci.checks._authorship import authorship_of

    rules = [_rule(entry, at, options) for at, entry in enumerate(options.values["scope"], 1)]
    task = _of_task(changes, options)
    queried = tuple(options.paths)
    paths = list(queried) or changes.all_names()
    logins = options.values.get("test_guard.strict_authors", ())
    wrote = authorship_of(changes, options.environ, logins)
    is_by_agent = wrote.is_by_agent or bool(queried)
    findings: list[Finding] = []
    for entry in rules:
        if is_by_agent or entry["who"] == ALL:
            findings += _of_rule(entry, paths)
    for patterns in task if is_by_agent else ():
        findings += _outside(patterns, paths, options)
    summary = _summary(len(paths), len(rules) + len(task), findings, queried=bool(queried))
    if not is_by_agent:
        summary += f"; {wrote.reason or 'no agent wrote it'}"
    elif not queried:
        summary += f"; {wrote.reason}"
    if findings and not queried:
        reason = options.values["scope.override_reason"]
        override = stated(_OVERRIDE, reason, changes.pull_request, today())
        incomplete = _finding("override-incomplete", "", "", ())
        findings, accepted = accept(findings[:_MOST], override, incomplete)
        summary += accepted
    if changes.label:
        summary = f"{printable(changes.label)}: {summary}"
    metrics = {"paths": len(paths), "rules": len(rules), "outside": len(findings)}
    return Part(ID, summary, metrics, tuple(findings))


# ── rules ──


def _rule(entry: Mapping[str, Any], number: int, options: Settings) -> dict[str, Any]:
    """An entry with the patterns of its groups. Raises ConfigError for a rule of nothing."""
    where = f"{options.sources['scope']}, [[scope]] number {number}"
    if unknown := [name for name in entry["groups"] if name not in GROUPS]:
        raise ConfigError(
            f"there is no group {unknown[0][:80]!r}",
            where=where,
            hint=f"groups: {', '.join(GROUPS)}",
        )
    patterns = (*entry["paths"], *(path for name in entry["groups"] for path in GROUPS[name]))
    if not patterns:
        raise ConfigError(
            "the rule has no paths", where=where, hint="give it paths, or groups such as ci"
        )
    return {
        **entry,
        "patterns": patterns,
        "within": _matcher(patterns, where),
        "beside": _matcher(entry["together"], where),
    }


def _matcher(patterns: Sequence[str], where: str) -> Callable[[str], bool]:
    from rlm_ci.text.globs import matcher

    try:
        return matcher(patterns)
    except ValueError as error:
        raise ConfigError(
            f"a pattern cannot be read: {error}", where=where, hint="write it as in .gitignore"
        ) from None


def _of_rule(entry: Mapping[str, Any], paths: Sequence[str]) -> Iterator[Finding]:
    """What a rule says against changes of ``paths``."""
    touched = [path for path in paths if entry["within"](path)]
    if not touched:
        return
    why = f": {printable(entry['reason'])}" if entry["reason"] else ""
    what = _listed(touched)
    if not entry["together"]:
        yield _finding(
            "person",
            f"{what} may not change without a person{why}",
            "leave it to a person, or have a person accept it: /rlm-ci override scope: REASON",
            touched,
        )
    elif not any(map(entry["beside"], paths)):
        others = printable(", ".join(entry["together"]))
        yield _finding(
            "together",
            f"{what} may only change together with {others}{why}",
            f"change {others} too, or leave both",
            touched,
        )


# ── the paths of a task ──


def _of_task(changes: ChangeSet, options: Settings) -> list[tuple[str, ...]]:
    """The patterns that a task may touch, by the index of tasks and the pull request's body.

    Each list holds: a body cannot widen what the index says.
    """
    lists = [_of_index(changes, str(options.task))] if options.task else []
    if pull := changes.pull_request:
        from rlm_ci.checks._shown_markdown import shown_lines

        lines = (line.strip() for _, line in shown_lines(pull.body))
        texts = [line[len(_LINE) :] for line in lines if line.lower().startswith(_LINE)]
        words = (word.strip(" `") for text in texts for word in text.split(","))
        lists.append(tuple(filter(None, words)))
    return [patterns for patterns in lists if patterns]


def _of_index(changes: ChangeSet, task: str) -> tuple[str, ...]:
    """The member ``paths`` of a task in ``tasks/index.json``, which the base decides.

    None for a task that it does not name. Raises ConfigError for an index that cannot be read.
    """
    import json

    path, commit = "tasks/index.json", changes.policy_commit
    data = (
        changes.repository.read_small([f"{commit}:{path}"], _INDEX_LIMIT)[0]
        if commit
        else changes.read(path, _INDEX_LIMIT)
    )
    if data is None:
        return ()
    try:
        items = json.loads(data)["items"]
        entries = [item for item in items if task in _names_of(item)]
        patterns = entries[0].get("paths", []) if entries else []
        if not (isinstance(patterns, list) and all(isinstance(item, str) for item in patterns)):
            raise TypeError(patterns)
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError):
        raise ConfigError(
            f"the paths of task {printable(task)[:80]} cannot be read",
            where=path,
            hint='mend it: {"items": [{"id": "...", "paths": ["src/"]}]}',
        ) from None
    return tuple(patterns)


def _names_of(item: Mapping[str, Any]) -> tuple[str, str, str]:
    """What a task of the index is called."""
    identifier, slug = str(item.get("id", "")), str(item.get("slug", ""))
    return identifier, slug, f"{identifier}-{slug}"


def _outside(patterns: Sequence[str], paths: Sequence[str], options: Settings) -> Iterator[Finding]:
    inside = _matcher(patterns, f"the paths of the task {options.task or ''}".rstrip())
    if outside := [path for path in paths if not inside(path)]:
        listed = printable(", ".join(patterns))[:200]
        yield _finding(
            "task",
            f"{_listed(outside)} outside of the task's paths: {listed}",
            "leave it for another change, or have a person widen the task",
            outside,
        )


# ── words ──


def _summary(paths: int, rules: int, findings: Sequence[Finding], *, queried: bool) -> str:
    what = "may be touched" if queried else "within scope"
    words = f"{count(paths, 'path')} {what}, by {count(rules, 'rule')}"
    if not rules:
        return f"{_NO_RULE}: {count(paths, 'path')} not judged"
    return (
        f"{count(len(findings), 'rule')} broken, {count(paths, 'path')} read" if findings else words
    )


def _listed(paths: Sequence[str]) -> str:
    """The paths of a finding, the first of them by name: a person must see what is meant."""
    more = f" and {count(len(paths) - _NAMED, 'more path')}" if paths[_NAMED:] else ""
    return ", ".join(printable(path)[:200] for path in paths[:_NAMED]) + more


def _finding(condition: str, message: str, hint: str, paths: Sequence[str]) -> Finding:
    places = tuple(Location(path) for path in paths[:_PLACES])
    return Finding(
        f"{ID}/{condition}", RULES[condition], message, hint=hint, evidence=places,
        subject=message[:200] or condition,
    )  # fmt: skip
