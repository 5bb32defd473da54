"""Runs the composite action for real, offline: by act, and step by step as GitHub's runner does.

:func:`run_in_act` executes a whole workflow with nektos/act on this host: expressions, outputs,
workflow commands, ``if``. act sets ``INPUT_*`` and ``GITHUB_ACTION_*`` for the steps of a
composite action, GitHub does not, so it cannot show that an input was never handed over.
:class:`Runner` can: it executes the scripts of ``action.yml`` with exactly the
environment that they get there.

Neither has a network: pip reads the wheels that ``make setup`` put beside the environment.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from testing.repositories.events import NAME, OWNER
from testing.repositories.git_repo import GitRepo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
WHEELS = Path(sys.prefix) / "wheels"
#: All that a pinned action consists of when it runs: no build, no metadata, no repository.
SHIPPED = (
    "action.yml", "requirements.lock", "requirements-models.lock", "rlm_ci", "templates", "schemas",
)  # fmt: skip
#: In place of actions/upload-artifact, which needs GitHub: keeps what it is given, and refuses a
#: name that is taken, unless it may overwrite it.
UPLOAD = """
name: upload
inputs:
  {name: {}, path: {}, include-hidden-files: {}, overwrite: {}, if-no-files-found: {},
   retention-days: {}}
runs:
  using: composite
  steps:
    - shell: bash
      env:
        FILE: ${{ inputs.path }}
        NAME: ${{ inputs.name }}
        OVERWRITE: ${{ inputs.overwrite }}
      run: |
        [ "$OVERWRITE" != true ] || rm -rf "$PROBE/artifacts/$NAME"
        mkdir -p "$PROBE/artifacts" && mkdir "$PROBE/artifacts/$NAME"
        cp "$FILE" "$PROBE/artifacts/$NAME/"
"""


def load_yaml(text: str | bytes) -> Any:
    """The document of ``text``. YAML 1.1 reads a workflow's key ``on`` as True: it stays so."""
    return yaml.safe_load(text)


def ship_action(to: Path, *, without: str = "") -> Path:
    """A copy of the action, as a runner has it after its first use of the pinned commit."""
    to.mkdir(parents=True)
    for name in set(SHIPPED) - {without}:
        source = ROOT / name
        if source.is_dir():
            # What is being compiled beside us has a name of its own until it is done.
            shutil.copytree(source, to / name, ignore=shutil.ignore_patterns("*.pyc.*"))
        else:
            shutil.copy2(source, to / name)
    return to


def put_upload(folder: Path) -> str:
    """Write :data:`UPLOAD`; what act's ``--local-repository`` must be told of it."""
    folder.mkdir()
    (folder / "action.yml").write_text(UPLOAD)
    pinned = re.search(r"actions/upload-artifact@\w+", (ROOT / "action.yml").read_text("utf-8"))
    assert pinned, "the action uploads its patch"
    return f"{pinned[0]}={folder}"


def put_python(folder: Path, *names: str, real: str | None = None, broken: bool = False) -> Path:
    """A folder for PATH in which ``names`` are this Python, or, ``broken``, one far too old."""
    folder.mkdir(parents=True, exist_ok=True)
    python = real or getattr(sys, "_base_executable", sys.executable)
    for name in names or ("python3",):
        command = "exit 1" if broken else f'exec "{python}" "$@"'
        (folder / name).write_text(f"#!/bin/sh\n{command}\n")
        (folder / name).chmod(0o755)
    return folder


def offline_pip() -> dict[str, str]:
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(WHEELS), "PIP_CONFIG_FILE": os.devnull}


def bare_environment(
    home: Path, python: Path | None = None, programs: Sequence[Path] = ()
) -> dict[str, str]:
    """What every run starts from: no variable, tool or identity of this machine.

    ``programs`` are folders of further ones, behind all others on PATH.
    """
    home.mkdir(parents=True, exist_ok=True)
    python = python or put_python(home / "python")
    # git's own folder may lie outside /usr/bin (macOS, Homebrew).
    git = Path(shutil.which("git") or "/usr/bin/git").parent
    return {
        "HOME": str(home),
        "PATH": os.pathsep.join([str(python), str(git), "/usr/bin", "/bin", *map(str, programs)]),
        "LANG": "C.UTF-8",
        **offline_pip(),
    }


