"""What every tracker that follows runs promises: one structure, all that was recorded, nothing twice, nothing lost."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import select
from tests.worlds.flowers import NAME, World, finish
from tests.worlds.warm import warm

from trainwright.tools.hyperparameter_tuner import start_study, study_status
from trainwright.tools.tracking import TRACKERS, RunCard, run_card
from trainwright.tools.tracking.tracker import folder_of, mlflow_database
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.handles import study_handles
from trainwright.tools.workspace.tables import Run
from trainwright.trainer.config.schema import LoggingSection
from trainwright.trainer.run import RunKind

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of the libraries that read the stores
    pytest.mark.timeout(900),  # the fixture conducts a study
]


def library(name: str) -> Any:
    """Return a tracker to test; MLflow's database takes half a minute to make."""
    reason = f"pip install '.[{name}]': {name} is not installed"
    marks = [pytest.mark.skipif(find_spec(name) is None, reason=reason)]
    return pytest.param(name, marks=[*marks, pytest.mark.long] if name == "mlflow" else marks)


SEARCH: dict[str, Any] = {
    "present_first": False,
    "trials": 2,
    "space": {"optimizer.learning_rate": {"type": "float", "low": 0.005, "high": 0.05, "log": True}},
    "confirmation_repeats": 3,
}


class Shown(NamedTuple):
    """One run as a tracker shows it."""

    experiment: str
    name: str
    tags: list[str]
    group: str | None
    """Name of the outermost parent."""
    parents: list[str]
    """Names of all, from the outermost in."""
    parameters: dict[str, Any]
    metrics: dict[str, dict[int, float]]
    results: dict[str, float]
    metadata: dict[str, Any]
    times: int
    """Numbers that are stored, repetitions included."""


def put(shown: Shown, key: str, step: int, value: Any) -> int:
    """Add a stored value to what is shown; return how many numbers it is."""
    shown.metrics.setdefault(key, {})[step] = value
    return 1


def from_mlflow(workspace: Workspace) -> dict[str, Shown]:
    from mlflow.tracking import MlflowClient

    client = MlflowClient(mlflow_database(workspace))
    found = {}
    for experiment in client.search_experiments():
        runs = {run.info.run_id: run for run in client.search_runs([experiment.experiment_id])}
        for run in runs.values():
            data, outer, parents = run.data, run, list[str]()
            while parent := outer.data.tags.get("mlflow.parentRunId"):
                outer = runs[parent]
                parents.insert(0, outer.info.run_name)
            if "trainwright.run_id" not in data.tags:
                continue
            points = {key: client.get_metric_history(run.info.run_id, key) for key in data.metrics}
            found[data.tags["trainwright.run_id"]] = Shown(
                experiment=experiment.name,
                name=run.info.run_name,
                tags=data.tags["purpose"].split(", "),
                group=parents[0] if parents else None,
                parents=parents,
                parameters=data.params,
                metrics={key: {point.step: point.value for point in one} for key, one in points.items()},
                results={k.removeprefix("summary/"): v for k, v in data.metrics.items() if k.startswith("summary/")},
                metadata=data.tags,
                times=sum(len(one) for key, one in points.items() if not key.startswith("summary/")),
            )
    return found


def blocks(content: bytes) -> Iterator[bytes]:
    """Give the records of an offline file: LevelDB's log format behind a head of seven bytes."""
    place, size, begun = 7, 2**15, b""
    while place < len(content):
        if size - place % size < 7:
            place += size - place % size
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        begun += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in {1, 4}:  # whole, or the last part
            yield begun
            begun = b""


def values_of(history: Any) -> dict[str, Any]:
    """Return what one line of the history holds."""
    return {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in history.item}


def from_wandb(workspace: Workspace) -> dict[str, Shown]:
    from wandb.proto import wandb_internal_pb2

    found = {}
    for file in sorted(folder_of(workspace, "wandb").glob("wandb/offline-run-*/run-*.wandb")):
        config: dict[str, Any] = {}
        results: dict[str, float] = {}
        shown = Shown("", "", [], None, [], config, {}, results, {}, 0)
        run: Any = None
        count = 0
        for data in blocks(file.read_bytes()):
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "run":
                run = record.run
                config |= {item.key: json.loads(item.value_json) for item in run.config.update}
            elif record.WhichOneof("record_type") == "config":
                config |= {item.key: json.loads(item.value_json) for item in record.config.update}
            elif record.WhichOneof("record_type") == "summary":
                results |= {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in record.summary.update}
            elif record.WhichOneof("record_type") == "history":
                values = values_of(record.history)
                step = values.pop("trainer/step")
                for key, value in values.items():
                    if not key.startswith("_"):
                        count += put(shown, key, step, value)
        found[run.run_id] = shown._replace(
            experiment=run.project, name=run.display_name, tags=list(run.tags), group=run.run_group or None,
            parents=config["parents"], metadata=config["metadata"], times=count,
        )  # fmt: skip
    return found


READERS: dict[str, Callable[[Workspace], dict[str, Shown]]] = {
    "mlflow": from_mlflow, "wandb": from_wandb,
}  # fmt: skip
"""A new tracker is one line here: how what it shows is read."""


class Given(NamedTuple):
    """A whole project, given to a tracker."""

    name: str
    workspace: Workspace
    study: str
    """The study's handle."""
    runs: dict[str, Run]
    cards: dict[str, RunCard]
    shown: dict[str, Shown]


