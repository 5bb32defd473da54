"""Which sandbox is taken, and what whoever has none is told."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from rlm_ci import sandbox
from rlm_ci.errors import ConfigError
from rlm_ci.sandbox import Probe, SandboxJob, monty, self_test
from rlm_ci.sandbox.bubblewrap import Bubblewrap
from rlm_ci.sandbox.none import Unsandboxed
from rlm_ci.system.process import Clipped, StreamResult


@pytest.mark.parametrize("name", ["auto", "bubblewrap"])
def test_bubblewrap_is_taken_where_it_holds(bubblewrap: Bubblewrap, name: str) -> None:
    chosen = sandbox.choose(name, os.environ)
    assert (chosen.name, chosen.isolated) == (bubblewrap.name, True)


def test_none_is_taken_only_by_name() -> None:
    chosen = sandbox.choose("none", {})
    assert (chosen.name, chosen.isolated) == ("none", False)
    for name in ("auto", "bubblewrap"):
        with pytest.raises(ConfigError):
            sandbox.choose(name, {"PATH": "/no/such/folder"})


# -- a machine where it does not work -----------------------------------------------------------


def fake(tmp_path: Path, script: str) -> dict[str, str]:
    """An environment whose bwrap says what a kernel or a system would make it say."""
    program = tmp_path / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return {"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)}


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is a program of Linux")
@pytest.mark.parametrize(
    "said",
    ["setting up uid map: Permission denied", "No permissions to create new namespace",
     "Can't mount proc on /newroot/proc: Operation not permitted"],
)  # fmt: skip
def test_one_that_the_kernel_refuses_is_never_replaced_by_nothing(
    tmp_path: Path, said: str
) -> None:
    environ = fake(tmp_path, f'echo "bwrap: {said}" >&2; exit 1')
    for name in ("auto", "bubblewrap"):
        with pytest.raises(ConfigError) as caught:
            sandbox.choose(name, environ)
        assert said in str(caught.value)
        assert "--sandbox none" in caught.value.hint


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is a program of Linux")
def test_one_that_only_pretends_is_found_out(tmp_path: Path) -> None:
    # It runs the command, and isolates nothing: each attempt on the machine must show that.
    script = 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"'
    environ = fake(tmp_path, script)
    (tmp_path / "work").mkdir()
    probes = self_test.attempts(Bubblewrap(str(tmp_path / "bwrap")), environ)
    failed = {one.name for one in probes if not one.passed}
    assert {"tcp", "udp", "unix", "abstract", "outside", "secret", "processes", "kernel"} <= failed
    with pytest.raises(ConfigError, match="does not work"):
        sandbox.choose("auto", environ)


#: It does all that it is told, but for one mount.
UNCOVERED = """\
#!{python} -IS
import os, sys
words = open(3, "rb", closefd=False).read().split(b"\\0")
at = words.index(b"--remount-ro")
assert words[at + 1] == b"/proc"
del words[at : at + 2]
told = os.memfd_create("told")
os.write(told, b"\\0".join(words))
os.lseek(told, 0, os.SEEK_SET)
os.dup2(told, 3)
os.execve("{bwrap}", ["bwrap", *sys.argv[1:]], dict())
"""


def test_one_that_leaves_a_setting_of_the_kernel_open_is_found_out(
    bubblewrap: Bubblewrap, tmp_path: Path
) -> None:
    program = tmp_path / "bwrap"
    real = shutil.which("bwrap")
    program.write_text(UNCOVERED.format(python=os.path.realpath(sys.executable), bwrap=real))
    program.chmod(0o755)
    box = Bubblewrap(str(program))
    for all_settings in (False, True):
        probes = self_test.attempts(box, os.environ, all_settings=all_settings)
        failed = [(one.name, one.detail) for one in probes if not one.passed]
        assert failed == [("kernel", "/proc is not mounted read-only")]
    with pytest.raises(ConfigError, match="no setting of the kernel can be changed: /proc is"):
        sandbox.choose(bubblewrap.name, os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"})


@pytest.mark.skipif(sys.platform != "linux", reason="the attempts are for Linux")
def test_without_a_sandbox_the_probe_fails_where_it_must() -> None:
    probes = {one.name: one for one in self_test.attempts(Unsandboxed(), os.environ)}
    held = {name for name, one in probes.items() if one.passed}
    assert not held & {"tcp", "udp", "unix", "abstract", "secret", "processes", "environments"}


@pytest.mark.full
def test_each_attempt_can_fail_and_all_are_told_in_words() -> None:
    assert all(title and not title.endswith(".") for title in self_test.TITLES.values())
    probes = self_test.probe(os.environ) if sys.platform == "linux" else ()
    assert {one.name for one in probes} in (set(self_test.TITLES), set())


@pytest.mark.usefixtures("bubblewrap")
def test_a_python_that_was_copied_into_its_environment_will_do(tmp_path: Path) -> None:
    """As ``venv --copies``, or a copy of an environment that followed its links, leaves it."""
    venv.create(tmp_path / "env", symlinks=False)
    root = Path(self_test.__file__).parents[2]
    code = (
        f"import os, sys; sys.path.insert(0, {str(root)!r})\n"
        "from rlm_ci.sandbox import self_test as trials\n"
        "from rlm_ci.sandbox.bubblewrap import Bubblewrap\n"
        "box = Bubblewrap.locate(os.environ)\n"
        "print([one for one in trials.attempts(box, os.environ) if not one.passed])"
    )
    ended = subprocess.run(
        [tmp_path / "env/bin/python", "-I", "-c", code], capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.stderr) == ("[]\n", "")


@pytest.mark.parametrize(
    ("code", "output", "said"),
    [
        (139, b"Segmentation\x1b[31m fault\n", "it ended with 139: Segmentation\\x1b[31m fault"),
        (0, b"tcp 1 ENETUNREACH\n", "the results of its attempts are not those of all"),
        (0, b"tcp\n", "not enough values to unpack (expected 3, got 1)"),
    ],
)
def test_a_probe_that_ends_badly_says_how(code: int, output: bytes, said: str) -> None:
    class Broken:
        name, isolated = "broken", True

        def run(
            self, _job: SandboxJob, *, on_output: object = None, stop: int = -1
        ) -> StreamResult:
            assert (on_output, stop) == (None, -1)
            return StreamResult(code, "", Clipped(output), 0.1)

    probes = self_test.attempts(Broken(), os.environ)
    assert [one.passed for one in probes] == [False]
    assert probes[0].detail == said


# -- what mends it ------------------------------------------------------------------------------


def machine(tmp_path: Path, **files: str) -> str:
    for name, text in files.items():
        path = tmp_path / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return str(tmp_path)


def test_apparmor_of_ubuntu_is_mended_with_a_profile(tmp_path: Path) -> None:
    root = machine(tmp_path, proc__sys__kernel__apparmor_restrict_unprivileged_userns="1\n")
    hint = self_test.mend("setting up uid map: Permission denied", root, privileged=False)
    assert "/etc/apparmor.d/bwrap-userns-restrict" in hint
    assert "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0" in hint
    assert "apparmor" not in self_test.mend("something", root, privileged=True)


def test_namespaces_that_are_off_are_turned_on(tmp_path: Path) -> None:
    root = machine(tmp_path, proc__sys__user__max_user_namespaces="0\n")
    assert "user.max_user_namespaces=15000" in self_test.mend(
        "No space left", root, privileged=True
    )
    root = machine(tmp_path / "b", proc__sys__kernel__unprivileged_userns_clone="0\n")
    assert "userns_clone=1" in self_test.mend("No permissions", root, privileged=False)


def test_a_container_must_be_allowed_to_make_namespaces(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".containerenv").write_text("")
    root = str(tmp_path)
    assert "seccomp=unconfined" in self_test.mend("Operation not permitted", root, privileged=True)


def test_an_old_bubblewrap_is_named() -> None:
    assert "0.8" in self_test.mend("bwrap: Unknown option --disable-userns")


@pytest.mark.parametrize(
    ("release", "command"),
    [('ID=ubuntu\nVERSION_ID="24.04"\n', "apt-get install bubblewrap"),
     ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf install bubblewrap"),
     ("ID=alpine\n", "apk add bubblewrap"),
     ("ID=other\n", "install bubblewrap and util-linux"),
     ("", "install bubblewrap and util-linux")],
)  # fmt: skip
@pytest.mark.skipif(sys.platform != "linux", reason="it says what to do on Linux")
def test_where_it_is_missing_the_command_that_brings_it_is_told(
    tmp_path: Path, release: str, command: str
) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "os-release").write_text(release)
    error = self_test.missing("bwrap could not be started", str(tmp_path))
    assert error.hint.startswith(command)
    assert "--sandbox none" in error.hint


def test_the_first_failure_is_what_is_told() -> None:
    error = self_test.refused(Probe("tcp", "no TCP", passed=False, detail="sent"))
    assert str(error) == "the sandbox does not work: no TCP: sent (sandbox bubblewrap)"


# -- monty --------------------------------------------------------------------------------------


def test_monty_says_that_it_is_not_there_or_holds() -> None:
    probes = monty.probe()
    if len(probes) == 1:
        assert "install -e " in probes[0].detail
    else:
        assert all(one.passed for one in probes), probes
