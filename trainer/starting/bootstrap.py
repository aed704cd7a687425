"""Start of a process of ours in an interpreter that does not have this package.

`python bootstrap.py OURS OVERLAY MODULE [ARGUMENT ...]` runs a module as `python -m` does. OURS, a folder with this
package alone, comes first on the path; OVERLAY, with packages that the interpreter lacks, comes last, so that the
interpreter's own ones win. It imports nothing before the path is settled: the folder of this file, which Python puts
first, has names that other modules have too.
"""

import sys

LOOK_SECONDS = 0.2
"""Between two looks at whether the container's client lives."""


def main() -> None:
    """Settle the path, and run the module."""
    _, ours, overlay, module, *arguments = sys.argv
    if not getattr(sys.flags, "safe_path", False):  # Python 3.11
        del sys.path[0]
    sys.path.insert(0, ours)
    sys.path.append(overlay)
    sys.argv[1:] = arguments
    import os
    import runpy

    if client := os.environ.get("TRAINWRIGHT_CLIENT"):
        work_beside(int(client))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def work_beside(client: int) -> None:
    """Return in a fork that works while the container's client lives; this process passes requests to stop, and ends.

    An engine with a daemon leaves a container at work when its client is killed.
    """
    import os
    import signal

    begun = begun_at(client)
    if begun is None:
        sys.exit(f"Process {client} of this machine, which started the container, is not seen in it or has ended.")
    met = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, met)
    child = os.fork()
    if not child:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, met)
        return
    while True:
        told = signal.sigtimedwait(met, LOOK_SECONDS)
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
        if begun_at(client) != begun:
            os.kill(child, signal.SIGKILL)
        elif told is not None and told.si_signo != signal.SIGCHLD:
            os.kill(child, told.si_signo)


def begun_at(process: int) -> "str | None":
    """Return when a process began, which tells it from a later one of its number; None: it has ended (proc(5))."""
    try:
        with open(f"/proc/{process}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]


if __name__ == "__main__":
    main()
