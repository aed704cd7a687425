"""Every kind of picture: what it shows of what was recorded, and what is said where nothing was."""

from __future__ import annotations

import math

import numpy as np
import pytest

from trainwright.tools.figures.drawing import DRAWN, draw
from trainwright.trainer.base.errors import ConfigurationError, IntegrityError, NotFoundError
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.evaluation import FILE, ShownRow
from trainwright.trainer.run.results import Probe, RateTest, SizeTest

pytestmark = [pytest.mark.slow, pytest.mark.requirement("MON-2")]

DRAW = np.random.default_rng(0)


def classes(count, rows=200):
    target = DRAW.integers(0, count, rows)
    scores = DRAW.random((rows, count)) + 2 * np.eye(count)[target] * DRAW.random((rows, 1))
    shares = scores / scores.sum(axis=1, keepdims=True)
    guessed = shares.argmax(axis=1)
    confusion = np.zeros((count, count), int)
    np.add.at(confusion, (target, guessed), 1)
    arrays = {
        "row": np.arange(rows), "target": target, "prediction": guessed, "probability": shares,
        "loss": -np.log(shares[np.arange(rows), target]),
    }  # fmt: skip
    names = [f"kind of thing {number}" for number in range(count)]
    return arrays, {"confusion": confusion.tolist(), "class_names": names, "loss": "cross entropy"}


@pytest.mark.parametrize("kind", sorted(DRAWN))
def test_what_a_run_did_not_record_is_named_with_the_next_call(make_run, tmp_path, kind):
    run = make_run().run
    with pytest.raises(NotFoundError, match=kind) as caught:
        draw(kind, [run], tmp_path / "a.png")
    assert "recorded no" in caught.value.message or "has no" in caught.value.message
    assert "plot_metrics(" in caught.value.remedy or "plot_metrics with" in caught.value.remedy
    assert not (tmp_path / "a.png").exists()


def test_importance_draws_each_input_with_its_interval_and_names_those_beyond(predicted, drawn, texts, tmp_path):
    columns = [
        {"column": f"input {one}", "worsening": 1.0 / (one + 1), "interval": (0.5 / (one + 1), 1.5 / (one + 1))}
        for one in range(22)
    ]
    evaluation = {"importance": {"score": "accuracy", "rows": 90, "columns": columns, "left_out": 3}}
    draw("importance", [predicted(evaluation=evaluation, loss=np.zeros(90))], tmp_path / "a.png")
    shown = texts(drawn[0])
    assert "accuracy lost when permuted on 90 validation rows" in shown
    assert "input 19" in shown
    assert "input 20" not in shown
    assert any("5 further ones not drawn" in text for text in shown)


def test_a_kind_of_one_run_refuses_several_and_names_those_that_overlay(make_run, tmp_path):
    runs = [make_run("a").run, make_run("b").run]
    with pytest.raises(ConfigurationError, match="shows one run") as caught:
        draw("confusion", runs, tmp_path / "a.png")
    assert "roc" in caught.value.remedy
    with pytest.raises(ConfigurationError, match="metric"):
        draw("roc", runs, tmp_path / "a.png", "train/loss")


@pytest.mark.parametrize("count", [2, 30])
def test_a_confusion_matrix_names_the_classes_and_the_pairs(predicted, drawn, texts, tmp_path, count):
    arrays, evaluation = classes(count)
    draw("confusion", [predicted(evaluation=evaluation, **arrays)], tmp_path / "a.png")
    shown = texts(drawn[0])
    right = int((arrays["target"] == arrays["prediction"]).sum())
    assert f"predicted: {right} of 200 validation rows right, epoch 3" in shown
    counted = [axes for axes in drawn[0].axes[:1] for text in axes.texts if text.get_text().isdigit()]
    assert len(counted) == (4 if count == 2 else 0)
    assert any("Confused most" in text for text in shown)
    assert len([text for text in shown if text.startswith("kind ") or "…" in text]) >= 2 * count
    assert "not recorded" not in shown


def test_ranks_have_the_areas_that_scikit_learn_computes(predicted, drawn, tmp_path):
    from sklearn.metrics import average_precision_score, roc_auc_score

    arrays, evaluation = classes(2)
    run = predicted(evaluation=evaluation, **arrays)
    for kind, area in (("roc", roc_auc_score), ("precision_recall", average_precision_score)):
        draw(kind, [run], tmp_path / "a.png")
        (legend,) = drawn[-1].legends
        expected = area(arrays["target"], arrays["probability"][:, 1])
        assert f"area {expected:.3f}" in legend.get_texts()[0].get_text()
    draw("roc", [run, predicted("other", evaluation=evaluation, **arrays)], tmp_path / "b.png")
    assert any(text.get_text().startswith("other (area ") for text in drawn[-1].legends[0].get_texts())


