"""Evaluation at a run's end: predictions, confusion, importance, best and worst rows, from validation rows alone."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from trainwright.trainer.assembly.assemble import assemble
from trainwright.trainer.base.canonical import digest_bytes
from trainwright.trainer.engine.evaluation import evaluate_split
from trainwright.trainer.jobs.evaluation import outputs
from trainwright.trainer.jobs.evaluation.forms import CLASSES, LABELS, NUMBERS, PLACES, form_of, kept_of
from trainwright.trainer.jobs.evaluation.importance import BLOCKS, masks_of, measured_of, told_together
from trainwright.trainer.jobs.evaluation.outputs import in_deviations
from trainwright.trainer.jobs.evaluation.record import evaluation, held_out_importance
from trainwright.trainer.jobs.evaluation.shown import Place
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evaluation import FILE, Evaluation, Importance
from trainwright.trainer.run.evidence import Summary
from trainwright.trainer.supervision.stop import StopRequest

pytestmark = pytest.mark.requirement("TRACK-1", "MON-2")

TABLE = {"model": {"use": "mlp", "args": {"hidden": [8]}}, "data": {"use": "breast_cancer"}}
NUMBER = {**TABLE, "data": {"use": "diabetes"}, "loss": "mse", "target_scaling": "standardize"}


def arrays_of(run: Any, part: Evaluation | None = None) -> dict[str, Any]:
    content = (run.artifacts / FILE).read_bytes()
    found = np.load(io.BytesIO(content), allow_pickle=False)
    predictions = (part or run.part(Evaluation)).predictions
    assert predictions is not None
    assert predictions.digest == digest_bytes(content)
    return {name: found[name] for name in found.files}


def test_a_run_keeps_predictions_of_its_validation_rows_that_give_its_accuracy(digits_run: Any) -> None:
    found, arrays = digits_run.part(Evaluation), arrays_of(digits_run)
    best = digits_run.part(Summary).best
    assert best is not None
    assert (found.kind, found.split, found.epoch, found.problem) == (CLASSES, "validation", best.epoch, None)
    assert found.rows == found.size == len(arrays["row"]) == len(set(arrays["row"].tolist()))
    share = float((arrays["prediction"] == arrays["target"]).mean())
    assert share == pytest.approx(best.metrics["accuracy"], abs=1e-9)
    assert float(arrays["loss"].mean()) == pytest.approx(best.metrics["loss"], rel=1e-4)
    assert found.confusion is not None
    assert sum(map(sum, found.confusion)) == found.rows
    assert sum(row[place] for place, row in enumerate(found.confusion)) == round(share * found.rows)
    assert arrays["probability"].shape == (found.rows, 10)


def test_measuring_leaves_the_batch_statistics_of_a_model_that_is_exported_next(open_session: Any) -> None:
    data = {"use": "breast_cancer", "split": {"validation": 0.2, "test": 0.2}}
    session = open_session({"model": {"use": "tabular_resnet"}, "data": data}, kind=RunKind.EXPORT)
    session.model.eval()
    before = {name: value.clone() for name, value in session.model.state_dict().items()}
    measured = evaluate_split(session, session.validation_loader)
    assert held_out_importance(session) is not None
    assert not session.model.training
    after = session.model.state_dict()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert evaluate_split(session, session.validation_loader) == measured


def test_the_worst_rows_come_first_and_images_have_thumbnails(digits_run: Any) -> None:
    found, arrays = digits_run.part(Evaluation), arrays_of(digits_run)
    losses = [one.loss for one in found.worst]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == pytest.approx(float(arrays["loss"].max()))
    assert found.best[0].loss == pytest.approx(float(arrays["loss"].min()))
    assert arrays["worst_images"].shape == (len(found.worst), 8, 8, 1)
    assert found.latency_ms is not None
    assert min(found.latency_ms.values()) > 0


def test_a_tables_rows_have_their_cells_and_its_columns_an_importance(open_session: Any) -> None:
    found = evaluation(session := open_session(TABLE))
    samples = session.work.splits.samples["validation"]
    worst = found.worst[0]
    assert worst.source_row == int(samples.rows[worst.row])
    assert worst.inputs["mean radius"] == pytest.approx(float(samples.raw[worst.row][0][0]), rel=1e-4)
    assert worst.target in {"malignant", "benign"}
    assert found.importance is not None
    names = [one.column.split(" + ") for one in found.importance.columns]
    assert (found.importance.score, sum(map(len, names)), found.importance.left_out) == ("loss", 30, 0)
    assert any({"mean radius", "mean perimeter", "mean area"} <= set(each) for each in names)
    assert ["mean texture", "worst texture"] in names
    assert ["mean smoothness"] in names
    alone = {one.column: one for one in found.importance.alone}
    assert {"mean texture", "worst texture"} <= alone.keys()
    assert "mean smoothness" not in alone
    for one in (*found.importance.columns, *alone.values()):
        assert one.interval is not None
        assert one.interval[0] <= one.worsening <= one.interval[1]


@pytest.mark.requirement("TUNE-4")
def test_a_trial_is_evaluated_without_an_importance_by_columns(make_run: Any, tmp_path: Path) -> None:
    run = make_run(tmp_path / "trial", TABLE, code_root=str(tmp_path), kind=RunKind.TRIAL)
    found = evaluation(assemble(run.specification(), run, StopRequest(run.path / "stop_reason")))
    assert (found.problem, found.importance) == (None, None)
    assert found.confusion is not None


def test_a_column_that_the_model_does_not_read_has_no_importance(open_session: Any) -> None:
    session = open_session(NUMBER)
    first = next(module for module in session.model.modules() if isinstance(module, torch.nn.Linear))
    with torch.no_grad():
        first.weight[:, 1:] = 0.0
        first.weight[:, 0] = 1.0
    found = evaluation(session)
    assert found.kind == NUMBERS
    assert found.importance is not None
    worsening = {one.column: one.worsening for one in found.importance.columns}
    assert worsening.pop("age") != 0.0
    assert set(worsening.values()) == {0.0}
    assert [one.column for one in found.importance.columns if one.is_shown] in (["age"], [])


def test_an_importance_is_shown_where_each_splits_rows_say_so() -> None:
    found = Importance(worsening=0.06, interval=(0.03, 0.09), by_split={"validation": 0.11, "test": 0.01})
    assert found.is_shown
    assert not found.model_copy(update={"by_split": {"validation": 0.11, "test": -0.0015}}).is_shown


def test_columns_of_which_one_tells_another_are_permuted_together() -> None:
    draws = np.random.default_rng(0)
    sex, child, age = draws.integers(0, 2, 800), draws.random(800) < 0.09, draws.normal(30.0, 9.0, 800)
    who, letters, noise = np.where(child, 2, sex), draws.integers(0, 300, 800), draws.normal(size=800)
    columns = {
        "sex": np.eye(2)[sex],
        "who": np.eye(3)[who],
        "age": age[:, None],
        "days": 365 * age[:, None] + 30 * noise[:, None],
        "noise": noise[:, None],
        "ticket": np.eye(300)[letters],
        "constant": np.ones((800, 1)),
    }
    places, start = [], 0
    for name, inputs in columns.items():
        places.append(Place(name, start, inputs.shape[1], "number", {}))
        start += inputs.shape[1]
    groups = told_together(np.concatenate(list(columns.values()), axis=1), places)
    names = [[one.name for one in group] for group in groups]
    assert names == [["sex", "who"], ["age", "days"], ["noise"], ["ticket"], ["constant"]]


def test_a_column_that_is_computed_of_others_is_permuted_with_them() -> None:
    draws = np.random.default_rng(2)
    rooms, halls, other = draws.normal(size=(3, 400))
    raw = np.stack([rooms, other, halls, 1.2 * rooms + halls, other + draws.normal(size=400)], axis=1)
    names = ("rooms", "other", "halls", "area", "noisy")
    groups = told_together(raw, [Place(name, place, 1, "number", {}) for place, name in enumerate(names)])
    assert [[one.name for one in group] for group in groups] == [["rooms", "halls", "area"], ["other"], ["noisy"]]


def test_an_interval_of_importance_holds_what_many_more_rows_say() -> None:
    draws = np.random.default_rng(1)

    def measured(rows: int) -> Importance:
        raw = torch.from_numpy(draws.normal(size=(rows, 2)))
        target = 2.0 * raw[:, 0] + torch.from_numpy(draws.normal(size=rows))
        blocks = draws.permutation(rows) % BLOCKS

        def score(permuted: torch.Tensor) -> Any:
            errors = (2.0 * permuted[:, 0] - target).abs().numpy()
            return -np.array([errors[of].mean() for of in masks_of(blocks)])

        return measured_of(score, raw, score(raw), [Place("first", 0, 1, "number", {})], draws)

    truth = measured(20_000).worsening
    held = [one.interval[0] <= truth <= one.interval[1] for one in (measured(200) for _ in range(20)) if one.interval]
    assert len(held) == 20
    assert sum(held) >= 16


def test_evaluating_draws_nothing_and_leaves_the_weights(open_session: Any) -> None:
    session = open_session(TABLE)
    before = {name: value.clone() for name, value in session.model.state_dict().items()}
    state = torch.get_rng_state()
    evaluation(session)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in session.model.state_dict().items())


def test_rows_are_bounded_and_spread_over_the_split(open_session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outputs, "MAX_ROWS", 20)
    session = open_session(TABLE)
    found = evaluation(session)
    rows = arrays_of(session.run, found)["row"]
    assert found.size is not None
    assert (found.rows, len(rows), int(rows[0]), int(rows[-1])) == (20, 20, 0, found.size - 1)


def test_why_there_are_no_predictions_is_recorded_and_fails_nothing(open_session: Any) -> None:
    session = open_session(TABLE)
    session.work.splits.samples.pop("validation")
    found = evaluation(session)
    assert "no validation split" in str(found.problem)
    assert found.predictions is None


@pytest.mark.parametrize(
    ("output", "target", "task", "form"),
    [
        (torch.randn(4, 3), torch.tensor([0, 1, 2, 1]), "classification", CLASSES),
        (torch.randn(4, 1), torch.tensor([0.0, 1.0, 1.0, 0.0]), "binary", CLASSES),
        (torch.randn(4), torch.tensor([0, 1, 1, 0]), None, CLASSES),
        (torch.randn(4, 3), torch.rand(4, 3), "classification", CLASSES),
        (torch.randn(4, 3), torch.ones(4, 3), "binary", LABELS),
        (torch.randn(4, 1), torch.randn(4), "regression", NUMBERS),
        (torch.randn(4, 5, 3), torch.ones(4, 5, dtype=torch.int64), None, PLACES),
        (torch.randn(4, 3, 5, 5), torch.ones(4, 5, 5, dtype=torch.int64), None, PLACES),
        (torch.randn(4, 7), torch.ones(4, 5), "regression", None),
    ],
)
def test_each_form_of_outputs_is_known(output: Any, target: Any, task: Any, form: Any) -> None:
    assert form_of(output, target, task) == form
    if form is not None:
        kept = kept_of(form, output, target)
        assert kept.loss.shape == (4,)
        assert torch.isfinite(kept.loss).all()


def test_the_worst_rows_of_several_targets_are_worst_in_each_targets_deviation() -> None:
    wanted = np.stack([np.linspace(0, 1, 9), np.linspace(0, 1e6, 9)], axis=1)
    guessed = wanted.copy()
    guessed[2, 0] += 1.0
    guessed[7, 1] += 1e4
    loss = in_deviations(guessed, wanted)
    assert loss.argmax() == 2
    assert loss[7] == pytest.approx((1e4 / wanted[:, 1].std()) ** 2 / 2)


def test_rows_and_places_without_a_target_are_left_out() -> None:
    kept = kept_of(CLASSES, torch.randn(3, 2), torch.tensor([1, -100, 0]))
    assert kept.counted.tolist() == [True, False, True]
    assert kept.target is not None
    assert kept.target.tolist() == [1, 0]
    places = kept_of(PLACES, torch.randn(2, 3, 4), torch.tensor([[1, -100, 2], [-100, -100, -100]]))
    assert places.counted.tolist() == [True, False]
    assert places.confusion is not None
    assert int(places.confusion.sum()) == 2


PADDED = """
import torch
from torch import nn
import torch.nn.functional as F

