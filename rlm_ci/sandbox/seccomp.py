"""A filter for the system calls of a job that no namespace stops.

It is classic BPF, as ``bwrap --seccomp`` takes it. Calls that need a capability or a user
namespace are not in it: the kernel refuses them. Nor is the terminal: a job has its own session.
"""

from __future__ import annotations

import errno
import os
import struct
import sys

from rlm_ci.values import Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class ProcessorKind(Value):
    """A kind of processor: its number for the kernel, and that of each call of the filter."""

    audit: int
    calls: tuple[tuple[str, int], ...]

    def number(self, name: str) -> int:
        return dict(self.calls)[name]


#: io_uring carries out calls that no filter sees; its numbers are the same everywhere.
_RING = (("io_uring_setup", 425), ("io_uring_enter", 426), ("io_uring_register", 427))
#: By the name that ``uname`` has for it.
MACHINES = {
    "x86_64": ProcessorKind(
        0xC000003E,
        (
            ("add_key", 248), ("request_key", 249), ("keyctl", 250), ("userfaultfd", 323),
            ("bpf", 321), ("perf_event_open", 298), *_RING, ("socket", 41), ("socketpair", 53),
        ),
    ),
    "aarch64": ProcessorKind(
        0xC00000B7,
        (
            ("add_key", 217), ("request_key", 218), ("keyctl", 219), ("userfaultfd", 282),
            ("bpf", 280), ("perf_event_open", 241), *_RING, ("socket", 198), ("socketpair", 199),
        ),
    ),
}  # fmt: skip
#: Keys belong to the user, not to a namespace: a job could read and leave some.
KEYS = ("add_key", "request_key", "keyctl")
#: What attacks on the kernel begin with. Container runtimes refuse these too.
ODD = ("userfaultfd", "bpf", "perf_event_open", *(name for name, _ in _RING))
_SOCKETS = ("socket", "socketpair")
#: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK. AF_VSOCK leads to the host of a virtual machine.
_FAMILIES = (1, 2, 10, 16)

# Of linux/filter.h and linux/seccomp.h; an instruction is one of these, with where to jump.
_LOAD, _IS, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _MACHINE, _ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
#: From here on x86_64 has another kind of calls (x32), each under a second number.
_SECOND_NUMBERS = 0x40000000


def machine() -> ProcessorKind | None:
    """That of this kernel; None where no filter is known for it."""
    is_64_bit = struct.calcsize("P") == 8 and sys.byteorder == "little"
    return MACHINES.get(os.uname().machine) if is_64_bit else None


def program(kind: ProcessorKind) -> bytes:
    """The filter. It kills a process with calls of another machine: their numbers differ."""
    refused = [kind.number(name) for name in (*KEYS, *ODD)]
    sockets = [kind.number(name) for name in _SOCKETS]
    return b"".join(
        struct.pack("=HBBI", *instruction)
        for instruction in (
            (_LOAD, 0, 0, _MACHINE),
            (_IS, 1, 0, kind.audit),
            (_RETURN, 0, 0, _KILL),
            (_LOAD, 0, 0, _NUMBER),
            (_AT_LEAST, 0, 1, _SECOND_NUMBERS),
            (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
            *_if_any(refused, ((_RETURN, 0, 0, _REFUSE | errno.EPERM),)),
            *_if_any(
                sockets,
                (
                    (_LOAD, 0, 0, _ARGUMENT),
                    *_if_any(_FAMILIES, ((_RETURN, 0, 0, _ALLOW),)),
                    (_RETURN, 0, 0, _REFUSE | errno.EAFNOSUPPORT),
                ),
            ),
            (_RETURN, 0, 0, _ALLOW),
        )
    )


def _if_any(
    values: Iterable[int], then: tuple[tuple[int, int, int, int], ...]
) -> Iterator[tuple[int, int, int, int]]:
    """Do ``then`` if what was loaded is one of ``values``, else jump over it."""
    listed = list(values)
    for position, value in enumerate(listed, 1):
        left = len(listed) - position
        yield (_IS, left, 0 if left else len(then), value)
    yield from then
