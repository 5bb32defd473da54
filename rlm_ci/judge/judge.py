"""What ``pr`` and ``check`` share: settings, change, config, checks, one report.

A note says what is not judged: uncommitted work, where the change is between commits.
"""

from __future__ import annotations

import os
from functools import reduce
from operator import or_

from rlm_ci import checks
from rlm_ci.change import change_set as changes
from rlm_ci.change import trigger
from rlm_ci.config.core_options import CORE
from rlm_ci.config.settings import Settings
from rlm_ci.console.messages import say, warn
from rlm_ci.errors import ConfigError, RlmCiError, UsageError
from rlm_ci.git import tracked
from rlm_ci.git.hardening import without_hook
from rlm_ci.git.objects import parse_rows
from rlm_ci.git.repository import Repository, discover, follow
from rlm_ci.judge import config_file
from rlm_ci.judge.options import change_choice
from rlm_ci.redaction.redactor import Redactor
from rlm_ci.report.findings import Evidence, Part, Report, Severity, Subject
from rlm_ci.runs.store import RunStore
from rlm_ci.system import files
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import count
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.config.settings import Setting

#: Signs in the names of owners and repositories, as letters.
_SIGNS = str.maketrans("-_.", "aaa")
#: The notes that this process has printed.
_NOTED: set[str] = set()


class Judgement(Value):
    """A report, with the settings and the changes whose configuration was obeyed."""

    report: Report
    settings: Settings
    repository: Repository
    changes: tuple[ChangeSet, ...]


class CheckTask(Value):
    """A change, the checks that look at it (None: all), and what keeps them from it."""

    change: ChangeSet
    only: Sequence[str] | None = None
    error: RlmCiError | None = None


def open_repository(options: Settings) -> Repository:
    """The repository that ``--repo`` names, or that holds the current folder."""
    environ = dict(options.environ)
    if options.repo:
        environ = without_hook(environ)
    start = _start(options)
    try:
        repository = Repository(*_located(start, environ), environ)
    except OSError as error:
        raise ConfigError(
            f"the repository cannot be read: {error.strerror}",
            where=start,
            hint="check that .git exists and is readable",
        ) from None
    repository.note = _note
    return repository


def _note(text: str) -> None:
    """A note of git, once: a command may open its repository more than once."""
    if text not in _NOTED:
        _NOTED.add(text)
        say(f"note: {text}")


def _located(start: str, environ: Mapping[str, str]) -> tuple[str, str | None]:
    """The top level and the git directory, where git would take them from its variables too."""
    root, git_dir = discover(start)
    named_dir = environ.get("GIT_DIR")
    if not named_dir:
        return root, git_dir
    named_dir = follow(os.path.abspath(named_dir))
    if environ.get("GIT_WORK_TREE"):
        return os.path.abspath(environ["GIT_WORK_TREE"]), named_dir
    if git_dir and os.path.realpath(git_dir) == os.path.realpath(named_dir):
        return root, git_dir
    if not os.path.exists(os.path.join(named_dir, "HEAD")):
        raise ConfigError(
            "GIT_DIR names no git repository", where=named_dir, hint="unset GIT_DIR, or correct it"
        )
    top = Repository(start, named_dir, environ).run("rev-parse", "--show-toplevel")
    return os.fsdecode(top.removesuffix(b"\n")), named_dir


def _start(options: Settings) -> str:
    try:
        start = os.path.abspath(options.repo or os.getcwd())
    except FileNotFoundError:
        raise ConfigError(
            "the current folder has been removed", where="working directory", hint="go to another"
        ) from None
    if not os.path.isdir(start):
        raise ConfigError(
            f"{options.repo[:80]!r} is not a folder",
            where=options.sources["repo"],
            hint="name a repository",
        )
    return start


def _paths(options: Settings, repository: Repository) -> tuple[str, ...]:
    """The paths after ``--``, given from where the command runs, relative to the top level."""
    start, root = os.path.realpath(_start(options)), os.path.realpath(repository.root)
    paths = []
    for path in options.paths:
        full = os.path.normpath(os.path.join(start, path))
        inside = files.below(root, full)
        if inside is None:
            raise ConfigError(
                f"{path[:80]!r} is outside of the repository",
                where=options.sources["paths"],
                hint=f"name paths below {repository.root}",
            )
        if not inside:
            return ()  # the top level: all of it
        paths.append(inside)
    return tuple(paths)


