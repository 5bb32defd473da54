"""Run an analyzer on some files: in the sandbox or not at all, but for our own ruff.

ruff is part of rlm-ci and runs nothing. Without a sandbox it runs too: in an empty folder, and with
settings that lead nowhere else.

An analyzer finds the texts of a leaf as files, each in the folder of its path. Tools look settings
up by folder, so an odd name changes the name alone. Files that configure tools are left out,
because a change must not configure its judge. Tools start in an empty folder, where they find
neither settings nor modules.

An analyzer that fails on a group of files runs by halves, until the files it fails on are known. So
no file can hide the findings in others by crashing a parser or spoiling the output.
"""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from functools import lru_cache
from hashlib import sha256
from time import monotonic

from rlm_ci import sandbox
from rlm_ci.config.settings import environment
from rlm_ci.errors import RlmCiError
from rlm_ci.review.analyzers import programs
from rlm_ci.review.analyzers.programs import search_path
from rlm_ci.sandbox import JobLimits, Mount
from rlm_ci.system import files, process
from rlm_ci.text.printable import printable
from rlm_ci.values import Row, Value
from rlm_ci.workspace.tree import ShownTree, redirected, write_new

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    from rlm_ci.review.analyzer_output.sarif import AnalyzerOutput
    from rlm_ci.sandbox.job import Sandbox


#: Bytes that a program may print and write, and that are kept of its standard error.
PRINTED = 64 << 20
_WRITTEN = 256 << 20
_KEEP = 64 << 10
#: A folder that no tool lies in.
_NOWHERE = "/dev"


class AnalyzerError(Exception):
    """Why an analyzer gave nothing, in words."""


class AnalyzerUnavailableError(AnalyzerError):
    """Why it cannot be started here, on any file."""


class ProgramOutput(Value):
    """What a program printed, its standard error and its exit code."""

    data: bytes
    stderr: bytes
    returncode: int


def run(
    argv: tuple[str, ...],
    name: str,
    tree: ShownTree,
    *,
    out: str,
    network: bool,
    seconds: float,
    limits: JobLimits | None = None,
    root: str = _NOWHERE,
    stdin: bytes = b"",
) -> ProgramOutput:
    """Run a program on a tree, in the sandbox of this ``name``. Raises AnalyzerError.

    It may write to the folder ``out``. Its environment has only variables that say where tools
    are. Below ``root`` it sees the ``tree`` alone.
    """
    box = _sandbox(name)
    variables = _recorded_program(argv[0])
    printed = os.path.join(out, "printed")
    job = sandbox.SandboxJob(
        redirected(argv, printed),
        env={**sandbox.toolchain_variables(variables), "NO_COLOR": "1", "PYTHONSAFEPATH": "1"},
        stdin=stdin,
        network=network,
        mounts=(Mount(out, out, writable=True),),
        limits=limits or JobLimits(wall=seconds, file_size=_WRITTEN, scratch=2 * _WRITTEN),
        keep=_KEEP,
    )
    try:
        ended = tree.replace(tools=_tools(argv[0], tuple(variables.items()), root)).run(box, job)
    except RlmCiError as error:
        raise AnalyzerError(str(error)) from None
    if ended.reason == "timeout":
        raise too_slow(seconds)
    data = read(printed)
    files.clear(printed)
    if ended.reason:
        raise AnalyzerError(f"it used more than it may: {ended.reason}")
    return ProgramOutput(data, ended.output.text().encode(), ended.returncode)