def test_of_many_classes_the_weakest_are_drawn_and_the_title_says_so(predicted, drawn, tmp_path):
    arrays, evaluation = classes(30, 900)
    draw("roc", [predicted(evaluation=evaluation, **arrays)], tmp_path / "a.png")
    assert "(7 weakest of 30 classes)" in drawn[0].get_suptitle()
    assert len(drawn[0].axes[0].get_lines()) == 8


def test_calibration_states_its_error_and_numbers_are_drawn_over_their_targets(predicted, drawn, tmp_path):
    shares = np.tile([[0.9, 0.1]], (100, 1))
    target = np.array([0] * 60 + [1] * 40)
    run = predicted(row=np.arange(100), target=target, prediction=np.zeros(100, int), probability=shares,
                    loss=np.ones(100))  # fmt: skip
    draw("calibration", [run], tmp_path / "a.png")
    assert (
        "expected calibration error 0.300; 60.0% right, 90.0% claimed" in drawn[0].legends[0].get_texts()[0].get_text()
    )
    numbers = DRAW.normal(size=50)
    run = predicted("numbers", {"kind": "numbers"}, row=np.arange(50), target=numbers, prediction=numbers + 0.5,
                    loss=np.full(50, 0.25))  # fmt: skip
    draw("calibration", [run], tmp_path / "b.png")
    assert "mean error 0.5" in [text.get_text() for text in drawn[1].legends[0].get_texts()]
    several = np.stack([numbers, 100 * numbers], axis=1)
    run = predicted("several", {"kind": "numbers", "target_names": ["a", "b"]}, row=np.arange(50), target=several,
                    prediction=np.add(several, (1, 20)), loss=np.ones(50))  # fmt: skip
    draw("calibration", [run], tmp_path / "c.png")
    assert [drawn[2].axes[panel].get_title(loc="left") for panel in (0, 2)] == ["Predictions of a", "Predictions of b"]
    assert {"a: mean error 1", "b: mean error 20"} <= {text.get_text() for text in drawn[2].legends[0].get_texts()}


def test_worst_rows_are_a_table_of_cells_or_pictures(predicted, drawn, texts, tmp_path):
    worst = [ShownRow(row=3, source_row=40 + n, loss=9.0 - n, target="cat", prediction="$dog$", probability=0.9,
                      inputs={"age": 7.0, "<b>name</b>": None}) for n in range(3)]  # fmt: skip
    run = predicted(evaluation={"worst": worst, "loss": "cross entropy"}, row=np.arange(3), loss=np.ones(3))
    draw("worst_samples", [run], tmp_path / "a.png")
    shown = texts(drawn[0])
    assert {"source row", "loss", "label", "predicted", "probability", "age", "40", "cat", r"\$dog\$"} <= set(shown)
    images = DRAW.integers(0, 255, (3, 8, 8, 1)).astype(np.uint8)
    run = predicted("images", {"worst": worst}, row=np.arange(3), loss=np.ones(3), worst_images=images)
    draw("worst_samples", [run], tmp_path / "b.png")
    assert sum(len(axes.images) for axes in drawn[1].axes) == 3
    assert any(text.startswith("cat → ") and "loss 9" in text for text in texts(drawn[1]))


def test_masks_stand_below_their_picture_the_true_one_above_the_predicted(predicted, drawn, texts, tmp_path):
    worst = [ShownRow(row=n, source_row=40 + n, loss=9.0 - n) for n in range(3)]
    targets = DRAW.integers(0, 2, (3, 8, 8)).astype(np.uint8)
    targets[0, :4] = 255
    guessed = targets.copy()
    guessed[0, :4], guessed[0, 4:6] = 0, 1 - guessed[0, 4:6]
    run = predicted("masks", {"worst": worst, "kind": "places", "class_names": ["ground", "road"]}, row=np.arange(3),
                    loss=np.ones(3), worst_images=np.zeros((3, 8, 8, 3), np.uint8), worst_targets=targets,
                    worst_predictions=guessed)  # fmt: skip
    draw("worst_samples", [run], tmp_path / "a.png")
    assert {"input", "true", "predicted", "source row 40\nloss 9", "50% right", "ground", "road", "counts nowhere"} <= {
        *texts(drawn[0])}  # fmt: skip
    shown = [axes.images[0].get_array() for axes in drawn[0].axes]
    assert (shown[4] == shown[7]).all()
    assert (shown[3] != shown[6]).any(axis=-1).sum() == 16 + 32, "what counts nowhere has a colour of its own"


