"""The table of operations, and what a handler is given: one :class:`Call`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from testing.loopback_github.identity import RefusalError, not_found, sees
from testing.repositories.git_repo import GitError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from testing.loopback_github.state import Identity, Pull, Repository, World

MAX_PAGE = 100


@dataclass
class Answer:
    """``body`` is JSON, bytes, or None for no body at all."""

    body: Any = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    kind: str = "application/json; charset=utf-8"


@dataclass
class Call:
    """A request on its way to a handler. ``url`` is the path under which the client came in."""

    world: World
    who: Identity | None
    api: str
    url: str
    accept: str
    params: Mapping[str, str]
    query: Mapping[str, str]
    body: Any

    @property
    def me(self) -> Identity:
        """Who asks. Raises RefusalError without a token."""
        if self.who is None:
            raise RefusalError(401, "Requires authentication")
        return self.who

    @property
    def repo(self) -> Repository:
        """The repository of the path. Raises RefusalError (404) where ``who`` may not see it."""
        name = f"{self.params['owner']}/{self.params['repo']}"
        found = self.world.repositories.get(name.lower())
        if found is None or not sees(found, self.who):
            raise not_found()
        return found

    @property
    def pull(self) -> Pull:
        """The pull request of the path. Raises RefusalError (404)."""
        number = self.params.get("pull_number") or self.params["issue_number"]
        found = self.repo.pulls.get(int(number))
        if found is None:
            raise not_found()
        return found

    def commit(self, revision: str) -> str:
        """The id of a commit. Raises RefusalError as GitHub words it."""
        try:
            return self.repo.source.resolve(revision)
        except GitError:
            raise RefusalError(422, f"No commit found for SHA: {revision}") from None

    def slice(self, items: Sequence[Any]) -> tuple[Sequence[Any], dict[str, str]]:
        """The page that was asked for, and the ``Link`` header that leads to the others."""
        size = min(int(self.query.get("per_page", 30)), MAX_PAGE)
        size = size if size > 0 else 30
        page = max(int(self.query.get("page", 1)), 1)
        last = max(-(-len(items) // size), 1)
        places: dict[str, int] = {}
        if page > 1:
            places |= {"prev": page - 1, "first": 1}
        if page < last:
            places |= {"next": page + 1, "last": last}
        root = self.api + self.url
        links = [
            f'<{root}?{urlencode({**self.query, "page": number})}>; rel="{rel}"'
            for rel, number in places.items()
        ]
        return items[(page - 1) * size : page * size], {"Link": ", ".join(links)} if links else {}

    def page(self, items: Sequence[Any], render: Callable[[Any], Any]) -> Answer:
        """One page of ``items``, each rendered."""
        shown, headers = self.slice(items)
        return Answer([render(item) for item in shown], headers=headers)


@dataclass(frozen=True)
class Route:
    """``needs`` are permissions of which one must be granted, as ``issues=write``."""

    handle: Callable[[Call], Answer]
    needs: Sequence[str]


class Routes:
    """A table that handlers enter themselves in, by method and the description's template."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], Route] = {}

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._rows)

    def __getitem__(self, key: tuple[str, str]) -> Route:
        return self._rows[key]

    def add(
        self, method: str, template: str, *needs: str
    ) -> Callable[[Callable[[Call], Answer]], Callable[[Call], Answer]]:
        def enter(handle: Callable[[Call], Answer]) -> Callable[[Call], Answer]:
            self._rows[method, template] = Route(handle, needs)
            return handle

        return enter


#: Every operation that the loopback GitHub knows.
ROUTES = Routes()
R = "/repos/{owner}/{repo}"
