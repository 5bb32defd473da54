"""What runs in bubblewrap sees what it was given, and nothing else of this machine."""

from __future__ import annotations

import fcntl
import itertools
import os
import socket
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rlm_ci.errors import ConfigError, UnavailableError
from rlm_ci.sandbox import HOME, JobLimits, Mount, SandboxJob
from rlm_ci.sandbox.self_test import interpreter
from testing.leftovers import eventually, sleepers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.sandbox.bubblewrap import Bubblewrap
    from rlm_ci.sandbox.job import Sandbox
    from rlm_ci.system.process import StreamResult

CANARY = "canary-5f1e0c9a"


def shell(box: Sandbox, script: str, *mounts: Mount, **more: Any) -> StreamResult:
    return box.run(SandboxJob(("sh", "-c", script), mounts=mounts, **more))


def at(path: Path, target: str, *, writable: bool = False) -> Mount:
    return Mount(str(path), target, writable)


def test_vite_can_write_where_it_must_in_its_dependencies(
    bubblewrap: Bubblewrap, tmp_path: Path
) -> None:
    modules = [tmp_path / name / "node_modules" for name in (".", "packages/app", "linked")]
    for folder in modules:
        folder.mkdir(parents=True)
    (modules[0] / "vite").mkdir()
    (modules[2] / ".vite-temp").symlink_to(tmp_path)
    mounts = [Mount(str(folder), str(folder)) for folder in modules]
    writes = (
        "cd {0}; for name in .vite-temp .vite .vitest; do echo 1 >$name/a && cat $name/a; done;"
        "echo 1 >a"
    )
    ended = [shell(bubblewrap, writes.format(folder), *mounts).output.text() for folder in modules]
    assert [text.splitlines()[:3] for text in ended[:2]] == [["1", "1", "1"]] * 2
    assert all("Read-only file system" in text for text in ended)
    assert [sorted(folder.rglob("a")) for folder in modules] == [[], [], []]
    (modules[0] / "vite").rename(modules[0] / "other")
    assert "Read-only" in shell(bubblewrap, writes.format(modules[0]), *mounts).output.text()


# -- secrets ------------------------------------------------------------------------------------