# -- act ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Job:
    """What became of a job: act's exit code, and what the action's step left behind.

    ``files`` is a folder with copies of the files that the outputs name, ``runs`` one with those
    of the runs; ``artifacts`` are the files that were uploaded, by the name of the artifact.
    ``status`` is what git says of the work tree afterwards. ``printed`` are the lines that the
    step wrote, in order; ``commands`` the workflow commands among them as ``(name, properties,
    text)``, the way that the runner understood them.
    """

    code: int
    outcome: str
    outputs: Mapping[str, str]
    summary: str
    printed: Sequence[str]
    commands: Sequence[tuple[str, Mapping[str, str], str]]
    files: Path
    status: str
    log: str = field(repr=False)

    @property
    def runs(self) -> Path:
        return self.files / "runs"

    @property
    def artifacts(self) -> dict[str, list[Path]]:
        folders = sorted((self.files / "artifacts").glob("*"))
        return {folder.name: sorted(folder.iterdir()) for folder in folders}


_PROBE = """
      - if: always()
        shell: bash
        env:
          OUTPUTS: ${{ toJSON(steps.rlm.outputs) }}
          OUTCOME: ${{ steps.rlm.outcome }}
          REPORT: ${{ steps.rlm.outputs.report }}
          SARIF: ${{ steps.rlm.outputs.sarif }}
          PATCH: ${{ steps.rlm.outputs.patch }}
        run: |
          printf '%s' "$OUTPUTS" >"$PROBE/outputs"
          printf '%s' "$OUTCOME" >"$PROBE/outcome"
          git status --porcelain >"$PROBE/status"
          [ ! -d .runs ] || cp -R .runs "$PROBE/runs"
          for file in "$REPORT" "$SARIF" "$PATCH"; do
            [ ! -f "$file" ] || cp "$file" "$PROBE/"
          done
"""


