"""The way to GitHub that the settings of a run describe."""

from __future__ import annotations

from rlm_ci.errors import UnavailableError
from rlm_ci.system import installation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.config.settings import Settings
    from rlm_ci.github.api.client import Client

API_URL = "https://api.github.com"


def client(settings: Settings) -> Client:
    """The way to GitHub.

    Raises UnavailableError without httpx2, ConfigError for an address that is none.
    """
    from rlm_ci.github.api.client import Client
    from rlm_ci.report.links import check_server_url

    url = check_server_url(settings.github.api_url or API_URL)
    try:
        return Client(settings.github.token, url)
    except ModuleNotFoundError as error:
        raise UnavailableError(
            f"posting needs the library {error.name}, which is not installed",
            hint=f"{installation.command('github')}; or post nothing: --no-publish",
        ) from None


class Way:
    """The one client of a run, made when it is first needed: its limits hold for all of it."""

    def __init__(self, settings: Settings, made: Client | None = None) -> None:
        self._settings = settings
        self._made = made
        #: The login that the token writes under, once somebody has read it.
        self.author = ""

    def client(self) -> Client:
        """Raises as :func:`client`."""
        self._made = self._made or client(self._settings)
        return self._made

    def go_on(self) -> None:
        """What was done meanwhile, such as a review, has taken nothing of the client's time."""
        if self._made is not None:
            self._made.go_on()
