"""A large workspace, made quickly: 21 projects, about 1,000 runs, one run with a million points.

Every project is taken through its gates by real calls; its runs are copies of a few real ones (see the understudy of
`call_sequences`), each with its own key, signed end, ledger entries and seal. `trainwright verify` finds nothing in it.
"""

from __future__ import annotations

import importlib
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[1] / "call_sequences"))

from understudy import Held, Library, Understudy, _commit, _copy, _sign_checkpoints, _write_events
from world import CONFIG, GOAL, SEARCH, in_place, write_user_files

from trainwright.tools import ledger, projects
from trainwright.tools.launchers import Launch, write_launch
from trainwright.tools.ledger.events import RunStarted, StudyChanged
from trainwright.tools.training_orchestrator import launch
from trainwright.tools.training_orchestrator.follow import follow
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_project, latest_config
from trainwright.tools.workspace.tables import Run, now
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.run import ProcessIdentity, RunDirectory, RunKey, RunKind
from trainwright.trainer.run.evidence import Summary

PROJECTS = 21
RUNS = 1_000
POINTS = 1_000_000
LONG = "p00"
"""The project whose baseline has POINTS points."""
SERIES = ("train/gradient_norm", "train/learning_rate", "train/loss")
WARM = ("torch", "torch._dynamo", "sklearn.datasets")


class LongLibrary(Library):
    """Prepared runs; the baseline of one project is lengthened by as many points as are asked for."""

    points = POINTS

    def take(self, run: RunDirectory) -> RunDirectory:
        """Return the prepared run, or its lengthened copy."""
        prepared = super().take(run)
        specification = run.specification()
        if (specification.project, specification.kind) != (LONG, RunKind.BASELINE):
            return prepared
        longer = prepared.path.with_name("long")
        if not longer.exists():
            shutil.copytree(prepared.path, longer)
            lengthen(RunDirectory(longer), self.points)
        return RunDirectory(longer)


def lengthen(run: RunDirectory, points: int) -> None:
    """Let the series of the run's steps go on, at their last values, until it has so many points."""
    with run.metrics(writer=True) as store:
        last = {key: store.last(key) for key in SERIES}
        for key, point in last.items():
            if point is None:
                raise SystemExit(f"{run.path} recorded no {key}")
            begin, count = point.step + 1, points // len(SERIES)
            for at in range(begin, begin + count, 50_000):
                steps = range(at, min(at + 50_000, begin + count))
                store.write((key, step, point.value * (1 + step % 7 / 100), point.time) for step in steps)
        longest = max(point.step for key in SERIES if (point := store.last(key)) is not None)
    run.write_evidence(run.part(Summary).model_copy(update={"steps": longest}))


def build(folder: Path, *, count: int = PROJECTS, runs: int = RUNS, points: int = POINTS) -> Path:
    """Make the workspace in the folder and return its path."""
    for module in WARM:
        importlib.import_module(module)
    write_user_files(folder / "code", "a", "a")
    library = LongLibrary(folder / "library")
    library.points = points
    understudy = Understudy(library)
    understudy.at_once = True
    workspace = Workspace.open(folder / "workspace")
    (workspace.path / "settings.yaml").write_text(
        (workspace.path / "settings.yaml").read_text().replace("disk_bytes: ", "disk_bytes: 9")
    )
    workspace.refreshed()
    try:
        with in_place(understudy, folder / "pictures"):
            for number in range(count):
                _project(workspace, f"p{number:02}", number, runs // count)
    finally:
        understudy.close()
        workspace.close()
    return folder / "workspace"


def _project(workspace: Workspace, name: str, number: int, runs: int) -> None:
    """Make a project: every third is finished, the others stand after the baseline or in it."""
    projects.create_project(workspace, name, intent="tell irises apart", goal=GOAL, config=CONFIG)
    if number % 3 == 1:
        for _ in range(20):
            if projects.advance(workspace, name, 50).ended == "finished":
                break
        else:
            raise SystemExit(f"{name} was not finished")
    else:
        launch.start_run(workspace, name, RunKind.SMOKE)
        projects.pass_gate(workspace, name, "planning")
        launch.start_run(workspace, name, RunKind.BASELINE)
        if number % 3 == 0:
            projects.pass_gate(workspace, name, "baseline")
            projects.diagnose(workspace, name)
    with workspace.session() as session:
        present = session.query(Run).where(Run.project == name).count()
        baseline = session.query(Run.id).where(Run.project == name, Run.kind == "baseline").scalar()
        source = workspace.run_directory(name, baseline)
    _add_trials(workspace, name, source, runs - present)


def _add_trials(workspace: Workspace, project: str, source: RunDirectory, count: int) -> None:
    """Record so many trials of a study that was stopped, each a copy of the project's baseline with another seed."""
    with workspace.session() as session:
        row, version = get_project(session, project), latest_config(session, project)
        specification = source.specification()
        base = {key: value for key, value in version.values.items() if key != "search"}
        study = StudyChanged(
            study_id=launch.new_id("study", project), state="stopped", search=parse_config({**base, "search": SEARCH})
            .search.model_dump(mode="json"), objective={"metric": "accuracy", "direction": "maximize"},
            base_config_digest=config_digest(parse_config(base)), idempotency_key=None, created_at=now(),
            ended_at=now(),
        )  # fmt: skip
        ledger.record(session, project, study)
        library = Path(workspace.path.parent / "library")
        prepared = next(
            one for path in sorted(library.iterdir())
            if path.name != "long" and (one := RunDirectory(path)).specification().kind is RunKind.BASELINE
        )  # fmt: skip
        made = [_trial(session, workspace, row, study, specification, prepared, seed) for seed in range(1, count + 1)]
    for run in made:
        follow(workspace, run)


def _trial(  # noqa: PLR0917
    session: Any,
    workspace: Workspace,
    project: Any,
    study: StudyChanged,
    source: Any,
    prepared: RunDirectory,
    seed: int,
) -> Run:
    values = source.config.model_copy(update={"seed": seed})
    key = RunKey.new()
    started = RunStarted(
        run_id=launch.new_id("trial", project.name), kind="trial", label=None, config_digest=config_digest(values),
        base_config_digest=study.base_config_digest, seed=seed, source_run=None, study=study.study_id,
        idempotency_key=None, created_at=now(),
    )  # fmt: skip
    permit = {**source.permit, "kind": "trial"}
    order = source.model_copy(
        update={"run_id": started.run_id, "kind": RunKind.TRIAL, "config": values,
                "config_digest": started.config_digest, "permit": permit}
    )  # fmt: skip
    directory = RunDirectory.create(workspace.run_directory(project.name, started.run_id).path, order)
    directory.key = key
    status = prepared.last_status()
    identity = ProcessIdentity.current()
    write_launch(directory.path, Launch(attempt=1, process=identity, launched_at=status.started_at))
    run = launch._record(session, started, directory, key)
    _copy(prepared, directory)
    _sign_checkpoints(directory)
    _commit(directory)
    _write_events(Held(directory, prepared, 1, None, None, status.started_at), 0.0)  # type: ignore[arg-type]
    directory.write_last_status(status.model_copy(update={"attempt": 1, "process": identity}))
    return run


if __name__ == "__main__":
    print(build(Path(sys.argv[1]), **{key: int(value) for key, value in (one.split("=") for one in sys.argv[2:])}))
