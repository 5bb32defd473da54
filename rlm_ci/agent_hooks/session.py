"""The record of how an agent's session began, below git's own folder of the work tree.

It holds the tree of that moment, uncommitted work included, in objects of our own, and the
settings of that moment: what the agent edits later neither moves nor loosens what judges it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from rlm_ci.decoding import amount
from rlm_ci.errors import ConfigError
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rlm_ci.agent_hooks.dialects import Event
    from rlm_ci.decoding import Count, ObjectId
    from rlm_ci.git.repository import Repository

_FOLDER = os.path.join("rlm-ci", "agent-sessions")
_RECORD = "session.json"
_LIMIT = 4 << 20
#: Seconds that a record outlives its last use: as long as git keeps objects that nothing names.
_LIFE = 14 * 86_400
_LONGEST_NAME = 64

if TYPE_CHECKING:
    Amount = float
else:
    Amount = amount()


class AgentSession(Value):
    """How a session began, and what its stops came to.

    ``commit`` and ``tree`` are those of the snapshot, ``head`` is HEAD's commit. ``configuration``
    has the settings of ``agent_hooks`` and ``environment`` the variables of all settings, as they
    were; ``policy`` says why the config file was not valid, "" if it was. ``blocks`` counts the
    stops in a row that were held, ``released`` are the problems that the agent was let go with,
    ``messages`` those that were told once. ``unchanged`` marks HEAD, the index and the tree that
    was taken when they needed no judge, ``baseline`` what the validator said of the start, once
    it was asked.
    """

    commit: ObjectId
    tree: ObjectId
    head: ObjectId | None
    started: Amount
    policy: str = ""
    configuration: Mapping[str, Any] = {}
    environment: Mapping[str, str] = {}
    task: str = ""
    blocks: Count = 0
    released: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    unchanged: str = ""
    baseline: tuple[str, ...] | None = None

    @staticmethod
    def _upgraded(record: Any) -> Any:
        """With the settings as the table has them. Raises ConfigError for one that is none."""
        from rlm_ci.config.options import AGENT_HOOKS
        from rlm_ci.config.settings import convert

        settings = dict(record["configuration"])
        for row in AGENT_HOOKS:
            if row.file:
                name = row.key.partition(".")[2]
                settings[name] = convert(row, settings[name], _RECORD)
        return {**record, "configuration": settings}


def folder_of(repository: Repository, event: Event) -> str:
    """Where the record of the session of ``event`` lies. Raises ConfigError."""
    name = event.session_id
    if len(name) > _LONGEST_NAME or not name.replace("-", "").isalnum() or not name.isascii():
        from hashlib import sha256  # slow to import, and most ids are names of their own

        name = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    name = f"{event.agent}-{name}"
    folder = os.path.join(os.path.abspath(repository.git_dir or ""), _FOLDER, name)
    for path in (os.path.dirname(os.path.dirname(folder)), os.path.dirname(folder), folder):
        if os.path.islink(path):  # we would write, and remove what is old, somewhere else
            raise ConfigError("it is a link, not a folder", where=path, hint="remove it")
    return folder


def begin(
    folder: str,
    repository: Repository,
    environ: Mapping[str, str],
    **fields: Any,
) -> AgentSession:
    """Record that a session begins with the work tree as it is. Raises RlmCiError."""
    from rlm_ci.agent_hooks.work_tree import SessionTree  # most stops change nothing

    files.make_folder(folder, 0o700)
    started = time.time()
    mark = mark_of(repository)  # before the snapshot: what changes meanwhile is judged
    try:
        taken = SessionTree(repository, folder, environ).begin()
    except BaseException:  # too large for the time of a hook, and of no use in part
        files.clear(folder)
        raise
    head = repository.head_commit()
    unchanged = mark + mark_of_taken(folder)
    session = AgentSession(taken.commit, taken.tree, head, started, unchanged=unchanged, **fields)
    save(folder, session)
    return session


def load(folder: str) -> AgentSession | None:
    """The record in ``folder``; None without one. Raises ConfigError for a damaged one."""
    import json

    path = os.path.join(folder, _RECORD)
    try:
        return AgentSession.from_dict(json.loads(files.read(path, _LIMIT)))
    except files.UnreadableError as error:
        if error.missing:
            return None
        why = str(error)
    except (ValueError, RecursionError):
        why = "it is damaged, or another version wrote it"
    raise ConfigError(
        f"the record of the session's start cannot be read: {why}",
        where=path,
        hint="remove its folder; the session is then judged from its next stop on",
    )


def save(folder: str, session: AgentSession) -> None:
    """Raises StorageError."""
    import json

    path = os.path.join(folder, _RECORD)
    files.write(path, json.dumps(session.to_dict()).encode(), 0o600)


def variables(environ: Mapping[str, str]) -> dict[str, str]:
    """What ``environ`` says of the settings that judge a change, and of no secret."""
    from rlm_ci import checks
    from rlm_ci.config.core_options import CORE
    from rlm_ci.config.options import AGENT_HOOKS

    rows = (*CORE, *AGENT_HOOKS, *checks.rows(checks.names()))
    names = {name for row in rows if not row.secret for name in row.variables}
    return {name: value for name, value in environ.items() if name in names}


def environment(session: AgentSession, environ: Mapping[str, str]) -> dict[str, str]:
    """``environ`` with the variables of settings as they were when the session began.

    An agent may add variables to the files of its own program.
    """
    settings = variables(environ)
    others = {name: value for name, value in environ.items() if name not in settings}
    return {**others, **session.environment}


def sweep(folder: str) -> None:
    """Remove the records beside ``folder`` that nothing has used for 14 days."""
    parent = os.path.dirname(folder)
    oldest = time.time() - _LIFE
    with suppress(OSError, NotImplementedError), os.scandir(parent) as entries:
        for entry in entries:
            record = os.path.join(entry.path, _RECORD)
            used = os.stat(record if os.path.exists(record) else entry.path).st_mtime
            if used < oldest and entry.path != folder:
                files.clear(entry.path)


def mark_of(repository: Repository) -> str:
    """What tells HEAD and the user's index from another; the work tree has an index of ours."""
    return repr((repository.head_commit() or "", _times(repository.index_file)))


def mark_of_taken(folder: str) -> str:
    """What tells the tree that was taken last from another."""
    return repr(_times(os.path.join(folder, "index")))


def has_nothing_to_do(
    session: AgentSession,
    repository: Repository,
    event: str,
    folder: str,
    environ: Mapping[str, str],
) -> bool:
    """Whether a stop, or an edit, needs no judge: the hooks are off, or nothing has changed."""
    if not session.configuration["enabled"] or event == "after-edit":
        return not (session.configuration["enabled"] and session.configuration["after_edit"])
    if session.unchanged != mark_of(repository) + mark_of_taken(folder):
        return False
    from rlm_ci.agent_hooks.work_tree import SessionTree

    work = SessionTree(repository, folder, environ)
    return work.is_as_taken(session.commit, session.tree, session.started)


def _times(path: str) -> tuple[int, ...]:
    try:
        status = os.lstat(path)
    except OSError:
        return ()
    return (status.st_mode, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
