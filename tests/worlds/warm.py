"""Runs without the start of an interpreter: workers and conductors forked off a process that has done its imports.

Importing torch is most of what a small run takes. Here the orchestrator's command, folder, environment, standard input
and log go to a process that waits with everything imported; its fork does what the command says, as a process of its
own. Whatever has to stand before an interpreter starts (threads of the libraries, paths) must be as in the process that
waits. Tests of the start itself (tests/tools/training_orchestrator) do without this, and so does every server that is a
process of its own, unless its client starts it by `trainwright_command`: then server and runs are forks as well.
"""

from __future__ import annotations

import atexit
import importlib
import inspect
import json
import logging
import os
import pkgutil
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import psutil

from trainwright.tools.launchers.warm import WarmProcesses
from trainwright.trainer.run.runtime import WALL
from trainwright.trainer.starting import wall

ASKING = Path(__file__).with_name("asking.py")
BEFORE_THE_START = ("OMP_", "MKL_", "OPENBLAS_", "CUDA", "LD_", "PYTHONPATH")
"""Of cuBLAS and TensorFlow nothing: they read theirs when they begin, and no process that waits has begun with them."""
USUAL_PATH = os.environ.get("PYTHONPATH")
MAX_BYTES = 1 << 16
ALONE = "-c"
"""In place of a module: source that is run without any of ours."""
WALLED = ["-I", "-S", "-B", str(WALL)]
"""Beginning of the arguments that enter a wall."""
MODULE = "-m"
"""In place of a module: the first argument is one."""
is_fork = False
places: dict[str, str] = {}
"""Socket of each waiting process, by what it imported and the variables that it was started with."""


IMPORTED_BY_WORKERS = (
    "cleanlab.filter", "cryptography.hazmat.primitives.asymmetric.ed25519", "onnx", "onnxruntime",
    "onnxscript.function_libs.torch_lib.ops", "polars", "safetensors.torch", "scipy.cluster.hierarchy",
    "scipy.spatial", "sklearn.datasets", "sklearn.ensemble", "sklearn.impute", "sympy.tensor.tensor", "tensorboard",
    "torch._dynamo", "torch.export._trace", "torch.onnx._internal.exporter._compat",
    *(f"torch.onnx._internal.torchscript_exporter.symbolic_opset{number}" for number in range(7, 21)),
)  # fmt: skip
"""Of polars the import alone: a fork of a process in which it has worked hangs."""


def import_for_worker() -> None:
    """Import what every run does, validation, and exporting: up to three seconds in each run. Read what all read."""
    from trainwright.trainer import worker
    from trainwright.trainer.data import leaks
    from trainwright.trainer.data.sources import tabular
    from trainwright.trainer.jobs import data_worker, export_probe, train
    from trainwright.trainer.jobs.export import work
    from trainwright.trainer.jobs.probe import rates
    from trainwright.trainer.starting.warm import read_ahead

    assert all((worker, tabular, data_worker, export_probe, train, work, rates))
    checks = (f"{leaks.__name__}.{one.name}" for one in pkgutil.iter_modules(leaks.__path__))
    for name in (*IMPORTED_BY_WORKERS, *checks):
        with suppress(ModuleNotFoundError):  # torch's own are not in every release
            importlib.import_module(name)
    _keep_table_of_operators()
    read_ahead()


def _keep_table_of_operators() -> None:
    """Let forks share what ONNX's exporter reads of its library for each export, a second of every small one."""
    try:
        from torch.export import default_decompositions
        from torch.onnx._constants import ONNX_DEFAULT_OPSET
        from torch.onnx._internal.exporter._registration import ONNXRegistry
    except ImportError:  # not in every release
        return
    own: Any = ONNXRegistry
    if not inspect.ismethod(own.from_torchlib):  # kept already
        return
    read = cache(own.from_torchlib)

    def kept(**given: int) -> Any:
        found = copy(read(**given))
        found.functions = {name: [*each] for name, each in found.functions.items()}
        return found

    own.from_torchlib = staticmethod(kept)
    logging.disable(logging.WARNING)  # that torchvision's are not there
    kept(opset_version=ONNX_DEFAULT_OPSET)
    logging.disable(logging.NOTSET)
    default_decompositions()


def _import_for_server() -> None:
    """Import what servers and conductors do: most of it is the same."""
    import optuna

    from trainwright.server import app, cli, stdio
    from trainwright.tools import cures, hyperparameter_tuner, projects, training_orchestrator, verification

    assert all((optuna, app, cli, stdio, cures, hyperparameter_tuner, projects, training_orchestrator, verification))


WORKERS = frozenset(
    {"starting.handover", "worker", "jobs.estimate", "jobs.generation", "jobs.inspection", "jobs.validate"}
)
"""Modules of the engine that are started as processes."""
IMPORTS = {"worker": import_for_worker, "server": _import_for_server}


