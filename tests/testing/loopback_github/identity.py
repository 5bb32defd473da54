"""Who asks, and may they: tokens, permissions, and how GitHub refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from testing.loopback_github.state import Identity, Repository, World

DOCS = "https://docs.github.com/rest"


class RefusalError(Exception):
    """An answer that is an error; ``errors`` and ``headers`` as GitHub adds them."""

    def __init__(
        self,
        status: int,
        message: str,
        errors: Sequence[Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.headers = dict(headers or {})
        self.body: dict[str, Any] = {"message": message}
        if errors is not None:
            self.body["errors"] = list(errors)
        self.body |= {"documentation_url": DOCS, "status": str(status)}


def not_found() -> RefusalError:
    return RefusalError(404, "Not Found")


def invalid(resource: str, code: str, field: str, message: str | None = None) -> RefusalError:
    """The 422 of one bad field."""
    row = {"resource": resource, "code": code, "field": field}
    return RefusalError(422, "Validation Failed", [row | ({"message": message} if message else {})])


def identify(world: World, authorization: str | None) -> Identity | None:
    """Whose token was sent; None without one. Raises RefusalError for one that nobody knows."""
    if not authorization:
        return None
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() in {"token", "bearer"} and (known := world.tokens.get(token.strip())):
        return known
    raise RefusalError(401, "Bad credentials")


def sees(repository: Repository, who: Identity | None) -> bool:
    """Whether the repository exists for ``who``."""
    if not repository.private:
        return True
    if who is None:
        return False
    if who.repositories is not None:
        return repository.full_name in who.repositories
    return who.kind == "installation" or standing(repository, who.login) != "none"


def standing(repository: Repository, login: str) -> str:
    """admin, write, read or none: a person's role in the repository."""
    if login == repository.owner:
        return "admin"
    return repository.collaborators.get(login, "none" if repository.private else "read")


def demand(repository: Repository, who: Identity | None, needs: Sequence[str]) -> None:
    """Let pass whom one of ``needs`` (as ``issues=write``) allows it.

    What a public repository shows, everybody may read. Raises RefusalError.
    """
    writes = any(need.endswith("=write") for need in needs)
    if not needs or (not writes and not repository.private):
        return
    if who is None:
        raise RefusalError(401, "Requires authentication")
    outside = who.repositories is not None and repository.full_name not in who.repositories
    if outside or not any(who.may(need) for need in needs):
        kind = "integration" if who.kind == "installation" else "personal access token"
        headers = {"x-accepted-github-permissions": "; ".join(needs)}
        raise RefusalError(403, f"Resource not accessible by {kind}", headers=headers)


def may_moderate(repository: Repository, who: Identity) -> bool:
    """Whether ``who`` may change what others wrote."""
    return who.kind == "installation" or standing(repository, who.login) in {"admin", "write"}
