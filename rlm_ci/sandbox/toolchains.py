"""Programs outside of the system's folders: what of them a sandbox must show.

These are the folders of PATH, what their programs are links to, and the Python behind a virtual
environment. Private folders are never shown: a repository's environment can point anywhere.
"""

from __future__ import annotations

import os
from base64 import urlsafe_b64encode
from contextlib import suppress
from functools import cache
from glob import escape, glob
from hashlib import sha256

from rlm_ci.sandbox.bubblewrap import SYSTEM
from rlm_ci.sandbox.job import HOME, Mount, is_below

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Below the home folder: none of these is ever mounted, nor any folder that one of them is in.
PRIVATE = (
    ".aws", ".azure", ".bash_history", ".bundle/config", ".cargo/credentials",
    ".cargo/credentials.toml", ".cargo/config.toml", ".claude", ".codex", ".composer/auth.json",
    ".config", ".docker", ".electrum", ".gem/credentials", ".gemini", ".git-credentials",
    ".gitconfig", ".gnupg", ".gradle/gradle.properties", ".kube", ".local/share/keyrings",
    ".local/share/python_keyring", ".local/state", ".m2/settings.xml", ".m2/settings-security.xml",
    ".mozilla", ".netrc", ".npmrc", ".nuget/NuGet/NuGet.Config", ".password-store", ".pgpass",
    ".pki", ".pypirc", ".ssh", ".terraform.d", ".thunderbird", ".vault-token", ".yarnrc.yml",
    "Desktop", "Documents", "Downloads", "Library",
)  # fmt: skip
#: What of them holds programs alone: Codex and Claude Code install themselves beside their logins.
_PROGRAMS = (".codex/packages", ".claude/local")
#: Never mounted as a whole, nor a folder above them: they hold more than programs.
_SHARED = (
    "/", "/boot", "/dev", "/etc", "/home", "/media", "/mnt", "/proc", "/root", "/run", "/srv",
    "/sys", "/tmp", "/var", "/Users",  # noqa: S108
)  # fmt: skip
#: A folder of programs belongs to an installation if one of these is beside it.
_BESIDE = ("lib", "lib64", "libexec", "include")
#: Folders of tools that keep what they run apart from what is on PATH.
_COMPANIONS = {
    ".cargo/bin": (".cargo/registry", ".cargo/git", ".rustup"),
    ".pyenv/shims": (".pyenv",),
    ".pyenv/bin": (".pyenv",),
    ".rbenv/shims": (".rbenv",),
    ".asdf/shims": (".asdf",),
    ".local/share/mise/shims": (".local/share/mise",),
    ".volta/bin": (".volta",),
    "go/bin": ("go/pkg/mod",),
}
#: Variables with the place of a tool, and its default below HOME: inside, HOME is another folder.
_VARIABLES = {
    "ASDF_DATA_DIR": ".asdf",
    "CARGO_HOME": ".cargo",
    "CONDA_PREFIX": None,
    "GOMODCACHE": "go/pkg/mod",
    "GOROOT": None,
    "JAVA_HOME": None,
    "MISE_DATA_DIR": ".local/share/mise",
    "NVM_DIR": None,
    "POETRY_VIRTUALENVS_PATH": ".cache/pypoetry/virtualenvs",
    "PYENV_ROOT": ".pyenv",
    "PYENV_VERSION": None,
    "RBENV_ROOT": ".rbenv",
    "RUSTUP_HOME": ".rustup",
    "RUSTUP_TOOLCHAIN": None,
    "UV_PROJECT_ENVIRONMENT": None,
    "VIRTUAL_ENV": None,
    "VOLTA_HOME": ".volta",
    "WORKON_HOME": ".local/share/virtualenvs",
}
#: The names of folders in a repository that hold a virtual environment.
_ENVIRONMENTS = (".venv", "venv", "env", ".env")
_MOST_LINKS = 2000
#: Hatch's folder below HOME, and where it has the environments of projects.
_HATCH, _HATCHED = ".local/share/hatch", "env/virtual/*"


