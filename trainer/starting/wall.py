"""Wall round a worker: Landlock, entered before anything of the user's is loaded, and kept by all that it starts.

`python -I -S -B wall.py ORDER COMMAND …` enters it and becomes the command, whatever interpreter that is; a fork of a
warm process calls `enter`. Standard library alone, of Python 3.10: in a container the image's own one runs it.
"""

import ctypes
import errno
import glob
import os
import struct
import sys

TYPE_CHECKING = False  # as typing has it, which takes 10 ms to import
if TYPE_CHECKING:
    from typing import Any

MIN_ABI = 2
"""Of Landlock; the first one (Linux 5.13 to 5.18) refuses every renaming from one folder into another."""
_libc = ctypes.CDLL(None, use_errno=True)
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # the same on every architecture
_BENEATH, _PORT = 1, 2  # kinds of rules

# Rights of Landlock, by the bit of each (linux/landlock.h)
EXECUTE, WRITE_FILE, READ_FILE, READ_FOLDER = 1, 1 << 1, 1 << 2, 1 << 3
_MAKE_DEVICES = 1 << 6 | 1 << 11  # nobody gets these: who makes the disk's device reads the disk
_TRUNCATE, _DEVICE_CONTROL = 1 << 14, 1 << 15
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | _TRUNCATE | _DEVICE_CONTROL
_BIND, _CONNECT = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2
READS = EXECUTE | READ_FILE | READ_FOLDER
WRITES = (1 << 15) - 1 - _MAKE_DEVICES
DEVICE = READ_FILE | WRITE_FILE | READ_FOLDER | _TRUNCATE | _DEVICE_CONTROL

_SECCOMP, _BOUNDING_DROP, _NO_NEW_PRIVILEGES = 22, 24, 38
_PAST_A_WALL = (16, 17, 19, 21, 22, 38, 39)  # modules, raw devices, traces, administration, boot, counters, BPF
_CAPABILITIES_3 = 0x20080522  # both halves of the sets (linux/capability.h)

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store")
DEVICES = (
    "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/ptmx", "/dev/pts",
    "/dev/nvidia*", "/dev/dri", "/dev/kfd", "/dev/dxg", "/dev/accel*", "/dev/infiniband", "/dev/gdrdrv",
)  # fmt: skip
"""Patterns of what a worker works with: GPUs and the network between them, and no disk."""
SHARED_MEMORY = "/dev/shm"  # noqa: S108 - where the processes of a run hand tensors on
CARD, ITS_MEMORY = "/dev/nvidiactl", "/dev/nvidia-uvm"
MODPROBE = "/usr/bin/nvidia-modprobe"
"""By its path: the search path begins with the project's own environment, which user code may write."""


