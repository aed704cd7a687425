"""Digests of large files that have not changed since they were read: a look at a project reads no checkpoint twice.

A file is taken for unchanged when device, inode, size and both times are what they were. The inode's time of change is
the kernel's: it follows every write, and no program sets it back. One that is younger than the clock's grain is not
relied on (git calls such entries racy). What a mapped page may still hide is found by those who read anew: gates when
they decide, and `verify`.
"""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path

from trainwright.trainer.canonical import digest_file
from trainwright.trainer.traces import note

LARGE_BYTES = 1 << 20
"""Smaller files are read each time: that costs less than a millisecond."""
SETTLED_SECONDS = 2.0
MOST_FILES = 4096


def remembered_digest(path: Path) -> str:
    """Return the digest of the file's content as `digest_file` does, from memory where it is known to be unchanged.

    Raises OSError when it cannot be read.
    """
    note(path)
    found = path.stat()
    if found.st_size < LARGE_BYTES or time.time() - max(found.st_ctime, found.st_mtime) < SETTLED_SECONDS:
        return digest_file(path)
    return _read(path, (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns))


@lru_cache(MOST_FILES)
def _read(path: Path, identity: tuple[int, ...]) -> str:  # noqa: ARG001 - what the digest is remembered by
    return digest_file(path)
