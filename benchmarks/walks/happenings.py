"""What happens to projects: processes are killed, disks fill up, files and packages change, folders move."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import venv
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import own_code
from agent import Call, text_of
from mcp.types import CallToolResult
from surroundings import ENDED, World
from walk import Happening

Moment = Callable[[World, Call, CallToolResult | None], bool]
DISK_BYTES = 128 * 1024**2
"""Of the small disk: what a run that met a full one asks for before it goes on fits into it."""
LEFT_BYTES = 96 * 1024
EXPORT = "export_model"
OF_OTHERS = "of_somebody_else.bin"


def starting(kind: str) -> Moment:
    """Hold when a run of the kind is about to be started."""
    return lambda world, call, result: kind in {call.arguments.get("kind"), {EXPORT: "export"}.get(call.tool)}


def after_gate(phase: str) -> Moment:
    """Hold when the gate of the phase has just passed."""

    def moment(world: World, call: Call, result: CallToolResult | None) -> bool:
        return call.tool == "pass_gate" and result is not None and not result.is_error and (phase, 1) in world.gates()

    return moment


def said(*words: str) -> Moment:
    """Hold when an answer holds one of the words."""
    return lambda world, call, result: result is not None and any(word in text_of(result).lower() for word in words)


def worker_killed(kind: str = "baseline", at_step: int = 12) -> Happening:
    """A run's worker is killed in the middle of its work."""

    def act(world: World) -> None:
        process = _started(world, kind, at_step)["process"]
        with suppress(ProcessLookupError):
            os.kill(process["pid"], signal.SIGKILL)

    return Happening(f"the {kind} run's worker is killed", starting(kind), act, is_during=True)


def server_killed(kind: str = "baseline") -> Happening:
    """The server is killed while a run is at work; it ends while nobody looks, and a new agent begins."""

    def act(world: World) -> None:
        run = _started(world, kind, 0)["run"]
        world.kill_server()
        world.wait_for(lambda: world.status_of(run).get("state") in ENDED)

    name = f"the server is killed, and the {kind} run ends alone"
    return Happening(name, starting(kind), act, is_during=True, new_session=True)


def granted() -> Happening:
    """The owner grants what was asked, in the settings file."""

    def act(world: World) -> None:
        path = world.workspace / "settings.yaml"
        kept = [line for line in path.read_text().splitlines() if not line.startswith("grants:")]
        path.write_text("\n".join([*kept, f"grants: {json.dumps(world.requests())}"]) + "\n")

    return Happening("the owner grants it", lambda world, call, result: "ask_owner" in call.arguments, act)


def disk_filled(kind: str = "baseline") -> Happening:
    """Somebody fills the disk while a run is at work."""

    def act(world: World) -> None:
        _started(world, kind, 2)
        free = shutil.disk_usage(world.workspace).free
        with suppress(OSError), (world.workspace / OF_OTHERS).open("wb") as file:
            file.write(b"\0" * max(0, free - LEFT_BYTES))

    return Happening("the disk is full", starting(kind), act, is_during=True)


def disk_freed() -> Happening:
    """The user frees the disk when told that it is full."""

    def act(world: World) -> None:
        (world.workspace / OF_OTHERS).unlink(missing_ok=True)

    is_told = said("disk", "no space", "storage")
    return Happening(
        "the disk is freed",
        lambda world, call, result: (world.workspace / OF_OTHERS).exists() and is_told(world, call, result),
        act,
    )


def arrays_written(world: World) -> None:
    """Write a NumPy archive of points and their class."""
    import numpy as np

    draw = np.random.default_rng(0)
    x = draw.normal(size=(160, 4)).astype("float32")
    np.savez(world.code / "points.npz", x=x, y=(x.sum(axis=1) > 0).astype("int64"))


def pictures_written(world: World) -> None:
    """Write small pictures of two kinds, noisy at the top and at the bottom."""
    import numpy as np
    from PIL import Image

    draw = np.random.default_rng(0)
    for number in range(120):
        pixels = draw.integers(0, 120, size=(8, 8, 3), dtype=np.uint8)
        kind = number % 2
        pixels[4 * kind : 4 * kind + 4] += 130
        folder = world.code / "photos" / ("bright-top", "bright-bottom")[kind]
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(folder / f"{number}.png")


MANY, FEW = 20_000, 2_000
SHAPES = ("bar", "cross", "disc", "frame", "square")


