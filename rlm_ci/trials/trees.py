"""Base and head as folders in which tests run: read-only, side by side, in one environment.

Both are mounted where the repository stands, so that an environment finds either by its usual
path. What configures a run of tests is the base's in both: a change must not relax its judge.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from functools import partial

from rlm_ci.errors import RlmCiError, UnavailableError
from rlm_ci.guard.protected import by_name
from rlm_ci.sandbox import JobLimits, Mount, SandboxJob, choose
from rlm_ci.source.languages import language
from rlm_ci.system import files
from rlm_ci.system.command_line import Command
from rlm_ci.text.printable import printable
from rlm_ci.validators import detect
from rlm_ci.validators.script_commands import MANAGERS
from rlm_ci.validators.test_selection import narrowed_in
from rlm_ci.values import Closing, Value
from rlm_ci.workspace.dependencies.ignored import dependency_folders
from rlm_ci.workspace.mounts import CompilerCaches
from rlm_ci.workspace.sandboxed_commands import tool_environment
from rlm_ci.workspace.tree import ShownTree, Tree, apply_patch, lay, make_room, write_new

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from rlm_ci.git.repository import Repository
    from rlm_ci.sandbox.job import Sandbox
    from rlm_ci.system.process import StreamResult

HEAD, BASE = "head", "base"
_SETTING = "loop.setup"
_RUNS_ALL = (
    "no program that runs single tests was found in `{}`: set loop.validator to its command, such"
    " as npx vitest run"
)
#: Where tests find what they are run with. Of their sections no part can be told apart here.
_SETTINGS = frozenset(("pyproject.toml", "setup.cfg", "tox.ini", "package.json"))
_OF_BASE = frozenset((by_name.HOOKS, by_name.STARTUP, by_name.VALIDATOR, by_name.DEPENDENCY))
#: Files and folders that a setup may add, at the top of what is new.
_MOST_ADDED = 500
#: Seconds of a setup.
_SETUP_SECONDS = 1800.0
_SAID = 300
_LANGUAGES = frozenset(("Go", "JavaScript", "TypeScript", "TSX", "Rust"))
_ENVIRONMENTS = (".venv", "venv", "env")


class ProofPlace(Value):
    """What is compared: ``base`` is a commit, ``head`` too, or None for the work tree.

    ``setup`` makes the environment in a copy of the base, with network; what it adds to the copy
    is seen by both trees. The first of ``validators`` that can run judges repairs.
    """

    repository: Repository
    base: str
    head: str | None
    sandbox: Callable[[], Sandbox]
    environ: Mapping[str, str]
    setup: Command | None = None
    validators: tuple[Command, ...] = ()

    @property
    def validator(self) -> Command | None:
        """The one that was named, or that the files of the project name first."""
        return next(iter(self.validators), None)

    @classmethod
    def of(
        cls,
        repository: Repository,
        base: str,
        head: str | None,
        environ: Mapping[str, str],
        *,
        sandbox: str = "auto",
        setup: str | None = None,
        validator: str = detect.AUTO,
    ) -> ProofPlace:
        """With the values of settings; ``base`` is the merge base. Raises UsageError."""
        command = Command.parse(setup, where=_SETTING) if setup else None
        judges = validators_of(validator, repository.root)
        chosen = partial(choose, sandbox, environ)
        return cls(repository, base, head, chosen, environ, command, judges)


class ProofTrees(Closing):
    """The folders, made when they are first asked for, and removed at the end."""

    def __init__(self, proof_place: ProofPlace) -> None:
        self.proof_path = proof_place
        #: Where the sandbox shows a tree.
        self.root = os.path.realpath(proof_place.repository.root)
        self.env, self._tools = tool_environment(proof_place.environ, self.root)
        self._stack = ExitStack()
        self._made: dict[str, str] = {}
        self._caches: dict[str, CompilerCaches] = {}
        self._trees: dict[str, Tree] = {}
        self._added: dict[str, str] | None = None
        self._failure: UnavailableError | None = None
        #: What a setup that failed has printed.
        self.setup_output = ""
        #: Patches on top of the head, by the side that has them.
        self.patches: dict[str, str] = {}

    def close(self) -> None:
        self._stack.close()

    def listed(self, side: str) -> Tree:
        """The files of a side, without compiled ones, which nobody has read.

        A side with a patch has those of the head.
        """
        side = BASE if side == BASE else HEAD
        if side not in self._trees:
            commit = self.proof_path.base if side == BASE else self.proof_path.head
            tree = Tree.at(self.proof_path.repository, commit)
            self._trees[side] = tree.only(lambda path: "__pycache__" not in path)
        return self._trees[side]

    def differs(self, path: str) -> bool:
        """Whether a file as it is run is another one than at the base."""
        if _is_of_base(path, self._homes()):
            return False
        base, head = (self.listed(side).read([path]) for side in (BASE, HEAD))
        return base != head

    def comments(self, side: str) -> dict[str, bytes]:
        """What the other side has in files of code that differ, as comments of them."""
        tree, other = (self.listed(name) for name in (side, HEAD if side == BASE else BASE))
        paths = [path for path in tree.modes if path in other.modes and _is_code(path)]
        before, now = other.read(paths), tree.read(paths)
        return {
            path: b"".join(b"\n// " + line for line in _text_lines(before[path])) + b"\n"
            for path in paths
            if before[path] != now[path] and not _is_of_base(path, self._homes())
        }

    def folder(self, side: str) -> str:
        """The tree of a side, as files. Raises RlmCiError if a setup or a patch fails."""
        if side not in self._made:
            self._made[side] = self.copy(side)
        return self._made[side]

    def copy(
        self,
        side: str,
        *,
        own_conftest: bool = False,
        texts: Mapping[str, bytes] | None = None,
        tests: Callable[[str], bool] | None = None,
    ) -> str:
        """Another folder with the tree of a side, for a command that writes to it.

        With ``own_conftest`` each conftest.py is the side's own, and not the base's. ``texts`` are
        in the place of files, or new ones. The paths of ``tests`` are those of the head.
        """
        environment = self._environment()
        folder = self._laid(side, own_conftest=own_conftest, tests=tests)
        for path, text in (texts or {}).items():  # nothing has run in it that could lead elsewhere
            files.clear(os.path.join(folder, path))
            write_new(os.path.join(folder, path), text)
        if side in self.patches:
            data = self.patches[side].encode("utf-8", "surrogateescape")
            data += b"" if data.endswith(b"\n") else b"\n"
            apply_patch(data, folder, self.proof_path.environ)
        make_room(folder, environment)
        return folder

    def drop(self, copy: str) -> None:
        """Remove a copy that is used no more."""
        files.clear(copy)

    def shown(self, side: str, copy: str | None = None) -> ShownTree:
        """What a command on a side sees; nothing of it is writable but a ``copy``."""
        folder, modes = copy or self.folder(side), self.listed(side).modes
        environment = self._environment().items()
        beside = {path: source for path, source in environment if path not in modes}
        tree = ShownTree(folder, self.root, self._tools, writable=copy is not None)
        return tree.with_beside(beside)

    def caches(self, side: str) -> tuple[Mount, ...]:
        """What compilers have kept of earlier runs on a side; a repair has what the head has.

        Code of a change may make up what is in there, so the base has its own.
        """
        side = BASE if side == BASE else HEAD
        if side not in self._caches:
            folder = self._stack.enter_context(files.scratch("rlm-ci-"))
            self._caches[side] = CompilerCaches(os.path.realpath(folder))
        self._caches[side].forget_results()
        return self._caches[side].mounts(last_verdict=False)

    def python(self) -> str:
        """The Python of the project, as the sandbox sees it; "" for none."""
        added = self._environment()
        for folder in self._path().split(os.pathsep):
            for name in ("python3", "python"):
                path = os.path.join(folder, name)
                inside = files.below(self.root, path)
                top = (inside or "").partition("/")[0]
                outside = added[top] + inside[len(top) :] if inside and top in added else path
                if os.access(outside, os.X_OK):
                    return path
        return ""

    def python_paths(self, side: str) -> list[str]:
        """Where the project's packages lie: at the root, or in a folder for sources."""
        folder, paths = self.folder(side), [self.root]
        for name in ("src", "lib"):
            inner = os.path.join(folder, name)
            if os.path.isdir(inner) and not os.path.lexists(os.path.join(inner, "__init__.py")):
                paths.insert(0, os.path.join(self.root, name))
        return paths

    def why_not(self) -> str:
        """Why nothing can be run, in a line; "" where it can. It makes the environment."""
        proof_place = self.proof_path
        try:
            if not proof_place.sandbox().isolated:
                return "there is no sandbox, and code of a model runs in none but a real one"
            paths = self.listed(HEAD).modes
            others = [path for path in paths if not path.endswith(".py")]
            if len(others) < len(paths) and self.python():
                return ""
            if proof_place.validator is not None and any(map(_is_code, others)):
                runs_one = narrowed_in(proof_place.validator, ("one test",), self.root) is not None
                return (
                    ""
                    if runs_one
                    else _RUNS_ALL.format(printable(proof_place.validator.text))[:_SAID]
                )
            return "no tests of this project can be run here"
        except RlmCiError as error:
            return printable(error.what)[:_SAID]

    def run(
        self,
        tree: ShownTree,
        job: SandboxJob,
        on_output: Callable[[bytes], object] | None = None,
        stop: int = -1,
    ) -> StreamResult:
        """Run a job on a tree in the sandbox, with the tools' variables under its own."""
        job = job.replace(env={**self.env, "PATH": self._path(), **job.env})
        return tree.run(self.proof_path.sandbox(), job, on_output=on_output, stop=stop)

    def _path(self) -> str:
        """Where programs are: first in an environment that the setup has made."""
        added = self._added or {}
        folders = [os.path.join(self.root, name, "bin") for name in _ENVIRONMENTS if name in added]
        return os.pathsep.join(dict.fromkeys((*folders, *self.env["PATH"].split(os.pathsep))))

    # ── the trees ──

    def edits_conftest(self) -> bool:
        """Whether a conftest.py is another one at the head than at the base."""
        trees = [self.listed(side) for side in (BASE, HEAD)]
        paths = sorted(filter(_is_conftest, {path for tree in trees for path in tree.modes}))
        base, head = (tree.read(paths) for tree in trees)
        return base != head

    def _laid(
        self,
        side: str,
        *,
        own_conftest: bool = False,
        tests: Callable[[str], bool] | None = None,
    ) -> str:
        """A tree in a new folder, with what the base has to say of tests."""
        folder = os.path.realpath(self._stack.enter_context(files.scratch("rlm-ci-")))
        base = self.listed(BASE)
        homes = self._homes()
        if side == BASE and tests is None:
            lay(folder, base)
            return folder
        if tests is not None:
            is_test = tests
            lay(
                folder,
                self.listed(HEAD).only(
                    lambda path: (
                        (is_test(path) and not _is_of_base(path, homes)) or _is_conftest(path)
                    )
                ),
                self.listed(side),
            )
            return folder

        def is_of_base(path: str) -> bool:
            return _is_of_base(path, homes) and not (own_conftest and _is_conftest(path))

        def is_of_side(path: str) -> bool:
            # A new file must not stand for a module of Python, or of the framework.
            is_shadow = path not in base.modes and by_name.shadowed(path, base.modes.keys())
            return not is_of_base(path) and not is_shadow

        lay(folder, base.only(is_of_base), self.listed(side).only(is_of_side))
        return folder

    def _homes(self) -> set[str]:
        """The folders in which tools look for their settings."""
        paths = self.listed(BASE).modes
        return {path.rpartition("/")[0] for path in paths if by_name.is_manifest(path)} | {""}

    # ── the environment ──

    def _environment(self) -> dict[str, str]:
        """What both trees see beside their files, by relative path: where it lies."""
        if self._failure is not None:
            raise self._failure
        if self._added is None:
            tracked = [*self.listed(BASE).modes, *self.listed(HEAD).modes]
            added = {
                name: os.path.join(self.root, name)
                for name in dependency_folders(self.root)
                if not any(path.startswith(f"{name}/") for path in tracked)
            }
            if self.proof_path.setup is not None:
                try:
                    added |= self._set_up(self.proof_path.setup)
                except UnavailableError as error:
                    self._failure = error
                    raise
            self._added = added
        return self._added

    def _set_up(self, command: Command) -> dict[str, str]:
        tree = ShownTree(self._laid(BASE), self.root, self._tools, writable=True)
        job = SandboxJob(
            command.argv,
            network=True,
            limits=JobLimits(wall=_SETUP_SECONDS, scratch=8 << 30),
            keep=64 << 10,
        )
        ended = self.run(tree, job)
        if ended.returncode or ended.reason:
            self.setup_output = text = ended.output.text().strip()
            last = text.rpartition("\n")[2]
            why = ended.reason or f"exit code {ended.returncode}"
            raise UnavailableError(
                f"the setup failed: {why}: {printable(last)[:_SAID]}",
                where=_SETTING,
                hint="run the command in a clone of the base, and mend it",
            )
        added = list(tree.added(self.listed(BASE).modes))
        if len(added) > _MOST_ADDED:
            raise UnavailableError(
                f"the setup adds more than {_MOST_ADDED} files and folders",
                where=_SETTING,
                hint="let it write into folders of its own, such as .venv",
            )
        return {path: os.path.join(tree.folder, path) for path in added}