def judge(
    flags: Mapping[str, Any],
    requested: Sequence[str],
    default: Callable[[Repository], ChangeSet],
    *,
    read_stdin: Callable[[], bytes] = lambda: b"",
    with_repository_name: bool = False,
    more: Sequence[Setting] = (),
    changes: Sequence[ChangeSet] = (),
    also: Sequence[str] = (),
    environ: Mapping[str, str] | None = None,
) -> Judgement:
    """Run the checks ``requested`` (none: those that the settings enable) on the change.

    If the change or its config file cannot be read, the report says so. ``more`` are further
    settings for the caller, ``changes`` are the changes if the caller has them, ``also`` are checks
    that always run, ``environ`` are the variables if not those of the process. Raises RlmCiError
    for invalid flags and variables.
    """
    selected = requested or checks.names(flags.get("hook"))
    rows = (*CORE, *more, *checks.rows(selected))

    def fresh() -> Settings:
        return Settings(rows, flags, environ)

    options = fresh()
    repository = open_repository(options)
    if options.paths:
        flags = {**flags, "paths": _paths(options, repository)}
    level = Severity.from_label(options.fail_level)
    try:
        tasks = [CheckTask(change_set) for change_set in changes] or _select(
            options, repository, default, selected, read_stdin
        )
    except UsageError:
        raise
    except RlmCiError as error:
        parts = [Part.from_error(name, error) for name in _enabled(options, requested)]
        report = Report(Subject(), level, tuple(parts))
        return Judgement(Redactor(options.environ).report(report), options, repository, ())
    parts = []
    levels = []
    obeyed = []
    doubts: dict[str, RlmCiError] = {}
    for task in tasks:
        options, names, wrong = _configure(task, fresh, requested, also, doubts)
        if wrong is None:
            parts += _run(
                task.change, names, options, names if requested or options.checks else also
            )
            obeyed.append(task.change)
        else:
            parts += [Part.from_error(name, wrong) for name in names]
        levels.append(Severity.from_label(options.fail_level))
    for doubt in doubts.values():
        warn(doubt)
    if tasks and _is_of_head(options, tasks[0].change):
        note_uncommitted(repository, tasks[0].change.head, "rlm-ci check")
    if not tasks:  # a push that only deletes, or that brings no commit
        off = "off: no commit is pushed"
        parts = [Part(name, off, {"enabled": False}, enabled=False) for name in selected]
    judged = tuple(task.change for task in tasks)
    name = repository_name(judged, options, repository, look=with_repository_name)
    level = min(levels, default=level)  # of several changes, the strictest
    evidence = sum((part.evidence for part in parts if part.evidence), Evidence())
    subject = subject_of(judged, name)
    if judged and (judged[0].trigger != "push" or options.github.actions):
        subject = _with_agents(subject, judged)  # a push hook has no time for it
    report = Report(subject, level, tuple(parts), evidence=evidence)
    return Judgement(Redactor(options.environ).report(report), options, repository, tuple(obeyed))


def _is_of_head(options: Settings, change: ChangeSet) -> bool:
    """Whether a person may think that a change between commits is all of their work."""
    is_named = options.values.get("commit") or is_object_id(options.head or "")
    return change.trigger in ("range", "commit") and not is_named and not options.quiet


def _configure(
    task: CheckTask,
    fresh: Callable[[], Settings],
    requested: Sequence[str],
    also: Sequence[str],
    doubts: dict[str, RlmCiError],
) -> tuple[Settings, tuple[str, ...], RlmCiError | None]:
    """The settings and the checks of a task, and what keeps these from running, if anything.

    Adds doubts about the config file to ``doubts``.
    """
    options = fresh()
    error = task.error
    try:
        doubts.update((str(doubt), doubt) for doubt in config_file.apply(options, task.change))
        names = _enabled(options, requested)
    except RlmCiError as wrong:
        options = fresh()  # nothing of a file that is not whole
        names = _enabled(options, requested)
        error = wrong
    names = tuple(dict.fromkeys((*names, *also)))
    return options, tuple(name for name in names if task.only is None or name in task.only), error


