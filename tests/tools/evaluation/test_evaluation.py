"""What a run exported is evaluated by a clean process on the rows of planning, and compared with what it reported."""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.tools.evaluation.conftest import Evaluated

from trainwright.tools.evaluation import (
    Attempt,
    Others,
    evaluate_program,
    evaluated_soon,
    forget,
    is_under_way,
    process,
)
from trainwright.tools.evaluation.comparison import differences_between, tolerance
from trainwright.tools.gates.figures import evaluation_text
from trainwright.tools.ledger.events import RunEvaluated
from trainwright.trainer.base.canonical import canonical_json
from trainwright.trainer.clean_room.metrics import OF_OUTPUTS, compute
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.artifacts import Program

pytestmark = pytest.mark.requirement("GATE-6")


def test_an_honest_run_is_certified_with_what_it_reported(evaluated: Evaluated) -> None:
    found = evaluated.evaluation()
    assert (found.problem, found.differences) == ("", [])
    assert found.certified() == pytest.approx({"accuracy": evaluated.accuracy, "loss": evaluated.loss})
    assert found.reported == {"validation": {"accuracy": evaluated.accuracy, "loss": evaluated.loss}}
    assert (found.rows_run, found.splits["validation"]["rows"]) == ("smoke-1", 90)
    assert "onnxruntime" in found.evaluator
    assert canonical_json(found.body())  # the ledger takes it


def test_a_figure_that_the_program_does_not_give_is_named_with_both_values(evaluated: Evaluated) -> None:
    evaluated.report(accuracy=0.99, loss=evaluated.loss)
    found = evaluated.evaluation()
    (sentence,) = found.differences
    assert sentence.startswith("validation accuracy: 0.99 reported by the training process, ")
    assert f"{evaluated.accuracy:.6g} by the exported program alone on 90 rows" in sentence
    assert found.differs
    assert found.certified()["accuracy"] == pytest.approx(evaluated.accuracy)


def test_accuracy_under_attack_is_certified_by_the_programs_answers_alone(evaluated: Evaluated) -> None:
    evaluated.configure(objective={"name": "adversarial", "epsilon": 0.5, "evaluation_steps": 3})
    found = evaluated.evaluation()
    robust = found.certified()["robust_accuracy"]
    assert (found.problem, found.differences) == ("", [])
    assert robust < evaluated.accuracy
    evaluated.report(accuracy=evaluated.accuracy, loss=evaluated.loss, robust_accuracy=robust + 0.01)
    assert not evaluated.evaluation().differs, "its starts were others"
    evaluated.report(accuracy=evaluated.accuracy, loss=evaluated.loss, robust_accuracy=1.0)
    (sentence,) = evaluated.evaluation().differences
    assert "robust_accuracy: 1 reported by the training process" in sentence


def test_features_are_certified_by_the_class_of_each_rows_nearest(evaluated: Evaluated) -> None:
    evaluated.configure(objective={"name": "contrastive"}, metrics=[])
    wanted = compute("neighbour_accuracy", evaluated.room.logits, evaluated.room.targets)
    assert evaluated.evaluation().certified() == {"neighbour_accuracy": pytest.approx(wanted)}
    evaluated.configure(objective={"name": "contrastive", "features": "layers"}, metrics=[])
    assert "the objective contrastive has other outputs" in evaluated.evaluation().problem


def test_another_usual_meaning_of_a_metrics_name_is_named_and_no_difference(evaluated: Evaluated) -> None:
    evaluated.report(accuracy=100 * evaluated.accuracy, loss=evaluated.loss)
    found = evaluated.evaluation()
    assert not found.differs
    assert found.certified()["accuracy"] == pytest.approx(evaluated.accuracy)
    shown = f"accuracy {evaluated.accuracy:.6g} ({100 * evaluated.accuracy:.6g} reported, which is the same in percent)"
    assert shown in evaluation_text(found)
    assert list(found.splits["validation"]["readings"]) == ["accuracy"]
    evaluated.configure(model=None, data=None, task={"use": "task.py:build"})
    evaluated.resolve(judged_by="step")
    assert evaluated.evaluation().certified()["accuracy"] == pytest.approx(evaluated.accuracy)


