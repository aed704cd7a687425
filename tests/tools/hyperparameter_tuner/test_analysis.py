"""Analysis of a study: which parameter matters, what each picture shows, and its copy in Optuna's storage."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from trainwright.server.cli import app
from trainwright.tools.figures.kinds import STUDY_KINDS
from trainwright.tools.hyperparameter_tuner.analysis import Subject, draw_study, drawable_kinds
from trainwright.tools.hyperparameter_tuner.analysis.marks import Scale, robust_ends
from trainwright.tools.hyperparameter_tuner.trials import COMPLETED, FAILED, PRUNED, TrialRecord
from trainwright.tools.workspace import Workspace
from trainwright.tools.workspace.tables import Study, Trial, now
from trainwright.trainer.base.errors import NotFoundError
from trainwright.trainer.config import SearchSection

pytestmark = [pytest.mark.slow, pytest.mark.requirement("TUNE-4")]


SPACE: dict[str, Any] = {
    "optimizer.learning_rate": {"type": "float", "low": 1e-5, "high": 1e-1, "log": True},
    "loader.batch_size": {"type": "categorical", "choices": [16, 32, 64]},
    "optimizer.momentum": {"type": "float", "low": 0.5, "high": 0.99, "when": {"loader.batch_size": 64}},
    "model.args.dropout": {"type": "float", "low": 0.0, "high": 0.5},
}


def subject(count: int, direction: str = "maximize", keys: tuple[str, ...] = tuple(SPACE), seed: int = 0) -> Subject:
    """Trials of which every fifth was pruned and every seventh failed; the learning rate decides how good one is."""
    draw, trials = random.Random(seed), []
    for number in range(count):
        values = {
            "optimizer.learning_rate": 10 ** draw.uniform(-5, -1),
            "loader.batch_size": draw.choice([16, 32, 64]),
            "optimizer.momentum": draw.uniform(0.5, 0.99),
            "model.args.dropout": draw.uniform(0.0, 0.5),
        }
        if values["loader.batch_size"] != 64:
            del values["optimizer.momentum"]
        best = 0.95 - 0.1 * abs(math.log10(values["optimizer.learning_rate"]) + 3.0)
        sign = 1.0 if direction == "maximize" else -1.0
        curve = {epoch: sign * (best - 0.4 / epoch) for epoch in range(1, 9)}
        state = PRUNED if number % 5 == 4 else FAILED if number % 7 == 6 else COMPLETED
        kept = {} if state == FAILED else {e: v for e, v in curve.items() if state == COMPLETED or e <= 3}
        found = {key: values[key] for key in keys if key in values}
        trials.append(
            TrialRecord(number, found, state=state, value=curve[8] if state == COMPLETED else None, intermediate=kept)
        )
    space = {key: SPACE[key] for key in keys}
    return Subject("digits/study-1", SearchSection.model_validate({"space": space}), "accuracy", direction, trials)


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_both_importances_find_the_parameter_that_decides(direction: str) -> None:
    found = subject(60, direction).importance
    assert found.ranked[0] == "optimizer.learning_rate"
    assert found.ped_anova["optimizer.learning_rate"] > 0.5
    assert found.fanova["optimizer.learning_rate"] > 0.5
    assert sum(found.ped_anova.values()) == pytest.approx(1.0)
    assert sum(found.fanova.values()) == pytest.approx(1.0)
    assert "optimizer.momentum" not in found.fanova
    assert "fANOVA leaves out optimizer.momentum" in found.note
    assert subject(60, direction).importance == found  # the forest is seeded


def test_importance_says_why_there_is_none() -> None:
    assert "too few" in subject(6).importance.note
    assert not subject(6).importance.ranked
    assert "alone" not in subject(6).importance.note
    assert subject(30, keys=("optimizer.learning_rate",)).importance.note.startswith("Only optimizer.learning_rate")
    flat = subject(30)
    for trial in flat.trials:
        object.__setattr__(trial, "value", 0.5 if trial.state == COMPLETED else None)
    assert "the same value" in flat.importance.note


@pytest.mark.parametrize("count", [3, 60])
def test_every_kind_is_drawn_of_few_and_of_many_trials(tmp_path: Path, count: int) -> None:
    study = subject(count)
    kinds = drawable_kinds(study)
    assert set(STUDY_KINDS) - set(kinds) <= {"pareto"} | ({"importance"} if count < 60 else set())
    with pytest.raises(NotFoundError, match="the study has one objective"):
        draw_study("pareto", study, tmp_path / "pareto.png")
    for kind in kinds:
        path, said = draw_study(kind, study, tmp_path / f"{kind}.png")
        assert path.stat().st_size > 5000
        assert said


def test_a_picture_says_in_words_what_it_shows(tmp_path: Path) -> None:
    study = subject(60)
    best = study.best
    assert best is not None
    _, said = draw_study("history", study, tmp_path / "a.png")
    assert f"best {best.value:.6g} at trial {best.number}" in said
    assert f"{len(study.of(PRUNED))} pruned" in said
    assert "optimizer.learning_rate" in draw_study("contour", study, tmp_path / "b.png")[1]
    assert "pruned at epochs 3 to 3" in draw_study("intermediate", study, tmp_path / "c.png")[1]


def test_what_cannot_be_drawn_is_refused_with_what_can(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="too few") as caught:
        draw_study("importance", subject(3), tmp_path / "a.png")
    assert "plot_metrics(study_id='digits/study-1', kind='history')" in caught.value.remedy
    with pytest.raises(NotFoundError, match="takes two parameters"):
        draw_study("contour", subject(30, keys=("optimizer.learning_rate",)), tmp_path / "a.png")
    for kind in STUDY_KINDS:
        with pytest.raises(NotFoundError) as caught:
            draw_study(kind, subject(0), tmp_path / "a.png")
        assert "tuning_status(study_id='digits/study-1'" in caught.value.remedy
    assert not list(tmp_path.iterdir())


def test_places_on_a_scale_follow_its_type() -> None:
    space = subject(0).space
    rate = Scale("optimizer.learning_rate", space["optimizer.learning_rate"])
    assert [rate.place(value) for value in (1e-5, 1e-3, 1e-1)] == pytest.approx([0.0, 0.5, 1.0])
    assert [text for _, text in rate.ticks()] == ["1e-05", "0.0001", "0.001", "0.01", "0.1"]
    batch = Scale("loader.batch_size", space["loader.batch_size"])
    assert [batch.place(value) for value in (16, 32, 64)] == pytest.approx([1 / 6, 0.5, 5 / 6])


@pytest.mark.parametrize(("direction", "sign"), [("maximize", 1.0), ("minimize", -1.0)])
def test_an_axis_leaves_out_a_few_values_that_are_far_worse_and_never_the_best(direction: str, sign: float) -> None:
    study = subject(0, direction)
    usual = [sign * (0.1 + 0.001 * place) for place in range(30)]
    far_worse, far_better = sign * -50.0, sign * 0.9
    found = robust_ends(study, [*usual, far_worse])
    assert found is not None
    low, high = found
    assert not low <= far_worse <= high
    assert low < min(usual)
    assert max(usual) < high
    assert robust_ends(study, [*usual, far_better]) is None
    assert robust_ends(study, usual) is None
    kept = replace(study, trials=[TrialRecord(0, {}, COMPLETED, far_worse)])  # the only one that keeps the bounds
    assert robust_ends(kept, [*usual, far_worse]) is None


COPIED: dict[str, Any] = {
    "optimizer.learning_rate": {"type": "float", "low": 1e-4, "high": 1.0, "log": True},
    "optimizer.name": {"type": "categorical", "choices": ["adamw", "sgd"]},
}
TRIALS: list[dict[str, Any]] = [
    {"state": "completed", "value": 0.5, "intermediate": {"1": 0.3, "2": 0.5}, "attributes": {}},
    {"state": "pruned", "intermediate": {"1": 0.1}, "attributes": {}},
    {"state": "failed", "attributes": {"cause": {"category": "divergence", "message": "NaN"}}},
    {"state": "running", "attributes": {}},
]


@pytest.fixture
def study(workspace: Workspace, make_project: Callable[..., str]) -> str:
    make_project(workspace)
    with workspace.session() as session:
        session.add(
            Study(
                id="study-digits-1", project="digits", state="running", search={"space": COPIED, "trials": 4},
                objective={"metric": "accuracy", "direction": "maximize"}, base_config_digest="", base_values={},
                created_at=now(),
            )
        )  # fmt: skip
        session.flush()
        for number, given in enumerate(TRIALS):
            rate = {"optimizer.learning_rate": 10.0**-number, "optimizer.name": "sgd"}
            session.add(Trial(study="study-digits-1", number=number, parameters=rate, **{"intermediate": {}, **given}))
    return "study-digits-1"


def test_the_command_lists_the_trials(workspace: Workspace, study: str) -> None:
    listed = CliRunner().invoke(app, ["study", study, "-w", str(workspace.path)])
    assert listed.exit_code == 0, listed.output
    standing, *lines = listed.output.splitlines()
    assert "running, 3 of" in standing
    assert [line.split()[1] for line in lines if line[:4].strip()] == ["completed", "pruned", "failed", "running"]