def many_pictures_written(world: World) -> None:
    """Write 20,000 pictures of five shapes, anywhere in noise of any colour; 2,000 in the short set."""
    import numpy as np
    from PIL import Image, ImageDraw

    draws = np.random.default_rng(0)
    for number in range(FEW if os.environ.get("WALKS_QUICK") else MANY):
        name = SHAPES[number % len(SHAPES)]
        image = Image.fromarray(draws.integers(0, 110, (32, 32, 3), dtype=np.uint8))
        left, top, size = (int(one) for one in draws.integers((2, 2, 12), (12, 12, 18)))
        box, colour = (left, top, left + size, top + size), tuple(draws.integers(130, 255, 3).tolist())
        _draw_shape(ImageDraw.Draw(image), name, box, colour)
        folder = world.code / "photos" / name
        folder.mkdir(parents=True, exist_ok=True)
        image.save(folder / f"{number:05d}.png")


def _draw_shape(draw: Any, name: str, box: tuple[int, int, int, int], colour: tuple[int, ...]) -> None:
    left, top, right, bottom = box
    across, down = (left + right) // 2, (top + bottom) // 2
    if name == "disc":
        draw.ellipse(box, fill=colour)
    elif name in {"square", "frame"}:
        draw.rectangle(box, fill=colour if name == "square" else None, outline=colour, width=3)
    else:
        draw.rectangle((left, down - 2, right, down + 2), fill=colour)
        if name == "cross":
            draw.rectangle((across - 2, top, across + 2, bottom), fill=colour)


def table_written(world: World) -> None:
    """Write a Parquet file of points and their class."""
    import pyarrow as pa
    from pyarrow import parquet

    rows = [line.split(",") for line in own_code.table(160).splitlines()]
    kinds = {"length": float, "width": float, "kind": int}
    columns = {name: [kinds[name](value) for value in values] for name, *values in zip(*rows, strict=True)}
    parquet.write_table(pa.table(columns), world.code / "points.parquet")


def small_disk(world: World) -> None:
    """Put the workspace onto a small disk of its own."""
    options = f"size={DISK_BYTES}"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(world.workspace)], check=True)


def disk_away(world: World) -> None:
    """Take that disk away."""
    subprocess.run(["umount", "-l", str(world.workspace)], check=False)


def no_mounting() -> str:
    """Say why no disk can be mounted here; empty where one can."""
    return "" if os.geteuid() == 0 and sys.platform == "linux" else "only root may mount a small disk"


def comment_changed(name: str, moment: Moment) -> Happening:
    """The user writes a comment into a file."""

    def act(world: World) -> None:
        path = world.code / name
        path.write_text("# a comment, and nothing else\n" + path.read_text())

    return Happening(f"a comment is added to {name}", moment, act)


def package_installed(moment: Moment) -> Happening:
    """Somebody installs a package that the project does not use."""

    def act(world: World) -> None:
        about = next(world.base.glob("env/lib/python*/site-packages")) / "unrelated_thing-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text("Metadata-Version: 2.1\nName: unrelated-thing\nVersion: 1.0\n")

    return Happening("an unrelated package is installed", moment, act)


def own_environment(world: World) -> None:
    """Give the world an environment of its own, over the packages of this one."""
    venv.create(world.base / "env", with_pip=False)
    packages = next(world.base.glob("env/lib/python*/site-packages"))
    paths = [path for path in sys.path if path.endswith(("site-packages", "/src"))]
    (packages / "shared.pth").write_text("\n".join(dict.fromkeys(paths)) + "\n")
    world.python = world.base / "env" / "bin" / "python"


def folder_moved(moment: Moment) -> Happening:
    """The user moves the folder of the code."""

    def act(world: World) -> None:
        new = world.base / "moved"
        world.code.rename(new)
        world.code = new

    return Happening("the code's folder is moved", moment, act)


def _started(world: World, kind: str, step: int) -> dict[str, Any]:
    """Wait until a run of the kind is at work and past the step; return its record, with its id as `run`."""
    before = {run for run, _ in world.runs(kind)}
    run = world.wait_for(lambda: [run for run, _ in world.runs(kind) if run not in before])[-1]

    def past() -> dict[str, Any]:
        status = world.status_of(run)
        assert status.get("state") not in ENDED, f"{run} ended before anything could happen to it"
        return status if status.get("process") and status.get("step", 0) >= step else {}

    return {**world.wait_for(past), "run": run}