def run_ruff(
    argv: tuple[str, ...], name: str, *, seconds: float, folder: str = "", stdin: bytes = b""
) -> ProgramOutput:
    """Run our own ruff in an empty folder; it sees ``folder`` too. Raises AnalyzerError."""
    with files.scratch_folders("empty", "out") as (empty, out):
        # Else ruff would look for settings in the folders above, and in the user's.
        with open(os.path.join(empty, "ruff.toml"), "xb"):
            pass
        try:
            is_isolated = available(name) != "none"
        except AnalyzerUnavailableError:
            is_isolated = False
        if is_isolated:
            program = os.path.realpath(argv[0])
            seen = (program, folder) if folder else (program,)
            return run(
                (program, *argv[1:]),
                name,
                ShownTree(empty, empty, on_top=tuple(Mount(path, path) for path in seen)),
                out=out,
                network=False,
                seconds=seconds,
                stdin=stdin,
            )
        ended = process.run(
            argv,
            env=programs.environment(),
            stdin=stdin,
            timeout=seconds,
            limit=PRINTED,
            cwd=empty,
        )
    if ended.timed_out:
        raise too_slow(seconds)
    if ended.truncated:
        raise too_much()
    return ProgramOutput(ended.stdout, ended.stderr, ended.returncode)


def read(path: str) -> bytes:
    """What a program has written, b"" for nothing; links are not followed."""
    try:
        return files.read(path, PRINTED)
    except files.UnreadableError as error:
        if error.missing:
            return b""
        if os.path.isfile(path) and not os.path.islink(path):
            raise too_much() from None
        raise AnalyzerError(f"what it printed cannot be read: {error}") from None


def too_slow(seconds: float) -> AnalyzerError:
    return AnalyzerError(f"it took more than {seconds:.0f} seconds")


def too_much() -> AnalyzerError:
    return AnalyzerError(f"it printed more than {PRINTED >> 20} MiB")


def available(name: str) -> str:
    """The name of the sandbox that ``name`` means here. Raises AnalyzerUnavailableError."""
    return _sandbox(name).name


def _sandbox(name: str) -> Sandbox:
    try:
        return _chosen(name, environment().get("PATH", ""))
    except RlmCiError as error:
        raise AnalyzerUnavailableError(f"{error.what} (--sandbox none runs it as you)") from None


@lru_cache(maxsize=4)
def _chosen(name: str, _path: str) -> Sandbox:
    """Cached, because choosing one runs a trial."""
    return sandbox.choose(name, environment())


def _recorded_program(program: str) -> dict[str, str]:
    path = os.pathsep.join([search_path(), os.path.dirname(program)])
    return {**environment(), "PATH": path}


@lru_cache(maxsize=16)
def _tools(program: str, tools: tuple[tuple[str, str], ...], root: str) -> tuple[Mount, ...]:
    """What a sandbox must show of the machine's tools, the virtual environment of one too."""
    variables = dict(tools)
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(program)))
    if os.path.isfile(os.path.join(prefix, "pyvenv.cfg")):
        variables["VIRTUAL_ENV"] = prefix
    return sandbox.toolchain_mounts(variables, root)


#: Parts of a path without a special meaning to tools, shells, addresses and file systems.
_PLAIN = re.compile(r"[A-Za-z0-9_.][A-Za-z0-9_.+-]{0,99}")
_ENDING = re.compile(r"\.[A-Za-z0-9]{1,8}$")
#: Folders of settings and plugins.
_FULL_OF_CONFIGURATION = frozenset(("node_modules", ".config", ".cargo"))
#: Names of files that configure tools, besides those that begin with a dot.
_CONFIGURING = (
    "pyproject.toml", "setup.cfg", "tox.ini", "ruff.toml", "mypy.ini", "pylintrc", "pytest.ini",
    "package.json", "package-lock.json", "*.config.js", "*.config.cjs", "*.config.mjs",
    "*.config.ts", "*.config.cts", "*.config.mts", "*.config.json", "tsconfig*.json", "biome.json*",
    "deno.json*", "eslint*.json", "clippy.toml", "Cargo.toml", "build.rs", "sonar-*.properties",
    "phpcs.xml*", "phpstan.neon*", "psalm.xml*", "checkstyle*.xml", "semgrep.y*ml",
    "pyrightconfig.json", "jsconfig.json", "staticcheck.conf", "rust-toolchain*", "hadolint.y*ml",
)  # fmt: skip


