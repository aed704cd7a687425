"""Runs side by side, as an agent asks for them: by name, kind or label, of a project or study, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.worlds.flowers import NAME, World, finish
from tests.worlds.scripted import scripted

from trainwright.tools import projects
from trainwright.tools.projects import comparing
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.records import get_run
from trainwright.tools.workspace.tables import Study
from trainwright.trainer.base.errors import ConfigurationError, NotFoundError
from trainwright.trainer.run import RunKind

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MON-3")]


@pytest.fixture(scope="module")
def repeated(flowers: World) -> str:
    """A stage with a configuration on two seeds, the runs of which belong to a study."""
    flowers.set_back("planned")
    workspace = Workspace.open(flowers.workspace)
    with scripted() as launcher:
        for seed in (1, 2):
            start_run(workspace, NAME, RunKind.BASELINE, seed=seed, idempotency_key=f"seed {seed}", label="twice")
    runs = launcher.started
    for run in runs:
        finish(workspace, run)
    with workspace.session() as session:
        base = get_run(session, runs[0])
        objective = {"metric": "accuracy", "direction": "maximize"}
        session.add(Study(id="flowers-study", project=NAME, search={}, objective=objective, base_values={},
                          base_config_digest=base.config_digest, state="completed"))  # fmt: skip
        session.flush()
        for run in runs:
            get_run(session, run).study = "flowers-study"
    workspace.close()
    flowers.keep("repeated")
    return "repeated"


@pytest.mark.parametrize("by", [{"project": NAME}, {"project": NAME, "only": "twice"}, {"study_id": "flowers-study"}])
def test_runs_are_found_and_seeds_are_one_group(at, repeated, by):
    found = projects.compare_runs(at(repeated), **by)
    assert len(found.runs) == 2
    (group,) = found.groups
    assert (group["seeds"], len(group["runs"])) == (2, 2)
    assert group["deviation"] >= 0.0
    assert list(found.differences) == ["seed"]
    assert found.picture is not None
    assert Path(found.picture).read_bytes().startswith(b"\x89PNG")
    assert len(json.dumps(found.shown())) / 4 < 2000
    assert found.next is not None


def test_fewer_than_two_are_refused_with_the_kinds_that_there_are(at, repeated):
    workspace = at(repeated)
    with pytest.raises(NotFoundError, match="needs two runs") as caught:
        projects.compare_runs(workspace, project=NAME, only="probe")
    assert "baseline, smoke" in caught.value.remedy
    with pytest.raises(ConfigurationError, match="run_ids, a project, or a study_id"):
        projects.compare_runs(workspace)


@pytest.mark.long
def test_more_keys_than_fit_are_counted(at, repeated, monkeypatch):
    workspace = at(repeated)
    other = start_run(workspace, NAME, RunKind.SMOKE, max_steps=3, idempotency_key="other", changes={
        "optimizer.weight_decay": 0.1, "optimizer.learning_rate": 0.5, "training.clip_norm": 2.0,
        "loader.batch_size": 7, "loader.shuffle": "blocks",
    }).run_id  # fmt: skip
    finish(workspace, other)
    monkeypatch.setattr(comparing, "MAX_CELLS", 1)
    with workspace.session() as session:
        first = next(row for row in comparing.runs_of(session, NAME) if row.label == "twice").id
    found = projects.compare_runs(workspace, [first, other])
    assert len(found.differences) == 4
    assert (found.differences_left_out or 0) >= 1


@pytest.mark.parametrize(("p", "says"), [(5e-07, "p = 5e-07"), (0.2, "")])
def test_a_test_of_two_trained_models_is_not_called_chance_and_leaves_the_seeds_open(p, says):
    test = {"first": "a", "second": "b", "rows": 400, "classes": {"p_value": p}, "loss": {"p_value": 0.4}}
    note = comparing.note_of_test(test)
    assert says in note
    assert bool(note) == bool(says)
    assert "may be chance" not in note
    assert not comparing.note_of_test({"first": "a", "second": "b", "not_tested": "their data differ"})
