"""How a clone of our own reaches its remote: the address, the token, the environment of git."""

from __future__ import annotations

import os

from rlm_ci.errors import ConfigError
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

#: The name under which we commit.
AUTHOR = ("rlm-ci", "rlm-ci@noreply.invalid")
_TOKEN = "RLM_CI_DELIVERY_TOKEN"  # noqa: S105 - the name of a variable, not its value
#: git asks for a name, then for a password; GitHub takes any name with a token.
_ASKPASS = f"""\
#!/bin/sh
case "$1" in
  Username*) printf '%s\\n' x-access-token ;;
  *) printf '%s\\n' "${_TOKEN}" ;;
esac
"""
#: Variables that lead git to another repository.
_ELSEWHERE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")


def require_address(url: str) -> None:
    """Raise ConfigError for anything but a server or a folder."""
    scheme, separator, address = url.partition("://")
    is_url = separator and scheme in ("https", "http", "ssh", "file")
    is_scp = not separator and "@" in url.partition(":")[0] and "::" not in url
    if not (is_url or is_scp or os.path.isabs(url)) or url.startswith("-"):
        raise ConfigError(
            f"{printable(url)[:200]!r} is not an address to push to",
            where="the remote's url",
            hint="https://, ssh://, or user@host:path",
        )
    if scheme in ("https", "http") and "@" in address.partition("/")[0]:
        raise ConfigError(
            "the remote's URL has credentials",
            where="the remote's url",
            hint="remove them, and give the token in GITHUB_TOKEN",
        )


def is_at(url: str, server: str) -> bool:
    return url.startswith(f"{server.rstrip('/')}/")


def require_own_place(environ: Mapping[str, str]) -> None:
    """Raise ConfigError where the environment leads git to the user's clone, as in a hook."""
    for name in _ELSEWHERE:
        if name in environ:
            raise ConfigError(
                f"{name} leads git to another repository than the clone of a delivery",
                where=name,
                hint="push outside of a git hook, or unset it first",
            )


def environment_of(folder: str, token: str | None) -> dict[str, str]:
    """For git: our name, no prompt, no hooks, and no redirect, which could get the token."""
    settings = [("core.hooksPath", os.devnull), ("http.followRedirects", "false"), ("gc.auto", "0")]
    env = {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    for role in ("AUTHOR", "COMMITTER"):
        env |= {f"GIT_{role}_NAME": AUTHOR[0], f"GIT_{role}_EMAIL": AUTHOR[1]}
    if token:
        path = os.path.join(folder, "askpass.sh")
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.write(_ASKPASS)
        os.chmod(path, 0o700)
        env |= {"GIT_ASKPASS": path, _TOKEN: token}
        settings.append(("credential.helper", ""))  # none stores it
    env["GIT_CONFIG_COUNT"] = str(len(settings))
    for number, (key, value) in enumerate(settings):
        env |= {f"GIT_CONFIG_KEY_{number}": key, f"GIT_CONFIG_VALUE_{number}": value}
    return env
