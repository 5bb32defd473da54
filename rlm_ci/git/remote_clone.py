"""A clone of our own of the remote that a repository publishes to."""

from __future__ import annotations

import os

from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.system import installation
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from rlm_ci.git.clone import Clone
    from rlm_ci.git.repository import Repository


class RemoteUser(Value):
    """Who pushes: ``token`` is for the server ``server`` alone; ``where`` names what asks for it.

    ``otherwise`` says what to do in a repository without a remote, ``extra`` brings GitPython.
    """

    token: str | None
    server: str
    environ: Mapping[str, str]
    where: str
    otherwise: str = ""
    extra: str = "archive"

    def clone(self, repository: Repository, suffix: str = "") -> AbstractContextManager[Clone]:
        """The clone, whose address ends with ``suffix`` instead of ``.git`` if that is given.

        Raises ConfigError without a remote, UnavailableError without GitPython.
        """
        try:
            from rlm_ci.git.clone import cloned
        except ModuleNotFoundError as error:
            raise UnavailableError(
                f"pushing needs the library {error.name}, which is not installed",
                where=self.where,
                hint=installation.command(self.extra),
            ) from None
        url = repository.config(f"remote.{repository.remote()}.url") if repository.git_dir else ""
        if not url:
            hint = "git remote add origin URL"
            raise ConfigError(
                "the repository has no remote to push to",
                where=self.where,
                hint=f"{hint}; {self.otherwise}" if self.otherwise else hint,
            )
        local_path = os.path.join(repository.root, url)
        if os.path.isdir(local_path):  # a path is relative to the top level
            url = os.path.abspath(local_path)
        if suffix:
            url = f"{url.rstrip('/').removesuffix('.git')}{suffix}"
        return cloned(url, self.environ, token=self.token, own_folder=self.server)