LENGTHS = torch.arange(40) % 5 + 2

def data():
    tokens = torch.randint(1, 6, (40, 8), generator=torch.Generator().manual_seed(0))
    tokens[torch.arange(8)[None] >= LENGTHS[:, None]] = 0
    return torch.utils.data.TensorDataset(tokens, tokens)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(6, 4), nn.Linear(4, 6)

    def forward(self, tokens):
        return self.out(self.embed(tokens))

def loss(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=0)

def step(model, batch, context):
    output = model(batch[0])
    return {"loss": loss(output, batch[1]), "output": output, "target": batch[1]}

def build(config):
    return {"model": Net(), "train": data(), "validation": data(), "step": step}
"""


def test_the_worst_rows_of_padded_texts_are_worst_by_the_users_loss_or_none_are_named(
    open_session: Any, tmp_path: Path
) -> None:
    (tmp_path / "padded.py").write_text(PADDED)
    parts = {"model": {"use": "padded:Net"}, "data": {"use": "padded:data"}, "returns": "output"}
    session = open_session({**parts, "loss": {"use": "padded:loss"}})
    found = evaluation(session)
    assert (found.problem, found.kind, found.loss, found.confusion) == (None, PLACES, "your loss", None)
    samples = session.work.splits.samples["validation"]
    tokens = torch.stack([samples[row][0] for row in range(len(samples))])
    with torch.no_grad():
        losses = session.model(tokens).log_softmax(-1).gather(2, tokens[..., None])[..., 0].neg()
    real = [float(one[row > 0].mean()) for one, row in zip(losses, tokens, strict=True)]
    assert [one.row for one in found.worst] == sorted(range(len(real)), key=lambda row: -real[row])[: len(found.worst)]
    assert [one.loss for one in found.worst] == pytest.approx(sorted(real, reverse=True)[: len(found.worst)], rel=1e-4)
    silent = evaluation(open_session({"task": {"use": "padded:build"}}))
    assert (silent.worst, silent.predictions) == ([], None)
    assert "known to your step alone" in str(silent.problem)