def test_no_environment_inside_holds_a_secret_of_ours(
    bubblewrap: Bubblewrap, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    os.environb[b"RLM_CI_BYTES"] = CANARY.encode()
    try:
        script = "cat /proc/*/environ /proc/*/cmdline /proc/*/task/*/environ; env; set; echo end"
        ended = shell(bubblewrap, script)
    finally:
        del os.environb[b"RLM_CI_BYTES"]
    assert b"end\n" in ended.output.head
    assert CANARY.encode() not in ended.output.head
    assert ended.output.omitted == 0


def test_process_one_was_started_with_nothing(bubblewrap: Bubblewrap) -> None:
    assert shell(bubblewrap, "wc -c </proc/1/environ").output.text().strip() == "0"


@pytest.mark.full
def test_what_the_job_is_given_stands_on_no_command_line(
    bubblewrap: Bubblewrap, seconds: str
) -> None:
    found: list[bytes] = []

    def look() -> None:
        assert eventually(lambda: bool(sleepers(seconds)))
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                found.append(Path(f"/proc/{name}/cmdline").read_bytes())
            except OSError:
                continue

    thread = threading.Thread(target=look)
    thread.start()
    limits = JobLimits(wall=2.0)
    script = f'cat /proc/1/cmdline /proc/self/cmdline; test "$KEY" && sleep {seconds}'
    ended = shell(bubblewrap, script, env={"KEY": CANARY}, limits=limits)
    thread.join()
    assert ended.reason == "timeout"
    assert found
    assert not any(CANARY.encode() in words for words in (*found, ended.output.head))


@pytest.mark.parametrize(
    "path", ["/root", "/home", "/etc/shadow", "/etc/ssh", "/etc/ssl/private", "/var/lib",
             "/run/user", "/sys/kernel", "/boot", "/srv", "/mnt", "/proc/1/root/etc/shadow"],
)  # fmt: skip
def test_of_the_machine_there_is_only_the_system(bubblewrap: Bubblewrap, path: str) -> None:
    assert shell(bubblewrap, f"ls -d {path} 2>/dev/null").output.text() == ""


def test_the_users_of_the_machine_are_not_named(bubblewrap: Bubblewrap) -> None:
    ended = shell(bubblewrap, "cat /etc/passwd /etc/group; echo x >>/etc/passwd")
    assert ended.output.text().count("\n") == 3
    assert "sandbox:x:" in ended.output.text()
    assert ended.returncode != 0


def test_files_of_the_system_are_the_same_inside_and_cannot_be_changed(
    bubblewrap: Bubblewrap,
) -> None:
    name = "/etc/os-release"
    ended = shell(
        bubblewrap, f"{{ chmod u+w {name} || echo x >>{name} || rm {name}; }} 2>&1; cat {name}"
    )
    refusals, _, rest = ended.output.text().partition(Path(name).read_text())
    assert (refusals.count("\n"), rest) == (3, "")


def test_descriptors_of_ours_do_not_leak(bubblewrap: Bubblewrap, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(CANARY)
    with secret.open("rb") as held:
        os.set_inheritable(held.fileno(), False)
        ended = shell(bubblewrap, "ls -l /proc/self/fd /proc/1/fd; cat /proc/*/fd/[3-9]")
    assert CANARY not in ended.output.text()
    assert "secret" not in ended.output.text()
    assert "memfd" not in ended.output.text()


def test_descriptors_that_were_left_open_to_us_do_not_leak(sandbox: Sandbox) -> None:
    """A folder that whoever started us had open would be a way to all of this machine's files."""
    folder = os.open("/", os.O_RDONLY)
    left = fcntl.fcntl(folder, fcntl.F_DUPFD, 60)
    try:
        assert os.get_inheritable(left)
        ended = shell(sandbox, f"ls /proc/self/fd/{left}/; ls /proc/self/fd; echo x >&{left}")
    finally:
        os.close(left)
        os.close(folder)
    assert "etc" not in ended.output.text().split()
    assert str(left) not in ended.output.text().split()


# -- files --------------------------------------------------------------------------------------

SPOIL = """
echo x >.git/hooks/pre-commit; echo x >.git/config; rm -rf .git; mv .git gone; rmdir .git
ln -sf /tmp .git; chmod 777 .git; mount -o remount,rw .git; umount .git; rm -rf .git/hooks
mount --bind /tmp .git; mkdir .git/new; touch written; true
"""


def test_a_read_only_git_folder_stays_as_it_is(bubblewrap: Bubblewrap, work: Path) -> None:
    hooks = work / ".git" / "hooks"
    hooks.mkdir(parents=True)
    (work / ".git" / "config").write_text("[core]\n")
    mounts = [at(work / ".git", "/repo/.git"), at(work, "/repo", writable=True)]
    for order in (mounts, mounts[::-1]):
        ended = shell(bubblewrap, SPOIL, *order, cwd="/repo")
        assert ended.returncode == 0
    assert sorted(path.name for path in work.iterdir()) == [".git", "written"]
    assert sorted(path.name for path in (work / ".git").iterdir()) == ["config", "hooks"]
    assert list(hooks.iterdir()) == []
    assert (work / ".git" / "config").read_text() == "[core]\n"


def test_mounts_lie_over_each_other_outer_first(bubblewrap: Bubblewrap, tmp_path: Path) -> None:
    for name in ("a", "a/b", "a/b/c", "x", "x/c", "y"):
        (tmp_path / name).mkdir()
    mounts = (
        at(tmp_path / "a", "/deep"),
        at(tmp_path / "x", "/deep/b", writable=True),
        at(tmp_path / "y", "/deep/b/c"),
    )
    for order in itertools.permutations(mounts):
        script = "touch /deep/1; touch /deep/b/2; touch /deep/b/c/3; true"
        shell(bubblewrap, script, *order)
        left = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
        assert left == ["a", "a/b", "a/b/c", "x", "x/2", "x/c", "y"]
        (tmp_path / "x" / "2").unlink()


def test_a_mount_may_lie_at_its_own_place_below_tmp(bubblewrap: Bubblewrap, work: Path) -> None:
    (work / "file").write_text("seen\n")
    ended = shell(bubblewrap, "cat file; ls -A ..", at(work, str(work)), cwd=str(work))
    assert ended.output.text() == f"seen\n{work.name}\n"


@pytest.mark.parametrize("kind", ["gone", "a link", "relative", "dots", "a link on its way"])
def test_a_doubtful_mount_is_refused(bubblewrap: Bubblewrap, tmp_path: Path, kind: str) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "copy").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "copy" / "modules").symlink_to("/etc")
    real = tmp_path / "real"
    mounts = {
        "gone": (at(tmp_path / "gone", "/m"),),
        "a link": (at(tmp_path / "link", "/m"),),
        "relative": (at(real, "m"),),
        "dots": (at(real, "/m/../etc"),),
        "a link on its way": (at(tmp_path / "copy", "/m"), at(real, "/m/modules/x")),
    }[kind]
    with pytest.raises(ConfigError) as caught:
        shell(bubblewrap, "true", *mounts)
    assert caught.value.hint


def test_what_cannot_be_set_up_is_told(bubblewrap: Bubblewrap) -> None:
    with pytest.raises(ConfigError, match="no/such/folder"):
        shell(bubblewrap, "true", cwd="/no/such/folder")


