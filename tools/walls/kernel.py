"""The kernel's calls that the walls are made of, through ctypes: Landlock, seccomp, namespaces. None needs root."""

from __future__ import annotations

import ctypes
import os
import struct
import sys

_libc = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF, _MOUNT_SETATTR = 444, 445, 446, 442  # the same on every architecture
_BENEATH, _PORT = 1, 2  # kinds of rules

# Rights of Landlock, by the bit of each (linux/landlock.h)
EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER = 1, 1 << 1, 1 << 2, 1 << 3
_MAKE_DEVICES = 1 << 6 | 1 << 11  # nobody gets these: who makes the disk's device reads the disk
_REFER, _TRUNCATE, _DEVICE_CONTROL = 1 << 13, 1 << 14, 1 << 15
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | _DEVICE_CONTROL
_BIND, _CONNECT = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
READS = EXECUTE | READ_FILE | READ_FOLDER
WRITES = (1 << 15) - 1 - _MAKE_DEVICES
DEVICE = READ_FILE | WRITE_FILE | READ_FOLDER | _TRUNCATE | _DEVICE_CONTROL

NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PROCESSES = 0x00020000, 0x08000000, 0x10000000, 0x20000000
READ_ONLY, NO_SETUID, NO_DEVICES, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
_DETACH = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_PARENT_DEATH_SIGNAL, _SECCOMP, _BOUNDING_DROP, _CHILD_SUBREAPER, _NO_NEW_PRIVILEGES = 1, 22, 24, 36, 38
_KILL = 9


def _call(name: str, *arguments: int | bytes | None) -> int:
    """Call a function of libc. Raises OSError with its name."""
    found: int = getattr(_libc, name)(*(ctypes.c_ulong(one) if isinstance(one, int) else one for one in arguments))
    if found == -1:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), name)
    return found


def landlock_abi() -> int:
    """Return the version of Landlock that the kernel offers; 0: none."""
    if sys.platform != "linux":
        return 0
    try:
        return _call("syscall", _CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def landlock(rights: dict[str, int], ports: list[int] | None) -> None:
    """Restrict this process and its children for good, as far as the kernel's version goes.

    Args:
        rights: what may be done in each folder, or to each file; nothing elsewhere.
        ports: to which TCP may connect, and none may be bound; None: any, for both.

    Raises:
        OSError: the kernel has no Landlock.
    """
    abi = landlock_abi()
    files = (1 << {0: 13, 1: 13, 2: 14, 3: 15, 4: 15}.get(abi, 16)) - 1
    network = _BIND | _CONNECT if ports is not None and abi >= 4 else 0
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    rules = struct.pack("=QQQ", files, network, _ABSTRACT_SOCKETS | _SIGNALS)[:size]
    made = _call("syscall", _CREATE_RULESET, rules, size, 0)
    for path, wanted in rights.items():
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        allowed = wanted & files & (-1 if os.path.isdir(path) else _ON_FILES)
        _call("syscall", _ADD_RULE, made, _BENEATH, struct.pack("=Qi", allowed, place), 0)
        os.close(place)
    for port in (ports or []) if network else []:
        _call("syscall", _ADD_RULE, made, _PORT, struct.pack("=QQ", _CONNECT, port), 0)
    _call("syscall", _RESTRICT_SELF, made, 0)
    os.close(made)


def drop_privileges() -> None:
    """Let no program gain privileges from now on (setuid), and the superuser's have none after exec."""
    for capability in range(64):
        try:
            _call("prctl", _BOUNDING_DROP, capability, 0, 0, 0)
        except OSError:  # not the superuser's process, which has none to drop; or past the last one
            break
    _call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def filter_calls(program: bytes) -> None:
    """Put a filter before this process's and its children's system calls, for good. Raises OSError."""
    steps = ctypes.create_string_buffer(program, len(program))
    _call("prctl", _SECCOMP, 2, struct.pack("@HP", len(program) // 8, ctypes.addressof(steps)), 0, 0)


def die_with_parent(signal: int = _KILL) -> None:
    """Have this process killed, or sent another signal, when the one that started it ends."""
    _call("prctl", _PARENT_DEATH_SIGNAL, signal, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent ends."""
    _call("prctl", _CHILD_SUBREAPER, 1, 0, 0, 0)


def new_namespaces(kinds: int) -> None:
    """Enter namespaces of one's own as the user that one is. Raises OSError where they are not offered."""
    user, group = os.getuid(), os.getgid()
    _call("unshare", kinds)
    if kinds & NEW_USER:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="utf-8") as file:
                file.write(text)


def mount(source: str, target: str, kind: str = "none", flags: int = 0, options: str = "") -> None:
    """Mount something in this process's namespace. Raises OSError."""
    try:
        _call("mount", source.encode(), os.fsencode(target), kind.encode(), flags, options.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"mount {kind} at {target}") from None


def bind(source: str, target: str, *, read_only: bool) -> None:
    """Show a file, or a folder with what is mounted below it, in another place. Raises OSError."""
    mount(source, target, flags=BIND | RECURSIVE)
    flags = NO_SETUID | (READ_ONLY if read_only else 0)
    attributes = struct.pack("=QQQQ", flags, 0, 0, 0)
    _call("syscall", _MOUNT_SETATTR, _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, attributes, len(attributes))


def change_root(folder: str) -> None:
    """Make a mounted folder the root; what was the root before is nowhere any more. Raises OSError."""
    os.chdir(folder)
    _call("pivot_root", b".", b".")
    _call("umount2", b".", _DETACH)
    os.chdir("/")
