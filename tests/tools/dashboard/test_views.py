"""View models of the page: what they show is what the records say, and a look at them changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.worlds.flowers import CONFIG, GOAL, NAME, train, write_code

from trainwright.tools import dashboard, ledger, projects
from trainwright.tools.dashboard.curves import curves_since
from trainwright.tools.dashboard.study_page import remembered
from trainwright.tools.ledger.events import GateDecided, ModelPromoted
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import RaisedAlert, Run, Study, Trial, now
from trainwright.trainer.base.errors import ConfigurationError, NotFoundError
from trainwright.trainer.run import RunKind

STUDY = "study-flowers-20261123-120000-0a0b0c"
VALUES = (0.5, None, 0.7, 0.6)
SPACE = {
    "a": {"type": "int", "low": 0, "high": 99},
    "b": {"type": "float", "low": 0.0, "high": 1.0},
}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A workspace with a project, two smoke runs that were trained, and the trials of a search."""
    base: Path = tmp_path_factory.mktemp("views")
    write_code(base / "code")
    opened = Workspace.open(base / "workspace")
    projects.create_project(opened, NAME, intent="tell irises apart", goal=GOAL, config=CONFIG)
    train(opened, RunKind.SMOKE)
    projects.configure(opened, NAME, changes={"optimizer.learning_rate": 0.05}, reason="faster")
    train(opened, RunKind.SMOKE)
    with opened.session() as session:
        objective, search = {"metric": "accuracy", "direction": "maximize"}, {"trials": 9, "space": SPACE}
        session.add(Study(id=STUDY, project=NAME, search=search, objective=objective, base_values={},
                          base_config_digest="", state="running"))  # fmt: skip
        for number, value in enumerate(VALUES):
            state = "pruned" if value is None else "completed"
            session.add(Trial(study=STUDY, number=number, parameters={"a": number}, state=state, value=value))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def runs(workspace: Workspace) -> list[str]:
    """Both runs, the newest first."""
    return [run.run_id for run in dashboard.project_page(workspace, NAME).runs]


@pytest.mark.long
@pytest.mark.requirement("MON-2")
def test_the_overview_counts_runs_and_shows_alerts_that_stand(workspace: Workspace) -> None:
    shown = dashboard.overview(workspace)
    [project] = shown.projects
    assert (project.name, project.runs, project.gates) == (NAME, {"completed": 2}, {})
    assert project.goal == "accuracy at least 0.6"
    assert {alert.id for alert in shown.alerts} == {"no_effect"}
    first, second = shown.alerts
    with workspace.session() as session:
        run = session.get_one(Run, first.run_id)
        kind, run.kind = run.kind, RunKind.CURE
    assert dashboard.overview(workspace).alerts == [second], "a cure's are those of the run whose fixes it tries"
    with workspace.session() as session:
        session.get_one(Run, first.run_id).kind = kind
    assert dashboard.overview(workspace).alerts == [first, second]
    with workspace.session() as session:
        for row in session.query(RaisedAlert):
            row.cleared_at = 1.0
    assert dashboard.overview(workspace).alerts == []


def test_a_page_of_a_project_is_its_status_and_more(workspace: Workspace) -> None:
    page = dashboard.project_page(workspace, NAME)
    assert page.problem is None
    assert page.status["checks"]
    assert [run.handle for run in page.runs] == ["flowers/smoke-2", "flowers/smoke-1"]
    assert [one.name for one in page.data] == ["v1"]
    assert [study.study_id for study in page.studies] == [STUDY]
    with pytest.raises(NotFoundError):
        dashboard.project_page(workspace, "nothing")


@pytest.mark.requirement("MON-1")
def test_a_page_of_a_run_has_its_view_series_and_checkpoints(workspace: Workspace, runs: list[str]) -> None:
    page = dashboard.run_page(workspace, runs[0])
    assert page.view["state"] == "completed"
    assert {"train/loss", "validation/loss"} <= set(page.keys)
    assert any("best" in one.tags for one in page.checkpoints)
    assert any(mark.kind == "best" for mark in page.marks)
    assert page.config["optimizer.learning_rate"] == 0.05


@pytest.mark.requirement("MON-4")
def test_a_spike_of_one_step_survives_every_bucket(workspace: Workspace, runs: list[str]) -> None:
    run = workspace.run_directory(NAME, runs[1])
    with run.metrics(writer=True) as store:
        store.write(("train/spiky", step, 9.0 if step == 41_234 else 1.0, 0.0) for step in range(1, 60_001))
    curve = dashboard.curves(workspace, runs[1], ["train/spiky"], 100).curves["train/spiky"]
    assert len(curve.steps) <= 100
    assert (max(curve.highs), min(curve.lows), curve.steps[-1]) == (9.0, 1.0, 60_000)


def test_a_reader_that_is_far_behind_reads_again(workspace: Workspace, runs: list[str]) -> None:
    news = curves_since(workspace, runs[1], ["train/spiky"], "1:5")
    assert news is not None
    assert news.restart
    for cursor in ("", "nonsense", "1:1,2", "1:x"):
        again = curves_since(workspace, runs[1], ["train/spiky"], cursor)
        assert again is not None
        assert again.restart


