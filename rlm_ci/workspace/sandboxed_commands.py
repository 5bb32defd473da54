"""Commands that run in the sandbox on a copy of the work tree."""

from __future__ import annotations

import os
import sys

from rlm_ci.errors import UnavailableError
from rlm_ci.sandbox import (
    HOME,
    JobLimits,
    Mount,
    SandboxJob,
    toolchain_mounts,
    toolchain_variables,
)
from rlm_ci.sandbox.job import is_below
from rlm_ci.sandbox.toolchains import is_of_system, project_environment
from rlm_ci.system import files
from rlm_ci.system.command_line import finder
from rlm_ci.values import Value
from rlm_ci.workspace.dependencies.ignored import is_environment
from rlm_ci.workspace.dependencies.outside import outside
from rlm_ci.workspace.mounts import curtains

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from rlm_ci.sandbox.job import Sandbox
    from rlm_ci.system.process import StreamResult
    from rlm_ci.workspace.checkout import Checkout
    from rlm_ci.workspace.tree import ShownTree
    from rlm_ci.workspace.workspace import Workspace

#: Bytes of an output that are kept: it will be part of the run's record.
KEEP = 1 << 20
_TEXT_LIMIT = 1 << 20
#: What the caller's terminal, locale and machine are like: a validator has these as the user does.
_PASSED = (
    "CI", "TZ", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "LC_COLLATE", "LC_MESSAGES",
    "LC_MONETARY", "LC_NUMERIC", "LC_TIME", "TERM", "COLORTERM", "NO_COLOR", "FORCE_COLOR",
    "CLICOLOR", "CLICOLOR_FORCE", "PY_COLORS", "DOTNET_ROOT", "NVM_BIN", "ANDROID_HOME",
)  # fmt: skip
#: What decides which code or which tests run: a validator that needs one of these names it.
_DECISIVE = (
    "DJANGO_SETTINGS_MODULE", "GOFLAGS", "NODE_ENV", "NODE_OPTIONS", "NODE_PATH", "PYTEST_ADDOPTS",
    "PYTHONPATH", "PYTHONWARNINGS", "RAILS_ENV", "RUBYOPT", "RUSTFLAGS",
)  # fmt: skip
#: Set for commands: bytecode in the copy would be noise.
_SET = {"PYTHONDONTWRITEBYTECODE": "1"}


def search_path(environ: Mapping[str, str], repository: str) -> str:
    """Our PATH, behind the programs of the repository's own Python environment, if any."""
    venv = project_environment(environ, repository)
    paths = [path for path in environ.get("PATH", "").split(os.pathsep) if os.path.isabs(path)]
    if environ.get("PRE_COMMIT"):  # the environment of our own hook comes first there
        paths = [path for path in paths if path != os.path.dirname(sys.executable)]
    system = ["/usr/local/bin", "/usr/bin", "/bin"]
    return os.pathsep.join(dict.fromkeys([*([f"{venv}/bin"] if venv else []), *paths, *system]))