def _enabled(options: Settings, names: Sequence[str]) -> tuple[str, ...]:
    # An unknown name is refused whether or not it is the one that counts.
    configured = checks.require(options.checks, options.sources["checks"])
    return tuple(names) or configured or checks.names(getattr(options, "hook", None))


def _run(
    change: ChangeSet, names: Sequence[str], options: Settings, requested: Sequence[str]
) -> list[Part]:
    """What the checks ``names`` say of ``change``; those of ``requested`` run in any case."""
    runs = RunStore.at(change.repository.root, options.runs_dir)
    ran: list[Part] = []
    for name in names:
        ran += checks.run((name,), change, options, runs, is_named=name in requested)
    ran += config_file.edited(change, options, names)
    if not any(part.findings for part in ran):
        return ran
    from rlm_ci.report import suppressions  # most runs of a hook find nothing

    source = options.sources["suppressions"]
    redact = Redactor(options.environ).finding
    ran = [suppressions.apply(part, options.suppressions, source, redact=redact) for part in ran]
    entries = config_file.awaiting(options, change) if any(map(_is_open, ran)) else ()
    return [suppressions.announce(part, entries, redact=redact) for part in ran]


def _is_open(part: Part) -> bool:
    return any(finding.suppression is None for finding in part.findings)


def _select(
    options: Settings,
    repository: Repository,
    default: Callable[[Repository], ChangeSet],
    selected: Sequence[str],
    read_stdin: Callable[[], bytes],
) -> list[CheckTask]:
    """The changes, each with the checks that it is for. Raises RlmCiError for none at all."""
    defaulted = []

    def by_default(repository: Repository) -> ChangeSet:
        defaulted.append(True)
        return default(repository)

    change_sets = trigger.select(
        change_choice(options),
        repository,
        by_default,
        read_stdin,
        lambda text: say(f"note: {text}"),
    )
    base = options.values.get("diff_budget.base")
    if defaulted and base and "diff-budget" in selected:
        # DIFF_BUDGET_BASE speaks to this one check, and is the last to be asked.
        others = [name for name in selected if name != "diff-budget"]
        tasks = [CheckTask(change, others) for change in change_sets] if others else []
        try:
            budgeted = changes.from_range(repository, base, "HEAD", "DIFF_BUDGET_BASE")
        except RlmCiError as error:
            if not tasks:
                raise
            return [*tasks, CheckTask(tasks[0].change, ["diff-budget"], error)]
        return [*tasks, CheckTask(budgeted, ["diff-budget"])]
    return [CheckTask(change) for change in change_sets]


# ── the report's head ──


def subject_of(judged: Sequence[ChangeSet], name: str | None) -> Subject:
    """What a report about these changes is about; ``name`` is the repository's."""
    if not judged:
        return Subject(name)
    change = judged[0]
    # The changes of a merge group lie end to end; it has the name of its last pull request.
    last = judged[-1] if change.trigger == "merge_group" else change
    return Subject(
        repository=name,
        base=change.base,
        head=None if change.worktree else last.head,
        merge_base=change.merge_base,
        worktree=change.worktree,
        pull_request=last.pull_request.number if last.pull_request else None,
    )


def _with_agents(subject: Subject, judged: Sequence[ChangeSet]) -> Subject:
    """``subject`` with the agents that wrote commits of these changes."""
    authors = reduce(or_, (change_set.authors for change_set in judged))
    number = len(authors.commits) if authors.agents else 0
    return subject.replace(commits=number, agents=authors.counted())


def repository_name(
    judged: Sequence[ChangeSet], options: Settings, repository: Repository, *, look: bool
) -> str | None:
    """``owner/name``, from the event, the environment or, if allowed to ``look``, the remote."""
    name = judged[0].name if judged else None
    name = _slug(name) or _slug(options.github.repository)
    if name is None and look and repository.git_dir:
        return from_remote(repository, options.github.server_url or "https://github.com")
    return name


