"""What an agent changed since its session began, and what the checks say of it."""

from __future__ import annotations

from rlm_ci.agent_hooks import dialects
from rlm_ci.agent_hooks import session as sessions
from rlm_ci.config.core_options import COMMON
from rlm_ci.text.neutralise import clip, one_line
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from rlm_ci.agent_hooks.dialects import Event
    from rlm_ci.agent_hooks.session import AgentSession
    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.errors import RlmCiError
    from rlm_ci.git.repository import Repository
    from rlm_ci.report.findings import Finding, Report

#: What no edit of an agent mends: the person names the task.
_MISSING_TASK = "delegation-guard/missing-task-id"
#: What an agent mends whose hooks record its subagents, and how.
_NO_SUBAGENT = "delegation-guard/no-subagent-manifest"
_START_SUBAGENT = "start a subagent for a part of this work, and wait until it ends: it is recorded"
_TASK = next(row for row in COMMON if row.key == "task")
#: Characters of a message or a hint that are shown.
_LONGEST = 600
#: What a program may take for markup of its own.
_MARKUP = r"<(?=[A-Za-z/!?])"
#: What a person is told of a file that takes too long to read, and of so many at most.
_LARGE = "{} has more than 16 MiB: it counts as removed, and nothing in it is judged"
_MAX_PATHS = 5
_SMALLER = "keep the file below 16 MiB: rlm-ci reads no larger one, and counts it as removed"
#: What a conflict leaves in a file, at the start of a line, and bytes of files that are read.
_CONFLICT = (b"<<<<<<< ", b">>>>>>> ")
_LIMIT = 2 << 20
#: How the hints of checks go on that speak to the author of a pull request.
_TO_AUTHORS = ", or say in the pull request"


class Problem(Value):
    """What is red: ``key`` tells it from others, ``text`` says what, where, and how to mend it."""

    key: str
    text: str


class WorkSite(Value):
    """The ``repository`` of the session of ``event``, whose record lies in ``folder``.

    ``environ`` are the variables of this process, ``flags`` the options of the command; the hook
    ``ends`` at this moment of the monotonic clock.
    """

    event: Event
    repository: Repository
    folder: str
    environ: Mapping[str, str]
    flags: Mapping[str, Any]
    ends: float = 0.0

    def change(self, session: AgentSession) -> tuple[ChangeSet | None, tuple[str, ...]]:
        """The work tree against the session's start, None where they are the same; large files.

        The start's own configuration judges it. Raises RlmCiError.
        """
        from rlm_ci.agent_hooks.work_tree import SessionTree
        from rlm_ci.change.change_set import ChangeSet

        work = SessionTree(self.repository, self.folder, self.environ)
        start = session.commit
        now = work.now(start, session.tree)
        if now.commit == start:
            return None, now.large
        others = self._from_others(session)
        change = ChangeSet(
            work.reader(), "range", base=start, head=now.commit, merge_base=start, also=others
        )
        return change, now.large

    def _from_others(self, session: AgentSession) -> tuple[str, ...]:
        """The commit of the remote's default branch up to which this session took it in.

        What others did there is no work of the agent: only files that differ from it, too, count.
        """
        repository, head = self.repository, self.repository.head_commit()
        if not (session.head and head) or head == session.head:
            return ()
        refs = repository.refs("refs/remotes")
        names = {target for name, (_, target) in refs.items() if name.endswith("/HEAD")}
        names = names or {name for name in refs if name.endswith(("/main", "/master"))}
        for name in sorted(names & refs.keys()):
            taken = repository.merge_base(head, refs[name][0])
            if taken and repository.merge_base(taken, session.head) != taken:
                return (taken,)
        return ()

    def report(
        self, session: AgentSession, change: ChangeSet, checks: Sequence[str] = ()
    ) -> Report:
        """What the checks say of ``change``, as strictly as of an agent. Raises RlmCiError."""
        from rlm_ci.agent_hooks import subagents  # most stops change nothing
        from rlm_ci.change.agent_authors import as_agent
        from rlm_ci.judge.judge import judge

        flags = {
            **self.flags, "repo": self.repository.root, "quiet": True, "test_guard.fail": True,
        }  # fmt: skip
        environ = as_agent(sessions.environment(session, self.environ))
        if not any(environ.get(name) for name in _TASK.variables):
            flags.setdefault(
                "task", subagents.of_session(self.event, self.repository, None) or None
            )
        judgement = judge(flags, checks, lambda _: change, changes=(change,), environ=environ)
        return judgement.report

    def config_error(self, session: AgentSession, change: ChangeSet) -> RlmCiError | None:
        """Why the config file is not valid any more; None if it is, or is as it was."""
        from rlm_ci.config.settings import CONFIG_FILES

        if not set(CONFIG_FILES) & set(change.names()):
            return None
        now = change.replace(base=change.head, merge_base=change.head, also=())
        (part, *_) = self.report(session, now, ["diff-budget"]).parts
        return part.error

    def look(self, session: AgentSession) -> tuple[AgentSession, list[Problem], list[str]]:
        """The problems that hold an agent, and notes for the person. Raises RlmCiError."""
        change, large = self.change(session)
        notes = [_harmless(_LARGE.format(path)) for path in large[:_MAX_PATHS]]
        if others := large[_MAX_PATHS:]:
            notes.append(f"nor is any of {count(len(others), 'more file')} of that size")
        if change is None:
            return session, [], notes
        report = self.report(session, change)
        problems = []
        error = self.config_error(session, change)
        if error is not None:
            what = str(error).replace(f" at {(change.head or '')[:12]}", "")
            text = _lines(f"the config file is not valid any more: {what}", error.hint)
            problems.append(Problem("config", text))
        failing = [finding for finding in report.findings if _is_open(finding, report, change)]
        for finding in failing:
            hint = finding.hint
            if finding.rule == _NO_SUBAGENT and self.event.agent not in dialects.WITHOUT_SUBAGENTS:
                hint = _START_SUBAGENT
            elif finding.evidence and finding.evidence[0].path in large:
                hint = _SMALLER
            if finding.rule != _MISSING_TASK:
                text = _described(finding.replace(hint=hint))
                problems.append(Problem(_key(finding), text))
        commits = [
            f"what the remote's default branch has up to {commit[:12]} is not judged"
            for commit in change.also
        ]
        notes += [*_notes(report, failing), *commits, *_in_conflict(change)]
        if session.configuration["validator"]:
            session = self._validate(session, change.repository, problems, notes)
        return session, problems, notes

    def _validate(
        self,
        session: AgentSession,
        repository: Repository,
        problems: list[Problem],
        notes: list[str],
    ) -> AgentSession:
        """Add what the validator says; the session, which knows what it said of the start."""
        import secrets

        from rlm_ci.agent_hooks import validation
        from rlm_ci.errors import RlmCiError

        configuration = session.configuration
        if not configuration["commands"]:
            return session
        environ = sessions.environment(session, self.environ)
        validator = validation.HookValidator(
            repository, environ, configuration["commands"], configuration["sandbox"], self.ends
        )
        try:
            failures, baseline = validator.compare(session.tree, session.baseline)
        except RlmCiError as error:
            notes.append(_not_run("the validator", error))
            return session
        if failures.reason:
            mark = secrets.token_hex(8)
            lines = failures.text(mark).split("\n")
            text = "\n   ".join(line if mark in line else _harmless(line) for line in lines)
            problems.append(Problem(f"validator {' '.join(sorted(failures.findings))}", text))
        elif baseline:
            notes.append("the validator failed before this session, too, in the same way")
        return session.replace(baseline=tuple(baseline)) if baseline or failures.reason else session


