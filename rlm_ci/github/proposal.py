"""A pull request for a branch of ours: opened, unless it is open."""

from __future__ import annotations

from rlm_ci.github import session
from rlm_ci.text.printable import printable
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm_ci.github.session import Access


class Proposal(Value):
    """``branch`` of the repository ``name``, to be merged into ``base``.

    ``follows``: the body is about the branch as it is, so a new commit renews that of an open one.
    """

    name: str
    branch: str
    base: str
    title: str
    body: str
    labels: Sequence[str] = ()
    follows: bool = False

    def open(self, access: Access, *, is_new: bool) -> str:
        """Open it, or leave it open; one line about it. ``is_new``: the branch has new commits.

        Raises UnavailableError, RemoteError.
        """
        if not (access.token and self.name):
            lack = "there is no token" if self.name else "the remote is not GitHub's"
            return f"no pull request is opened: {lack}; {self.branch} is on the remote"
        client = session.client(access)
        path = f"/repos/{self.name}/pulls"
        owner = self.name.partition("/")[0]

        def done() -> object | None:
            query = {"state": "open", "head": f"{owner}:{self.branch}", "base": self.base}
            return next(iter(client.pages(path, **query)), None)

        pull = done()
        word = "updated" if is_new else "unchanged"
        if pull is None:
            body = {
                "title": self.title,
                "head": self.branch,
                "base": self.base,
                "body": self.body,
            }
            pull, word = client.write("POST", path, body, done=done), "opened"
        number = pull.get("number") if isinstance(pull, dict) else None
        if word == "updated" and self.follows and isinstance(number, int):
            client.write("PATCH", f"{path}/{number}", {"body": self.body})
        if self.labels and isinstance(number, int):
            labels = f"/repos/{self.name}/issues/{number}/labels"
            client.write("POST", labels, {"labels": list(self.labels)})
        return f"pull request {printable(str(number))}: {word}"