def _slug(text: str | None) -> str | None:
    """``text`` if it is ``owner/name``, fit for links."""
    parts = (text or "").split("/")
    is_plain = all(part.translate(_SIGNS).isalnum() and part.isascii() for part in parts)
    return text if len(parts) == 2 and is_plain and not {".", ".."} & set(parts) else None


def from_remote(repository: Repository, server_url: str) -> str | None:
    """``owner/name`` of a remote on this server; None for any other."""
    url = repository.config(f"remote.{repository.remote()}.url").removesuffix(".git").rstrip("/")
    host = server_url.partition("://")[2].rstrip("/")
    for prefix in (f"https://{host}/", f"ssh://git@{host}/", f"git@{host}:"):
        if url.startswith(prefix):
            return _slug(url.removeprefix(prefix))
    return None


def read_templates(judgement: Judgement) -> dict[str, str]:
    """The user's own templates, from the base of a change from outside, else the work tree.

    Empty if no configuration applied: the work tree may be a stranger's.
    """
    if not judgement.changes:
        return {}
    folder = config_file.TEMPLATES
    commit = judgement.changes[0].policy_commit
    repository = judgement.repository
    templates: dict[str, str] = {}
    if commit:
        entries = repository.run("ls-tree", "-r", "-z", "--full-tree", commit, "--", f"{folder}/")
        paths = [
            row.partition(b"\t")[2].decode("utf-8", "surrogateescape")
            for row in entries.split(b"\0")
            if row.startswith(b"100")
        ]
        contents = repository.read(*(f"{commit}:{path}" for path in paths)) if paths else []
        for path, data in zip(paths, contents, strict=True):
            if data is not None:
                templates[path.removeprefix(f"{folder}/")] = data.decode("utf-8", "replace")
        return templates
    top = os.path.join(repository.root, folder)
    names = {
        os.path.relpath(os.path.join(parent, name), top).replace(os.sep, "/")
        for parent, _, inside in os.walk(top)
        for name in inside
    }
    names.update(path.removeprefix(f"{folder}/") for path in tracked.left_out(repository, [folder]))
    for path in sorted(names):
        try:
            data = tracked.read(repository, f"{folder}/{path}", config_file.LIMIT)
        except files.UnreadableError as error:
            raise ConfigError(
                f"a template cannot be read: {error}",
                where=f"{folder}/{path}",
                hint="make it a regular file, or remove it",
            ) from None
        templates[path] = data.decode("utf-8", "replace")
    return templates


#: Of submodules only their commits: to look into one runs a git there.
_RAW = ("--raw", "--no-abbrev", "--no-renames", "--ignore-submodules=dirty")


def note_uncommitted(repository: Repository, commit: str | None, how: str) -> None:
    """Say how many files with uncommitted changes are not part of ``commit``, if that is HEAD.

    ``how`` is what looks at them.
    """
    # Without an index nothing is checked out.
    if not os.path.exists(repository.index_file) or commit != repository.head_commit():
        return
    try:
        pending = changes.from_local(repository, "worktree").untracked
        changed = repository.diff_worktree(
            *_RAW, commit or "HEAD", env=_without_filters(repository)
        )
        paths = {*parse_rows(changed), *pending.paths, *pending.closed}
    except RlmCiError as error:
        say(f"note: uncommitted changes are not part of this, and could not be listed: {error}")
        return
    if paths:
        are = "is" if len(paths) == 1 else "are"
        files = count(len(paths), "file")
        say(f"note: {files} with uncommitted changes {are} not part of this; {how} checks them")


def _without_filters(repository: Repository) -> dict[str, str]:
    """Variables by which git runs no filter on contents: a look at commits runs no program.

    A filtered file that only its time tells from the committed one then counts as changed.
    """
    names = repository.run("config", "-z", "--name-only", "--get-regexp", r"^filter\.", ok=(0, 1))
    keys = [os.fsdecode(name) for name in names.split(b"\0") if name]
    variables = {"GIT_CONFIG_COUNT": str(len(keys))}
    for number, key in enumerate(keys):
        is_flag = key.endswith(".required")
        variables[f"GIT_CONFIG_KEY_{number}"] = key
        variables[f"GIT_CONFIG_VALUE_{number}"] = "false" if is_flag else ""
    return variables
