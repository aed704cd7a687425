"""Stand-in for the clients of Docker and Apptainer: checks the command strictly, and runs it in a real interpreter.

`install` puts it on a PATH under an engine's name, beside `images.json`, in which the interpreters of its images are.
As Docker's it leaves the work to a process that is no child of its own and outlives it, as the daemon does, passes on
bytes alone, and signals too. As Apptainer's it hands its descriptors on. Either gives the variables that were named.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

HERE = Path(__file__).parent
SWITCHES = {"--rm", "-i", "--pull=never", "--pid=host", "--network=host", "--ipc=host"}
NEVER = {"PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "DOCKER_HOST"}


def install(folder: Path, engine: str, images: dict[str, dict[str, str]]) -> None:
    """Make the client `folder/engine` of images: of each its name or path, its `id` and its `python`."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "images.json").write_text(json.dumps(images))
    program = folder / engine
    program.write_text(f"#!{sys.executable}\n{Path(__file__).read_text()}")
    program.chmod(0o755)


def fail(said: str) -> None:
    sys.stderr.write(f"{said}\n")
    sys.exit(125)


def images() -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads((HERE / "images.json").read_text())
    return found


def options(arguments: list[str], single: set[str], valued: set[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Return the options before the image, by name, and what follows them; an unknown one ends it."""
    found: dict[str, list[str]] = {}
    for number, one in enumerate(arguments):
        name, _, value = one.partition("=")
        if not one.startswith("-"):
            return found, arguments[number:]
        if one not in single and name not in valued:
            fail(f"unknown flag: {one}")
        found.setdefault(one if one in single else name, []).append(value)
    fail("no image was named")
    return found, []


def check(binds: list[str], folder: str, command: list[str]) -> None:
    """End where a folder that is seen is not there, or the command names one that is not seen."""
    for one in binds:
        if one == "/" or not Path(one).exists():
            fail(f"invalid mount: {one}")
    for one in (folder, *(part for part in command[1:] if part != command[0])):  # the image's own Python, twice
        is_seen = any(one == bind or one.startswith(f"{bind}/") for bind in binds)
        if one != "/" and one.startswith("/") and Path(one).exists() and not is_seen:
            fail(f"{one} is not there in the container")


def inside(python: str, named: dict[str, str]) -> dict[str, str]:
    if wrong := NEVER & named.keys():
        fail(f"variables of this machine: {wrong}")
    return {"PATH": str(Path(python).parent), **named}


def docker(arguments: list[str]) -> None:
    if arguments[:4] == ["image", "inspect", "--format", "{{.Id}}"]:
        if arguments[4] not in images():
            fail(f"Error response from daemon: No such image: {arguments[4]}")
        print(images()[arguments[4]]["id"])
        return
    if arguments[0] != "run":
        fail(f"unknown command: {arguments[0]}")
    given, (image, *command) = options(
        arguments[1:], SWITCHES, {"--user", "--group-add", "--entrypoint", "--workdir", "--volume", "--env"}
    )
    if not given.keys() >= SWITCHES or given["--user"] != [f"{os.getuid()}:{os.getgid()}"]:
        fail("something of the command is missing")
    if given.get("--group-add", []) != [str(one) for one in os.getgroups()]:
        fail("the user's groups are missing")
    pairs = [one.split(":") for one in given.get("--volume", [])]
    if any(len(pair) != 2 or pair[0] != pair[1] for pair in pairs):
        fail("a folder has another path inside")
    folder = given["--workdir"][0]
    check([pair[0] for pair in pairs], folder, command)
    known = [one for one in images().values() if one["id"] == image]
    if not known:
        fail(f"Unable to find image {image!r} locally")
    named = {name: os.environ[name] for name in given.get("--env", [])}
    sys.exit(beside(command, inside(known[0]["python"], named), folder))


def beside(command: list[str], env: dict[str, str], folder: str) -> int:
    """Let a process that outlives this one run the command; return its code."""
    told, tell = os.pipe()
    bytes_in, bytes_out = os.pipe()
    if not os.fork():
        os.setsid()
        if os.fork():
            os._exit(0)
        os.close(bytes_out)
        child = subprocess.Popen(command, env=env, cwd=folder, stdin=bytes_in)
        os.close(bytes_in)
        os.write(tell, f"{child.pid}\n".encode())
        os.write(tell, f"{child.wait()}\n".encode())
        os._exit(0)
    os.close(tell)
    os.close(bytes_in)
    with os.fdopen(told) as lines:
        worker = int(lines.readline())
        signal.signal(signal.SIGTERM, lambda number, _: os.kill(worker, number))
        threading.Thread(target=pour, args=(bytes_out,), daemon=True).start()
        code = int(lines.readline())
    return code if code >= 0 else 128 - code


def pour(pipe: int) -> None:
    with os.fdopen(pipe, "wb") as into:
        into.write(sys.stdin.buffer.read())


def apptainer(arguments: list[str]) -> None:
    if arguments[0] != "exec":
        fail(f"unknown command: {arguments[0]}")
    given, (image, *command) = options(arguments[1:], {"--cleanenv", "--no-home", "--nv"}, {"--bind", "--pwd"})
    folder = given["--pwd"][0]
    check(given.get("--bind", []), folder, command)
    if not Path(image).is_file() or "--cleanenv" not in given:
        fail(f"FATAL: could not open image {image}")
    prefix = "APPTAINERENV_"
    named = {name.removeprefix(prefix): value for name, value in os.environ.items() if name.startswith(prefix)}
    env = {"HOME": os.environ.get("HOME", "/"), **inside(images()[image]["python"], named)}
    child = subprocess.Popen(command, env=env, cwd=folder)
    signal.signal(signal.SIGTERM, lambda number, _: child.send_signal(number))
    code = child.wait()
    sys.exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    {"docker": docker, "apptainer": apptainer}[Path(__file__).name](sys.argv[1:])