def validators_of(setting: str, root: str) -> tuple[Command, ...]:
    """The validator of a setting, and what replaces it where it cannot run.

    Nothing where the setting finds none, or more than one. Raises UsageError.
    """
    with suppress(detect.NoValidatorError):
        return judges_of(detect.select(setting, detect.detect(root)), root)
    return ()


def judges_of(selection: detect.Selection, root: str) -> tuple[Command, ...]:
    """The command of a selection, and what replaces it where it cannot run."""
    others = list(map(Command.parse, selection.others))
    if selection.command and selection.command.argv[0] in MANAGERS:
        # The manager may be missing, or another step of its script may fail.
        runner = narrowed_in(selection.command, (), root)
        others += [Command.of(*runner)] if runner else []
    if selection.others:  # of Python, whose own runner is always there
        top = ("-t", ".") if os.path.exists(os.path.join(root, "tests/__init__.py")) else ()
        start = ("-s", "tests", *top) if os.path.isdir(os.path.join(root, "tests")) else ()
        others.append(Command.of("python3", "-m", "unittest", "discover", "-v", *start))
    return (*filter(None, (selection.command,)), *others)


def _is_code(path: str) -> bool:
    """Whether there are tests that can be run in the language of a file."""
    return language(path) in _LANGUAGES


def _text_lines(content: bytes | None) -> Iterator[bytes]:
    text = (content or b"").decode("utf-8", "replace")
    return (line.encode("utf-8", "replace") for line in text.splitlines())


def _is_conftest(path: str) -> bool:
    return path.rpartition("/")[2] == "conftest.py"


def _is_of_base(path: str, homes: set[str]) -> bool:
    """Whether the base's version of the file counts, and no other."""
    return path.rpartition("/")[2] in _SETTINGS or by_name.kind_of(path, homes) in _OF_BASE
