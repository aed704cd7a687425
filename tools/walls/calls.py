"""System calls that lead past Landlock, refused by a seccomp filter: other transports, a terminal's input, keys."""

from __future__ import annotations

import errno
import os
import struct

KEYRINGS = ("add_key", "request_key", "keyctl")
_CALLS = ("ioctl", "socket", "sendto", "sendmsg", "sendmmsg", "prlimit64", *KEYRINGS)
NUMBERS = {
    "x86_64": (0xC000003E, dict(zip(_CALLS, (16, 41, 44, 46, 307, 302, 248, 249, 250), strict=True))),
    "aarch64": (0xC00000B7, dict(zip(_CALLS, (29, 198, 206, 211, 269, 261, 217, 218, 219), strict=True))),
}
"""What the audit calls an architecture, and its numbers of calls (asm/unistd.h)."""
IO_URING_SETUP = 425  # makes calls that no filter sees; every program that uses it can do without
FIRST_X32 = 0x40000000
UNIX, IPV4, IPV6, NETLINK = 1, 2, 10, 16
STREAM, TCP = 1, 6
FAST_OPEN = 0x20000000  # connects in a send, which Landlock does not see
TYPE_INTO_TERMINAL, PASTE_INTO_CONSOLE = 0x5412, 0x541C

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_Step = tuple[int, int, int, int]
"""One step of the filter: its code, steps to skip if true, if false, and its operand (linux/filter.h)."""
ALLOW: _Step = (_RETURN, 0, 0, 0x7FFF0000)
NUMBER: _Step = (_LOAD, 0, 0, 0)


def supported() -> bool:
    """Return whether the filter is written for this machine's architecture."""
    return os.uname().machine in NUMBERS


def program(*, only_tcp: bool) -> bytes:
    """Return the filter for this machine.

    Args:
        only_tcp: no other way to the network than plain TCP, whose ports Landlock restricts.
    """
    architecture, number = NUMBERS[os.uname().machine]
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), _refused(errno.ENOSYS)]
    steps += [NUMBER, (_AT_LEAST, 0, 1, FIRST_X32), _refused(errno.ENOSYS)]
    for refused in (IO_URING_SETUP, *(number[call] for call in KEYRINGS)):  # a session's keys reach through the wall
        steps += _at(refused, [_refused(errno.ENOSYS)])
    # Limits of another process end it (no files, no seconds); one that names itself by its number is refused as well
    steps += _at(number["prlimit64"], [_argument(0), (_EQUAL, 1, 0, 0), _refused(errno.EPERM)])
    typing = [_argument(1), (_EQUAL, 1, 0, TYPE_INTO_TERMINAL), (_EQUAL, 0, 1, PASTE_INTO_CONSOLE)]
    steps += _at(number["ioctl"], [*typing, _refused(errno.EPERM)])
    if only_tcp:
        steps += _at(number["socket"], _sockets())
        for call, flags in (("sendto", 3), ("sendmsg", 2), ("sendmmsg", 3)):
            fast = [_argument(flags), (_ANY_BIT, 0, 1, FAST_OPEN), _refused(errno.EOPNOTSUPP)]
            steps += _at(number[call], fast)
    return b"".join(struct.pack("=HBBI", *step) for step in [*steps, ALLOW])


def _sockets() -> list[_Step]:
    """Allow sockets of this machine, and TCP; not UDP, raw, MPTCP, SCTP, nor those of virtual machines."""
    return [
        _argument(0),
        (_EQUAL, 10, 0, UNIX),
        (_EQUAL, 9, 0, NETLINK),
        (_EQUAL, 2, 0, IPV4),
        (_EQUAL, 1, 0, IPV6),
        _refused(errno.EAFNOSUPPORT),
        _argument(1),
        (_AND, 0, 0, 0xF),
        (_EQUAL, 0, 4, STREAM),
        _argument(2),
        (_EQUAL, 1, 0, 0),
        (_EQUAL, 0, 1, TCP),
        ALLOW,
        _refused(errno.EACCES),
    ]


def _argument(index: int) -> _Step:
    return (_LOAD, 0, 0, 16 + 8 * index)


def _refused(number: int) -> _Step:
    return (_RETURN, 0, 0, 0x00050000 | number)


def _at(number: int, steps: list[_Step]) -> list[_Step]:
    return [NUMBER, (_EQUAL, 0, len(steps), number), *steps]
