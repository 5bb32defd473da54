"""Which change is meant: by flags, a GitHub event, the input of a Git hook, or none of these.

First of: ``--commit``, ``--staged``, ``--base``/``--head``, ``--event``; in Actions
``GITHUB_EVENT_PATH``; pre-commit's variables; ``BASE_SHA``. One that does not resolve is an error.
"""

from __future__ import annotations

from rlm_ci.change import change_set
from rlm_ci.change.change_set import ChangeSet, PullRequest
from rlm_ci.errors import ConfigError, UsageError
from rlm_ci.system import files
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from rlm_ci.git.repository import Repository

#: GitHub cuts webhook payloads at 25 MB.
_EVENT_LIMIT = 32 << 20
#: The flags of a range.
_RANGE = ("--base", "--head")
#: Events without a change, for which the command's default holds.
_WITHOUT_CHANGE = ("schedule", "workflow_dispatch")
_SUPPORTED = (
    "pull_request, pull_request_target, push, merge_group, schedule, workflow_dispatch, "
    "issue_comment on a pull request (with --base and --head)"
)


class ChangeChoice(Value):
    """The change to judge, as flags, variables and hooks name it.

    ``sources`` are those of ``base`` and ``head``; ``event`` is the file of an event, whose name is
    empty if a flag names the file; ``pre_commit`` are the variables of that tool.
    """

    base: str | None
    head: str | None
    sources: tuple[str, str]
    event: str | None
    event_name: str
    base_sha: str | None
    pre_commit: Any
    commit: str | None = None
    staged: bool = False
    hook: str | None = None


def select(
    choice: ChangeChoice,
    repository: Repository,
    default: Callable[[Repository], ChangeSet],
    read_stdin: Callable[[], bytes] = lambda: b"",
    note: Callable[[str], None] = lambda _: None,
) -> list[ChangeSet]:
    """The changes to judge: one, or for a push hook those of the pushed refs.

    ``default`` makes the change if none is named; ``note`` is called for each ref that is left
    out. Raises ConfigError, UsageError.
    """
    _require_one(choice)
    if choice.hook == "pre-push":
        return _pushed(repository, read_stdin(), note)
    if choice.commit:
        return [change_set.from_commit(repository, choice.commit)]
    hook = choice.pre_commit
    is_range = hook.from_ref and hook.to_ref
    # `pre-commit run --from-ref --to-ref` runs the hooks of a commit, which ask for what is staged.
    if choice.staged or choice.hook == "pre-commit":
        staged = None if hook.runs and is_range else change_set.from_local(repository, "index")
        return [staged or _pushed_through(hook, repository)]
    if choice.base or choice.head:
        return [_between(choice, repository)]
    if choice.event:
        return [from_event(repository, choice.event, choice.event_name) or default(repository)]
    if hook.remote_name or is_range:
        return [_pushed_through(hook, repository)]
    if choice.base_sha:
        return [change_set.from_range(repository, choice.base_sha, "HEAD", "BASE_SHA")]
    return [default(repository)]


def _require_one(choice: ChangeChoice) -> None:
    """Raise UsageError for flags that name two changes."""
    switches = [("--commit", bool(choice.commit)), ("--staged", choice.staged)]
    switches += [(flag, flag == choice.sources[number]) for number, flag in enumerate(_RANGE)]
    flags = [flag for flag, is_given in switches if is_given]
    if len(flags) > 1 and flags != [*_RANGE]:
        raise UsageError(
            f"{' and '.join(flags)} name different changes",
            where=flags[0],
            hint="--base and --head go together; --commit and --staged stand alone",
        )


def _between(choice: ChangeChoice, repository: Repository) -> ChangeSet:
    head = choice.head or "HEAD"
    source = f"{choice.sources[0]}, {choice.sources[1]}"
    about: dict[str, Any] = {}
    if choice.event:
        payload = load(choice.event)
        about["pull_request"] = pull_request_of(payload, choice.event)
        pull = payload.get("pull_request")
        about["target"] = _text(pull.get("base"), "ref") or None if isinstance(pull, dict) else None
    if choice.base:
        source = source.removesuffix(", default")
        return change_set.from_range(repository, choice.base, head, source, **about)
    default = repository.default_branch()
    if default is None:
        raise ConfigError(
            "there is no default branch to compare with",
            where=source,
            hint="name the base with --base REF",
        )
    source = source.removeprefix("default, ")
    change = change_set.from_range(repository, default[1], head, source, **about)
    if change.head != change.merge_base:
        return change
    # If the default branch has all of it: that commit, as without a flag.
    alone = change_set.from_commit(repository, change.head or head, source)
    return change.replace(base=alone.base, merge_base=alone.merge_base)