@pytest.mark.parametrize(
    ("metric", "meant", "is_worse"), [("cohen_kappa", "quadratic_kappa", True), ("f1", "dice", False)]
)
def test_a_figure_is_the_worse_of_what_its_name_means_here_and_in_its_process(
    evaluated: Evaluated, metric: str, meant: str, *, is_worse: bool
) -> None:
    evaluated.configure(metrics=[metric])
    predicted = evaluated.room.logits.argmax(1)
    ours, theirs = (float(OF_OUTPUTS[name][1](predicted, evaluated.room.targets)) for name in (metric, meant))
    evaluated.report(**{metric: theirs}, loss=evaluated.loss)
    found = evaluated.evaluation()
    assert not found.differs
    assert (theirs < ours) == is_worse
    assert found.certified()[metric] == pytest.approx(min(ours, theirs))
    assert meant not in found.certified()
    low, high = found.splits["validation"]["intervals"][metric]
    assert low < found.certified()[metric] < high
    told = evaluation_text(found, metric)
    assert (f"(by {meant}, as its process means {metric})" in told) == is_worse
    assert (f"reported, which is {meant}" in told) != is_worse
    evaluated.report(**{metric: ours}, loss=evaluated.loss)
    assert evaluated.evaluation().certified()[metric] == pytest.approx(ours)


def test_where_the_users_step_reports_a_difference_says_nothing(evaluated: Evaluated) -> None:
    evaluated.resolve(judged_by="step")
    evaluated.report(accuracy=0.99)
    assert evaluated.evaluation().differs  # no task, so no step: its process made that up
    evaluated.configure(model=None, data=None, task={"use": "task.py:build"})
    found = evaluated.evaluation()
    assert found.problem.startswith("the user's step reports by other outputs than model(inputs): validation accuracy")
    assert (found.differs, found.certified()) == (False, {})


def test_a_loss_of_the_users_is_left_to_the_training_process(evaluated: Evaluated) -> None:
    evaluated.resolve(loss="cross_entropy", user_loss=True)
    evaluated.report(accuracy=evaluated.accuracy, loss=123.0)
    found = evaluated.evaluation()
    assert (found.differences, "loss" in found.certified()) == ([], False)


def test_a_metric_of_the_users_is_listed_as_not_computed(evaluated: Evaluated) -> None:
    evaluated.report(accuracy=evaluated.accuracy, own_score=0.7)
    found = evaluated.evaluation()
    assert found.splits["validation"]["not_computed"] == {"own_score": "only the training process computes it"}
    assert (found.differences, found.reported["validation"].keys()) == ([], {"accuracy"})


def test_figures_that_are_no_numbers_are_no_way_round(evaluated: Evaluated) -> None:
    split = {"metrics": {}, "not_finite": {"loss": "nan"}, "rows": 90}
    (sentence,) = differences_between({"validation": {"loss": 0.1}}, {"validation": split})
    assert sentence.startswith("validation loss: 0.1 reported by the training process, nan by")
    assert differences_between({"validation": {"loss": float("nan")}}, {"validation": split}) == []


@pytest.mark.parametrize(
    ("record", "problem", "remedy"),
    [
        ({"problem": "the data is a stream", "remedy": "Return a data set."}, "could fix no rows: the data is", "Retu"),
        ({"splits": {}}, "No rows of the validation split", "smoke run"),
    ],
)
def test_rows_that_were_not_fixed_are_a_problem_with_its_remedy(
    evaluated: Evaluated, record: dict[str, Any], problem: str, remedy: str
) -> None:
    evaluated.fix(**record)
    found = evaluated.evaluation()
    assert problem in found.problem
    assert remedy in found.remedy
    assert found.splits == {}


def test_rows_and_programs_other_than_the_recorded_are_not_evaluated(evaluated: Evaluated) -> None:
    run, rows = evaluated.sealed()
    (evaluated.rows.artifacts / "rows" / "target.npy").write_bytes(b"others")
    changed = evaluate_program(run, Others(rows))
    assert changed is not None
    assert "not the file that was recorded" in changed.problem
    evaluated.fix(problem="written later")
    later = evaluate_program(run, Others(rows))
    assert later is not None
    assert later.problem == "planning's smoke run fixed no rows, or they were changed since"


def test_without_a_program_there_is_nothing_to_record(evaluated: Evaluated) -> None:
    evaluated.export(problem="aten::odd has no form in ONNX", remedy="Use another layer.")
    found = evaluated.evaluation()
    assert (found.problem, found.remedy) == (
        "no program could be made of it: aten::odd has no form in ONNX", "Use another layer.",
    )  # fmt: skip
    evaluated.remove(Program)
    assert evaluate_program(evaluated.sealed()[0], Others(evaluated.sealed()[1])) is None
    assert evaluate_program(evaluated.sealed()[0], Others(None)) is None


def test_an_export_is_certified_on_test_rows_where_the_trained_run_left_a_program(evaluated: Evaluated) -> None:
    validation = evaluated.room.order["rows"]["record"]["splits"]["validation"]
    evaluated.fix(splits={"validation": validation, "test": validation})
    trained, _ = evaluated.sealed()
    evaluated.plan(kind=RunKind.EXPORT)
    run, rows = evaluated.sealed()
    beside, alone = evaluate_program(run, Others(rows, trained)), evaluate_program(run, Others(rows))
    assert beside is not None
    assert alone is not None
    assert beside.certified("test") == beside.certified() == alone.certified()
    assert alone.certified("test") == {}
    assert alone.splits["test"]["not_computed"]["accuracy"].startswith("the trained run left no program")


