"""Access to GitHub: its addresses, the token, the one client of a run."""

from __future__ import annotations

from rlm_ci.errors import UnavailableError
from rlm_ci.system import installation
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.github.api.client import GitHubClient
    from rlm_ci.github.posting.review_threads import PullRequestThreads


class Access(Value):
    """Where GitHub is, and by which token."""

    token: str
    api_url: str = "https://api.github.com"
    server_url: str = "https://github.com"


def client(access: Access) -> GitHubClient:
    """Raises UnavailableError without PyGithub, ConfigError for an invalid address."""
    from rlm_ci.report.links import check_server_url

    url = check_server_url(access.api_url)
    try:
        from rlm_ci.github.api.client import GitHubClient

        return GitHubClient(access.token, url)
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"posting needs the library {error.name}, which is not installed",
            hint=f"{installation.command('github')}; or post nothing: --no-publish",
        ) from None


class GitHubSession:
    """The one client of a run, made when it is first needed."""

    def __init__(self, access: Access, client: GitHubClient | None = None) -> None:
        self._access = access
        self._made = client
        #: The login that the token writes under, once known.
        self.author = ""
        #: Who has declined findings without settling them, by the fingerprints of these.
        self.declined: dict[str, str] = {}
        #: The review threads, once read.
        self.threads: PullRequestThreads | None = None
        #: Whether accounts may write, by login and number, once asked.
        self.writers: dict[tuple[str, int], bool] = {}

    def client(self) -> GitHubClient:
        """Raises as :func:`client`."""
        self._made = self._made or client(self._access)
        return self._made

    def go_on(self) -> None:
        """Begin the client's time anew, after a review for instance."""
        if self._made is not None:
            self._made.go_on()
