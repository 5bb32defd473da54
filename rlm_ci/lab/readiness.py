"""Whether episodes can be run here: the checks of ``doctor``."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from contextlib import suppress
from dataclasses import dataclass

from rlm_ci import sandbox
from rlm_ci.environments.names import CODING, REPL, environment_of
from rlm_ci.errors import RlmCiError, StorageError
from rlm_ci.lab import frameworks
from rlm_ci.system import files, installation
from rlm_ci.text.printable import printable
from rlm_ci.validators import detect
from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

PASS, WARN, FAIL = "pass", "warn", "fail"


@dataclass(slots=True)
class EnvironmentDoctorCheck:
    """``status`` is ``pass``, ``warn`` or ``fail``; ``recommendation`` says what to do."""

    name: str
    status: str
    detail: str
    recommendation: str | None = None


class EpisodeNeeds(Value):
    """What episodes would use here. ``model`` is "" for none, ``engine`` that of the caller."""

    environment: str
    workdir: str
    run_dir: str
    model: str
    sandbox: str
    environ: Mapping[str, str]
    engine: str = ""


def checks(needs: EpisodeNeeds, *, fix: bool = False) -> list[EnvironmentDoctorCheck]:
    """All checks for an environment; with ``fix`` the folder of the runs is made ready.

    Raises ConfigError for an unknown environment.
    """
    kind = environment_of(needs.environment, "--environment")
    environment_doctor_checks = [
        _run_dir(needs.run_dir, fix=fix),
        _sandbox(needs, kind),
        _model(needs.model),
    ]
    environment_doctor_checks += _frameworks()
    if kind == CODING:
        environment_doctor_checks += _code(needs.workdir)
    if kind == REPL:
        environment_doctor_checks.append(_import("cloudpickle_import", "cloudpickle", "repl"))
    return environment_doctor_checks


def _run_dir(path: str, *, fix: bool) -> EnvironmentDoctorCheck:
    name, shown = "rlm_run_dir", printable(path)
    if fix:
        with suppress(StorageError, OSError):
            files.make_folder(path, 0o700)
            os.chmod(path, stat.S_IRWXU)
    folder = path
    while not os.path.lexists(folder) and os.path.dirname(folder) != folder:
        folder = os.path.dirname(folder)
    if os.path.islink(path) or not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        hint = "name another one by CODEX_ORCHESTRATOR_RUNS_DIR, or make it writable"
        return EnvironmentDoctorCheck(name, FAIL, f"Run directory cannot be written: {shown}", hint)
    if folder == path and stat.S_IMODE(os.stat(path).st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
        hint = f"rlm-ci doctor --fix, or chmod 700 {shown}"
        return EnvironmentDoctorCheck(name, WARN, f"Others can read the runs in {shown}", hint)
    note = "" if folder == path else " (made by the first run)"
    return EnvironmentDoctorCheck(name, PASS, f"Run directory: {shown}{note}")


def _sandbox(needs: EpisodeNeeds, kind: str) -> EnvironmentDoctorCheck:
    name = "sandbox_runtime"
    if needs.engine and kind != CODING:
        return EnvironmentDoctorCheck(name, PASS, f"{needs.engine}: execution engine of the caller")
    try:
        runtime = sandbox.choose(needs.sandbox, needs.environ)
    except RlmCiError as error:
        return EnvironmentDoctorCheck(name, FAIL, printable(str(error)), error.hint)
    if not runtime.isolated:
        hint = "leave --sandbox none out: code of a model then runs isolated"
        return EnvironmentDoctorCheck(
            name, WARN, f"{runtime.name}: code runs with your rights", hint
        )
    return EnvironmentDoctorCheck(name, PASS, f"{runtime.name}: Python sandbox available")


def _model(model: str) -> EnvironmentDoctorCheck:
    name = "model_connection"
    if model:
        return EnvironmentDoctorCheck(name, PASS, f"Connected model: {printable(model)}")
    hint = "set OPENAI_API_KEY or OPENAI_BASE_URL, and name a model: --model NAME"
    return EnvironmentDoctorCheck(name, WARN, "No model is set up or named.", hint)


def _code(workdir: str) -> Iterator[EnvironmentDoctorCheck]:
    shown = printable(workdir)
    if not os.path.isdir(workdir):
        yield EnvironmentDoctorCheck(
            "workdir_exists", FAIL, f"There is no folder {shown}", "name a folder that is there"
        )
        return
    yield EnvironmentDoctorCheck("workdir_exists", PASS, f"Workdir exists: {shown}")
    can_write = os.access(workdir, os.W_OK)
    yield EnvironmentDoctorCheck(
        "workdir_writable",
        PASS if can_write else FAIL,
        f"Workdir is {'' if can_write else 'not '}writable.",
        None if can_write else "make it writable, or run with --no-apply: the patch is kept",
    )
    yield EnvironmentDoctorCheck("python_runtime", PASS, f"Python: {sys.executable}")
    pytest = shutil.which("pytest") or shutil.which("pytest", path=os.path.dirname(sys.executable))
    yield EnvironmentDoctorCheck(
        "pytest_cli",
        PASS if pytest else WARN,
        f"pytest available at {pytest}" if pytest else "pytest is not on PATH.",
        None if pytest else "install pytest in the environment of the repository",
    )
    try:
        selection = detect.select(detect.AUTO, detect.detect(workdir))
    except RlmCiError as error:
        yield EnvironmentDoctorCheck("test_discovery", WARN, printable(error.what), error.hint)
    else:
        text = selection.command.text if selection.command else detect.NONE
        yield EnvironmentDoctorCheck("test_discovery", PASS, f"Tests: {printable(text)}")
    yield _import("dspy_import", "dspy", "dspy")


def _frameworks() -> Iterator[EnvironmentDoctorCheck]:
    for status in frameworks.statuses():
        name = f"framework_{status.name}"
        if status.is_installed:
            yield EnvironmentDoctorCheck(name, PASS, f"{status.name} is installed.")
        else:
            yield EnvironmentDoctorCheck(
                name, WARN, f"{status.name} is not installed.", status.install
            )


def _import(name: str, module: str, extra: str) -> EnvironmentDoctorCheck:
    from importlib.util import find_spec

    if find_spec(module) is not None:
        return EnvironmentDoctorCheck(name, PASS, f"{module} is installed.")
    hint = installation.command(extra)
    return EnvironmentDoctorCheck(name, WARN, f"{module} is not installed.", hint)
