"""Command done by a fork: hands its standard streams to a process that waits, and ends when the fork does, as it does.

It runs with nothing but the standard library (`python -I -S`): its start is what is saved.
"""

import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

place, known, *arguments = sys.argv[1:]
wanted = {**json.loads(known), "arguments": arguments, "cwd": str(Path.cwd()), "env": dict(os.environ)}
asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asking.connect(place)
living, theirs = socket.socketpair()  # the fork keeps the other end as long as it lives
socket.send_fds(asking, [json.dumps(wanted).encode()], [0, 1, 2, theirs.fileno()])
theirs.close()
pid = int(asking.recv(32))


def pass_on(number: int, _: object) -> None:
    """Pass a signal on to the fork."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, pass_on)
asking.close()
for stream in (0, 1, 2):
    os.close(stream)
ended = living.recv(1)
sys.exit(ended[0] if ended else -signal.SIGKILL)
