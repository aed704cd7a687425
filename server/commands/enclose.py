"""`trainwright enclose`: an agent's command line behind a wall. Read without typer: it starts in a few hundredths."""

from __future__ import annotations

import sys

from trainwright.tools.walls.enclosing import enclose
from trainwright.tools.walls.wall import SERVER_PORT, Wall

TAKES = {"--workspace": "w", "-w": "w", "--project": "p", "--allow": "a", "--port": "n", "--env": "e"}
FLAGS = {"--network": "network", "--only-landlock": "only", "--quiet": "quiet"}


def start(arguments: list[str]) -> int | None:
    """Enclose the command after `--` and return its exit status; None where typer is to say what is wrong, or help."""
    if "--" not in arguments[:-1]:
        return None
    end = arguments.index("--")
    options, command = iter(arguments[:end]), arguments[end + 1 :]
    given: dict[str, list[str]] = {key: [] for key in "wpane"}
    flags: set[str] = set()
    for option in options:
        name, equals, value = option.partition("=")
        if name in FLAGS and not equals:
            flags.add(FLAGS[name])
        elif name in TAKES and (found := value if equals else next(options, "")):
            given[TAKES[name]].append(found)
        else:
            return None
    if not all(port.isdecimal() for port in given["n"]):
        return None
    return run(
        command,
        workspace=given["w"][-1] if given["w"] else None,
        projects=given["p"],
        allowed=given["a"],
        ports=[int(port) for port in given["n"]],
        keeps=given["e"],
        network="network" in flags,
        only_landlock="only" in flags,
        quiet="quiet" in flags,
    )


def run(
    command: list[str],
    *,
    workspace: str | None,
    projects: list[str],
    allowed: list[str],
    ports: list[int],
    keeps: list[str],
    network: bool,
    only_landlock: bool,
    quiet: bool,
) -> int:
    """Enclose a command and return its exit status. Raises ConfigurationError."""
    paths = [(path.removesuffix(":ro").removesuffix(":rw"), not path.endswith(":ro")) for path in allowed]
    wall = Wall(projects, workspace, paths, None if network else ports or [SERVER_PORT], keeps)
    return enclose(wall, command, only_landlock=only_landlock, quiet=quiet)


if __name__ == "__main__":
    sys.exit(start(sys.argv[1:]))