class Nobody(WarmProcesses):
    """The product's warm processes, of which each serves one environment, where these here serve all."""

    def fork(self, *_: Any, **__: Any) -> None:
        """Return none."""

    def prepare(self, *_: Any) -> None:
        """Start none."""


def command_of(runtime: Any, module: str, *arguments: str, order: Any = None) -> list[str]:
    """Return the command that runs a module: by a fork, once a process waits for the commands of workers; no wall."""
    from trainwright.tools.launchers import environment

    place = _waiting_for_workers() if runtime is None else None
    own = environment.command_of(runtime, module, *arguments, order=order)
    return own if place is None else [*_asking(place, MODULE), module, *arguments]


@contextmanager
def warm() -> Iterator[None]:
    """Let this process's orchestrator, tuner and all that reads data hand their commands to the waiting processes."""
    from trainwright.tools.evaluation import own_metrics
    from trainwright.tools.launchers import LAUNCHERS, jobs
    from trainwright.tools.verification import step_replay

    own: Any = LAUNCHERS["own"]
    seams = [(own, "spawn", spawn), (jobs, "spawn", spawn), (own, "warm", Nobody())]
    seams += [(module, "command_of", command_of) for module in (own_metrics, step_replay)]
    before = [getattr(place, name) for place, name, _ in seams]
    for place, name, value in seams:
        setattr(place, name, value)
    try:
        yield
    finally:
        for (place, name, _), former in zip(seams, before, strict=True):
            setattr(place, name, former)


def spawn(
    folder: Path,
    launch: Any,
    command: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    log: str,
    seed: bytes = b"",
    asks: bool = True,
    ended: Callable[[int], object] | None = None,
) -> Any:
    """Start the command as `local.spawn` does, and record it likewise."""
    from trainwright.tools.launchers import local, write_launch
    from trainwright.trainer.run import ProcessIdentity
    from trainwright.trainer.starting import handover

    walled = list(command[1:5]) == WALLED
    _, safe_path, dash_m, module, *arguments = command[6:] if walled else command
    role = _role(module)
    place = (places.get(_name(role, env)) or _start(role, env)) if role else None
    if (safe_path, dash_m) != ("-P", "-m") or place is None:
        more = {"seed": seed, "asks": asks, "ended": ended or int}
        return local.spawn(folder, launch, command, cwd=cwd, env=env, log=log, **more)
    wanted = {"module": module, "arguments": arguments, "cwd": str(cwd), "env": dict(env), "places": places}
    wanted["wall"] = json.loads(command[5]) if walled else None
    ours, theirs = handover.channel()
    with (folder / log).open("ab") as output, socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
        asking.connect(place)
        socket.send_fds(asking, [json.dumps(wanted).encode()], [theirs.fileno(), output.fileno()])
        theirs.close()
        pid = int(asking.recv(32))
        identity = ProcessIdentity.of(pid)  # it waits for the end of this connection, so its id is still its own
    if ended is not None:
        threading.Thread(target=lambda: ended(_end_of(pid)), daemon=True).start()
    written = write_launch(folder, launch.model_copy(update={"process": identity}))
    if seed:
        local.attend(ours, pid, seed)
    else:
        ours.close()
    return written


def trainwright_command(env: Mapping[str, str]) -> list[str]:
    """Return a command that does by a fork what `trainwright` does; arguments are to be added, `serve` above all.

    Args:
        env: the environment in which the command will be started. Where an interpreter has to start in it, with other
            paths than this process's, say, it is one that starts for real.
    """
    from trainwright.server import cli

    return _command("server", cli.__name__, env if _fixed(env) == _fixed(os.environ) else None)


def _end_of(pid: int) -> int:
    """Wait until a fork is gone, whose exit code the process that waits alone knows."""
    with suppress(psutil.NoSuchProcess):
        psutil.Process(pid).wait()
    return 0


def _command(role: str, module: str, env: Mapping[str, str] | None) -> list[str]:
    """Return the command that has a module run by a fork, or for real where no process that waits would do."""
    place = None if env is None else places.get(_name(role, env)) or _start(role, env)
    if place is None:
        return [sys.executable, "-P", "-m", module]
    return _asking(place, module)


def _waiting_for_workers() -> str | None:
    return next((place for name, place in places.items() if json.loads(name)[0] == "worker"), None)


def _asking(place: str, module: str) -> list[str]:
    return [sys.executable, "-I", "-S", str(ASKING), place, json.dumps({"module": module, "places": places})]


def _role(module: str) -> str | None:
    from trainwright import trainer
    from trainwright.tools import cures
    from trainwright.tools.hyperparameter_tuner import conductor

    if module.removeprefix(f"{trainer.__name__}.") in WORKERS:
        return "worker"
    conductors = {conductor.__name__, f"{cures.__name__}.conductor"}
    return "server" if module in conductors else None


def _name(role: str, env: Mapping[str, str]) -> str:
    return json.dumps([role, _fixed(env)])


