"""The task that a session of an agent works on, by what its person says."""

from __future__ import annotations

from rlm_ci.agent_hooks import session as sessions
from rlm_ci.checks.delegation_guard import owner_of, read_index
from rlm_ci.runs import require_task_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.agent_hooks.dialects import Event
    from rlm_ci.git.repository import Repository

_LINE = "Task:"


def of_session(event: Event, repository: Repository, task: str | None) -> str:
    """The task of the settings, else that of a line in a prompt, else the branch's; "" for none.

    A line and a branch count only where they name a registered task. Raises RlmCiError.
    """
    if task:
        return require_task_id(task, "the task of the session")
    keys = frozenset(read_index(repository)[0])
    if not keys:
        return ""
    session = sessions.load(sessions.folder_of(repository, event))
    branch = (repository.head_ref() or "").removeprefix("refs/heads/")
    names = [session.task if session else "", *reversed(branch.split("/"))]
    return next((owner for name in names if (owner := owner_of(name, keys))), "")


def of_prompt(prompt: str, repository: Repository) -> str:
    """The registered task that the last line ``Task: ID`` of a prompt names; "" for none."""
    lines = [line.strip() for line in prompt.splitlines()]
    names = [line.removeprefix(_LINE).strip() for line in lines if line.startswith(_LINE)]
    keys = frozenset(read_index(repository)[0]) if names else frozenset()
    return next((owner for name in reversed(names) if (owner := owner_of(name, keys))), "")