@pytest.mark.parametrize(
    ("code", "timeout_seconds", "problem"),
    [
        ("import time\ntime.sleep(600)", 0.5, "took more than 0.5 s"),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", 60, "ended with code -9 and no answer"),
        ("print('[1]')", 60, "ended with code 0 and no answer"),
        ("raise SystemExit('broken')", 60, "no answer: broken"),
    ],
)
def test_a_clean_room_that_does_not_answer_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, timeout_seconds: float, problem: str
) -> None:
    (tmp_path / "__main__.py").write_text(code)
    monkeypatch.setattr(process, "CODE", tmp_path)
    answer = process.run_clean_room({}, timeout_seconds=timeout_seconds)
    assert problem in answer["problem"]
    assert answer["remedy"]


def test_the_clean_room_gets_nothing_of_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = (
        "import json, os, sys\nfiles = [int(name) for name in os.listdir('/proc/self/fd')]\n"
        "found = {'environment': sorted(os.environ), 'files': max(files), 'path': sys.path, 'cwd': os.getcwd()}\n"
        "print(json.dumps({'splits': found}))"
    )
    (tmp_path / "__main__.py").write_text(told)
    monkeypatch.setattr(process, "CODE", tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("SECRET", "x")
    with (tmp_path / "open").open("w"):
        found = process.run_clean_room({})["splits"]
    assert {"PYTHONPATH", "SECRET", "PATH"}.isdisjoint(found["environment"])
    assert found["files"] <= 4  # the three streams, and the listing's own
    assert not any("site-packages" in place for place in found["path"])
    assert not Path(found["cwd"]).exists()
    assert Path(found["cwd"]) != Path.cwd()


@pytest.mark.parametrize(
    ("metric", "values", "rows", "precision", "allowed"),
    [
        ("accuracy", (0.9, 0.8), 100, "fp32", 0.02),
        ("accuracy", (0.9, 0.8), 10_000, "bf16", 0.0045),
        ("head_accuracy", (0.9, 0.8), 100, "fp32", 0.02),
        ("loss", (2.0, 1.9), 100, "fp32", 0.02),
        ("loss", (2.0, 1.9), 100, "bf16", 0.06),
        ("r2", (0.5, 0.4), 100, "fp32", 0.005),
    ],
)
def test_how_far_two_figures_may_differ(
    metric: str, values: tuple[float, float], rows: int, precision: str, allowed: float
) -> None:
    assert tolerance(metric, *values, rows, precision) == pytest.approx(allowed, abs=2e-6)


def test_the_figure_of_a_sample_may_differ_within_its_interval_and_that_of_all_rows_not() -> None:
    split = {"metrics": {"loss": 1.0}, "intervals": {"loss": [0.9, 1.1]}, "rows": 100, "size": 100}
    assert differences_between({"validation": {"loss": 1.05}}, {"validation": split}) != []
    split |= {"size": 5000}
    assert differences_between({"validation": {"loss": 1.15}}, {"validation": split}) == []
    assert differences_between({"validation": {"loss": 1.25}}, {"validation": split}) != []


def test_a_large_evaluation_goes_on_while_calls_return(tmp_path: Path) -> None:
    begun, end = threading.Event(), threading.Event()
    attempt = Attempt(tmp_path, 1)

    def slow() -> RunEvaluated:
        assert not begun.is_set(), "it is begun once"
        begun.set()
        end.wait()
        return RunEvaluated(run_id="baseline-1")

    assert evaluated_soon(attempt, slow, patience_seconds=0) is None
    assert begun.wait(60)
    assert evaluated_soon(attempt, slow, patience_seconds=0) is None
    assert is_under_way(tmp_path)
    end.set()
    assert evaluated_soon(attempt, slow) == [RunEvaluated(run_id="baseline-1")]
    assert not is_under_way(tmp_path)
    forget(attempt)
    assert evaluated_soon(attempt, lambda: None) == []
    forget(attempt)


def test_the_order_holds_nothing_of_the_training_process_but_its_program(evaluated: Evaluated) -> None:
    order = json.loads(json.dumps(_order(evaluated)))
    assert order["splits"] == ["validation"]
    assert order["metrics"] == ["accuracy"]
    assert order["loss"]["name"] == "cross_entropy"
    assert order["rows"]["folder"] == str(evaluated.rows.artifacts)
    assert sys.executable not in json.dumps(order)


def _order(evaluated: Evaluated) -> dict[str, Any]:
    from trainwright.tools.evaluation.evaluate import order_of

    run, rows = evaluated.sealed()
    return order_of(evaluated.run.specification(), run, rows, run.part(Program))