def _fixed(env: Mapping[str, str]) -> dict[str, str]:
    """Return what stands before the start. Where nothing else is said, the other two use as many threads as OpenMP."""
    told = {name: env[name] for name in sorted(env) if name.startswith(BEFORE_THE_START)}
    same = told.get("OMP_NUM_THREADS")
    return {
        name: told[name]
        for name in told
        if name not in {"MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"} or told[name] != same
    }


def _start(role: str, env: Mapping[str, str]) -> str | None:
    """Start the process that waits for such commands, and return its socket's path; None: nobody may wait."""
    from trainwright.tools.launchers.environment import inherited_environment, worker_environment
    from trainwright.trainer.config import parse_config

    if is_fork or env.get("PYTHONPATH") != USUAL_PATH:  # of one test alone: its run or two cost less cold
        return None
    if role == "server":  # what it starts is started warm too
        usual = worker_environment(parse_config({"model": {"use": "mlp"}, "data": {"use": "iris"}}))
        if _name("worker", usual) not in places:
            _start("worker", usual)
    folder = tempfile.mkdtemp(prefix="warm-")
    own = inherited_environment() | _fixed(env) | {"PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-P", str(Path(__file__).resolve()), role, f"{folder}/socket"]
    waiting = subprocess.Popen(command, env=own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=folder)
    atexit.register(_end, waiting, folder)
    assert waiting.stdout is not None
    assert waiting.stdout.readline() == b"ready\n"
    places[_name(role, env)] = f"{folder}/socket"
    return f"{folder}/socket"


def _end(waiting: subprocess.Popen[bytes], folder: str) -> None:
    waiting.kill()
    waiting.wait()
    shutil.rmtree(folder, ignore_errors=True)


def _wait(role: str, path: str) -> None:
    """Import, then fork for each command until standard input ends. Only forks return."""
    IMPORTS[role]()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listening.bind(path)
    listening.listen(64)
    signal.signal(signal.SIGCHLD, _reap)
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([listening, sys.stdin], [], [])
        if sys.stdin in ready:
            return
        asked, _ = listening.accept()
        message, files, _, _ = socket.recv_fds(asked, MAX_BYTES, 4)
        pid = os.fork()
        if pid == 0:
            listening.close()
            _become(role, json.loads(message), files, asked, path)
        with suppress(OSError):  # whoever asked was killed meanwhile; others still ask
            asked.send(str(pid).encode())
        asked.close()
        for file in files:
            os.close(file)


def _reap(*_: object) -> None:
    """Leave no zombies. Forks are waited for: of ignored ones nobody would count the processor time."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _become(role: str, wanted: dict[str, Any], files: list[int], asked: socket.socket, path: str) -> NoReturn:
    """Be the process that the command would have started. What a worker proves apart is proven in a fork as well."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(wanted["env"])
    is_command = len(files) == 4  # the three streams, and what ends with the command that a client started
    reading, output, errors = files[:3] if is_command else (*files, files[-1])
    for number, file in enumerate((reading, output, errors)):
        os.dup2(file, number)
    for file in {reading, output, errors}:
        os.close(file)
    if is_command:
        threading.Thread(target=_end_with, args=(files[3],), daemon=True).start()
    asked.recv(1)  # ends when the other side has noted who this is
    asked.close()
    sys.argv = [wanted["module"], *wanted["arguments"]]
    places.update(wanted["places"])
    globals()["is_fork"] = True
    code = 70
    try:
        if wanted.get("wall"):
            wall.enter(wanted["wall"])
            tempfile.tempdir = None
        os.chdir(wanted["cwd"])  # a folder that is gone ends the fork below: finalizing all its libraries can hang
        warnings.filterwarnings("ignore", category=RuntimeWarning, module="runpy")  # that it is imported already
        if wanted["module"] == ALONE:
            _be_alone()
        module = sys.argv.pop(1) if wanted["module"] == MODULE else wanted["module"]
        with warm() if role == "server" else proving_by(path):
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # noqa: BLE001 - nobody is above this
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        if is_command:
            os.write(files[3], bytes([code % 256]))
        os._exit(code)


@contextmanager
def proving_by(path: str | None = None) -> Iterator[None]:
    """Let this fork, which trains, have what it ships run by a fork of the process that waits, if one does."""
    from trainwright.trainer.jobs.export import isolated

    if (place := path or _waiting_for_workers()) is not None:
        isolated.PYTHON = tuple(_asking(place, ALONE))
    yield


def _be_alone() -> NoReturn:
    """Run source as `python -I -B -c` does: of what is imported, nothing is ours."""
    for name in [name for name in sys.modules if name.partition(".")[0] in {"trainwright", "tests"}]:
        del sys.modules[name]
    sys.dont_write_bytecode = True
    _, source, *arguments = sys.argv
    sys.argv = ["-c", *arguments]
    exec(compile(source, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - as the interpreter does
    raise SystemExit(0)


def _end_with(connection: int) -> None:
    """End at once when the command that the client started is killed, as it would be the server itself."""
    os.read(connection, 1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    _wait(*sys.argv[1:])
