"""The filter for system calls: what no namespace holds is refused, the rest is let through."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import TYPE_CHECKING

import pytest

from rlm_ci.sandbox import SandboxJob, seccomp
from rlm_ci.sandbox.self_test import interpreter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rlm_ci.sandbox.bubblewrap import Bubblewrap
    from rlm_ci.system.process import StreamResult

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_OTHER = {"x86_64": 0x40000003, "aarch64": 0x40000028}  # the 32-bit machine of the same kernel
_SIGSYS = 31
_SESSION = -3


def python(box: Bubblewrap, code: str) -> StreamResult:
    program, mounts = interpreter()
    return box.run(SandboxJob((program, "-I", "-S", "-c", code), mounts=mounts))


def verdict(program: bytes, audit: int, number: int, argument: int = 0) -> int:
    """What the kernel would make of a call: the machine that seccomp(2) describes."""
    data = struct.pack("=IIQQ", number, audit, 0, argument)
    instructions = list(struct.iter_unpack("=HBBI", program))
    at = accumulator = 0
    for _ in instructions:  # no jump goes back
        code, yes, no, k = instructions[at]
        at += 1
        if code == 0x06:
            return int(k)
        if code == 0x20:
            accumulator = struct.unpack_from("=I", data, k)[0]
            continue
        holds = accumulator == k if code == 0x15 else accumulator >= k
        at += yes if holds else no
    raise AssertionError("it has no end")


@pytest.mark.parametrize("name", sorted(seccomp.MACHINES))
def test_on_every_machine_the_filter_refuses_what_is_listed_and_no_more(name: str) -> None:
    kind = seccomp.MACHINES[name]
    program = seccomp.program(kind)
    numbers = {kind.number(one) for one in (*seccomp.KEYS, *seccomp.ODD)}
    sockets = {kind.number("socket"), kind.number("socketpair")}
    assert len(numbers) == 9
    for number in range(700):
        for family in (0, 1, 2, 10, 16, 17, 38, 40, 1 << 31):
            said = verdict(program, kind.audit, number, family)
            if number in numbers:
                assert said == _ERRNO | errno.EPERM
            elif number in sockets and family not in (1, 2, 10, 16):
                assert said == _ERRNO | errno.EAFNOSUPPORT
            else:
                assert said == _ALLOW
        assert verdict(program, _OTHER[name], number) == _KILL
        assert verdict(program, kind.audit, 1 << 30 | number) == _ERRNO | errno.ENOSYS


def test_the_family_of_a_socket_is_read_as_the_kernel_reads_it() -> None:
    # An int in a register of 64 bits: what stands in its upper half counts for nothing.
    kind = seccomp.MACHINES["x86_64"]
    said = verdict(seccomp.program(kind), kind.audit, kind.number("socket"), 1 << 32 | 40)
    assert said == _ERRNO | errno.EAFNOSUPPORT


@pytest.fixture
def numbers() -> dict[str, int]:
    kind = seccomp.machine()
    assert kind is not None, "these tests know no filter for this machine"
    return dict(kind.calls)


@pytest.fixture
def canary(numbers: dict[str, int]) -> Iterator[bytes]:
    """The name of a key in the keyring of this session, with a secret in it."""
    libc = ctypes.CDLL(None, use_errno=True)
    name = b"rlm-ci-" + os.urandom(6).hex().encode()
    key = libc.syscall(numbers["add_key"], b"user", name, b"SECRET", 6, _SESSION)
    if key < 0:
        pytest.skip(f"no keys here: {os.strerror(ctypes.get_errno())}")
    yield name
    libc.syscall(numbers["keyctl"], 9, key, _SESSION)  # KEYCTL_UNLINK


def test_no_key_is_read_or_left_behind(
    bubblewrap: Bubblewrap, numbers: dict[str, int], canary: bytes
) -> None:
    """A key in the session's keyring is out of reach, and none is a way to the next command."""
    add, request, control = (numbers[name] for name in seccomp.KEYS)
    search = f"{control}, 10, {_SESSION}, b'user', {canary!r}, 0"
    left = canary + b"-left"
    code = (
        "import ctypes\nlibc = ctypes.CDLL(None)\n"
        f"print(libc.syscall({search}), libc.syscall({request}, b'user', {canary!r}, 0, 0),\n"
        f" libc.syscall({add}, b'user', {left!r}, b'x', 1, {_SESSION}))\n"
        f"try: print({canary!r} in open('/proc/keys', 'rb').read())\n"
        "except OSError: print('hidden')"
    )
    assert python(bubblewrap, code).output.text() == "-1 -1 -1\nhidden\n"
    libc = ctypes.CDLL(None)
    assert libc.syscall(control, 10, _SESSION, b"user", canary, 0) > 0
    assert libc.syscall(control, 10, _SESSION, b"user", left, 0) < 0


def test_a_call_under_another_machines_number_ends_the_command(bubblewrap: Bubblewrap) -> None:
    if os.uname().machine != "x86_64":
        pytest.skip("this one is made of x86_64's instructions")
    code = (
        "import ctypes, mmap\n"
        "page = mmap.mmap(-1, 4096, prot=7)\n"
        "page.write(bytes.fromhex('53b814000000cd805bc3'))\n"  # getpid by int 0x80
        "place = ctypes.addressof(ctypes.c_char.from_buffer(page))\n"
        "print('began', flush=True)\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(place)()\n"
        "print('went through')"
    )
    ended = python(bubblewrap, code)
    assert ended.output.text() == "began\n"
    assert ended.returncode == 128 + _SIGSYS
