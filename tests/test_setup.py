"""Setting up on a machine that is not as it should be: one line that says what to do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from testing.action_runner import BIN, ROOT, bare_environment, put_python

pytestmark = pytest.mark.skipif(os.name == "nt", reason="make is for Linux and macOS")

MAKE_VENV = ROOT / "tests/tools/make_venv.sh"
SYSTEM = ROOT / "tests/tools/system.sh"
PYTHONS = ("python", "python3", *(f"python3.{minor}" for minor in range(11, 15)))
TOOLS = ("sh", "id", "cat", "rm", "mktemp", "dirname")


SANDBOX = ("bwrap", "strace", "setpriv")


def _path(folder: Path, *present: str, user: int = 1000, apt: str | None = None) -> str:
    """A PATH with a few tools, ``present`` (which do nothing), a user and perhaps apt-get."""
    folder.mkdir(exist_ok=True)
    for tool in TOOLS:
        (folder / tool).symlink_to(shutil.which(tool) or tool)
    scripts = dict.fromkeys(present, "exit 0") | {"id": f"echo {user}", "uname": "echo Linux"}
    if apt is not None:
        scripts["apt-get"] = apt
    for name, script in scripts.items():
        (folder / name).unlink(missing_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    return str(folder)


def _sh(
    script: Path, *args: str | Path, path: str, **more: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", script, *args], env={"PATH": path, **more},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


# -- the environment ----------------------------------------------------------------------------


def test_an_old_python_is_one_line(tmp_path: Path) -> None:
    path = _path(tmp_path / "bin")
    put_python(tmp_path / "bin", *PYTHONS, broken=True)
    ended = _sh(MAKE_VENV, tmp_path / "venv", ROOT / "requirements.lock", path=path)
    assert ended.returncode == 1
    assert re.fullmatch(r"error: Python 3\.11 or newer is needed: .+\n", ended.stderr)
    assert not (tmp_path / "venv").exists()


@pytest.mark.full
def test_a_newer_python_beside_an_old_one_is_found(tmp_path: Path) -> None:
    tools = put_python(tmp_path / "bin", "python3", broken=True)
    put_python(tools, "python3.13")
    environment = bare_environment(tmp_path / "home", tools)
    path = environment.pop("PATH")
    lock = ROOT / "requirements.lock"
    ended = _sh(MAKE_VENV, tmp_path / "venv", lock, path=path, **environment)
    assert ended.returncode == 0, ended.stderr
    script = "import jinja2, jsonschema, pathspec, unidiff"
    subprocess.run([tmp_path / "venv/bin/python", "-I", "-c", script], check=True)


@pytest.mark.full
def test_a_package_with_another_hash_is_refused(tmp_path: Path) -> None:
    lock = tmp_path / "changed.lock"
    text = (ROOT / "requirements.lock").read_text("utf-8")
    lock.write_text(re.sub(r"sha256:\w+", "sha256:" + "0" * 64, text))
    environment = bare_environment(tmp_path / "home")
    path = environment.pop("PATH")
    ended = _sh(MAKE_VENV, tmp_path / "venv", lock, path=path, **environment)
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].startswith("error: cannot install from")


def test_a_python_without_venv_is_one_line(tmp_path: Path) -> None:
    path = _path(tmp_path / "bin")
    hidden = tmp_path / "hidden.py"
    hidden.write_text("import sys\nsys.modules['ensurepip'] = None\nexec(sys.argv[2])\n")
    (tmp_path / "bin" / "python3").write_text(f'#!/bin/sh\nexec "{sys.executable}" {hidden} "$@"\n')
    (tmp_path / "bin" / "python3").chmod(0o755)
    ended = _sh(MAKE_VENV, tmp_path / "venv", ROOT / "requirements.lock", path=path)
    assert ended.returncode == 1
    assert re.fullmatch(r"error: python3 has no venv module: .*python3-venv.*\n", ended.stderr)


# -- system packages ----------------------------------------------------------------------------


def test_nothing_is_done_when_all_is_there(tmp_path: Path) -> None:
    path = _path(tmp_path / "bin", "chromium", "jq", "node", "npm", *SANDBOX, apt="exit 9")
    ended = _sh(SYSTEM, path=path)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.mark.skipif(sys.platform == "darwin", reason="a Mac with Chrome has all that is asked for")
def test_what_is_missing_is_named_in_one_line(tmp_path: Path) -> None:
    ended = _sh(SYSTEM, path=_path(tmp_path / "bin", "node", "strace", "setpriv"))
    assert ended.returncode == 1
    listed = "chromium jq npm bubblewrap"
    assert re.fullmatch(rf"error: [^\n]*please install them: {listed}\n", ended.stderr)


def test_elsewhere_than_on_linux_no_sandbox_is_asked_for(tmp_path: Path) -> None:
    path = _path(tmp_path / "bin", "chromium", "jq", "node", "npm")
    (tmp_path / "bin" / "uname").write_text("#!/bin/sh\necho Darwin\n")
    assert _sh(SYSTEM, path=path).returncode == 0


@pytest.mark.skipif(sys.platform == "darwin", reason="there is no apt-get")
@pytest.mark.parametrize(("user", "code"), [(0, 0), (1000, 1)])
def test_apt_get_installs_them_for_root_only(user: int, code: int, tmp_path: Path) -> None:
    log = tmp_path / "log"
    path = _path(tmp_path / "bin", "node", "npm", *SANDBOX, user=user, apt=f'echo "$@" >>{log}')
    assert _sh(SYSTEM, path=path).returncode == code
    done = log.read_text().splitlines() if log.exists() else []
    asked = ["update", "install -y --no-install-recommends chromium jq"]
    assert done == (asked if user == 0 else [])


def test_a_failed_apt_get_names_them_too(tmp_path: Path) -> None:
    present = ("chromium", "jq", "npm", *SANDBOX)
    path = _path(tmp_path / "bin", *present, user=0, apt="echo no network; exit 100")
    ended = _sh(SYSTEM, path=path)
    assert ended.returncode == 1
    first, last = ended.stderr.splitlines()
    assert first == "no network"
    assert last.endswith("please install them: nodejs")


# -- the Makefile -------------------------------------------------------------------------------


def test_make_alone_says_what_there_is() -> None:
    ended = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True)
    targets = set(re.findall(r"^make ([\w-]+)", ended.stdout, re.MULTILINE))
    text = (ROOT / "Makefile").read_text("utf-8")
    phony = set(re.findall(r"^\.PHONY: (.*)$", text, re.MULTILINE)[0].split())
    assert targets == phony - {"help"}


# -- every script -------------------------------------------------------------------------------

SCRIPTS = [
    ROOT / ".ci/run",
    *sorted(path for path in (ROOT / "hooks").iterdir() if path.is_file()),
    *sorted((ROOT / "examples").glob("*.sh")),
    *sorted((ROOT / "tests/tools").glob("*.sh")),
]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_shellcheck_has_nothing_to_say(script: Path) -> None:
    argv: list[str | Path] = [BIN / "shellcheck", "--severity", "style", script]
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=60)
    assert ended.returncode == 0, ended.stdout


def test_what_is_run_by_name_is_executable() -> None:
    assert os.access(ROOT / ".ci/run", os.X_OK)
