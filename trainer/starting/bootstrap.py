"""Start of a process of ours in an interpreter that does not have this package.

`python bootstrap.py OURS OVERLAY MODULE [ARGUMENT ...]` runs a module as `python -m` does. OURS, a folder with this
package alone, comes first on the path; OVERLAY, with packages that the interpreter lacks, comes last, so that the
interpreter's own ones win. It imports nothing before the path is settled: the folder of this file, which Python puts
first, has names that other modules have too.
"""

import sys


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
    import time
    from contextlib import suppress

    both = (signal.SIGTERM, signal.SIGINT)
    signal.pthread_sigmask(signal.SIG_BLOCK, both)
    child = os.fork()
    for number in both if child else ():
        signal.signal(number, lambda received, _frame: os.kill(child, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
    if not child:
        return
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            os._exit(code if code >= 0 else 128 - code)
        try:
            os.kill(client, 0)
        except ProcessLookupError:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
        except PermissionError:
            pass
        time.sleep(0.05)


if __name__ == "__main__":
    main()