def withheld(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The variables of ``environ`` that a command may need, and that none gets unless named."""
    return tuple(name for name in _DECISIVE if environ.get(name))


def tool_environment(
    environ: Mapping[str, str], repository: str
) -> tuple[dict[str, str], tuple[Mount, ...]]:
    """The variables that lead a command in the sandbox to its tools, and the tools' mounts.

    Nothing else of ``environ``, the caller's, is in them: what runs does not depend on it.
    """
    env = {**environ, "PATH": search_path(environ, repository)}
    venv = project_environment(environ, repository)
    if venv and files.below(os.path.realpath(repository), venv) is None:
        env["VIRTUAL_ENV"] = venv  # poetry and others take it, wherever the copy is
    # uv run would install the copy, offline, or into an environment of yours.
    more = {"UV_NO_SYNC": "1"} if venv else {}
    return {**_SET, **more, **toolchain_variables(env)}, toolchain_mounts(env, repository)


def active_environment(env: Mapping[str, str], repository: str) -> str | None:
    """The environment of the ``python`` on the PATH of ``env``, where it lies elsewhere."""
    for folder in env["PATH"].split(os.pathsep):
        if os.path.isfile(os.path.join(folder, "python")):
            parent = os.path.dirname(folder)
            is_elsewhere = files.below(repository, parent) is None
            return parent if is_elsewhere and is_environment(parent) else None
    return None


class Launch(Value):
    """A program for the sandbox, started in the work tree's root.

    ``files`` are absolute paths outside of the tree that it may read; ``hidden`` are names at the
    top of the tree that it sees empty; ``read_only`` closes the tree; ``timeout`` is in seconds.
    ``on_output`` gets its standard output as it comes, in the place of the terminal; its standard
    error is apart then. A ``plain`` one sees the names of the user, the machine and
    HOME as outside, and none of our variables.
    """

    argv: tuple[str, ...]
    timeout: float
    stdin: bytes = b""
    env: Mapping[str, str] = {}
    network: bool = False
    files: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    read_only: bool = False
    on_output: Callable[[bytes], object] | None = None
    plain: bool = False


class ReplaySandbox:
    """The sandbox of a replay: nothing is run in it."""

    name = "replay"
    isolated = True

    def run(self, job: SandboxJob, **_options: object) -> StreamResult:
        raise UnavailableError(
            f"a replay runs no command, but {job.argv[0]} is needed",
            hint="replay with the version and the settings that the run had",
        )


class SandboxedCommands:
    """Runs commands on the copies of one workspace, and is the workspace of an agent.

    Commands see the copy at ``visible_root``, the root of the repository.
    """

    def __init__(
        self,
        sandbox: Sandbox,
        workspace: Workspace,
        repository: str,
        environ: Mapping[str, str],
        on_output: Callable[[bytes], object] | None = None,
    ) -> None:
        """``environ`` is ours."""
        self.sandbox = sandbox
        self.workspace = workspace
        self.visible_root = repository
        self._on_output = on_output
        tools, self._tools = tool_environment(environ, repository)
        self.env = {**{name: environ[name] for name in _PASSED if name in environ}, **tools}
        home = os.path.abspath(environ.get("HOME") or "/")
        is_apart = home != "/" and not is_of_system(home) and files.below(repository, home) is None
        self._plain_home = home if is_apart else HOME
        #: The Python environment that commands use, where it is not part of the repository.
        self.environment = active_environment(self.env, repository)
        environments = (self.environment,) if self.environment else ()
        self.reach = outside(repository, workspace.snapshot.dependencies, environments, environ)

    @property
    def root(self) -> str:
        """The copy's folder, as this process sees it."""
        return self.workspace.path

    def tree(self) -> str:
        return self.workspace.tree()

    def exists(self, path: str, copy: Checkout | None = None) -> bool:
        """Whether it is a file of the copy, or of another one."""
        return os.path.isfile(os.path.join(copy.path if copy else self.root, path))

    def text(self, path: str) -> str:
        """The text of a small file of the copy; "" if it cannot be read."""
        try:
            return files.read_inside(self.root, path, _TEXT_LIMIT).decode("utf-8", "replace")
        except files.UnreadableError:
            return ""

    def restore(self, tree: str) -> None:
        self.workspace.restore(tree)
        self.workspace.settled = None

    def status(self, before: str, after: str) -> str:
        return "" if before == after else self.workspace.status(before, after)

    def find(self, program: str, copy: Checkout | None = None) -> str | None:
        """Where the sandbox finds ``program``; None when it could not be started there."""
        where = copy.path if copy else self.root
        shared = self.workspace.snapshot.dependencies
        return finder(self.env["PATH"], self.visible_root, where, shared)(program)

    def run(
        self,
        launch: Launch,
        copy: Checkout | None = None,
        *,
        extra: tuple[Mount, ...] = (),
        keep: int = KEEP,
    ) -> StreamResult:
        """Run a command on the copy, or on another one. Raises UnavailableError."""
        self.workspace.settled = None
        tree = self.workspace.shown(copy)
        tools = (*self._tools, *self.reach.mounts)
        tree = tree.replace(tools=tools, writable=not launch.read_only)
        caches = self.workspace.caches.mounts(last_verdict=copy is not None)
        mounts = tuple(Mount(path, path) for path in launch.files)
        with files.scratch("rlm-ci-") as nothing:
            hidden = curtains(self.root, self.visible_root, launch.hidden, nothing)
            job = SandboxJob(
                launch.argv,
                env={**self.env, **launch.env},
                stdin=launch.stdin,
                network=launch.network,
                mounts=(*caches, *mounts, *extra, *hidden),
                limits=JobLimits(wall=launch.timeout),
                keep=keep,
                errors_apart=launch.on_output is not None,
            )
            if launch.plain:
                tree, job = self._plain(tree, job)
            ended = tree.run(self.sandbox, job, on_output=launch.on_output or self._on_output)
        self.workspace.reopen(copy)
        return ended

    def _plain(self, tree: ShownTree, job: SandboxJob) -> tuple[ShownTree, SandboxJob]:
        """The same with the user's home folder, an empty one, in the place of ours."""
        home = self._plain_home

        def moved(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
            return tuple(
                mount.replace(target=home + mount.target.removeprefix(HOME))
                if is_below(mount.target, HOME)
                else mount
                for mount in mounts
            )

        env = {name: value for name, value in job.env.items() if name not in _SET}
        job = job.replace(mounts=moved(job.mounts), env=env, home=home)
        return tree.replace(tools=moved(tree.tools)), job
