"""The commits of a change with their messages: texts of their authors, and so hostile."""

from __future__ import annotations

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from rlm_ci.git.repository import Repository

#: Commits of a change that are read, the newest first, and bytes of them.
_MOST, _LIMIT = 10_000, 64 << 20
_NOREPLY = "@users.noreply.github.com"
_FORMAT = "--format=%H%x00%an%x00%ae%x00%B%x00"


class CommitMessage(Value):
    """The id of a commit, its author's name and address, and the message from its subject on."""

    commit: str
    author: str
    email: str
    text: str

    @property
    def is_by_bot(self) -> bool:
        """Whether the author's address is that of a bot on GitHub."""
        return login(self.email).endswith("[bot]")


def login(email: str) -> str:
    """The login that an address of GitHub hides, with or without the account's number."""
    email = email.lower()
    return email.removesuffix(_NOREPLY).rpartition("+")[2] if email.endswith(_NOREPLY) else ""


def of_range(
    repository: Repository, head: str, bases: Collection[str], *, most: int = _MOST
) -> tuple[CommitMessage, ...]:
    """The newest ``most`` of ``head`` that are not in ``bases``, without merges, newest first.

    Raises as git does.
    """
    # Not ``git log``, which the configuration can change.
    printed = repository.run(
        "rev-list", "--no-merges", "--no-commit-header", f"--max-count={most}", _FORMAT,
        "--encoding=UTF-8", head, "--not", *bases, limit=_LIMIT,
    )  # fmt: skip
    fields = printed.decode("utf-8", "replace").split("\0")
    rows = zip(*(iter(fields),) * 4, strict=False)
    return tuple(CommitMessage(commit.strip(), *others) for commit, *others in rows)
