"""Studies whose workers, conductor and server are killed with SIGKILL at random: the same trials all the same.

For each width a study trains in peace, one trial after the other (its project may run one at a time). Another project
searches the same in two parts, side by side, while a worker, the conductor, the server that is asked about it or, as
where a machine fails, all of them together are killed again and again. Half of the studies prune by the median, half by
brackets, whose promoted trials are resumed. Then every line of its trial table is compared with the other's: number,
parameters, state, value and each epoch's value.

Prints a table and, as its last line, one JSON object: `kills`, and of all trials those that are `lost`, `doubled` (had
more than one run in a study) or `different`; and how many were `retrained` for the second part: of a bracket that the
first part cut short, a trial may go on beyond the rung at which it stopped there.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import yaml
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from trainwright.server import cli
from trainwright.tools import ledger
from trainwright.tools.hyperparameter_tuner import start_study, stop_study, study_status
from trainwright.tools.hyperparameter_tuner.process import study_folder
from trainwright.tools.hyperparameter_tuner.trials import TrialRecord, trials_of
from trainwright.tools.launchers import read_launch
from trainwright.tools.projects import create_project
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import latest_config, runs_of
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import RunKind

CONFIG: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [32]}},
    "data": {"use": "digits"},
    "training": {"epochs": 6},
    "metrics": ["accuracy"],
    "logging": {"tensorboard": False},
}
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.999}
SPACE = {
    "optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1.0, "log": True},
    "loader.batch_size": {"type": "categorical", "choices": [16, 32, 64]},
}
PRUNING = (
    {"name": "median", "startup_trials": 2, "warmup_epochs": 1},
    {"name": "successive_halving", "bracket": 4, "reduction_factor": 2, "warmup_epochs": 1},
)
MAX_AT_ONCE = 8
LONGEST_SECONDS = 8.0
"""Between two kills."""
TARGETS = ("worker", "worker", "conductor", "server", "machine")


@dataclass
class Tally:
    """What the kills came to."""

    kills: collections.Counter[str] = field(default_factory=collections.Counter)
    lost: int = 0
    doubled: int = 0
    retrained: int = 0
    different: int = 0
    problems: list[str] = field(default_factory=list)
    most: int = 1_000_000
    """Kills after which a study is left in peace."""


def make_project(workspace: Workspace, name: str, *, one_at_a_time: bool) -> None:
    """Create a project whose earlier gates stand in the ledger: they are another benchmark's matter."""
    settings = workspace.path / "settings.yaml"
    owned = yaml.safe_load(settings.read_text())
    owned["limits"] = owned.get("limits", {}) | {"runs_at_once": MAX_AT_ONCE}  # or no study would be wider than two
    settings.write_text(yaml.safe_dump(owned))
    limits = {"runs_at_once": 1} if one_at_a_time else None
    workspace.refreshed()
    create_project(workspace, name, intent="", goal=GOAL, config=CONFIG, limits=limits)
    with workspace.session() as session:
        values = latest_config(session, name).values
        digest = config_digest(parse_config(values))
        rested_on = {"configuration": digest, "values": values, "smoke_run": "", "runs": []}
        for phase in ("planning", "baseline", "diagnostics"):
            body = {"phase": phase, "outcome": "passed", "checks": [], "rested_on": rested_on, "artifacts": {}}
            ledger.append(session, name, "gate", body)


def table_of(workspace: Workspace, study_id: str) -> list[TrialRecord]:
    """Return the study's trials."""
    with workspace.session() as session:
        return trials_of(session, study_id)


def in_peace(workspace: Workspace, project: str, search: dict[str, Any]) -> list[TrialRecord]:
    """Train the trials of a study, and leave out its confirmation."""
    study_id = start_study(workspace, project, search=search).study_id
    while (view := study_status(workspace, study_id, 1.0)).trials_done < search["trials"]:
        if view.is_ended:
            raise RuntimeError(f"{study_id} is {view.state}: {view.failure}")
    if not view.is_ended:
        stop_study(workspace, study_id)
    return table_of(workspace, study_id)


