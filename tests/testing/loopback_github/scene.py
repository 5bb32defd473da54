"""The pull request that the loopback GitHub is tested with, and clients for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import github as pygithub

from testing.repositories.copies import cast
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from pathlib import Path

    from github.PullRequest import PullRequest
    from github.Repository import Repository as RemoteRepository

    from testing.loopback_github.server import GitHub
    from testing.loopback_github.state import Pull, Repository

NAME, NUMBER = "acme/shop", 12
BOT, READER, ADA, EVE = "t-bot", "t-reader", "t-ada", "t-eve"


def lines(*changed: int, total: int = 60, word: str = "changed") -> str:
    """A numbered text in which some lines are ``word``."""
    rows = (f"{word} {n}" if n in changed else f"line {n}" for n in range(1, total + 1))
    return "".join(f"{row}\n" for row in rows)


def history(path: Path) -> GitRepo:
    """main, and feature with a change of every kind: in a.py lines 10 and 40, two hunks."""
    repo = GitRepo(path)
    repo.write("src/a.py", lines()).write("logo.bin", b"\0\1").write("old.txt", lines(total=30))
    repo.write("moved.txt", lines(total=40)).write("gone.txt", "one\ntwo\n").write("kind.txt", "x")
    repo.run("add", "-A")
    repo.run("commit", "-qm", "The base")
    repo.run("checkout", "-qb", "feature")
    repo.write("src/a.py", lines(10, 40)).write("logo.bin", b"\0\2").write(
        "new.py", "a = 1\nb = 2\nc = 3"
    )
    repo.move("old.txt", "renamed.txt").move("moved.txt", "edited.txt").remove("gone.txt")
    repo.write("edited.txt", lines(5, total=40)).symlink("kind.txt", "new.py")
    repo.run("add", "-A")
    repo.run("commit", "-qm", "A change")
    return repo


@dataclass
class Scene:
    """acme/shop #12 at ``github``, over ``git``: ada writes, eve is a stranger."""

    github: GitHub
    git: GitRepo
    url: str
    clients: list[pygithub.Github] = field(default_factory=list)

    @property
    def state(self) -> Pull:
        return self.home.pulls[NUMBER]

    @property
    def home(self) -> Repository:
        return self.github.world.repositories[NAME]

    def client(self, token: str | None = BOT) -> pygithub.Github:
        auth = pygithub.Auth.Token(token) if token else None
        made = pygithub.Github(
            auth=auth, base_url=self.url, retry=None, timeout=10, per_page=100,
            seconds_between_requests=0, seconds_between_writes=0,
        )  # fmt: skip
        self.clients.append(made)
        return made

    def close(self) -> None:
        """Close the clients' connections."""
        for client in self.clients:
            client.close()

    def repo(self, token: str | None = BOT) -> RemoteRepository:
        return self.client(token).get_repo(NAME)

    def pull(self, token: str | None = BOT) -> PullRequest:
        return self.repo(token).get_pull(NUMBER)

    def raw(self, method: str, path: str, body: Any = None, token: str | None = BOT) -> Any:
        """The JSON of an operation that PyGithub has no method for."""
        requester = self.client(token).requester
        _headers, data = requester.requestJsonAndCheck(method, f"/repos/{NAME}{path}", input=body)
        return data

    def graph(self, document: str, token: str = BOT, **variables: Any) -> Any:
        """The data of a GraphQL document; ``$o``, ``$n``, ``$p`` name the pull request."""
        requester = self.client(token).requester
        _headers, data = requester.graphql_query(document, variables)
        return data["data"]

    def commit(self, message: str = "More") -> str:
        """Commit what was written to the work tree, and push it."""
        self.git.run("add", "-A")
        self.git.run("commit", "-qm", message)
        self.github.push(NAME, NUMBER, "feature")
        return self.git.sha()


def _built(folder: Path) -> list[GitRepo]:
    return [history(folder / "shop")]


def build(github: GitHub, folder: Path) -> Scene:
    (git,) = cast(folder / "git", _built)
    github.repository(NAME, git, collaborators={"ada": "write", "bob": "admin", "rex": "read"})
    github.pull(NAME, NUMBER, head="feature", labels=["small"])
    github.token(BOT)
    github.token(READER, permissions={"contents": "read"})
    github.token(ADA, "ada")
    github.token(EVE, "eve")
    return Scene(github, git, github.url)
