"""What a job reaches of the kernel: nothing that changes the machine, whoever started it."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from testing.attacker import Attacker

#: A job in the sandbox, started as the loop does, on the script that stands in a file.
JOB = """
import json, os, sys
from rlm_ci import sandbox
from rlm_ci.sandbox import SandboxJob, Mount, self_test as trials
program, mounts = trials.interpreter()
place, network = os.path.abspath(sys.argv[1]), sys.argv[2] == "network"
job = SandboxJob((program, "-I", "-S", "/tried.py"), mounts=(*mounts, Mount(place, "/tried.py")),
          network=network)
print(sandbox.choose("auto", os.environ).run(job).output.text())
"""
#: Every regular file below the kernel's folders, opened for writing; nothing is written.
WALK = """
import os, stat
for top in ("/proc", "/sys", "/dev"):
    for folder, inner, names in os.walk(top):
        if folder == "/proc":
            inner[:] = [one for one in inner if not one.isdigit()]
        for name in names:
            path = os.path.join(folder, name)
            try:
                if stat.S_ISREG(os.lstat(path).st_mode):
                    os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                    print(path)
            except OSError:
                pass
"""
#: Attempts by what they are after. What would succeed changes nothing: settings stay as they are.
TRIED = {
    "settings": """
        for name in ("core_pattern", "core_pipe_limit", "hostname", "panic", "printk"):
            path = f"/proc/sys/kernel/{name}"
            with open(path, "rb") as file:
                text = file.read()
            attempt(path, lambda: write(path, text))
    """,
    "mounts": """
        for row in open("/proc/self/mounts"):
            path = row.split()[1]
            mount = ctypes.CDLL(None, use_errno=True).mount
            flags = 32 | 4096  # MS_REMOUNT | MS_BIND
            if mount(b"none", path.encode(), None, flags, None) == 0:
                print(path, "was mounted again")
    """,
    "memory of process 1": """
        attempt("mem", lambda: write("/proc/1/mem", b"x"))
        attempt("map", lambda: write("/proc/1/uid_map", b"0 0 1"))
    """,
    "what only root may read": """
        for name in ("kmsg", "kcore", "kpagecount", "kpageflags", "vmallocinfo", "slabinfo",
                     "timer_list", "pagetypeinfo", "keys", "key-users"):
            attempt(name, lambda: open(f"/proc/{name}", "rb").read(1))
    """,
    "other file systems of the kernel": """
        for path in ("/sys/kernel", "/sys/fs/cgroup", "/sys/kernel/debug", "/sys/kernel/tracing",
                     "/proc/sys/fs/binfmt_misc/register", "/dev/kmsg", "/dev/mem", "/dev/kvm",
                     "/dev/mqueue", "/dev/console"):
            attempt(path, lambda: os.stat(path))
    """,
    "its user": """
        if os.getuid() == 0 or os.getgid() == 0:
            print("it is root")
        attempt("root", lambda: os.setuid(0))
        attempt("map", lambda: write("/proc/self/uid_map", b"0 0 1"))
        if ctypes.CDLL(None).unshare(0x10000000) == 0:
            print("a user namespace was made")
    """,
}
ATTEMPT = """
import ctypes, os
def write(path, data):
    descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)
def attempt(what, act):
    try:
        act()
    except OSError:
        pass
    else:
        print(what, "succeeded")
"""


#: It takes a device from all others that use it; it is used by nobody here.
SPOIL = """
import os
try:
    os.chmod("/dev/full", 0o600)
except OSError:
    pass
for name in ("null", "zero", "random", "urandom"):
    os.close(os.open(f"/dev/{name}", os.O_RDWR if name != "random" else os.O_RDONLY))
"""


#: Devices cannot be used where they would be made.
UNUSABLE = 'set -e; mkdir -p /dev/rlm-ci; mount -t tmpfs -o nodev none /dev/rlm-ci; exec "$@"'


def tried(attacker: Attacker, script: str, network: str = "alone") -> str:
    """What a script in a job printed: what it could do and should not."""
    place = attacker.folder / "tried.py"
    place.write_text(f"{script}\nprint('end')\n")
    ended = attacker.python(JOB, place, network)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.rstrip().endswith("end"), ended.stdout
    return ended.stdout.rstrip().removesuffix("end").strip()


@pytest.mark.sample(1)
@pytest.mark.parametrize("network", ["alone", "network"])
def test_no_file_of_the_kernel_opens_for_writing(attacker: Attacker, network: str) -> None:
    assert tried(attacker, WALK, network) == ""


@pytest.mark.full
@pytest.mark.parametrize("what", TRIED)
def test_what_changes_the_machine_or_shows_it_fails(attacker: Attacker, what: str) -> None:
    body = "\n".join(line.removeprefix("        ") for line in TRIED[what].splitlines())
    assert tried(attacker, ATTEMPT + body) == ""


@pytest.mark.full
def test_a_device_that_all_programs_use_stays_open_to_them(attacker: Attacker) -> None:
    """Root's jobs have their own: that of the machine is not even touched."""
    before = Path("/dev/full").stat()
    assert tried(attacker, SPOIL) == ""
    assert Path("/dev/full").stat() == before