def pull_request_of(payload: Mapping[str, Any], source: str) -> PullRequest | None:
    """The pull request that an event is about, also by a comment on it; None for others."""
    record = payload.get("pull_request")
    if not isinstance(record, dict):
        record = payload.get("issue")
        if not isinstance(record, dict) or "pull_request" not in record:
            return None
    return _read_pull_request(record, source)


# ── push hooks: pre-commit's, and git's own ──


def _pushed_through(hook: Any, repository: Repository) -> ChangeSet:
    from rlm_ci.change import pushes

    branch = hook.local_branch or "HEAD"
    target = (hook.remote_branch or branch).removeprefix("refs/heads/")
    if hook.from_ref and hook.to_ref:
        source, refs = "PRE_COMMIT_FROM_REF, PRE_COMMIT_TO_REF", (hook.from_ref, hook.to_ref)
        if not hook.remote_name:  # given by hand, and no push
            return change_set.from_range(repository, *refs, source, trigger="push")
        return pushes.from_update(repository, *refs, source, trigger="push", target=target)
    # pre-commit gives no refs on the first push of a root branch
    fields = {"trigger": "push", "target": target}
    source = "PRE_COMMIT_LOCAL_BRANCH"
    return pushes.from_first(repository, branch, hook.remote_name, source, **fields)


def _pushed(repository: Repository, stdin: bytes, note: Callable[[str], None]) -> list[ChangeSet]:
    """The changes of a push: git gives lines ``local-ref sha remote-ref sha``."""
    from rlm_ci.change import pushes

    refs = []
    for line in stdin.decode("utf-8", "surrogateescape").split("\n"):
        words = line.split(" ")
        if not line:
            continue
        if len(words) != 4:
            raise ConfigError(
                f"{printable(line)[:80]!r} does not describe a push",
                where="--hook pre-push",
                hint="give standard input as git gives it to a pre-push hook",
            )
        if words[1].strip("0"):  # else the ref is deleted: nothing comes in
            refs.append(pushes.PushedRef(*words))
    return pushes.from_refs(repository, refs, note)


# ── GitHub events ──


def from_event(repository: Repository, path: str, name: str = "") -> ChangeSet | None:
    """The change of a GitHub event payload; None for an event that carries none.

    ``name`` is the event's name, if known; else the payload's shape counts. Raises ConfigError
    for a payload that cannot be read, or whose commits are not in the clone.
    """
    payload = load(path)
    repo = payload.get("repository")
    slug = _text(repo, "full_name") or None
    repository.told_default = _text(repo, "default_branch")
    if isinstance(payload.get("pull_request"), dict):
        return from_pull_request(repository, payload["pull_request"], path, slug)
    if isinstance(payload.get("merge_group"), dict):
        group = payload["merge_group"]
        base, head = (
            _sha(group, key, f"merge_group.{key}", path) for key in ("base_sha", "head_sha")
        )
        fields = {
            "trigger": "merge_group",
            "name": slug,
            "target": _text(group, "base_ref").removeprefix("refs/heads/") or None,
        }
        return change_set.from_range(repository, base, head, path, **fields)
    if isinstance(payload.get("issue"), dict):
        on_pull_request = "pull_request" in payload["issue"]
        raise ConfigError(
            "a comment on a pull request does not name its commits"
            if on_pull_request
            else "the event is about an issue, not about a change",
            where=path,
            hint="name them with --base and --head" if on_pull_request else f"use: {_SUPPORTED}",
        )
    if "before" in payload and "after" in payload:
        return _from_push(repository, payload, path, slug)
    if (name or _name(payload)) in _WITHOUT_CHANGE:
        return None
    shown = f" ({printable(name)})" if name else ""
    raise ConfigError(
        f"this event{shown} names no change that can be checked",
        where=path,
        hint=f"use: {_SUPPORTED}; or name the change with --base and --head",
    )


def _name(payload: Mapping[str, Any]) -> str:
    """The name of an event without a change, by its shape; "" for any other."""
    if "schedule" in payload:
        return "schedule"
    return "workflow_dispatch" if "workflow" in payload and "inputs" in payload else ""


