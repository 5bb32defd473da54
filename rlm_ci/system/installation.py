"""How this rlm-ci was installed: the command that installs it again, and its commit.

No command names a package of an index alone: another project may own that name.
"""

from __future__ import annotations

import os
import sys

from rlm_ci import __version__
from rlm_ci.config.settings import environment
from rlm_ci.text.object_id import is_object_id
from rlm_ci.text.printable import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

URL = "https://github.com/rlm-ci/rlm-ci"
_NAME = "rlm-ci"
#: A file of an environment that pipx has made.
_PIPX = "pipx_metadata.json"
#: A file that a build writes into a wheel made of exactly one commit.
_COMMIT = "COMMIT"
_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def command(*extras: str, upgrade: bool = False, environ: Mapping[str, str] | None = None) -> str:
    """The command that installs this rlm-ci again, in the same place, with ``extras``."""
    from shlex import quote

    environ = environment() if environ is None else environ
    words = ["pip", "install", *(["--upgrade"] if upgrade else [])]
    is_active = sys.prefix in (sys.base_prefix, environ.get("VIRTUAL_ENV"))
    if _metadata("INSTALLER").strip() == "uv":
        words = ["uv", *words, *([] if is_active else ["--python", quote(sys.executable)])]
    elif os.path.isfile(os.path.join(sys.prefix, _PIPX)):
        words = ["pipx", "runpip", quote(os.path.basename(sys.prefix)), *words[1:]]
    elif not is_active:
        words = [quote(sys.executable), "-m", *words]
    more = f"[{','.join(extras)}]" if extras else ""
    return printable(" ".join([*words, *map(quote, _source(more, environ))]))


def recorded_commit() -> str | None:
    """The commit that pip or a build has recorded; None without a record."""
    commit = _direct_url().get("vcs_info", {}).get("commit_id")
    if not isinstance(commit, str):
        try:
            path = os.path.join(_PACKAGE, "_data", _COMMIT)
            with open(path, encoding="ascii") as file:
                commit = file.read(100).strip()
        except (OSError, ValueError):
            return None
    return commit if is_object_id(commit) else None


def checkout() -> str | None:
    """The folder of the checkout that runs, if it is one."""
    folder = os.path.dirname(_PACKAGE)
    return folder if os.path.isfile(os.path.join(folder, "pyproject.toml")) else None


def _source(extras: str, environ: Mapping[str, str]) -> list[str]:
    """What pip installs: a folder, an address, or a commit of the project's repository."""
    origin = _direct_url()
    url, vcs = origin.get("url"), origin.get("vcs_info", {})
    if isinstance(url, str) and "dir_info" not in origin:
        commit = f"@{vcs['commit_id']}" if "commit_id" in vcs else ""
        return [f"{_NAME}{extras} @ {vcs['vcs'] + '+' if 'vcs' in vcs else ''}{url}{commit}"]
    folder = checkout()
    pinned = os.path.basename(folder or "")
    if folder and not (environ.get("GITHUB_ACTIONS") and is_object_id(pinned)):
        return ["-e", folder + extras]
    if isinstance(url, str):  # a copy of a folder
        from urllib.parse import unquote, urlsplit

        return [unquote(urlsplit(url).path) + extras]
    # The action runs from a folder named after its commit.
    commit = pinned if folder else recorded_commit() or f"v{__version__}"
    return [f"{_NAME}{extras} @ git+{URL}@{commit}"]


def _direct_url() -> dict[str, Any]:
    """Where it was installed from (PEP 610)."""
    import json

    try:
        origin = json.loads(_metadata("direct_url.json"))
    except ValueError:
        return {}
    return origin if isinstance(origin, dict) else {}


def _metadata(name: str) -> str:
    """A file of the installer beside the package; "" without one."""
    from importlib import metadata

    try:
        return metadata.distribution(_NAME).read_text(name) or ""
    except metadata.PackageNotFoundError:
        return ""
