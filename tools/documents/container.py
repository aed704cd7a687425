"""Container for a training: a Dockerfile around a list of pinned packages, and what its build may see."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trainwright.tools.documents.rendering import render_plain

OLDEST = "3.11"
PYTHON = re.compile(r"3\.\d{1,2}(\.\d{1,3})?")


@dataclass(frozen=True)
class Container:
    """What goes into an image, and how it is used.

    Attributes:
        what: one line for its head.
        usage: commands that build and run it.
        python: version of the interpreter, as recorded.
        lock: file of pinned packages in the build's folder.
        command: what the container runs by itself.
        folders: made for the user; the first is the working folder.
        wheel: pattern of a wheel beside the lock that no index has; empty: none.
        files: copied into the working folder.
    """

    what: str
    usage: tuple[str, ...]
    python: str
    lock: str
    command: tuple[str, ...]
    folders: tuple[str, ...]
    wheel: str = ""
    files: tuple[str, ...] = ()

    @property
    def copied(self) -> tuple[str, ...]:
        """What the packages are installed from."""
        return (self.lock, self.wheel) if self.wheel else (self.lock,)

    def dockerfile(self) -> str:
        """Return the Dockerfile's text; of an interpreter that was not recorded it takes the oldest allowed one."""
        found = PYTHON.match(self.python)
        values = {
            name: getattr(self, name) for name in ("what", "usage", "lock", "command", "folders", "wheel", "files")
        }
        return render_plain(
            "documents/Dockerfile.j2", **values, copied=self.copied, python=found.group() if found else OLDEST
        )

    def dockerignore(self) -> str:
        """Return the text of the ignore file: the build sees what it copies, and neither data nor `.env`."""
        return "".join(f"{line}\n" for line in ("*", *(f"!{name}" for name in (*self.copied, *self.files))))