def from_pull_request(
    repository: Repository, record: Mapping[str, Any], path: str, slug: str | None
) -> ChangeSet:
    """The change of a pull request of an event or the API, whichever ``path`` names.

    ``slug`` is the repository's ``owner/name``. Raises ConfigError.
    """
    sides = {}
    for side in ("base", "head"):
        part = record.get(side)
        sides[side] = _sha(
            part if isinstance(part, dict) else {}, "sha", f"pull_request.{side}.sha", path
        )
    from rlm_ci.change import pushes

    target = _text(record.get("base"), "ref")
    change = change_set.from_range(
        repository,
        sides["base"],
        sides["head"],
        path,
        trigger="pull_request",
        name=slug,
        target=target or None,
        pull_request=_read_pull_request(record, path),
    )
    return pushes.since_branch(change, target) if target else change


def _read_pull_request(record: Mapping[str, Any], path: str) -> PullRequest:
    number = record.get("number")
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ConfigError(
            "the pull request has no number", where=path, hint="give the payload as GitHub sent it"
        )
    labels = record.get("labels")
    names = [_text(label, "name") for label in labels] if isinstance(labels, list) else []
    base, head = record.get("base"), record.get("head")
    base_slug = _text(base.get("repo"), "full_name") if isinstance(base, dict) else ""
    other = _text(head.get("repo"), "full_name") if isinstance(head, dict) else ""
    return PullRequest(
        number,
        _text(record, "title"),
        _text(record, "body"),
        tuple(names),
        from_fork=base_slug != other or not base_slug,
        author=_text(record.get("user"), "login"),
        by_bot=_text(record.get("user"), "type") == "Bot",
    )


def _from_push(
    repository: Repository, payload: Mapping[str, Any], path: str, slug: str | None
) -> ChangeSet | None:
    before, after = (_sha(payload, key, key, path) for key in ("before", "after"))
    fields: dict[str, Any] = {
        "trigger": "push",
        "name": slug,
        "target": _text(payload, "ref").removeprefix("refs/heads/") or None,
    }
    if not after.strip("0"):
        raise ConfigError(
            "the push deletes a branch: there is nothing to check",
            where=path,
            hint="let the workflow run only if: github.event.deleted == false",
        )
    from rlm_ci.change import pushes

    if not before.strip("0"):
        return pushes.from_first(repository, after, None, path, **fields)
    return pushes.from_update(
        repository, before, after, path, is_forced=payload.get("forced") is True, **fields
    )


def is_stream(path: str) -> bool:
    """Whether ``path`` is standard input or an open file descriptor."""
    return path == "/dev/stdin" or path.startswith("/dev/fd/")


def _read(path: str) -> bytes:
    """A payload: a regular file, standard input or an open file descriptor."""
    if not is_stream(path):
        return files.read(path, _EVENT_LIMIT)
    try:
        with open(path, "rb") as stream:
            data = stream.read(_EVENT_LIMIT + 1)
    except OSError as error:
        raise files.UnreadableError(error.strerror or "it cannot be read") from None
    if len(data) > _EVENT_LIMIT:
        raise files.UnreadableError(f"it has more than {_EVENT_LIMIT:,} bytes")
    return data


def payload_of(choice: ChangeChoice) -> dict[str, Any] | None:
    """The event of this run, if no option names the change; None if only the judgement reads it.

    A stream can be read once, and what is wrong with an event is for the judgement to report.
    """
    if not choice.event or choice.base or choice.head or is_stream(choice.event):
        return None
    try:
        return load(choice.event)
    except ConfigError:
        return None


def load(path: str) -> dict[str, Any]:
    """The payload of an event. Raises ConfigError."""
    import json

    hint = "give a JSON payload as GitHub writes it to GITHUB_EVENT_PATH"
    try:
        payload = json.loads(_read(path).decode("utf-8"))
    except files.UnreadableError as error:
        raise ConfigError(f"the event cannot be read: {error}", where=path, hint=hint) from None
    except (ValueError, RecursionError) as error:
        why = printable(str(error))[:200]
        raise ConfigError(f"the event is not valid JSON: {why}", where=path, hint=hint) from None
    if not isinstance(payload, dict):
        raise ConfigError("the event is not a JSON object", where=path, hint=hint)
    return payload


def _text(record: Any, key: str) -> str:
    value = record.get(key) if isinstance(record, dict) else None
    return value if isinstance(value, str) else ""


def _sha(record: Mapping[str, Any], key: str, name: str, path: str) -> str:
    value = _text(record, key)
    if not is_object_id(value):
        raise ConfigError(
            f"{name} is not an object id", where=path, hint="give the payload as GitHub sent it"
        )
    return value