class ScratchInput(Row):
    """A file to write: the number of its text, its path, and what it holds."""

    text: int
    path: str
    content: bytes


class ScratchFile(Value):
    """A file of the scratch folder: its full name, and the number of its text."""

    name: str
    text: int


class ScratchFolder:
    """The folder as a context manager. ``root`` holds the files, ``empty`` nothing.

    A tool may write to ``printout``. ``settings`` are pairs of path and text of further files.
    Names are plain, unless ``real_names``: then settings that name a file hold.
    """

    def __init__(
        self,
        inputs: Sequence[ScratchInput],
        settings: Sequence[Sequence[str]] = (),
        *,
        real_names: bool = False,
    ) -> None:
        self._given = inputs
        self._settings = settings
        self._real_names = real_names
        self._known: dict[str, int] = {}
        self.scratch_files: tuple[ScratchFile, ...] = ()

    def __enter__(self) -> Self:
        self._scratch = files.scratch_folders("files", "empty", "out")
        self.root, self.empty, self.out = self._scratch.__enter__()
        self.printout = os.path.join(self.out, "out.sarif")
        try:
            self.scratch_files = tuple(self._write())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._scratch.__exit__(None, None, None)

    def find(self, address: str) -> int | None:
        """The number of the text that a SARIF address means, None when it is none of ours."""
        from urllib.parse import unquote

        scheme, colon, location = address.partition(":")
        if colon and scheme.casefold() == "file":
            path = unquote(location, errors="surrogateescape")
            path = "/" + path.lstrip("/")
            if os.name == "nt":
                path = path.lstrip("/")
        elif colon and len(scheme) > 1:
            return None
        else:
            path = unquote(address, errors="surrogateescape")
        for folder in (self.root, self.empty):
            number = self._known.get(_normal(os.path.join(folder, path)))
            if number is not None:
                return number
        return None

    def _write(self) -> list[ScratchFile]:
        scratch_files = []
        for name, text in self._settings:
            path = scratch_path(name, 0, real=self._real_names)
            write_new(os.path.join(self.root, *path.split("/")), text.encode())
        for number, name, content in self._given:
            for path in self._places(number, name):
                if write_new(path, content):
                    self._known[_normal(path)] = number
                    scratch_files.append(ScratchFile(path, number))
                    break
        return scratch_files

    def _places(self, number: int, name: str) -> Iterator[str]:
        """Where a file may lie: at its path, else by an odd name as near to it as can be."""
        *folders, last = scratch_path(name, number, real=self._real_names).split("/")
        yield os.path.join(self.root, *folders, last)
        # No file of a change can take a name that nobody knows.
        other = f"{os.path.basename(os.path.dirname(self.root))}-{_odd(number, name)}"
        for end in range(len(folders), -1, -1):
            yield os.path.join(self.root, *folders[:end], other)


def mark(path: str, content: bytes) -> str:
    """The key of a file among the results of a tool: its path and content."""
    return f"{path}\0{sha256(content).hexdigest()[:32]}"


def scratch_path(path: str, number: int, *, real: bool) -> str:
    """The path in the folder of the file ``number``: odd parts of ``path`` are replaced.

    With ``real``, only those that no file can have.
    """
    *folders, last = path.split("/")
    is_usable = _can_be if real else _is_plain
    parts = (
        part if is_usable(part) else f"odd-{sha256(os.fsencode(part)).hexdigest()[:12]}"
        for part in folders
    )
    return "/".join((*parts, last if is_usable(last) else _odd(number, path)))


def _odd(number: int, name: str) -> str:
    ending = _ENDING.search(name.rpartition("/")[2])
    return f"odd-{number}{ending[0] if ending else ''}"


def _normal(path: str) -> str:
    return os.path.normcase(os.path.normpath(path))


def _is_plain(part: str) -> bool:
    return _PLAIN.fullmatch(part) is not None and set(part) != {"."}


