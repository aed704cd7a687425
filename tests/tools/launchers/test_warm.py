"""Runs that are forked off a warm process: the bits, the evidence and the process of a cold start, and one worker."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.contracts.test_objectives import LEAST, ROWS, values_of
from tests.tools.launchers import warm_starts
from tests.tools.launchers.warm_starts import (
    SHORT,
    begin,
    count_of_starts,
    ended,
    kind_of_run,
    launcher,
    until,
    warm_up,
)
from tests.trainer.start_a_run import make_run
from tests.variants import variants

from trainwright.tools.launchers import Launch
from trainwright.tools.launchers import warm as warm_processes
from trainwright.tools.launchers.local import Local
from trainwright.tools.launchers.warm import Kind
from trainwright.tools.workspace.settings import WARM_VARIABLE, Settings
from trainwright.trainer.checkpoints.store import DirectoryStore, newest_whole
from trainwright.trainer.run import RunDirectory, RunKey, RunState
from trainwright.trainer.run.key import signed_digests
from trainwright.trainer.starting import wall
from trainwright.trainer.starting import warm as warm_module

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="warm processes are Linux's alone"),
]
LONG = SHORT | {"training": {"epochs": 100_000, "validate_every_n_epochs": 1000},
                "early_stopping": {"enabled": False},
                "checkpoints": {"checkpoint_every_n_epochs": 1000}}  # fmt: skip
EVIDENCE = ("code", "data", "imported", "reproducibility")
LOOK = """
import faulthandler, json, multiprocessing, os, random, signal, sys, threading
from pathlib import Path
import numpy, torch

def build():
    status = Path("/proc/self/status").read_text().splitlines()
    fields = ("Umask", "Threads", "SigBlk", "SigIgn", "SigCgt", "NoNewPrivs")
    opened = []
    for number in range(256):
        try:
            opened.append(os.readlink(f"/proc/self/fd/{number}"))
        except OSError:
            pass
    looked = {
        "status": [line for line in status if line.startswith(fields)],
        "opened": sorted(os.path.basename(name.split(":")[0]) for name in opened),
        "handlers": [str(signal.getsignal(number)).split(" at ")[0] for number in (2, 13, 15, 17)],
        "leads": [os.getsid(0) == os.getpid(), os.getpgid(0) == os.getpid()],
        "environ": dict(os.environ), "cwd": os.getcwd(), "path": sys.path, "orig": sys.orig_argv[:-1],
        "main": [sys.modules["__main__"].__spec__.name, sys.modules["__main__"].__file__],
        "flags": str(sys.flags), "hash": hash("text"), "encodings": [sys.stdout.encoding, sys.stderr.encoding],
        "methods": [multiprocessing.get_start_method(allow_none=True), multiprocessing.current_process().name],
        "faulthandler": faulthandler.is_enabled(), "torch": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "started": sorted(thread.name for thread in threading.enumerate()),
        "modules": sorted(sys.modules),
        "drawn": [random.random(), float(numpy.random.rand()), float(torch.rand(1))],
        "cuda": torch.cuda.is_initialized(), "dumpable": os.access("/proc/self/mem", os.R_OK) if os.getuid() else None,
    }
    Path(os.environ["HOME"], "looked.json").write_text(json.dumps(looked))
    return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(4, 3))
"""


def bits(run: RunDirectory) -> dict[str, Any]:
    """Return what must be the same of two runs of one configuration: records, evidence, and the weights' digests."""
    assert run.last_status().state is RunState.COMPLETED, run.log.read_text()
    with run.metrics() as store:
        keys = [key for key in store.keys() if key.startswith(("train/loss", "validation/"))]  # noqa: SIM118
        values = {key: [(point.step, point.value) for point in store.series(key)] for key in keys}
    checkpoint, _ = newest_whole(DirectoryStore(run), config_digest=run.specification().config_digest)
    assert checkpoint is not None
    assert values
    files = {name: file["digest"] for name, file in checkpoint.manifest["files"].items() if name != "state.json"}
    state = {name: value for name, value in checkpoint.state.items() if name != "progress"}
    evidence = {name: json.loads((run.artifacts / f"{name}.json").read_text()) for name in EVIDENCE}
    return {"values": values, "files": files, "state": str(state), "evidence": evidence}