@pytest.mark.full
def test_a_job_cannot_change_the_devices_of_the_next_one(attacker: Attacker) -> None:
    if attacker.name != "root":
        pytest.skip("the machine's devices are not theirs")
    assert tried(attacker, SPOIL) == ""
    own = Path("/dev/rlm-ci/full")
    assert (own.stat().st_mode, own.stat().st_uid) == (stat.S_IFCHR | 0o666, 65534)
    own.chmod(0o600)  # whoever may
    assert tried(attacker, "open('/dev/full', 'rb').read(1)") == ""
    assert own.stat().st_mode == stat.S_IFCHR | 0o666


@pytest.mark.full
@pytest.mark.usefixtures("_needs_containers")
def test_where_no_devices_can_be_made_their_mode_is_put_back(attacker: Attacker) -> None:
    attacker.before = ("unshare", "--mount", "sh", "-c", UNUSABLE, "sh")
    mode = Path("/dev/full").stat().st_mode
    try:
        assert tried(attacker, SPOIL) == ""
        assert Path("/dev/full").stat().st_mode == mode
    finally:
        os.chmod("/dev/full", mode)


@pytest.mark.full
def test_the_doctor_tries_all_of_it(attacker: Attacker) -> None:
    ended = attacker.rlm_ci("doctor", "--format", "json")
    rows = _probes(json.loads(ended.stdout))
    assert [row for row in rows if not row["passed"]] == []
    told = {row["name"]: row["detail"] for row in rows}
    assert int(told["kernel"].split()[1]) > 100
    assert {"user", "abstract", "environments", "descriptors", "daemon"} <= set(told)


def _probes(document: Any) -> list[dict[str, Any]]:
    if isinstance(document, dict):
        own = [document] if {"name", "passed", "detail"} <= document.keys() else []
        return own + [row for value in document.values() for row in _probes(value)]
    return [row for one in document for row in _probes(one)] if isinstance(document, list) else []


# -- containers ---------------------------------------------------------------------------------

#: What Docker leaves to root in a container.
CAPABILITIES = (
    "chown", "dac_override", "fsetid", "fowner", "mknod", "net_raw", "setgid", "setuid", "setfcap",
    "setpcap", "net_bind_service", "sys_chroot", "kill", "audit_write",
)  # fmt: skip
#: A /proc and a /sys as a container has them with ``systempaths=unconfined``.
OPEN = "mount -t proc proc /proc; mount -o remount,bind,ro /sys"
#: The same as Docker covers it where nothing is said.
COVERED = """
for name in bus fs irq sys sysrq-trigger; do
    [ ! -e /proc/$name ] || { mount --bind /proc/$name /proc/$name
                              mount -o remount,bind,ro /proc/$name; }
done
for name in acpi scsi; do [ ! -d /proc/$name ] || mount -t tmpfs -o ro none /proc/$name; done
for name in kcore keys timer_list; do
    [ ! -e /proc/$name ] || mount --bind /dev/null /proc/$name
done
"""


def container(mounts: str) -> tuple[str, ...]:
    """What starts a command as Docker would, as far as mounts, processes and capabilities go."""
    bounds = "-all," + ",".join(f"+{name}" for name in CAPABILITIES)
    start = f'set -e\n{mounts}\nexec setpriv --bounding-set={bounds} --inh-caps=-all -- "$@"'
    view = ("unshare", "--mount", "--pid", "--fork", "--ipc", "--uts", "--propagation", "private")
    return (*view, "sh", "-c", start, "sh")


@pytest.fixture
def _needs_containers() -> None:
    if os.geteuid() or not shutil.which("setpriv"):
        pytest.skip("only root makes a container")
    made = subprocess.run([*container(OPEN), "true"], capture_output=True, text=True, check=False)
    if made.returncode:
        pytest.skip(f"no container can be made here: {made.stderr.strip()}")


@pytest.mark.full
@pytest.mark.usefixtures("_needs_containers")
@pytest.mark.parametrize("network", ["alone", "network"])
def test_in_a_container_with_open_system_paths_it_holds_as_well(
    attacker: Attacker, network: str
) -> None:
    attacker.before = container(OPEN)
    assert tried(attacker, WALK, network) == ""
    for what in ("settings", "what only root may read", "its user"):
        body = "\n".join(line.removeprefix("        ") for line in TRIED[what].splitlines())
        assert tried(attacker, ATTEMPT + body, network) == ""


@pytest.mark.full
@pytest.mark.usefixtures("_needs_containers")
def test_in_a_container_that_may_not_mount_nothing_runs(attacker: Attacker) -> None:
    attacker.before = container(OPEN + COVERED)
    place = attacker.folder / "tried.py"
    place.write_text("print('it ran')\n")
    ended = attacker.python(JOB, place, "alone")
    assert ended.returncode
    assert "ConfigError" in ended.stderr
    assert "it ran" not in ended.stdout
