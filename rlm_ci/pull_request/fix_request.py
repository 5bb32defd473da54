"""``/rlm-ci fix``: the label that starts the fix loop, and the goal that its job finds again.

The label alone starts the job, on ``pull_request``. The goal stays where it was said: our reply
points to the comment, and the job asks GitHub again what it says, and whose it is.
"""

from __future__ import annotations

from rlm_ci.change import trigger
from rlm_ci.console.messages import say
from rlm_ci.errors import ConfigError, RemoteError
from rlm_ci.github import session
from rlm_ci.pull_request import comment_commands, replies, reply_texts
from rlm_ci.pull_request.replies import ReplyPlace
from rlm_ci.pull_request.slash_grammar import FIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.change.change_set import ChangeSet
    from rlm_ci.console.output import Output
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.outcome import PostingOptions
    from rlm_ci.github.session import GitHubSession
    from rlm_ci.pull_request.comment_commands import CommentCommand

LABEL = "rlm-fix"
#: Who writes with ``GITHUB_TOKEN``: nothing that it does starts a workflow.
_JOB = "github-actions[bot]"


def request(posting: PostingOptions, output: Output, command: CommentCommand) -> None:
    """Reply, then set the label; one that is there is taken away first, for only a new one starts
    a job. Raises ConfigError if it would start none, RemoteError.
    """
    way = _labeller(posting, command.way)
    to, head = command.to, command.pull["head"]["sha"]
    text = reply_texts.fix_requested(LABEL, command.command.text)
    replies.deliver(posting, output, command.way, to, text, fix_at=head)
    labels = f"/repos/{to.repository}/issues/{to.number}/labels"
    names = [row.get("name") for row in command.pull.get("labels") or () if isinstance(row, dict)]
    try:
        if LABEL in names:
            way.write("DELETE", f"{labels}/{LABEL}")
        way.write("POST", labels, {"labels": [LABEL]})
    except RemoteError as refused:
        replies.post(posting, command.way, to, reply_texts.refusal(refused))
        raise
    say(f"the label {LABEL} is set")


def _labeller(posting: PostingOptions, way: GitHubClient) -> GitHubClient:
    """The client whose label starts a workflow. Raises ConfigError if there is none."""
    from rlm_ci.github.posting import review_threads

    if posting.label_token:
        return session.client(posting.access.replace(token=posting.label_token))
    if review_threads.viewer(way) == _JOB:
        raise ConfigError(
            "GitHub starts no workflow for a label that is set with GITHUB_TOKEN",
            where="RLM_CI_GITHUB_LABEL_TOKEN",
            hint=f"set the label {LABEL} by hand; or store another token, which may write pull "
            "requests of this repository, as the secret RLM_LABEL_TOKEN",
        )
    return way


def goal(
    configured: str, posting: PostingOptions, change: ChangeSet | None, way: GitHubSession
) -> str:
    """The goal of the fix loop: that of the comment which set the label, else the ``configured``.

    Raises ConfigError if the comment does not count any more, RemoteError.
    """
    if not (change and _is_labelled(posting.event) and posting.access.token):
        return configured
    if change.pull_request is None or not change.name or not change.head:
        return configured
    to = ReplyPlace(change.name, change.pull_request.number, 0)
    last_request = replies.last_fix(way.client(), to, change.head)
    if last_request is None:
        return configured
    comment, is_thread = last_request
    pull = way.client().get(f"/repos/{to.repository}/pulls/{to.number}")
    command, person = comment_commands.again(
        way.client(), to.repository, pull, comment, is_thread=is_thread
    )
    if command is None or command.name != FIX or not command.text:
        return configured
    say(f"the goal is that of {person}, comment {comment}")
    return command.text


def _is_labelled(path: str) -> bool:
    """Whether the label started this job, by the event in the file ``path``."""
    if not path or path.startswith("/dev/"):
        return False
    payload = trigger.load(path)
    label = payload.get("label")
    is_ours = isinstance(label, dict) and label.get("name") == LABEL
    return payload.get("action") == "labeled" and is_ours