def _can_be(part: str) -> bool:
    is_safe = os.name != "nt" or _is_plain(part)
    return is_safe and part not in ("", ".", "..") and part.isprintable()


def configures(path: str) -> bool:
    """Whether a tool may obey the file at ``path``, or run it."""
    parts = path.split("/")
    if not _FULL_OF_CONFIGURATION.isdisjoint(parts[:-1]):
        return True
    last = parts[-1]
    if last.startswith("."):
        return not last.startswith(".env")
    return any(fnmatchcase(last, pattern) for pattern in _CONFIGURING)


#: Seconds for all files together, and as many again to find those that an analyzer fails on.
SECONDS = 300.0
#: Runs to find them: enough for 4 among 1,000.
_RUNS = 80
#: Characters of why it failed.
_SAID = 200


class _Broken(Value):
    """A group of files that an analyzer fails on, why, and what it printed before.

    ``is_hopeless``: the analyzer cannot be started at all.
    """

    files: Sequence[ScratchInput]
    why: str
    heard: tuple[AnalyzerOutput, ...] = ()
    is_hopeless: bool = False


def by_halves(
    inputs: Sequence[ScratchInput],
    run: Callable[[Sequence[ScratchInput], float], AnalyzerOutput],
) -> tuple[list[AnalyzerOutput], list[tuple[Sequence[ScratchInput], str]]]:
    """What ``run`` gives for ``inputs``, in parts; and what it fails on, each with the reason."""
    search = _Search(run)
    broken = search.tried(inputs, SECONDS)
    if broken and len(inputs) > 1 and not broken[0].is_hopeless:
        halves = search.parted(broken)
        # If it fails on an empty file too, no file is to blame.
        if len(halves) < 2 or search.is_well_with(
            ScratchInput(inputs[0].text, inputs[0].path, b"")
        ):
            broken = halves
            while any(len(group.files) > 1 for group in broken) and not search.is_over():
                broken = search.parted(broken)
    heard = [*search.heard, *(part for group in broken for part in group.heard)]
    return heard, [(group.files, group.why) for group in broken]


class _Search:
    def __init__(self, run: Callable[[Sequence[ScratchInput], float], AnalyzerOutput]) -> None:
        self.heard: list[AnalyzerOutput] = []
        self._run = run
        self._left = _RUNS
        self._end: float | None = None

    def is_over(self) -> bool:
        return self._left <= 0 or self._seconds() < 1

    def _seconds(self) -> float:
        """The time left for the search, which begins with the first half."""
        if self._end is None:
            self._end = monotonic() + SECONDS
        return self._end - monotonic()

    def tried(self, files: Sequence[ScratchInput], seconds: float) -> list[_Broken]:
        """Run it: its output goes to ``heard``, or the group is returned as broken."""
        self._left -= 1
        try:
            heard = self._run(files, seconds)
        except AnalyzerError as error:
            is_hopeless = isinstance(error, AnalyzerUnavailableError)
            return [_Broken(files, printable(str(error))[:_SAID], (), is_hopeless)]
        if heard.failed:
            return [_Broken(files, heard.failed, (heard,))]
        self.heard.append(heard)
        return []

    def parted(self, broken: Sequence[_Broken]) -> list[_Broken]:
        """The halves of each group that it fails on; a single file stays."""
        groups: list[_Broken] = []
        for group in broken:
            if len(group.files) == 1 or self.is_over():
                groups.append(group)
                continue
            middle = len(group.files) // 2
            for half in (group.files[:middle], group.files[middle:]):
                groups += self.tried(half, max(1.0, self._seconds() / 2))
        return groups

    def is_well_with(self, file: ScratchInput) -> bool:
        """Whether it reads this file; its output is dropped."""
        before = len(self.heard)
        is_well = not self.tried([file], max(1.0, self._seconds() / 2))
        del self.heard[before:]
        return is_well