def test_only_scratch_can_be_written_and_no_more_than_allowed(bubblewrap: Bubblewrap) -> None:
    script = """
    for place in / /etc /usr /usr/lib /dev /run /var /opt /proc; do
        touch $place/x 2>/dev/null && echo "$place"
    done
    for place in /tmp /dev/shm "$HOME" /var/tmp; do
        touch $place/x || echo "not $place"
    done
    head -c 64M /dev/zero >/tmp/large 2>/dev/null; stat -c %s /tmp/large
    """
    ended = shell(bubblewrap, script, limits=JobLimits(scratch=8 << 20))
    assert int(ended.output.text()) <= 8 << 20
    assert HOME.startswith("/tmp/")


# -- the network, and others --------------------------------------------------------------------


@pytest.fixture
def port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.parametrize("network", [False, True])
def test_the_loopback_of_the_machine(bubblewrap: Bubblewrap, port: int, *, network: bool) -> None:
    program, mounts = interpreter()
    code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
    job = SandboxJob((program, "-I", "-S", "-c", code), mounts=mounts, network=network)
    assert (bubblewrap.run(job).returncode == 0) is network


@pytest.mark.parametrize("network", [False, True])
def test_a_server_on_localhost_is_reached_by_name(bubblewrap: Bubblewrap, *, network: bool) -> None:
    program, mounts = interpreter()
    code = """
import socket
found = {info[4][0] for info in socket.getaddrinfo("localhost", 0)}
with socket.create_server(("localhost", 0)) as server:
    socket.create_connection(("localhost", server.getsockname()[1]), 5).close()
print(*sorted(found))
"""
    job = SandboxJob((program, "-I", "-S", "-c", code), mounts=mounts, network=network)
    ended = bubblewrap.run(job)
    assert ended.returncode == 0, ended.output.text()
    assert ended.output.text().split()[0] == "127.0.0.1"
    hosts = shell(bubblewrap, "cat /etc/hosts", network=network).output.text()
    assert "127.0.0.1 localhost" in hosts
    assert ("::1 localhost" in hosts) is ("::1" in ended.output.text())


def test_names_of_the_machine_are_known_where_there_is_a_network(bubblewrap: Bubblewrap) -> None:
    names = {
        name
        for line in Path("/etc/hosts").read_text(encoding="utf-8").splitlines()
        if "localhost" not in line.split()
        for name in line.partition("#")[0].split()[1:]
    }
    hosts = shell(bubblewrap, "cat /etc/hosts", network=True).output.text().split()
    assert names <= set(hosts)
    alone = shell(bubblewrap, "cat /etc/hosts").output.text()
    assert names.isdisjoint(alone.split()) or names <= {"sandbox"}


@pytest.mark.parametrize("network", [False, True])
def test_processes_of_the_machine_are_out_of_reach(
    bubblewrap: Bubblewrap, *, network: bool
) -> None:
    script = f"kill -0 {os.getpid()} 2>/dev/null && echo reached; ls /proc | grep -c '^[0-9]'"
    ended = shell(bubblewrap, script, network=network)
    lines = ended.output.text().split()
    assert len(lines) == 1
    assert int(lines[0]) <= 5


def test_it_has_no_terminal_and_no_privilege(bubblewrap: Bubblewrap) -> None:
    script = "echo x >/dev/tty; grep -E '^(Cap(Eff|Prm|Bnd)|NoNewPrivs)' /proc/self/status"
    ended = shell(bubblewrap, script)
    fields = dict(line.split(":\t") for line in ended.output.text().splitlines() if ":\t" in line)
    assert fields == {"CapPrm": "0" * 16, "CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1"}


def test_it_is_not_given_new_namespaces(bubblewrap: Bubblewrap) -> None:
    assert shell(bubblewrap, "unshare -U true || unshare -m true || unshare -p true").returncode


# -- programs -----------------------------------------------------------------------------------


def test_a_program_behind_a_link_must_be_visible(bubblewrap: Bubblewrap, tmp_path: Path) -> None:
    tools, folder = tmp_path / "tools", tmp_path / "work"
    for place in (tools, folder):
        place.mkdir()
    tool = tools / "tool"
    tool.write_text("#!/bin/sh\necho ran\n")
    tool.chmod(0o755)
    (folder / "tool").symlink_to(tool)
    job = SandboxJob(("./tool",), cwd="/w", mounts=(at(folder, "/w"),))
    with pytest.raises(UnavailableError):
        bubblewrap.run(job)
    mounts = (*job.mounts, at(tools, str(tools)))
    assert bubblewrap.run(job.replace(mounts=mounts)).output.text() == "ran\n"


@pytest.mark.full
def test_when_it_returns_the_folder_is_quiet(bubblewrap: Bubblewrap, work: Path) -> None:
    # Whoever judges the work folder next must not race with what is still dying.
    script = "(setsid sh -c 'while :; do echo x >>f; done' >/dev/null 2>&1 &); sleep 0.1"
    for _ in range(10):
        shell(bubblewrap, script, at(work, "/w", writable=True), cwd="/w")
        size = (work / "f").stat().st_size
        time.sleep(0.02)
        assert (work / "f").stat().st_size == size