def give(workspace: Workspace, name: str) -> None:
    """Give the project's runs as the owner's command does."""
    command = [str(Path(sys.executable).with_name("trainwright")), "track", NAME, "--to", name]
    done = subprocess.run(
        [*command, "--workspace", str(workspace.path)], capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def family(flowers: World) -> Iterator[Workspace]:
    """A project with a study of two trials confirmed over seeds, and a run that tries a cure of its baseline."""
    flowers.set_back("diagnosed")
    workspace = Workspace.open(flowers.workspace)
    with warm():
        study = start_study(workspace, NAME, search=SEARCH).study_id
        while not study_status(workspace, study, 50).is_ended:
            pass
        with workspace.snapshot() as session:
            baseline = session.scalars(select(Run).where(Run.kind == RunKind.BASELINE.value, Run.study.is_(None))).one()
        values = workspace.run_directory(NAME, baseline.id).specification().config.model_dump(mode="json")
        finish(workspace, start_run(workspace, NAME, RunKind.CURE, base=values, source_run=baseline.id).run_id)
    yield workspace
    workspace.close()


@pytest.fixture(scope="module", params=map(library, TRACKERS))
def given(request: pytest.FixtureRequest, family: Workspace) -> Given:
    with family.snapshot() as session:
        runs = {run.id: run for run in session.scalars(select(Run))}
        (study,) = study_handles(session)
    give(family, request.param)
    cards = {run_id: run_card(family, run_id) for run_id in runs}
    return Given(request.param, family, study.rpartition("/")[2], runs, cards, READERS[request.param](family))


def test_every_tracker_is_held_to_this_and_has_its_switch() -> None:
    assert TRACKERS.keys() == READERS.keys()
    assert TRACKERS.keys() <= LoggingSection.model_fields.keys()


@pytest.mark.requirement("TRACK-2")
def test_a_project_is_one_experiment_and_its_runs_have_names_tags_and_parents(given: Given) -> None:
    assert given.shown.keys() == given.runs.keys()
    for run_id, run in given.runs.items():
        shown, card = given.shown[run_id], given.cards[run_id]
        assert shown.experiment == run.project
        assert (shown.name, shown.tags) == (card.name, card.tags)
        assert shown.name.startswith(f"{run.kind}-")
        assert shown.group == (card.parents[0].name if card.parents else None)
    alone = {run.kind: given.shown[run_id].tags for run_id, run in given.runs.items() if run.study is None}
    assert alone == {"smoke": ["smoke"], "baseline": ["baseline"], "cure": ["cure"]}


@pytest.mark.requirement("TRACK-2")
def test_a_study_holds_its_trials_and_a_run_what_was_tried_to_cure_it(given: Given) -> None:
    baseline = next(run.id for run in given.runs.values() if run.kind == RunKind.BASELINE and run.study is None)
    parents = {run_id: given.shown[run_id].parents for run_id in given.runs}
    for run_id, run in given.runs.items():
        if run.kind == RunKind.CURE:
            assert parents[run_id] == [given.shown[baseline].name]
        elif run.study is None:
            assert parents[run_id] == []
        elif run.kind == RunKind.TRIAL and "repetition" not in given.shown[run_id].tags:
            assert parents[run_id] == [given.study]
    trials = [run_id for run_id, names in parents.items() if names == [given.study]]
    assert len(trials) == SEARCH["trials"]
    over_seeds = {tuple(names) for names in parents.values() if len(names) == 2}
    assert {names[0] for names in over_seeds} == {given.study}
    assert {names[1].split(" over seeds")[0] for names in over_seeds} == {
        f"{given.study} best",
        f"{given.study} baseline",
    }


@pytest.mark.requirement("TRACK-1", "TRAIN-9")
def test_curves_and_results_are_those_that_were_recorded(given: Given) -> None:
    for run_id, run in given.runs.items():
        store = given.workspace.run_directory(run.project, run_id).metrics()
        for key in store.keys():  # noqa: SIM118 - no mapping
            recorded = {point.step: point.value for point in store.series(key)}
            assert given.shown[run_id].metrics[key] == pytest.approx(recorded, nan_ok=True), (run_id, key)
        for name, value in given.cards[run_id].metrics.items():
            assert given.shown[run_id].results[name] == pytest.approx(value)


@pytest.mark.requirement("TRACK-1", "TRACK-3")
def test_the_card_is_shown_with_parameters_data_and_metadata(given: Given) -> None:
    for run_id, card in given.cards.items():
        shown = given.shown[run_id]
        for key in ("seed", "optimizer.learning_rate", "model.parameters"):
            if key in card.parameters:
                assert str(shown.parameters[key]) == str(card.parameters[key])
        for key in ("author", "intent", "code_digest", "state"):
            if key in card.metadata:
                assert shown.metadata[key] == card.metadata[key]


@pytest.mark.requirement("TRAIN-9")
def test_what_it_has_is_not_repeated_and_a_lost_position_adds_nothing(given: Given) -> None:
    before = {run_id: shown.times for run_id, shown in given.shown.items()}
    if given.name != "wandb":  # whose offline files are joined by the run's id when they are sent
        lost = next(run.id for run in given.runs.values() if run.kind == RunKind.BASELINE)
        (folder_of(given.workspace, given.name) / "positions" / f"{lost}.json").write_text("{")
    give(given.workspace, given.name)
    assert {run_id: shown.times for run_id, shown in READERS[given.name](given.workspace).items()} == before