def _in_conflict(change: ChangeSet) -> Iterator[str]:
    """What the person learns of files with tests that began with the marks of a conflict."""
    from rlm_ci.guard.weaker import kind_of

    blobs = {path: change.blobs(path)[0] for path in change.names() if kind_of(path)}
    old = {path: blob for path, blob in blobs.items() if blob}
    contents = change.repository.read_small([*old.values()], _LIMIT) if old else []
    for path, content in zip(old, contents, strict=True):
        if all(b"\n" + mark in b"\n" + (content or b"") for mark in _CONFLICT):
            yield _harmless(f"{path} began with a conflict in it: its tests are not compared")


def _is_open(finding: Finding, report: Report, change: ChangeSet) -> bool:
    """Whether a finding fails, also one that only a comment of this session accepts."""
    if finding.fails(report.fail_level):
        return True
    from rlm_ci.report.suppressions import inline

    reason = inline(finding) if finding.suppression else None
    if reason is None or reason != finding.suppression:
        return False
    location = finding.evidence[0]
    before = change.read(location.path, _LIMIT, old=True) or b""
    quote = (location.quote or "").encode("utf-8", "surrogateescape")
    return quote not in before and finding.replace(suppression=None).fails(report.fail_level)


def _key(finding: Finding) -> str:
    """What stays the same while a number in a message changes."""
    path = finding.evidence[0].path if finding.evidence else ""
    return one_line(f"{finding.rule} {path} {finding.subject or ''}")


def _described(finding: Finding) -> str:
    where = ""
    if finding.evidence:
        location = finding.evidence[0]
        where = one_line(location.path)
        if location.line_start:
            where += f":{location.line_start}"
        if location.side == "old":
            where += " (as it was)"
        where += ": "
    return _lines(f"{where}{finding.message} [{finding.rule}]", finding.hint or "")


def _lines(what: str, hint: str) -> str:
    mend = _harmless(hint.partition(_TO_AUTHORS)[0])
    return _harmless(what) + (f"\n   To mend it: {mend}" if mend else "")


def _harmless(text: str) -> str:
    """A text of the repository, to be shown to an agent as data."""
    import re

    return clip(re.sub(_MARKUP, r"\\x3c", one_line(text)), _LONGEST)


def _not_run(what: str, error: RlmCiError) -> str:
    hint = f" ({error.hint})" if error.hint else ""
    return _harmless(f"{what} could not run: {error}{hint}")


def _notes(report: Report, failing: Sequence[Finding]) -> Iterator[str]:
    """What the person learns, and no agent can mend."""
    for part in report.parts:
        if part.error is not None:
            yield _not_run(part.id, part.error)
    if any(finding.rule == _MISSING_TASK for finding in failing):
        yield (
            "delegation-guard judged nothing: no task is named; set MCP_RUNNER_TASK_ID before "
            "the agent starts"
        )
