"""Programs that a configuration names, in the sandbox: what they see, and what they print."""

from __future__ import annotations

import os
from functools import lru_cache

from rlm_ci import sandbox
from rlm_ci.config.settings import environment
from rlm_ci.errors import RlmCiError
from rlm_ci.review.analyzers.programs import search_path
from rlm_ci.sandbox import JobLimits, Mount
from rlm_ci.system import files
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from rlm_ci.sandbox.job import Sandbox

#: Bytes that one may print, that it may write, and of what it says of itself that are kept.
PRINTED = 64 << 20
_WRITTEN = 256 << 20
_KEEP = 64 << 10
#: A folder that no tool lies in.
_NOWHERE = "/dev"
#: A sandbox gives both streams as one, so that the output becomes a file.
_REDIRECTED = 'exec "$@" >"$0"'


class AnalyzerError(Exception):
    """Why an analyzer gave nothing, in words."""


class AnalyzerUnavailableError(AnalyzerError):
    """Why it cannot be started here, whatever it is shown."""


class ProgramOutput(Value):
    """What a program has printed, what it said beside that, and how it ended."""

    data: bytes
    said: bytes
    returncode: int


def run(
    argv: tuple[str, ...],
    name: str,
    *,
    cwd: str,
    out: str,
    mounts: tuple[Mount, ...],
    network: bool,
    seconds: float,
    limits: JobLimits | None = None,
    root: str = _NOWHERE,
) -> ProgramOutput:
    """Run a program in the sandbox of this ``name``. Raises AnalyzerError.

    ``out`` is a folder of ours that it may write to. Its environment holds no variable of ours
    but those that say where tools are. What it sees below ``root``, the ``mounts`` say alone.
    """
    place = _sandbox(name)
    known = _known(argv[0])
    printed = os.path.join(out, "printed")
    job = sandbox.SandboxJob(
        ("/bin/sh", "-c", _REDIRECTED, printed, *argv),
        cwd=cwd,
        env={**sandbox.toolchain_variables(known), "NO_COLOR": "1", "PYTHONSAFEPATH": "1"},
        network=network,
        mounts=(
            *_tools(argv[0], tuple(known.items()), root),
            *mounts,
            Mount(out, out, writable=True),
        ),
        limits=limits or JobLimits(wall=seconds, file_size=_WRITTEN, scratch=2 * _WRITTEN),
        keep=_KEEP,
    )
    try:
        ended = place.run(job)
    except RlmCiError as error:
        raise AnalyzerError(str(error)) from None
    if ended.reason == "timeout":
        raise too_slow(seconds)
    data = read(printed)
    files.clear(printed)
    if ended.reason:
        raise AnalyzerError(f"it used more than it may: {ended.reason}")
    return ProgramOutput(data, ended.output.text().encode(), ended.returncode)


def read(path: str) -> bytes:
    """What a program has written, b"" where nothing is; a link of its making is not followed."""
    try:
        return files.read(path, PRINTED)
    except files.UnreadableError as error:
        if error.missing:
            return b""
        if os.path.isfile(path) and not os.path.islink(path):
            raise too_much() from None
        raise AnalyzerError(f"what it printed cannot be read: {error}") from None


def too_slow(seconds: float) -> AnalyzerError:
    """What is said of one that does not end."""
    return AnalyzerError(f"it took more than {seconds:.0f} seconds")


def too_much() -> AnalyzerError:
    """What is said of one that prints without end."""
    return AnalyzerError(f"it printed more than {PRINTED >> 20} MiB")


def available(name: str) -> str:
    """The name of the sandbox that ``name`` stands for here. Raises AnalyzerUnavailableError."""
    return _sandbox(name).name


def _sandbox(name: str) -> Sandbox:
    try:
        return _chosen(name, environment().get("PATH", ""))
    except RlmCiError as error:
        raise AnalyzerUnavailableError(f"{error.what} (--sandbox none runs it as you)") from None


@lru_cache(maxsize=4)
def _chosen(name: str, _path: str) -> Sandbox:
    """One trial for all that this process runs."""
    return sandbox.choose(name, environment())


def _known(program: str) -> dict[str, str]:
    """Our environment, with all folders where a program and its helpers may lie."""
    path = os.pathsep.join([search_path(), os.path.dirname(program)])
    return {**environment(), "PATH": path}


@lru_cache(maxsize=16)
def _tools(program: str, known: tuple[tuple[str, str], ...], root: str) -> tuple[Mount, ...]:
    """What a sandbox must show of the machine's tools, the virtual environment of one too."""
    told = dict(known)
    prefix = os.path.dirname(os.path.dirname(os.path.realpath(program)))
    if os.path.isfile(os.path.join(prefix, "pyvenv.cfg")):
        told["VIRTUAL_ENV"] = prefix
    return sandbox.toolchain_mounts(told, root)
