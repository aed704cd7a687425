"""Runtime of a worker: the interpreter that it runs in, and where it finds our code and what that interpreter lacks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Literal

from pydantic import Field

import trainwright
from trainwright.trainer.base.records import Closed

PACKAGE = Path(trainwright.__file__).parent
BOOTSTRAP = PACKAGE / "trainer" / "starting" / "bootstrap.py"
WALL = PACKAGE / "trainer" / "starting" / "wall.py"
CONTAINER = PACKAGE / "trainer" / "base" / "container.py"


class Container(Closed):
    """An image of an engine, in which commands run."""

    engine: Literal["docker", "apptainer"]
    name: str
    """As the configuration names it; of an image file the absolute path."""
    digest: str
    """Docker's id of the image, or that of the file's content."""
    client: list[str]
    """Command of the engine's client."""
    settings: dict[str, str] = Field(default_factory=dict)
    """Variables by which it reaches its daemon."""
    binds: list[str] = Field(default_factory=list)
    """Folders and files of this machine that are seen inside, under the same paths."""

    def command(self, command: list[str], *binds: str) -> list[str]:
        """Return the command that runs one in the container, and shows it more of this machine."""
        image = self.digest if self.engine == "docker" else self.name
        order = self.model_dump() | {"image": image, "binds": [*self.binds, *binds]}
        return [sys.executable, "-I", "-S", str(CONTAINER), json.dumps(order), *command]


class Runtime(Closed):
    """An interpreter that is not the server's own."""

    python: str
    """Its absolute path, as it is started: an environment's interpreter is often a link."""
    prefix: str
    """Folder of its environment."""
    ours: str
    """A folder that holds this package and nothing else."""
    overlay: str
    """A folder of packages that the interpreter lacks, and that come behind its own."""
    path: list[str] = Field(default_factory=list)
    """Where it finds its packages, as it starts."""
    container: Container | None = None
    """In which python and prefix are; None: on this machine."""

    def command(self, module: str, *arguments: str) -> list[str]:
        """Return the command that runs a module of ours in the interpreter: in a container, from inside it."""
        return [self.python, str(BOOTSTRAP), self.ours, self.overlay, module, *arguments]
