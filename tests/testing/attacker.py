"""Whoever attacks: root, or another user of this machine, as real processes.

A test gets one from the fixture ``attacker``, once for each user, and runs programs by it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

import shlex
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

USERS = ("root", "another")
#: A user to whom nothing on the machine belongs.
_OTHER = 54321
_SOURCES = Path(__file__).parents[2]
#: In a mount namespace of its own, so that nothing changes for anybody else.
_VIEW = ("unshare", "--mount", "--propagation", "private")
#: Of our environment, what no home and no configuration stands in.
_PASSED = ("PATH", "LC_ALL", "TZ", "SSL_CERT_FILE")


def missing(user: str) -> str:
    """Why this machine cannot run programs as ``user``; empty where it can."""
    if sys.platform != "linux":
        return "users are switched by programs of Linux"
    is_root = os.geteuid() == 0
    if user == "root":
        return "" if is_root else "these tests run as a user who cannot become root"
    if not is_root:
        return ""
    if not shutil.which("setpriv"):
        return "there is no setpriv (util-linux)"
    view = subprocess.run([*_VIEW, "true"], capture_output=True, text=True, check=False)
    if _hidden() and view.returncode:
        return f"others cannot reach this Python, and no mounts can be made: {view.stderr.strip()}"
    return ""


class Attacker:
    """Runs programs as ``name``, one of USERS; ``folder`` and what lies in it is theirs.

    ``folder`` holds an empty ``home``. ``before`` are words that make a place for each command,
    such as a container; root runs them.
    """

    before: tuple[str, ...] = ()

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir()
        self.is_switched = name != "root" and os.geteuid() == 0
        self.own()

    def own(self) -> None:
        """Give all that lies in ``folder`` to the user; what a test has put there is root's."""
        if not self.is_switched:
            return
        for place in (self.folder, *self.folder.rglob("*")):
            os.chown(place, _OTHER, _OTHER, follow_symlinks=False)

    def run(
        self, *argv: str | Path, env: dict[str, str] | None = None, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end, in ``folder``; ``env`` comes on top of a bare environment."""
        given = {name: os.environ[name] for name in _PASSED if name in os.environ}
        options = {"cwd": self.folder, "timeout": 120, **options}
        return subprocess.run(
            [*self._words(), *map(str, argv)], check=False, text=True, capture_output=True,
            env={**given, "HOME": str(self.home), "TMPDIR": "/tmp", **(env or {})}, **options,
        )  # fmt: skip

    def python(
        self, script: str, *args: str | Path, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Run a text of Python that may import ``rlm_ci``."""
        lines = f"import sys; sys.path.insert(0, {str(_SOURCES)!r})\n{script}"
        return self.run(sys.executable, "-B", "-c", lines, *args, **options)

    def rlm_ci(self, *args: str | Path, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run ``rlm-ci``."""
        main = "from rlm_ci.__main__ import main\nsys.exit(main())"
        return self.python(main, *args, **options)

    def _words(self) -> tuple[str, ...]:
        """What comes before a command for it to be this user's."""
        if not self.is_switched:
            return self.before
        ids = (f"--reuid={_OTHER}", f"--regid={_OTHER}", "--clear-groups", "--inh-caps=-all")
        view = (*_VIEW, "sh", "-c", "\n".join(_reach()), "sh") if _hidden() else ()
        return (*view, *self.before, "setpriv", *ids, "--")


def _reach() -> Iterator[str]:
    """Shell that shows the user this Python and these sources, where only root may go.

    A closed folder on the way is replaced by one that holds no more than what is needed.
    """
    pairs = _hidden()
    yield from ("set -e", "stage=$(mktemp -d)", 'mount -t tmpfs -o mode=0755 stage "$stage"')
    for _, place in pairs:
        name = shlex.quote(str(place))
        yield f'mkdir -p "$stage"{name}; mount --rbind {name} "$stage"{name}'
    for closed in sorted({closed for closed, _ in pairs}):
        yield f"mount -t tmpfs -o mode=0755 open {shlex.quote(str(closed))}"
    for _, place in pairs:
        name = shlex.quote(str(place))
        yield f'mkdir -p {name}; mount --rbind "$stage"{name} {name}'
    yield from ('umount -l "$stage"; rmdir "$stage"', 'cd "$PWD"', 'exec "$@"')


def _hidden() -> list[tuple[Path, Path]]:
    """What a program of ours needs behind a folder that is closed, each after that folder."""
    places = {Path(sys.prefix), Path(sys.base_prefix), Path(sys.executable).parent, _SOURCES}
    return sorted((closed, place) for place in places if (closed := _closed(place)))


def _closed(place: Path) -> Path | None:
    """The outermost folder on the way to ``place`` that others may not enter."""
    ways = [*reversed(place.parents), place]
    return next((way for way in ways if not way.stat().st_mode & 0o001), None)


def attackers(user: str) -> Iterator[Attacker]:
    """One, with a folder of its own for as long as a test takes."""
    with tempfile.TemporaryDirectory(prefix="rlm-ci-attack-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Attacker(user, Path(folder))


def git(folder: Path, *words: str) -> None:
    identity = ("-c", "user.name=Eve", "-c", "user.email=eve@example.com")
    subprocess.run(["git", "-C", folder, *identity, *words], check=True, capture_output=True)
