"""View of one's own beyond Landlock: a root, processes and terminals, where the rest is not there."""

from __future__ import annotations

import os
from os.path import exists, isdir, lexists, realpath

from trainwright.tools.walls import kernel
from trainwright.tools.walls.wall import DEVICES, inside

FRESH = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - they are new and empty, and nobody else's
ETC = "/etc"  # shown whole, in one mount instead of forty: what of it can be read is Landlock's matter
DEVICE_LINKS = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
OWN = kernel.NEW_USER | kernel.NEW_PROCESSES | kernel.NEW_IPC


def offered() -> str:
    """Return why there is no view here, as the step that failed and its reason; nothing: it can be built."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            kernel.new_namespaces(OWN)
            if os.fork() == 0:
                kernel.new_namespaces(kernel.NEW_MOUNTS)
                kernel.mount("none", "/", flags=kernel.PRIVATE | kernel.RECURSIVE)
                kernel.mount("proc", "/proc", "proc")
                os._exit(0)
            os._exit(1 if os.wait()[1] else 0)
        except OSError as error:
            os.write(writer, f"{error.filename or 'unshare'}: {error.strerror}".encode())
        finally:
            os._exit(1)
    os.close(writer)
    with os.fdopen(reader, "rb") as answer:
        reason = answer.read().decode()
    _, status = os.waitpid(child, 0)
    return (reason or "it ended early") if status else ""


def build(root: str, grants: dict[str, bool], kept: list[str], hidden: list[str]) -> None:
    """Change into a root that has only what is granted. Called by the first process of new namespaces.

    Args:
        root: an empty folder.
        grants: what is shown, and whether it may be written.
        kept: what may not be written inside of it.
        hidden: what is an empty folder, or an empty file, inside of it.

    Raises:
        OSError: the kernel refuses a step; nothing has been started yet.
    """
    kernel.new_namespaces(kernel.NEW_MOUNTS)
    kernel.mount("none", "/", flags=kernel.PRIVATE | kernel.RECURSIVE)
    kernel.mount("tmpfs", root, "tmpfs", kernel.NO_SETUID | kernel.NO_DEVICES, "mode=755")
    for folder in (*FRESH, "/proc", "/dev/pts"):
        os.makedirs(root + folder, exist_ok=True)
    for folder in FRESH:
        os.chmod(root + folder, 0o1777)  # noqa: S103
    kernel.mount("proc", f"{root}/proc", "proc", kernel.NO_SETUID | kernel.NO_DEVICES)
    options = "newinstance,ptmxmode=0666,mode=620"
    kernel.mount("devpts", f"{root}/dev/pts", "devpts", kernel.NO_SETUID, options)
    for device in filter(exists, DEVICES):
        _show(device, root, read_only=True)  # which still lets one write to it, and not change the machine's own
    real = {path: realpath(path) for path in grants}
    shown: dict[str, bool] = {}
    places = {ETC if inside(real[path], ETC) else real[path]: writes for path, writes in grants.items()}
    for path, writes in sorted(places.items()):
        above = [place for place in shown if inside(path, place)]
        if not above or shown[max(above, key=len)] != writes:
            _show(path, root, read_only=not writes)
            shown[path] = writes
    kernel.change_root(root)
    _link(real)
    for path in _above([*kept, *hidden], [path for path, writes in grants.items() if writes]):
        kernel.bind(path, path, read_only=False)
    for path in filter(exists, kept):
        kernel.bind(path, path, read_only=True)
    for path in filter(exists, hidden):
        if isdir(path):
            kernel.mount("tmpfs", path, "tmpfs", kernel.READ_ONLY | kernel.NO_SETUID | kernel.NO_DEVICES, "mode=555")
        else:
            kernel.bind("/dev/null", path, read_only=True)


def _above(paths: list[str], writable: list[str]) -> list[str]:
    """Return the folders over these paths that could be renamed, for others in their places: mounts cannot be."""
    found = set()
    for path in filter(exists, paths):
        folder = os.path.dirname(path)
        while any(inside(folder, place) and folder != place for place in writable):
            found.add(folder)
            folder = os.path.dirname(folder)
    return sorted(found)


def _show(path: str, root: str, *, read_only: bool) -> None:
    target = root + path
    if isdir(path):
        os.makedirs(target, exist_ok=True)
    elif not exists(target):
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o600))
    kernel.bind(path, target, read_only=read_only)


def _link(real: dict[str, str]) -> None:
    """Have the paths that lead over links lead to what was shown."""
    for path, target in real.items():
        if not lexists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(target, path)
    for name, target in DEVICE_LINKS.items():
        os.symlink(target, f"/dev/{name}")