def toolchain_mounts(environ: Mapping[str, str], root: str) -> tuple[Mount, ...]:
    """Read-only mounts, at their own places, of what the programs on PATH need.

    ``root`` is the repository, mounted by the caller; the Python of its environment is included.
    """
    root = os.path.realpath(root)
    home = home_of(environ)
    folders: list[str] = []

    def add(path: str) -> None:
        path = os.path.realpath(path)
        inside = any(is_below(path, folder) for folder in (*SYSTEM, root, *folders))
        is_fine = os.path.exists(path) and may_be_shown(path, home) and not is_below(root, path)
        if is_fine and not inside:
            folders[:] = [folder for folder in folders if not is_below(folder, path)]
            folders.append(path)

    for folder in environ.get("PATH", "").split(os.pathsep):
        if os.path.isabs(folder) and os.path.isdir(folder) and not is_below(folder, root):
            for candidate in (folder, *_companions(folder, home), *_installations(folder, home)):
                add(candidate)
    if modules := toolchain_variables(environ).get("GOMODCACHE"):
        add(modules)
    active = environ.get("VIRTUAL_ENV", "")
    if os.path.isabs(active):
        add(active)
    for candidate in (*(os.path.join(root, name) for name in _ENVIRONMENTS), active):
        if candidate and (prefix := python_of(candidate)):
            add(prefix)
    hatched = active.rpartition("/env/virtual/")
    inside: tuple[Mount, ...] = ()
    if hatched[1]:  # it is read-only, and Hatch writes beside it
        target = f"{HOME}/{_HATCH}/env/virtual/{hatched[2]}"
        inside = (Mount(os.path.dirname(active), os.path.dirname(target)),)
    return (*_mounts(folders, environ, root), *inside)


def project_environment(environ: Mapping[str, str], root: str) -> str | None:
    """The Python environment that the tools of ``root`` use, where it lies in it or elsewhere.

    Tools name one that lies elsewhere after a hash of the project's path.
    """
    home, real = home_of(environ), os.path.realpath(root)

    def folder(name: str) -> str:
        return environ.get(name) or os.path.join(home, str(_VARIABLES[name]))

    def hash_of(path: str) -> str:
        return urlsafe_b64encode(sha256(os.fsencode(path)).digest()).decode()[:8]

    names = [environ.get("UV_PROJECT_ENVIRONMENT") or ".venv", "venv"]
    places = [os.path.join(root, name) for name in names]
    hashed, pipfile = hash_of(real), hash_of(os.path.join(real, "Pipfile"))
    is_active = environ.get("VIRTUAL_ENV") or environ.get("CONDA_DEFAULT_ENV", "base") != "base"
    for pattern in (
        ()
        if is_active
        else (
            os.path.join(escape(folder("POETRY_VIRTUALENVS_PATH")), f"*-{hashed}-py*"),
            os.path.join(escape(folder("WORKON_HOME")), f"*-{pipfile}*"),
            os.path.join(
                escape(environ.get("HATCH_DATA_DIR") or f"{home}/{_HATCH}"), _HATCHED, hashed, "*"
            ),
        )
    ):
        places += sorted(glob(pattern), key=os.path.getmtime, reverse=True)
    venvs = [path for path in places if os.path.isfile(os.path.join(path, "bin", "python"))]
    with_tests = (path for path in venvs if os.path.isfile(os.path.join(path, "bin", "pytest")))
    return next(with_tests, venvs[0] if venvs else None)


def toolchain_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """PATH, and where tools are that look for themselves below HOME; none of it is secret."""
    home = home_of(environ)
    variables = {"PATH": environ["PATH"]} if environ.get("PATH") else {}
    for name, folder in _VARIABLES.items():
        usual = os.path.join(home, folder) if folder else ""
        if value := environ.get(name, "") or (usual if os.path.isdir(usual) else ""):
            variables[name] = value
    return variables


def may_be_shown(path: str, home: str) -> bool:
    """Whether a folder is surely no home, holds none, and nothing in it is known to be private."""
    private = _private(home)
    if any(is_below(folder, path) for folder in (*_SHARED, home, *private)):
        return False
    if any(is_below(path, os.path.join(home, folder)) for folder in _PROGRAMS):
        return True
    return not any(is_below(path, folder) for folder in private)


