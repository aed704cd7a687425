"""What the server does with a card: runs that share it, searches, warm processes, exports, whole projects."""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import runpy
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lane import ROOT, Lane, check, differences, importable

GOAL = {"metric": "accuracy", "direction": "maximize"}
PATIENCE_SECONDS = 150.0


@contextmanager
def _workspace(lane: Lane) -> Iterator[Any]:
    from trainwright.tools.workspace import Workspace

    os.chdir(lane.folder)
    opened = Workspace.open(lane.folder / "workspace")
    yield opened
    opened.close()


def _until(holds: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := holds()):
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)
    return found


def _project(lane: Lane, workspace: Any, name: str, goal: float = 0.5, **config: Any) -> str:
    from trainwright.tools.projects import create_project

    values = {
        "model": {"use": "cnn", "args": {"channels": [16, 32]}},
        "data": {"use": "digits"},
        "metrics": ["accuracy"],
        "selection": {"metric": "accuracy", "direction": "maximize"},
        **config,
    }
    create_project(workspace, name, intent="a lane for GPUs", goal={**GOAL, "target": goal}, config=lane.config(values))
    return name


def _ended(workspace: Any, run_id: str) -> Any:
    from trainwright.tools.training_orchestrator import wait_for_run

    view = _until(lambda: (found := wait_for_run(workspace, run_id, 10)).is_ended and found)
    assert view.state == "completed", (view.state, view.failure)
    return view


@check("warm_process", 120)
def warm_process(lane: Lane) -> None:
    """A run forked off a warm process computes on the device, with the bits of a cold one."""
    from rows.foundations import CNN
    from trainwright.tools.launchers import Launch
    from trainwright.tools.launchers.environment import worker_environment
    from trainwright.tools.launchers.local import Local, kind_of
    from trainwright.tools.launchers.warm import WarmLimits, WarmProcesses
    from trainwright.trainer.run import RunKey
    from trainwright.trainer.run.evidence import Environment

    own, runs = Local(), [lane.make(f"{name}/run", CNN) for name in ("cold", "warm")]
    own.warm = WarmProcesses()
    own.warm.limits = WarmLimits(lane.folder / "slots", 1, 600.0)
    specification = runs[0].specification()
    kind = kind_of(specification, worker_environment(specification.config, specification.connections))
    for run, is_warm in zip(runs, (False, True), strict=True):
        launch = own.start(run, Launch(), RunKey.new())
        assert (launch.parent is not None) == is_warm, launch
        _until(lambda run=run: run.last_status().state.is_ended and not run.is_locked())
        assert run.last_status().state.value == "completed", run.log.read_text()[-2000:]
        assert run.part(Environment).fingerprint_basis["device"] == lane.device
        own.warm.prepare(kind, lambda: True)
        _until(lambda: own.warm.is_ready(kind))
    own.warm.close()
    assert not (found := differences(runs[1], runs[0])), found


@check("shared_card", 200)
def shared_card(lane: Lane) -> None:
    """Two projects' runs share the card, each shown it by name; a search has two trials side by side on it."""
    from trainwright.tools.gpus.inventory import gpus_of
    from trainwright.tools.hyperparameter_tuner import start_study, stop_study, study_status
    from trainwright.tools.projects import advance
    from trainwright.tools.training_orchestrator import start_run
    from trainwright.tools.workspace.records import runs_of
    from trainwright.trainer.run import RunKind
    from trainwright.trainer.run.evidence import Environment

    search = {"trials": 4, "width": 2, "trials_per_gpu": 2, "method": "random", "pruning": {"name": "none"}, "space": {
        "optimizer.learning_rate": {"type": "float", "low": 1e-3, "high": 1e-2, "log": True}}}  # fmt: skip
    with _workspace(lane) as workspace:
        views = [
            start_run(workspace, _project(lane, workspace, name, goal=0.999), RunKind.SMOKE) for name in ("one", "two")
        ]
        named = list(zip(("one", "two"), views, strict=True))
        for name, view in named:
            _ended(workspace, view.run_id)
            if lane.on_card:
                [device, *_] = gpus_of(workspace.settings)
                assert view.gpus == [str(device.gpu)]
                hardware = workspace.run_directory(name, view.run_id).part(Environment).hardware
                assert [gpu["name"] for gpu in hardware["gpus"]] == [device.gpu.name]
        assert _overlapping(workspace.run_directory(name, view.run_id) for name, view in named)
        asked = _until(
            lambda: (found := advance(workspace, "one")).next and found.next.tool == "start_tuning" and found
        )
        lane.figures["steps_to_the_search"] = len(asked.steps)
        study = start_study(workspace, "one", search=search).study_id
        _until(lambda: study_status(workspace, study).trials_done == search["trials"])
        stop_study(workspace, study)
        with workspace.session() as session:
            trials = [run.id for run in runs_of(session, "one", RunKind.TRIAL)]
        lane.figures["overlapping_trials"] = _overlapping(workspace.run_directory("one", trial) for trial in trials)
        assert lane.figures["overlapping_trials"]


