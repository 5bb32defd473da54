"""Run programs of a configuration in the sandbox or not at all, and our own ruff in it.

ruff is part of rlm-ci and runs nothing. Without a sandbox it runs too: in an empty folder, and with
settings that lead nowhere else.
"""

from __future__ import annotations

import os
from functools import lru_cache

from rlm_ci import sandbox
from rlm_ci.config.settings import environment
from rlm_ci.errors import RlmCiError
from rlm_ci.review.analyzers import programs
from rlm_ci.review.analyzers.programs import search_path
from rlm_ci.sandbox import JobLimits, Mount
from rlm_ci.system import files, process
from rlm_ci.values import Value
from rlm_ci.workspace.trees.shown_tree import ShownTree, redirected

TYPE_CHECKING = False
if TYPE_CHECKING:
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