def test_a_comparison_names_what_differed(workspace: Workspace, runs: list[str]) -> None:
    page = dashboard.comparison_page(workspace, runs)
    assert page.comparison.differences["optimizer.learning_rate"] == {runs[0]: 0.05, runs[1]: 0.02}
    assert page.handles[runs[1]] == "flowers/smoke-1"
    assert "train/loss" in page.keys
    with pytest.raises(ConfigurationError):
        dashboard.comparison_page(workspace, runs[:1])


def test_a_study_shows_how_its_best_value_came_about(workspace: Workspace) -> None:
    page = dashboard.study_page(workspace, STUDY)
    assert [trial.best_so_far for trial in page.trials] == [0.5, 0.5, 0.7, 0.7]
    assert (page.best, page.trials_total) == (2, 9)


def test_the_ledger_is_read_in_pages_the_newest_first(workspace: Workspace) -> None:
    page = dashboard.ledger_page(workspace, NAME)
    numbers = [entry.sequence for entry in page.entries]
    assert numbers == sorted(numbers, reverse=True)
    assert page.entries[-1].kind == "project_created"
    older = dashboard.ledger_page(workspace, NAME, before=numbers[0])
    assert [entry.sequence for entry in older.entries] == numbers[1:]


def test_a_project_with_a_damaged_run_still_has_its_page(workspace: Workspace, runs: list[str]) -> None:
    status = workspace.run_directory(NAME, runs[0]).path / "status.json"
    kept = status.read_bytes()
    status.write_bytes(b"{")
    try:
        page = dashboard.project_page(workspace, NAME)
        assert dashboard.run_page(workspace, runs[0]).view["state"] == "failed"
    finally:
        status.write_bytes(kept)
    assert page.problem is not None
    assert len(page.runs) == 2


@pytest.mark.requirement("TUNE-4", "MON-2")
def test_a_study_tells_what_mattered_and_computes_it_once(workspace: Workspace) -> None:
    page = dashboard.study_page(workspace, STUDY)
    assert page.importance == []
    assert "3 completed trials are too few" in page.importance_note
    with workspace.session() as session:
        for number in range(len(VALUES), 24):
            given = {"a": number, "b": (number * 0.37) % 1.0}
            session.add(Trial(study=STUDY, number=number, parameters=given, state="completed", value=given["b"]))
        session.add(Trial(study=STUDY, number=24, parameters=given, state="running", intermediate={"1": 0.3, "2": 0.2}))
    before = remembered.cache_info()
    page, again = (dashboard.study_page(workspace, STUDY) for _ in range(2))
    after = remembered.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 1), "an unchanged table is computed once"
    assert page.importance == again.importance
    assert page.importance[0].key == "b"
    assert page.importance[0].ped_anova is not None
    assert page.importance[0].ped_anova > 0.5
    assert page.trials[24].value == 0.3, "of a trial under way, its best epoch so far"
    assert page.trials[24].best_so_far == max(trial.value or 0.0 for trial in page.trials[:24])


@pytest.mark.requirement("MON-2", "PHASE-6")
def test_a_projects_card_shows_its_result_and_neither_a_leaked_best_nor_a_finished_ones_alerts(tmp_path: Path) -> None:
    opened = Workspace.open(tmp_path / "churn" / ".trainwright")
    config = {"model": {"use": "mlp"}, "data": {"use": "iris"}}
    projects.create_project(opened, NAME, intent="", goal=GOAL, config=config)
    for place, (digest, value) in enumerate((("leaking", 1.0), ("clean", 0.875))):
        summary = {"best": {"metrics": {"accuracy": value}}}
        with opened.session() as session:
            session.add(Run(id=f"b{place}", project=NAME, kind="baseline", config_digest=digest, seed=1, sealed=True,
                            state="completed", base_config_digest=digest, summary=summary))  # fmt: skip
    with opened.session() as session:
        session.add(RaisedAlert(run="b1", project=NAME, id="overfitting", severity="warning", message="",
                                document="", raised_at=1.0, revision=1))  # fmt: skip
    shown = dashboard.overview(opened)
    assert (shown.workspace, shown.projects[0].best, shown.projects[0].result) == ("churn", 0.875, None)
    assert len(shown.alerts) == 1
    figure = {"value": 0.875, "interval": [0.8, 0.94], "rows": 135, "of": "135 rows"}
    end = {"goal": GOAL | {"target": 0.85}, "reached": 0.875, "met": True, "judged": {"validation": figure}}
    decided = GateDecided(phase="finalization", outcome="passed", ending=end, release={"number": 1}, created_at=now())
    with opened.session() as session:
        ledger.record(session, NAME, decided)
    shown = dashboard.overview(opened)
    assert shown.projects[0].result is not None
    assert shown.projects[0].result.startswith(
        "release 1: Goal reached on these rows: 0.875 of 0.85 (validation accuracy"
    )
    assert (shown.alerts, shown.projects[0].production) == ([], None)
    moved = ModelPromoted(alias="production", version=1, before=None, outcome="moved", by="agent")
    with opened.session() as session:
        ledger.record(session, NAME, moved)
    assert dashboard.overview(opened).projects[0].production == 1
    opened.close()