def test_predictions_that_were_changed_are_refused(predicted, tmp_path):
    arrays, evaluation = classes(2)
    run = predicted(evaluation=evaluation, **arrays)
    (run.artifacts / FILE).write_bytes(b"something else")
    with pytest.raises(IntegrityError, match="not as its worker wrote it"):
        draw("roc", [run], tmp_path / "a.png")


def test_layers_are_drawn_over_time_and_now_in_their_order(make_run, drawn, texts, tmp_path):
    recorder = make_run()
    for number in (10, 2, 0):
        recorder.steps(
            f"layers/gradient_norm/layers.{number}.weight", [0.1 * (number + 1), 0.2, 0.0 if number else 1.0]
        )
        recorder.steps(f"layers/update_ratio/layers.{number}.weight", [1e-3, 2e-3, 10.0 ** (-number - 1)])
    draw("gradient_flow", [recorder.run], tmp_path / "a.png")
    names = [text.get_text() for text in drawn[0].axes[0].get_yticklabels()]
    assert names == ["layers.0.weight", "layers.2.weight", "layers.10.weight"]
    assert drawn[0].axes[1].get_title(loc="left") == "Now (step 3)"
    assert [text.get_text() for text in drawn[0].axes[0].get_xticklabels()] == ["1", "2", "3"]
    draw("update_ratios", [recorder.run], tmp_path / "b.png")
    assert "healthy: about 0.001" in texts(drawn[1])
    assert any(text.startswith("furthest: layers.10") for text in texts(drawn[1]))
    assert drawn[1].axes[0].get_yscale() == "log"


def test_more_layers_than_fit_are_spread_evenly_and_counted(make_run, drawn, tmp_path):
    recorder = make_run()
    for number in range(90):
        recorder.steps(f"layers/gradient_norm/layers.{number}.weight", [0.1, math.nan])
    draw("gradient_flow", [recorder.run], tmp_path / "a.png")
    assert "40 of 90 layers" in drawn[0].get_suptitle()


def test_the_machine_is_drawn_with_units(make_run, drawn, tmp_path):
    recorder = make_run().steps("system/cpu_percent", [20.0, 30.0]).steps("system/memory_bytes", [2e9, 3e9])
    recorder.steps("throughput/data_wait_fraction", [0.5, 0.1]).steps("throughput/samples_per_second", [10.0, 20.0])
    draw("utilisation", [recorder.run], tmp_path / "a.png")
    panels = drawn[0].axes
    assert [axes.get_ylabel() for axes in panels] == ["percent", "GB", "samples per second", "percent of the time"]
    assert panels[1].get_lines()[0].get_ydata().tolist() == [2.0, 3.0]
    assert panels[3].get_lines()[0].get_ydata().tolist() == [50.0, 10.0]


@pytest.mark.requirement("TUNE-6")
def test_the_finders_curves_show_the_suggestion_beside_what_is_configured(make_run, drawn, texts, tmp_path):
    run = make_run(kind=RunKind.PROBE).run
    points = [(10.0**-n, 2.0 + n / 10, 2.0 + n / 12) for n in range(6, 0, -1)]
    sizes = [{"batch_size": 2**n, "samples_per_second": 100.0 * n, "peak_memory_bytes": 10**8} for n in range(3, 7)]
    sizes.append({"batch_size": 128, "failure": "memory ran out"})
    rate = RateTest(suggested=0.01, why="a tenth of the rate at the minimum", points=points)
    run.write_evidence(Probe(learning_rate=rate, batch_size=SizeTest(suggested=64, tried=sizes)))
    draw("range_test", [run], tmp_path / "a.png")
    assert {"suggested 0.01", "configured 0.001", "learning rate (log scale)"} <= set(texts(drawn[0]))
    assert drawn[0].axes[0].get_xscale() == "log"
    draw("batch_size", [run], tmp_path / "b.png")
    assert {"suggested 64", "128: memory ran out", "samples per second", "MB"} <= set(texts(drawn[1]))