def run_in_act(
    tmp: Path,
    repo: GitRepo,
    event: Mapping[str, Any],
    inputs: Mapping[str, str],
    *,
    action: Path | None = None,
    event_name: str = "pull_request",
    made: Path | None = None,
    variables: Mapping[str, str] | None = None,
    secrets: Mapping[str, str] | None = None,
    programs: Sequence[Path] = (),
) -> Job:
    """One job: check ``repo`` out, use the action with ``inputs``, all within ``tmp``.

    ``made`` is what :func:`installed` gave: the job begins with it, as after an earlier step that
    used the action, and installs nothing.
    ``variables`` are put into the job's environment, folders of ``programs`` on its PATH.
    ``secrets`` are what an input may name; nothing masks them in the log.
    Raises subprocess.TimeoutExpired after two minutes.
    """
    action = action or ship_action(tmp / "action")
    probe = tmp / "probe"
    probe.mkdir(parents=True)
    given = "".join(f"\n          {name}: {json.dumps(text)}" for name, text in inputs.items())
    workflow = tmp / "workflow.yml"
    # JSON is YAML, and `${{` in a value is text for the action only where act leaves it alone.
    workflow.write_text(
        f"on: {event_name}\njobs:\n  check:\n    runs-on: ubuntu-latest\n    steps:\n"
        "      - uses: actions/checkout@v4\n"
        + (f"      - run: cp -RPl '{made}' \"$RUNNER_TEMP/rlm-ci\"\n" if made else "")
        + "      - uses: rlm-ci/rlm-ci@v1\n        id: rlm\n"
        + (f"        with:{given}\n" if given else "")
        + _PROBE
    )
    payload = tmp / "event.json"
    payload.write_text(json.dumps(event))
    if "origin" not in repo.text("remote").split():
        repo.remote(f"https://github.com/{OWNER}/{NAME}.git")
    argv = [
        str(BIN / "act"), event_name, "--json", "--workflows", str(workflow),
        "--eventpath", str(payload), "--actor", "ada",
        "--platform", "ubuntu-latest=-self-hosted",
        "--action-offline-mode", "--action-cache-path", str(tmp / "cache"),
        "--artifact-server-addr", "127.0.0.1", "--cache-server-addr", "127.0.0.1",
        "--no-cache-server", "--local-repository", f"rlm-ci/rlm-ci@v1={action}",
        "--env", f"PROBE={probe}",
        "--local-repository", put_upload(tmp / "upload"), "--insecure-secrets",
        *(word for name, text in (variables or {}).items() for word in ("--env", f"{name}={text}")),
        *(word for name in secrets or {} for word in ("--secret", name)),
    ]  # fmt: skip
    ended = subprocess.run(
        argv, cwd=repo.path, stdin=subprocess.DEVNULL,
        env=bare_environment(tmp / "home", programs=programs) | dict(secrets or {}),
        capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    log = ended.stdout.decode("utf-8", "replace") + ended.stderr.decode("utf-8", "replace")
    assert (probe / "outcome").exists(), log
    records = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    ours = [record for record in records if "rlm" in record.get("stepID", ())]
    return Job(
        ended.returncode,
        (probe / "outcome").read_text(),
        json.loads((probe / "outputs").read_text() or "{}"),
        # Each step has a summary file of its own, which act shows when the step has ended.
        next((record["content"] for record in ours if record.get("command") == "summary"), ""),
        [str(record["msg"]).rstrip("\n") for record in ours if record.get("raw_output")],
        [(r["command"], r.get("kvPairs") or {}, r["arg"]) for r in ours if "arg" in r],
        probe,
        (probe / "status").read_text(),
        log,
    )


# -- as GitHub's runner does --------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One step after it ended; ``pid`` is that of the shell that the runner would signal."""

    code: int
    text: str
    outputs: Mapping[str, str]
    pid: int


def installed(shared: Path, *, models: bool = False) -> Path:
    """What the action leaves below RUNNER_TEMP after it ran, made once for all workers.

    It is that of the checks, or that of ``models``. ``shared`` is a folder of this session. Whoever
    brings it into a job by :func:`reuse` is not about the installation: an action that finds it
    there installs nothing.
    """
    shared /= "models" if models else "checks"
    shared.mkdir(parents=True, exist_ok=True)
    with open(shared / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = shared / "job" / "temp" / "rlm-ci"
        if not (made / "ready").exists():
            _install(shared, models=models)
    return made


def _install(shared: Path, *, models: bool) -> None:
    """What the action's first step makes, of what ``make setup`` has installed from the same lock:
    pip takes seconds for it. That step itself is run by ``test_action.py``.
    """
    venv = shared / "job" / "temp" / "rlm-ci"
    subprocess.run([sys.executable, "-I", "-m", "venv", "--without-pip", venv], check=True)
    lock = ROOT / ("requirements-models.lock" if models else "requirements.lock")
    here, there = (Path(sysconfig.get_path("purelib", vars={"base": str(base)}))
                   for base in (sys.prefix, venv))  # fmt: skip
    for name, version in locked(lock).items():
        found = importlib.metadata.distribution(name)
        assert found.version == version, f"not what the lock pins: run `make setup` ({name})"
        for file in found.files or ():
            source = here / file
            # A script names the interpreter that it was installed for; a program has none.
            if source.is_file() and (".." not in file.parts or not _is_script(source)):
                _link(source, Path(os.path.normpath(there / file)))
    shutil.copy(lock, venv / "requirements.lock")
    (venv / "ready").touch()


def locked(lock: Path) -> dict[str, str]:
    """What ``lock`` pins for this Python and platform."""
    lines = re.findall(r"^([\w.-]+==[^\\\n]+)", lock.read_text(), re.MULTILINE)
    pins = [Requirement(line) for line in lines]
    here = [pin for pin in pins if not pin.marker or pin.marker.evaluate()]
    return {canonicalize_name(pin.name): str(pin.specifier)[2:] for pin in here}


def _is_script(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(2) == b"#!"


def _link(source: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, to)
    except OSError:  # another file system
        shutil.copy2(source, to)


def reuse(made: Path, job: Path) -> None:
    """The job in the folder ``job`` begins with what another has installed."""
    (job / "temp").mkdir(parents=True)
    shutil.copytree(made, job / "temp" / "rlm-ci", symlinks=True, copy_function=os.link)


@dataclass
class Runner:
    """GitHub's runner as far as a composite action can see it, without act's extras.

    The steps of one Runner are one job: they share workspace and RUNNER_TEMP.
    """

    tmp: Path
    action: Path
    workspace: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    action_path: str | None = None
    summary: str = ""

    def __post_init__(self) -> None:
        self.tmp.mkdir(parents=True, exist_ok=True)
        (self.tmp / "temp").mkdir(exist_ok=True)
        self._metadata = load_yaml((self.action / "action.yml").read_bytes())

    def use(self, inputs: Mapping[str, str] | None = None) -> list[Step]:
        """Run the action: its steps up to the first that fails."""
        rows = self._metadata["inputs"].items()
        known = {name: str(row.get("default", "")) for name, row in rows}
        unknown = set(inputs or {}) - set(known)
        assert not unknown, f"no such inputs: {unknown}"
        context: dict[str, Any] = {"inputs": known | dict(inputs or {}), "steps": {}}
        ended: list[Step] = []
        for number, step in enumerate(self._metadata["runs"]["steps"]):
            if "uses" in step:  # GitHub's own action, which needs GitHub; act shows when it is used
                continue
            assert step["shell"] == "bash", "every step is a bash step"
            variables = {k: _expand(str(v), context) for k, v in step.get("env", {}).items()}
            ended.append(self._run(step["run"], variables, number))
            context["steps"][step.get("id", "")] = {"outputs": ended[-1].outputs}
            if ended[-1].code:
                break
        return ended

    def _run(self, script: str, variables: Mapping[str, str], number: int) -> Step:
        folder = self.tmp / f"step-{number}-{uuid.uuid4().hex}"
        folder.mkdir()
        (folder / "script.sh").write_text(script)
        for name in ("output", "summary", "env", "path"):
            (folder / name).touch()
        environment = {
            **bare_environment(self.tmp / "home"),
            "CI": "true",
            "GITHUB_ACTIONS": "true",
            "GITHUB_ACTION_PATH": self.action_path or str(self.action),
            "GITHUB_WORKSPACE": str(self.workspace),
            "GITHUB_OUTPUT": str(folder / "output"),
            "GITHUB_STEP_SUMMARY": str(folder / "summary"),
            "GITHUB_ENV": str(folder / "env"),
            "GITHUB_PATH": str(folder / "path"),
            "GITHUB_REPOSITORY": f"{OWNER}/{NAME}",
            "GITHUB_SERVER_URL": "https://github.com",
            "RUNNER_OS": "Linux" if sys.platform != "darwin" else "macOS",
            "RUNNER_TEMP": str(self.tmp / "temp"),
            **self.environment,
            **variables,
        }
        process = subprocess.Popen(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(folder / "script.sh")],
            cwd=self.workspace, env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            text = process.communicate(timeout=120)[0].decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        for name in ("env", "path"):
            # What is written there reaches every later step of the user's job.
            assert not (folder / name).read_text(), f"the action wrote to GITHUB_{name.upper()}"
        self.summary += (folder / "summary").read_text("utf-8")
        outputs = read_outputs((folder / "output").read_text("utf-8"))
        return Step(process.returncode, text, outputs, process.pid)


def _expand(text: str, context: Mapping[str, Any]) -> str:
    """``text`` with its ``${{ a.b.c }}`` and ``${{ a.b.c != '' }}`` filled in.

    No more of the language is used there.
    """

    def look_up(match: re.Match[str]) -> str:
        value: Any = context
        for name in match[1].split("."):
            value = value.get(name, "")
            if value == "":
                break
        return str(value != "").lower() if match[2] else str(value)

    return re.sub(r"\$\{\{\s*([\w.-]+)( != '')?\s*\}\}", look_up, text)


def read_outputs(text: str) -> dict[str, str]:
    """A ``GITHUB_OUTPUT`` file as the runner reads it. Raises AssertionError where it would."""
    outputs: dict[str, str] = {}
    lines = iter(text.replace("\r\n", "\n").split("\n"))
    for line in lines:
        if not line:
            continue
        equals, heredoc = line.find("="), line.find("<<")
        if heredoc >= 0 and (equals < 0 or heredoc < equals):
            name, delimiter = line[:heredoc], line[heredoc + 2 :]
            value: list[str] = []
            for inner in lines:
                if inner == delimiter:
                    break
                value.append(inner)
            else:
                raise AssertionError(f"output {name!r} is not closed by {delimiter!r}")
            outputs[name] = "\n".join(value)
        else:
            assert equals > 0, f"not an output: {line!r}"
            outputs[line[:equals]] = line[equals + 1 :]
    return outputs