def processes(workspace: Workspace, project: str, study_id: str, server: psutil.Process) -> dict[str, list[int]]:
    """Return the ids of the living processes by what they are."""
    with workspace.session() as session:
        runs = [run.id for run in runs_of(session, project) if not run.sealed]
    folders = {
        "worker": [workspace.run_directory(project, run_id).path for run_id in runs],
        "conductor": [study_folder(workspace, project, study_id)],
    }
    found = {"server": [server.pid]}
    for name, paths in folders.items():
        launches = [read_launch(path) for path in paths]
        known = [launch.process for launch in launches if launch is not None and launch.process is not None]
        found[name] = [process.pid for process in known if process.is_alive()]
    return found | {"machine": [pid for pids in found.values() for pid in pids]}


async def one_server(
    workspace: Workspace, project: str, study_id: str, *,
    is_done: Callable[[dict[str, Any]], bool], draw: random.Random, tally: Tally,
) -> str:  # fmt: skip
    """Ask a server about the study and kill, until it `is_done`, it `ended`, or the server is `gone`."""
    arguments = ["-P", "-m", cli.__name__, "serve", "--workspace", str(workspace.path)]
    before = set(psutil.Process().children())
    parameters = StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ))
    with suppress(MCPError, TimeoutError, ExceptionGroup):
        async with Client(parameters) as client:
            [server] = set(psutil.Process().children()) - before
            until, target = time.monotonic() + draw.uniform(0.2, LONGEST_SECONDS), draw.choice(TARGETS)
            while True:
                asked = {"study_id": study_id, "wait_seconds": 0.2}
                answer = (await client.call_tool("tuning_status", asked)).structured_content or {}
                if is_done(answer):
                    return "done"
                if answer.get("state") == "stopped":  # it lost too many conductors: starting it again is the remedy
                    return "ended"
                living = processes(workspace, project, study_id, server)[target]
                if time.monotonic() > until and living and sum(tally.kills.values()) < tally.most:
                    for pid in living if target == "machine" else [draw.choice(living)]:
                        with suppress(ProcessLookupError):
                            os.kill(pid, signal.SIGKILL)
                    tally.kills[target] += 1
                    until, target = time.monotonic() + draw.uniform(0.2, LONGEST_SECONDS), draw.choice(TARGETS)
    return "gone"


def has_trained(trials: int, answer: dict[str, Any]) -> bool:
    """Whether so many trials have ended."""
    return int(answer.get("trials_done", 0)) >= trials


def in_war(
    workspace: Workspace, project: str, search: dict[str, Any], draw: random.Random, tally: Tally
) -> list[TrialRecord]:
    """Train the trials of the same search in two parts, killing what works on it."""
    for trials in (draw.randrange(1, search["trials"]), search["trials"]):
        wanted = search | {"trials": trials}
        study_id = start_study(workspace, project, search=wanted).study_id
        order = {"is_done": partial(has_trained, trials), "draw": draw, "tally": tally}
        while (how := asyncio.run(one_server(workspace, project, study_id, **order))) != "done":
            if how == "ended":
                start_study(workspace, project, search=wanted)
        if not study_status(workspace, study_id).is_ended:
            stop_study(workspace, study_id)
    return table_of(workspace, study_id)


def compare(expected: list[TrialRecord], found: list[TrialRecord], runs: dict[str, int], tally: Tally) -> None:
    """Count what the killed study has otherwise than the other.

    Args:
        runs: how many runs were ordered for each configuration of a trial in the killed project.
    """
    by_number = {trial.number: trial for trial in found}
    for trial in expected:
        other = by_number.get(trial.number)
        if other is None:
            tally.lost += 1
            continue
        names = ("parameters", "state", "value", "intermediate")
        changed = [name for name in names if getattr(trial, name) != getattr(other, name)]
        tally.different += bool(changed)
        if changed:
            cause = other.attributes.get("cause")
            said = f"{trial.state} in peace, {other.state} here"
            tally.problems.append(f"trial {trial.number}: {', '.join(changed)} differ; {said}; cause {cause}")
    tally.lost += abs(len(found) - len(expected)) if len(found) > len(expected) else 0
    tally.doubled += sum(number - 1 for number in runs.values())
    tally.retrained += len(runs) - len({name.split(" ", 1)[1] for name in runs})