def withheld(path: str, environ: Mapping[str, str]) -> str:
    """The private folder that keeps a program out of every sandbox, "" if none does."""
    home, real = home_of(environ), os.path.realpath(path)
    if may_be_shown(os.path.dirname(real), home):
        return ""
    return next((folder for folder in _private(home) if is_below(real, folder)), "")


@cache
def _private(home: str) -> tuple[str, ...]:
    return tuple(os.path.join(home, name) for name in PRIVATE)


def python_of(environment: str) -> str | None:
    """The installation behind a virtual environment, if there really is a Python."""
    with (
        suppress(OSError),
        open(os.path.join(environment, "pyvenv.cfg"), encoding="utf-8", errors="replace") as file,
    ):
        for line in file.read(1 << 16).splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "home" and os.path.isabs(value.strip()):
                return _python_prefix(os.path.realpath(value.strip()))
    return None


def _python_prefix(folder: str) -> str | None:
    prefix = os.path.dirname(folder)
    with suppress(OSError):
        for name in os.listdir(os.path.join(prefix, "lib")):
            library = os.path.join(prefix, "lib", name, "os.py")
            if name.startswith("python3") and os.path.isfile(library):
                program = os.path.join(folder, name)
                return prefix if os.access(program, os.X_OK) else None
    return None


def is_of_system(path: str) -> bool:
    """Whether every sandbox shows ``path``."""
    return any(is_below(path, folder) for folder in SYSTEM)


def home_of(environ: Mapping[str, str]) -> str:
    home = environ.get("HOME", "")
    return os.path.realpath(home if os.path.isabs(home) else os.path.expanduser("~"))


def _companions(folder: str, home: str) -> Iterator[str]:
    for name, others in _COMPANIONS.items():
        if os.path.normpath(folder) == os.path.join(home, name):
            yield from (os.path.join(home, other) for other in others)


def _installations(folder: str, home: str) -> Iterator[str]:
    """The installation that ``folder`` is the programs of, and those its links lead into."""
    if _is_installation(folder, home):
        yield os.path.dirname(os.path.realpath(folder))
    seen = {os.path.realpath(folder)}
    with suppress(OSError), os.scandir(folder) as entries:
        for number, entry in enumerate(entries):
            if number == _MOST_LINKS:
                return
            # Of two neighbours, the second is asked itself.
            if not entry.is_symlink() or "/" not in os.readlink(entry.path):
                continue
            target = os.path.realpath(entry.path)
            parent = os.path.dirname(target)
            if parent in seen or not os.access(target, os.X_OK) or os.path.isdir(target):
                continue
            seen.add(parent)
            # The link may lead through another one there, to the newest version.
            yield from (
                root
                for root in (os.path.join(home, name) for name in _PROGRAMS)
                if is_below(parent, os.path.realpath(root))
            )
            modules, inside, _ = parent.partition("/node_modules/")
            if inside:  # npm's programs load the packages beside them
                yield modules + inside.rstrip("/")
            else:
                yield os.path.dirname(parent) if _is_installation(parent, home) else parent


def _is_installation(folder: str, home: str) -> bool:
    folder = os.path.realpath(folder)
    prefix = os.path.dirname(folder)
    return (
        os.path.basename(folder) == "bin"
        and may_be_shown(prefix, home)
        and any(os.path.isdir(os.path.join(prefix, name)) for name in _BESIDE)
    )


def _mounts(paths: list[str], environ: Mapping[str, str], root: str) -> Iterator[Mount]:
    """Each at its own place, and again where PATH has it under another name."""
    targets = dict.fromkeys(paths)
    for path in paths:
        yield Mount(path, path)
    for folder in environ.get("PATH", "").split(os.pathsep):
        real = os.path.realpath(folder)
        is_shown = any(is_below(real, path) for path in paths)
        if os.path.isabs(folder) and is_shown and real != os.path.normpath(folder):
            target = os.path.normpath(folder)
            if target not in targets and not is_below(target, root):
                targets[target] = None
                yield Mount(real, target)
