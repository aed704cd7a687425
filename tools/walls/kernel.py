"""The kernel's calls that the walls are made of, through ctypes: Landlock, seccomp, namespaces. None needs root."""

from __future__ import annotations

import os
import struct

from trainwright.trainer.starting.wall import (
    DEVICE,
    READ_FOLDER,
    READS,
    WRITES,
    call,
    filter_calls,
    landlock,
    landlock_abi,
)

__all__ = ["DEVICE", "READS", "READ_FOLDER", "WRITES", "filter_calls", "landlock", "landlock_abi"]

NEW_MOUNTS, NEW_IPC, NEW_USER, NEW_PROCESSES = 0x00020000, 0x08000000, 0x10000000, 0x20000000
READ_ONLY, NO_SETUID, NO_DEVICES, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 4096, 16384, 1 << 18
_DETACH = 2
_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_PARENT_DEATH_SIGNAL, _BOUNDING_DROP, _CHILD_SUBREAPER, _NO_NEW_PRIVILEGES = 1, 24, 36, 38
_KILL = 9


def drop_privileges() -> None:
    """Let no program gain privileges from now on (setuid), and the superuser's have none after exec."""
    for capability in range(64):
        try:
            call("prctl", _BOUNDING_DROP, capability, 0, 0, 0)
        except OSError:  # not the superuser's process, which has none to drop; or past the last one
            break
    call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)


def die_with_parent(signal: int = _KILL) -> None:
    """Have this process killed, or sent another signal, when the one that started it ends."""
    call("prctl", _PARENT_DEATH_SIGNAL, signal, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent ends."""
    call("prctl", _CHILD_SUBREAPER, 1, 0, 0, 0)


def new_namespaces(kinds: int) -> None:
    """Enter namespaces of one's own as the user that one is. Raises OSError where they are not offered."""
    user, group = os.getuid(), os.getgid()
    call("unshare", kinds)
    if kinds & NEW_USER:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            with open(f"/proc/self/{name}", "w", encoding="utf-8") as file:
                file.write(text)


def mount(source: str, target: str, kind: str = "none", flags: int = 0, options: str = "") -> None:
    """Mount something in this process's namespace. Raises OSError."""
    try:
        call("mount", source.encode(), os.fsencode(target), kind.encode(), flags, options.encode())
    except OSError as error:
        raise OSError(error.errno, error.strerror, f"mount {kind} at {target}") from None


def bind(source: str, target: str, *, read_only: bool) -> None:
    """Show a file, or a folder with what is mounted below it, in another place. Raises OSError."""
    mount(source, target, flags=BIND | RECURSIVE)
    flags = NO_SETUID | (READ_ONLY if read_only else 0)
    attributes = struct.pack("=QQQQ", flags, 0, 0, 0)
    call("syscall", _MOUNT_SETATTR, _AT_FDCWD, os.fsencode(target), _AT_RECURSIVE, attributes, len(attributes))


def change_root(folder: str) -> None:
    """Make a mounted folder the root; what was the root before is nowhere any more. Raises OSError."""
    os.chdir(folder)
    call("pivot_root", b".", b".")
    call("umount2", b".", _DETACH)
    os.chdir("/")