TEXTS = {
    "model": {"use": "transformers", "args": {"config": {
        "model_type": "bert", "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 16, "max_position_embeddings": 32}}},
    "data": {"use": "csv", "args": {
        "path": "texts.csv", "text": "text", "target": "label", "tokenizer": "bpe:280", "max_length": 24}},
    "training": {"epochs": 1},
}  # fmt: skip


@pytest.mark.long
@pytest.mark.requirement("REPRO-1", "TUNE-4")
def test_a_warm_run_of_a_library_s_model_finds_its_modules_imported(own: Local, tmp_path: Path) -> None:
    rows = [f"ticket {number} is {'open' if number % 2 else 'closed'},{number % 2}" for number in range(60)]
    (tmp_path / "texts.csv").write_text("text,label\n" + "\n".join(rows) + "\n")
    cold, warm = (make_run(tmp_path / each, SHORT | TEXTS) for each in ("cold", "warm"))
    begin(own, cold, warm=False)
    ended(cold)
    plain = make_run(tmp_path / "plain", SHORT)
    assert not [name for name in kind_of_run(plain).modules if "transformers" in name]
    assert "transformers.models.bert.modeling_bert" in kind_of_run(warm).modules
    warm_up(own, plain)
    assert not own.warm.is_ready(kind_of_run(warm)), "a run of tables names no library that it does not use"
    warm_up(own, warm)
    for process in own.warm.processes():
        fields = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
        held = sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024
        assert (fields["Threads"].strip(), held <= warm_processes.MAX_BYTES) == ("1", True)
    begin(own, warm, warm=True)
    ended(warm)
    assert bits(warm) == bits(cold)
    assert "transformers" in json.loads((warm.artifacts / "imported.json").read_text())["packages"]


@pytest.mark.requirement("REPRO-1", "REPRO-5", "TRAIN-5")
@pytest.mark.parametrize("name", variants(LEAST, quick=["supervised"]))
def test_a_warm_run_has_the_bits_and_the_evidence_of_a_cold_one(name: str, own: Local, tmp_path: Path) -> None:
    (tmp_path / "rows.py").write_text(ROWS)
    if name == "distillation":
        from safetensors.torch import save_file

        from trainwright.trainer.models.small import MLP

        save_file(MLP((4,), 2, hidden=(24,)).state_dict(), tmp_path / "teacher.safetensors")
    values = values_of(name) | {"training": {"epochs": 2}}
    cold, warm = (make_run(tmp_path / each, values) for each in ("cold", "warm"))
    begin(own, cold, warm=False)
    ended(cold)
    warm_up(own, warm)
    begin(own, warm, warm=True)
    ended(warm)
    assert bits(warm) == bits(cold)


@pytest.mark.long
@pytest.mark.requirement("REPRO-1", "REPRO-2", "TRAIN-10")
def test_the_process_of_a_warm_run_is_like_one_that_started_by_itself(
    own: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "look.py").write_text(LOOK)
    values = SHORT | {"model": {"use": "look.py:build"}}
    looked = []
    for name, warm in (("cold", False), ("warm", True)):
        run = make_run(tmp_path / name, values)
        if warm:
            warm_up(own, run)
        begin(own, run, warm=warm)
        ended(run)
        assert run.last_status().state is RunState.COMPLETED, run.log.read_text()
        looked.append(json.loads((tmp_path / "looked.json").read_text()))
        evidence = json.loads((run.artifacts / "environment.json").read_text())
        assert evidence["command_line"][-1] == str(run.path)
    for module in (warm_module, wall):  # what a cold worker is started by leaves no module in it
        looked[1]["modules"].remove(module.__name__)
    for what in looked[0]:
        assert looked[1][what] == looked[0][what], what
    assert looked[0]["leads"] == [True, True]


@pytest.mark.requirement("GATE-3", "TRAIN-10")
def test_a_fork_is_recorded_signs_leaves_no_zombie_and_outlives_the_warm_process(own: Local, tmp_path: Path) -> None:
    first, second = (make_run(tmp_path / name, LONG) for name in ("first", "second"))
    warm_up(own, first)
    key = RunKey.new()
    launch = own.start(first, Launch(), key)
    assert launch.parent is not None
    assert launch.process is not None
    until(lambda: first.last_status().step > 0, first.log.read_text())
    assert first.last_status().process == launch.process
    [parent] = own.warm.processes()
    assert parent == launch.parent
    assert own.signal(first, launch, signal.SIGTERM, reason="pruned")
    ended(first)
    assert first.last_status().stop_reason == "pruned"
    assert signed_digests(first, key.public) is not None
    until(lambda: not psutil.Process(parent.pid).children(), "the fork stayed as a zombie")
    other = begin(own, second, warm=True)
    psutil.Process(parent.pid).kill()
    until(lambda: not own.warm.processes(), "its end goes unnoticed")
    assert other.process is not None
    until(lambda: second.last_status().step > 0, second.log.read_text())
    assert own.signal(second, other, signal.SIGTERM, reason="requested")
    ended(second)
    assert second.last_status().state is RunState.STOPPED


@pytest.mark.requirement("TRAIN-10")
def test_a_run_whose_folder_is_removed_leaves_no_waiting_thread(own: Local, tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", LONG)
    launch = begin(own, run, warm=False)
    shutil.rmtree(run.path)
    assert launch.process is not None
    launch.process.kill_tree()
    until(own.warm.processes, "the process for later runs")


@pytest.mark.requirement("TRAIN-10")
@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
@pytest.mark.long
def test_a_warm_process_that_does_not_answer_costs_a_cold_start_and_no_second_worker(
    number: signal.Signals, own: Local, tmp_path: Path
) -> None:
    run = make_run(tmp_path / "run", SHORT)
    warm_up(own, run)
    [parent] = own.warm.processes()
    os.kill(parent.pid, number)
    begin(own, run, warm=False)
    until(lambda: not parent.is_alive(), "one that does not answer is ended")
    ended(run)
    assert run.last_status().state is RunState.COMPLETED
    assert count_of_starts(run) == 1


@pytest.mark.long
@pytest.mark.requirement("TRAIN-10")
@pytest.mark.parametrize("kills", [3, pytest.param(40, marks=pytest.mark.long)])
def test_a_warm_process_killed_while_it_forks_leaves_one_worker(kills: int, own: Local, tmp_path: Path) -> None:
    drawn, warm = random.Random(7), 0
    for number in range(kills):
        run = make_run(tmp_path / f"run-{number}", SHORT)
        warm_up(own, run)
        [parent] = own.warm.processes()
        killing = threading.Timer(drawn.uniform(0, 0.06), os.kill, (parent.pid, signal.SIGKILL))
        killing.start()
        launch = own.start(run, Launch(), RunKey.new())
        warm += launch.parent is not None
        killing.join()
        ended(run)
        assert run.last_status().state is RunState.COMPLETED, run.log.read_text()
        assert count_of_starts(run) == 1
    assert kills < 40 or 0 < warm < kills, "some kills came before the fork and some after it"


@pytest.mark.long
@pytest.mark.requirement("TRAIN-10")
def test_one_that_nobody_asks_ends_and_the_next_run_starts_cold(tmp_path: Path) -> None:
    own, run = launcher(tmp_path / "warm", idle_seconds=0.3), make_run(tmp_path / "run", SHORT)
    warm_up(own, run)
    until(lambda: not own.warm.processes(), "it waits for ever")
    begin(own, run, warm=False)
    ended(run)
    own.warm.close()


@pytest.mark.long
@pytest.mark.requirement("GATE-4", "TRAIN-10")
def test_none_takes_more_memory_than_it_may_and_none_starts_where_memory_is_short(
    own: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", SHORT)
    warm_up(own, run)
    [process] = own.warm.processes()
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{process.pid}/status").read_text().splitlines())
    held = sum(int(fields[name].split()[0]) for name in ("RssAnon", "RssShmem")) * 1024
    assert 0 < held <= warm_processes.MAX_BYTES
    assert fields["Threads"].strip() == "1"
    own.warm.close()
    until(lambda: not process.is_alive(), "it was ended")
    started = list[warm_processes._Warm]()
    real = warm_processes._started
    monkeypatch.setattr(warm_processes, "_started", lambda *given: started.append(real(*given)) or started[-1])
    monkeypatch.setattr(warm_processes, "MAX_BYTES", held // 2)
    own.warm.prepare(kind_of_run(run), lambda: True)
    until(lambda: started and started[0].child.poll() is not None, "one that takes too much ends by itself")
    assert not own.warm.processes()
    monkeypatch.setattr(warm_processes, "FREE_BYTES", psutil.virtual_memory().total * 2)
    own.warm.prepare(kind_of_run(run), lambda: True)
    until(lambda: not any(thread.name == "warm" for thread in threading.enumerate()), "it is decided")
    assert len(started) == 1


@pytest.mark.requirement("REPRO-1", "TUNE-4")
def test_the_first_of_many_side_by_side_wait_for_one_warm_process_and_where_memory_is_short_for_none(
    own: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (make_run(tmp_path / name, SHORT) for name in ("first", "second", "third"))
    own.warm.are_awaited = True
    with ThreadPoolExecutor() as pool:
        launches = list(pool.map(lambda run: begin(own, run, warm=True), (first, second)))
    assert [launches[0].parent] * 2 == [one.parent for one in launches]
    ended(first)
    ended(second)
    own.warm.close()
    monkeypatch.setattr(warm_processes, "FREE_BYTES", psutil.virtual_memory().total * 2)
    begin(own, third, warm=False)
    ended(third)


@pytest.mark.long
@pytest.mark.requirement("GATE-4", "REPRO-1")
def test_each_environment_has_its_own_and_the_least_recently_used_goes(tmp_path: Path) -> None:
    own = launcher(tmp_path / "warm", most=2)
    run = make_run(tmp_path / "run", SHORT)
    kinds = of_several_environments(kind_of_run(run))
    for kind in kinds[:2]:
        own.warm.prepare(kind, lambda: True)
        until(lambda kind=kind: own.warm.is_ready(kind), "none was started")
    first, second = own.warm.processes()
    begin(own, run, warm=True)
    ended(run)
    assert own.warm.processes() == [second, first]
    own.warm.prepare(kinds[2], lambda: True)
    until(lambda: not second.is_alive(), "the least recently used goes")
    assert first.is_alive()
    own.warm.close()
    assert not own.warm.is_ready(kinds[0])


def of_several_environments(kind: Kind) -> list[Kind]:
    """Return the kind and two like it, each with a variable of its own."""
    return [kind, *(kind._replace(env={**kind.env, "OTHER": name}) for name in ("one", "two"))]


@pytest.mark.long
@pytest.mark.requirement("TRAIN-10", "TRAIN-11")
def test_one_that_still_imports_is_not_ended_for_another(tmp_path: Path) -> None:
    own = launcher(tmp_path / "warm", most=1)
    first, second, _ = of_several_environments(kind_of_run(make_run(tmp_path / "run", SHORT)))
    own.warm.prepare(first, lambda: True)
    until(lambda: len(own.warm._kept) == 1, "none was started")
    own.warm.prepare(second, lambda: True)
    until(lambda: own.warm.is_ready(first), "the first was ended while it imported")
    assert not own.warm.is_ready(second)
    own.warm.prepare(second, lambda: True)
    until(lambda: own.warm.is_ready(second), "one that is ready makes place")
    own.warm.close()


@pytest.mark.long
@pytest.mark.requirement("REPRO-3", "TRAIN-10")
def test_after_an_update_of_any_package_the_run_starts_cold_and_a_new_one_is_made(tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=False)
    python = tmp_path / "venv" / "bin" / "python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "venv")}))
    (site / "others.pth").write_text("".join(f"import site; site.addsitedir({place!r})\n" for place in sites()))
    for number in range(3):
        make_run(tmp_path / f"run-{number}", SHORT)
    assert [one["is_warm"] for one in started(python, "update", tmp_path)] == [True, False, True]


def sites() -> list[str]:
    return [place for place in sys.path if place.endswith("site-packages")]


def started(python: Path | str, how: str, folder: Path) -> list[dict[str, Any]]:
    command = [str(python), "-P", warm_starts.__file__, how, str(folder)]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=280)
    assert said.returncode == 0, said.stderr
    found: list[dict[str, Any]] = json.loads(said.stdout)
    return found


@pytest.mark.long
@pytest.mark.requirement("TRAIN-10")
def test_a_warm_run_outlives_its_server_and_the_warm_process_does_not(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run-0", SHORT | {"training": {"epochs": 40}})
    [one] = started(sys.executable, "abandon", tmp_path)
    assert one["is_warm"]
    ended(run)
    assert run.last_status().state is RunState.COMPLETED, run.log.read_text()
    mark = str(tmp_path / "warm")
    until(
        lambda: not any(mark in (other.info["cmdline"] or []) for other in psutil.process_iter(["cmdline"])), "it stays"
    )


@pytest.mark.long
@pytest.mark.requirement("GATE-4")
def test_the_owner_turns_it_off_and_gates_do_not_depend_on_it(
    own: Local, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run(tmp_path / "run", SHORT)
    assert own.warm.limits is not None
    own.warm.limits = own.warm.limits._replace(most=0)
    own.warm.prepare(kind_of_run(run), lambda: True)
    assert not any(thread.name == "warm" for thread in threading.enumerate())
    begin(own, run, warm=False)
    ended(run)
    on = Settings.model_validate({"warm_workers": {"most": 3}})
    assert (on.digest, on.warm_workers.idle_seconds) == (Settings().digest, 300.0)
    monkeypatch.delenv(WARM_VARIABLE)
    assert Settings().warm_workers.most == 2, "on unless somebody says otherwise"
    monkeypatch.setenv(WARM_VARIABLE, "none")
    assert Settings().warm_workers.most == 0


@pytest.mark.requirement("REPRO-2", "TUNE-4")
def test_runs_of_all_seeds_share_one_environment(tmp_path: Path) -> None:
    kinds = [kind_of_run(make_run(tmp_path / f"seed-{seed}", SHORT | {"seed": seed})) for seed in (1, 2)]
    assert kinds[0] == kinds[1]