def page(search: dict[str, Any], expected: list[TrialRecord], found: list[TrialRecord], tally: Tally) -> str:
    """Return both tables as Markdown, side by side."""
    killed = ", ".join(f"{number} times the {target}" for target, number in tally.kills.most_common())
    lines = [
        f"# A search of {len(expected)} trials, killed {sum(tally.kills.values())} times",
        "",
        "Written by `python benchmarks/study_kills.py --page`. Before: one trial after the other, in peace. After: "
        f"{search['width']} side by side, in two parts, while SIGKILL ended {killed}. {tally.lost} trials were lost, "
        f"{tally.doubled} trained twice and {tally.different} are different; the figures are compared to the last bit.",
        "",
        "| trial | parameters | before | epochs | after | epochs | the same |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for one, other in zip(expected, found, strict=True):
        parameters = ", ".join(f"{key.split('.')[-1]} {value:.5g}" for key, value in one.parameters.items())
        cells = [f"{trial.state} {trial.value!r}" if trial.value is not None else trial.state for trial in (one, other)]
        epochs = [str(len(trial.intermediate)) for trial in (one, other)]
        names = ("parameters", "state", "value", "intermediate")
        same = all(getattr(one, name) == getattr(other, name) for name in names)
        row = [str(one.number), parameters, cells[0], epochs[0], cells[1], epochs[1], "yes" if same else "NO"]
        lines.append(f"| {' | '.join(row)} |")
    return "\n".join(lines) + "\n"


def runs_by_trial(workspace: Workspace, project: str) -> dict[str, int]:
    """Return how many runs each trial of each study had. A study that takes over a run has none of its own for it."""
    with workspace.session() as session:
        rows = [run for run in runs_of(session, project, RunKind.TRIAL) if (run.label or "").startswith("trial ")]
    return dict(collections.Counter(f"{row.study} {row.label}" for row in rows))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--widths", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--page", type=Path, help="write both tables of one study into this file")
    asked = parser.parse_args()
    began, draw, tally = time.monotonic(), random.Random(asked.seed), Tally()
    if asked.page is not None:
        tally.most = asked.kills
    studies = 0
    while sum(tally.kills.values()) < asked.kills:
        width = asked.widths[studies % len(asked.widths)]
        before = sum(tally.kills.values())
        pruning = PRUNING[studies // len(asked.widths) % len(PRUNING)]
        search = {"trials": asked.trials, "width": width, "seed": studies, "space": SPACE, "pruning": pruning}
        with tempfile.TemporaryDirectory() as name:
            workspace = Workspace.open(Path(name) / "workspace", patience_seconds=120)
            make_project(workspace, "peace", one_at_a_time=True)
            make_project(workspace, "war", one_at_a_time=False)
            expected = in_peace(workspace, "peace", search)
            found = in_war(workspace, "war", search, draw, tally)
            compare(expected, found, runs_by_trial(workspace, "war"), tally)
            names = {str(trial.run) for trial in (*expected, *found)}
            told = verify_workspace(workspace.path).problems  # the gates before the search are made up
            tally.problems += [
                problem for problem in told if problem.startswith("study ") or any(name in problem for name in names)
            ]
            workspace.close()
        studies += 1
        kills = sum(tally.kills.values())
        print(f"width {width}: {kills - before} kills, {tally.lost} lost, {tally.doubled} doubled, "
              f"{tally.different} different so far", flush=True)  # fmt: skip
        if asked.page is not None:
            asked.page.write_text(page(search, expected, found, tally))
            break
    for target, number in tally.kills.most_common():
        print(f"  killed {target:<10} {number:>5}")
    for problem in tally.problems:
        print(f"  PROBLEM {problem}")
    figures = {
        "kills": sum(tally.kills.values()),
        "lost": tally.lost,
        "doubled": tally.doubled,
        "retrained": tally.retrained,
        "different": tally.different,
        "problems": len(tally.problems),
        "studies": studies,
        "killed": tally.kills,
        "seconds": round(time.monotonic() - began),
    }
    print(json.dumps(figures))
    raise SystemExit(1 if tally.problems or tally.lost or tally.doubled or tally.different else 0)


if __name__ == "__main__":
    main()