def call(name: str, *arguments: "int | bytes | None") -> int:
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
        return call("syscall", _CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


def landlock(rights: "dict[str, int]", ports: "list[int] | None") -> None:
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
    made = call("syscall", _CREATE_RULESET, rules, size, 0)
    for path, wanted in rights.items():
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:  # another process's temporary file, gone since its folder was listed
            continue
        allowed = wanted & files & (-1 if os.path.isdir(path) else _ON_FILES)
        if allowed:  # none of a file that something hidden is named to lie below
            call("syscall", _ADD_RULE, made, _BENEATH, struct.pack("=Qi", allowed, place), 0)
        os.close(place)
    for port in (ports or []) if network else []:
        call("syscall", _ADD_RULE, made, _PORT, struct.pack("=QQ", _CONNECT, port), 0)
    call("syscall", _RESTRICT_SELF, made, 0)
    os.close(made)


def filter_calls(program: bytes) -> None:
    """Put a filter before this process's and its children's system calls, for good. Raises OSError."""
    steps = ctypes.create_string_buffer(program, len(program))
    call("prctl", _SECCOMP, 2, struct.pack("@HP", len(program) // 8, ctypes.addressof(steps)), 0, 0)


def keep_privileges_out() -> None:
    """Let no program gain privileges from now on (setuid), and take from the superuser's processes what ends a wall."""
    call("prctl", _NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    if os.geteuid():
        return
    for capability in _PAST_A_WALL:
        try:
            call("prctl", _BOUNDING_DROP, capability, 0, 0, 0)
        except OSError:  # in a container that took CAP_SETPCAP away, and these before it
            break
    header, sets = struct.pack("=Ii", _CAPABILITIES_3, 0), ctypes.create_string_buffer(24)
    call("capget", header, sets)  # type: ignore[arg-type]
    kept = ~sum(1 << capability for capability in _PAST_A_WALL)
    halves = struct.unpack(
        "=6I", sets.raw
    )  # effective, permitted, inheritable; then the same of capabilities from 32 on
    left = [half & (kept >> 32 * (place // 3)) & 0xFFFFFFFF for place, half in enumerate(halves)]
    call("capset", header, struct.pack("=6I", *left))


def enter(order: "dict[str, Any]") -> None:
    """Enter the wall for good. Called while this process has one thread.

    Args:
        order: `reads` and `roots`, paths that may be read but for what is `hidden` in them, and for what is `unread`
            unless they lie in it; `writes`, those that may be written too but for what is hidden, and for what is
            `unwritten` unless they lie in it; `code`, those that may be but for both;
            `own_reads` and `own_writes`, those that may be although they are hidden, but for `rows` in the former;
            `ports` as `landlock` takes them, and the `filter` of calls past those, in hex; `environment`, variables;
            `temporary`, a folder of the worker's own, which is made; `closed`, a file that must not be readable in
            the end.

    Raises:
        OSError: the kernel refuses it, or the file is readable.
    """
    _own_folder(order["temporary"])
    os.environ |= {"TMPDIR": order["temporary"], **order["environment"]}
    _load_driver()
    rights: dict[str, int] = {"/dev": READ_FOLDER}
    names = ("hidden", "rows", "unread", "unwritten")
    hidden, rows, unread, unwritten = ([os.path.realpath(path) for path in order[name]] for name in names)
    kept = [path for path in (*hidden, *unread, *unwritten) if os.path.lexists(path)]
    os.environ["TRAINWRIGHT_IN_A_WALL"] = os.path.realpath(order["code"][0]) if unwritten else "landlock"
    os.environ["TRAINWRIGHT_KEPT_CLOSED"] = os.pathsep.join(kept)
    both = READS | WRITES
    for paths, wanted, without, within in (
        (order["reads"], READS, hidden, unread),
        (order["roots"], READS, hidden, unread),
        (order["writes"], both, hidden, unwritten),
        (order["code"], both, [*hidden, *unwritten], []),
        ([*order["own_reads"], "/proc"], READS, rows, []),
        ([*order["own_writes"], order["temporary"]], both, [], []),
    ):
        for path in paths:
            real = os.path.realpath(path)  # which may lie in such a folder itself
            _add(real, wanted, [*without, *(one for one in within if not _inside(real, one))], rights)
    for path in (path for pattern in DEVICES for path in glob.glob(pattern)):
        _add(path, DEVICE, [], rights)
    keep_privileges_out()
    landlock(rights, order["ports"])
    if order["filter"]:
        filter_calls(bytes.fromhex(order["filter"]))
    try:
        os.close(os.open(order["closed"], os.O_RDONLY))
    except OSError:
        return
    raise OSError(errno.EPERM, "it can be read inside the wall", order["closed"])


def _load_driver() -> None:
    """Have the driver make a card's memory, as CUDA would by the same program: none gains privileges inside."""
    if os.path.exists(CARD) and not os.path.exists(ITS_MEMORY) and os.path.exists(MODPROBE):
        nothing = [(os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)]
        try:
            os.waitpid(os.posix_spawn(MODPROBE, [MODPROBE, "-u", "-c=0"], {}, file_actions=nothing), 0)
        except OSError:  # CUDA says what it lacks
            return


def _own_folder(path: str) -> None:
    """Make a folder, and the one above it, which nobody else may have made. Raises OSError."""
    for folder in (os.path.dirname(path), path):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            found = os.lstat(folder)
            if found.st_uid != os.geteuid() or found.st_mode & 0o170000 != 0o040000:
                raise OSError(errno.EPERM, "somebody else's", folder) from None


def _add(path: str, rights: int, hidden: "list[str]", found: "dict[str, int]") -> None:
    """Add the rights on a path, which is taken apart where something in it is hidden; links in it are left out then."""
    real = os.path.realpath(path)
    if not os.path.exists(real) or any(_inside(real, one) for one in hidden):
        return
    if not any(_inside(one, real) for one in hidden):
        found[real] = found.get(real, 0) | rights
        return
    found[real] = found.get(real, 0) | READ_FOLDER  # of its names, Landlock hides none
    try:
        entries = [entry.path for entry in os.scandir(real) if not entry.is_symlink()]
    except OSError:
        return
    for entry in entries:
        _add(entry, rights, hidden, found)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def main() -> None:
    """Enter the wall that the command line orders, and become its command."""
    import json

    order, command = json.loads(sys.argv[1]), sys.argv[2:]
    try:
        enter(order)
        os.execvp(command[0], command)  # noqa: S606
    except OSError as error:
        sys.exit(f"refused: the wall round the worker: {error.filename or command[0]}: {error.strerror}.")


if __name__ == "__main__":
    main()