def _overlapping(runs: Iterable[Any]) -> int:
    """Return how many runs began before the one that had begun before them ended; one that never began counts not."""
    events = [told for run in runs if (told := list(run.events()))]
    spans = sorted((each[0].time, each[-1].time) for each in events)
    return sum(later[0] < one[1] for one, later in itertools.pairwise(spans))


@check("export", 150)
def export(lane: Lane) -> None:
    """A project in bf16 from planning to release: the program of the device's weights is certified on the CPU."""
    from trainwright.tools.ledger import ProjectFacts
    from trainwright.tools.projects import advance

    with _workspace(lane) as workspace:
        name = _project(lane, workspace, "exported", training={"epochs": 3, "precision": "bf16"})
        answer = _until(lambda: (found := advance(workspace, name)).ended == "finished" and found)
        with workspace.session() as session:
            evaluations = ProjectFacts(session, name).evaluations
    lane.figures |= {"steps": len(answer.steps), "evaluations": len(evaluations)}
    for event in evaluations.values():
        assert (event.problem, event.differences) == ("", [])
        lane.figures[event.run_id] = {
            split: [found["metrics"]["accuracy"], event.reported[split]["accuracy"]]
            for split, found in event.splits.items()
        }  # fmt: skip
    assert any("test" in event.splits for event in evaluations.values())
    assert all(
        certified > 0.5 for value in lane.figures.values() if isinstance(value, dict) for certified, _ in value.values()
    )


@check("architects_script", 120)
def architects_script(lane: Lane) -> None:
    """The script that the architect writes runs alone on the device, and holds its base there as planned."""
    import torch

    from trainwright.tools.training_architect import plan_training, read_request

    with importable(ROOT / "docs" / "transcripts"):
        from tickets import write_model, write_tickets

    write_model(lane.folder / "models" / "tiny", write_tickets(lane.folder / "tickets.csv"))
    values = {"intent": "sort support tickets", "data": "tickets.csv", "model": "models/tiny", "goal": "fastest"}
    with _workspace(lane) as workspace:
        request = read_request(**values)
        plan = _until(
            lambda: (found := plan_training(workspace, request, with_files=True)).state != "running" and found
        )
    [script] = [path for path in map(Path, plan.files) if path.name == "train.py"]
    command = [sys.executable, "-P", str(script), "--root", str(lane.folder), "--output", str(lane.folder / "output")]
    hidden = {} if lane.on_card else {"CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=script.parent, env=os.environ | hidden, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    lane.figures["result"] = done.stdout.strip().splitlines()[-1]
    if lane.on_card:
        assert _base_of(script, dtype="bfloat16", quantize=None) == {"dtype": torch.bfloat16}
        if importlib.util.find_spec("bitsandbytes") is not None:
            assert _base_of(script, dtype="float32", quantize="4bit")["quantization_config"].load_in_4bit


def _base_of(script: Path, **changes: Any) -> dict[str, Any]:
    """Return how the script would load the base of a plan that is changed so."""
    plan = script.with_name("plan.json")
    plan.write_text(json.dumps(json.loads(plan.read_text()) | changes))
    return runpy.run_path(str(script), run_name="imported")["weights"]()


@check("demo", 300)
def demo(lane: Lane) -> None:
    """The demonstration over stdio, on the device: five gates, a search, a replay, an export."""
    from trainwright.server import cli

    command = [sys.executable, "-P", "-m", cli.__name__, "demo", "--workspace", str(lane.folder / "demo")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=lane.folder, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    lane.figures["result"] = done.stdout.strip().splitlines()[-1]
    bases = [
        json.loads(path.read_text())["fingerprint_basis"] for path in lane.folder.rglob("artifacts/environment.json")
    ]
    assert {basis["device"] for basis in bases} == {lane.device}
