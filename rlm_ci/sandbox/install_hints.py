"""What to do on this very machine when bubblewrap does not hold."""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from rlm_ci.errors import ConfigError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.sandbox.job import Probe

#: Of /etc/os-release: what installs bubblewrap there.
_INSTALL = {
    "debian": "apt-get install bubblewrap",
    "ubuntu": "apt-get install bubblewrap",
    "fedora": "dnf install bubblewrap",
    "rhel": "dnf install bubblewrap",
    "alpine": "apk add bubblewrap",
    "arch": "pacman -S bubblewrap",
    "suse": "zypper install bubblewrap",
}
_WITHOUT = "or run without a sandbox, if you trust what will run: --sandbox none"
_PROFILE = "bwrap-userns-restrict"
_EXTRA = "/usr/share/apparmor/extra-profiles"
_APPARMOR = (
    "AppArmor keeps programs without a profile from user namespaces. Give bwrap one: "
    f"sudo apt-get install apparmor-profiles && sudo cp {_EXTRA}/{_PROFILE} /etc/apparmor.d/ && "
    f"sudo apparmor_parser -r /etc/apparmor.d/{_PROFILE}; or lift it for the whole machine: "
    "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
)
#: Settings of the kernel that take user namespaces away: the value that does, what fixes it.
_SYSCTLS = (
    ("kernel/apparmor_restrict_unprivileged_userns", "1", _APPARMOR),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "allow user namespaces: sudo sysctl -w kernel.unprivileged_userns_clone=1",
    ),
    (
        "user/max_user_namespaces",
        "0",
        "allow user namespaces: sudo sysctl -w user.max_user_namespaces=15000",
    ),
)
_CONTAINER = (
    "this is a container: start it with --security-opt seccomp=unconfined --security-opt "
    "apparmor=unconfined --security-opt systempaths=unconfined, so that it may make namespaces"
)


def missing(what: str, root: str = "/") -> ConfigError:
    """The error of a machine without bubblewrap; ``what`` says which program is missing."""
    return ConfigError(f"there is no sandbox: {what}", where="sandbox bubblewrap", hint=_how(root))


def refused(probe: Probe, root: str = "/") -> ConfigError:
    """The error of a machine where bubblewrap is installed, and ``probe`` failed."""
    return ConfigError(
        f"the sandbox does not work: {probe.title}: {probe.detail}",
        where="sandbox bubblewrap",
        hint=f"{mend(probe.detail, root)}; {_WITHOUT}",
    )


def mend(message: str, root: str = "/", *, privileged: bool | None = None) -> str:
    """What makes bubblewrap work here, by its ``message``, which says what it could not do."""
    if "nknown option" in message:
        return "bubblewrap 0.8 or later is needed: take it from a newer release of the system"
    is_root = os.geteuid() == 0 if privileged is None else privileged
    for name, bad, cure in _SYSCTLS:
        # Root may still make namespaces, unless there may be none at all.
        if _read(root, f"proc/sys/{name}") == bad and (not is_root or name.startswith("user/")):
            return cure
    if any(
        os.path.exists(os.path.join(root, name)) for name in (".dockerenv", "run/.containerenv")
    ):
        return _CONTAINER
    return "see what bwrap says, and https://rlm-ci.github.io/rlm-ci/sandbox.html"


def _how(root: str) -> str:
    if sys.platform != "linux":
        return (
            "bubblewrap is a program of Linux: run rlm-ci in a container or a virtual machine "
            f"with Linux, {_WITHOUT}"
        )
    fields = dict(
        line.split("=", 1) for line in _read(root, "etc/os-release").splitlines() if "=" in line
    )
    likes = f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".replace('"', "").split()
    command = next((_INSTALL[name] for name in likes if name in _INSTALL), None)
    return f"{command or 'install bubblewrap and util-linux'}, {_WITHOUT}"


def _read(root: str, name: str) -> str:
    with suppress(OSError), open(os.path.join(root, name), encoding="utf-8") as file:
        return file.read(1 << 16).strip()
    return ""
