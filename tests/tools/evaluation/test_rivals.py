"""Rivals and the user's reference beside a program: figures, differences and their words, on the fixed rows alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tests.tools.evaluation.conftest import CONFIG, Evaluated

from trainwright.tools.evaluation import Others
from trainwright.tools.gates.beside_rivals import compared_text
from trainwright.tools.ledger.events import RunEvaluated
from trainwright.tools.projects.named_files import require_files
from trainwright.tools.verification.evaluations import figures_again
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.clean_room.intervals import Resampling, bootstrap
from trainwright.trainer.config import config_digest, parse_config
from trainwright.trainer.data.splits import Splits
from trainwright.trainer.data.tensors import TensorSamples
from trainwright.trainer.evidence.rivals import _kept, rivals_evidence
from trainwright.trainer.run.evidence import Code
from trainwright.trainer.run.rivals import KeptOutputs, Rival, Rivals

pytestmark = pytest.mark.requirement("PIPE-3", "GATE-6")
Array = np.ndarray[Any, Any]


def keep(evaluated: Evaluated, outputs: Array, targets: Array | None = None) -> None:
    """Let the run's worker have kept a rival's outputs for the validation split."""
    artifacts = evaluated.run.artifacts
    files = {"outputs": outputs, "targets": evaluated.room.targets if targets is None else targets}
    kept = {name: _kept(values, artifacts / f"{name}.npy", artifacts) for name, values in files.items()}
    rival = Rival(name="trees", told="boosted trees", kept={"validation": KeptOutputs.model_validate(kept)})
    evaluated.run.write_evidence(Rivals(rivals=[rival]))


def rivals_of(found: RunEvaluated) -> dict[str, Any]:
    assert found.problem == ""
    rivals: dict[str, Any] = found.splits["validation"]["rivals"]
    return rivals


def told_of(found: RunEvaluated, reference: str | None = None, metric: str = "accuracy") -> str:
    goal = {"metric": metric, "direction": "minimize" if metric == "missed" else "maximize"}
    evidence: Any = SimpleNamespace(goal_metric=metric, goal=goal, config=SimpleNamespace(reference=reference))
    run: Any = SimpleNamespace(evaluation=found)
    return compared_text(evidence, run, "validation")


def test_a_rival_is_scored_on_the_fixed_rows_with_the_interval_of_the_difference(evaluated: Evaluated) -> None:
    room = evaluated.room
    perfect = 5 * np.eye(3, dtype=np.float32)[room.targets]
    perfect[:9] = np.roll(perfect[:9], 1, axis=1)
    keep(evaluated, perfect)
    found = evaluated.evaluation()
    trees = rivals_of(found)["trees"]
    ours, theirs = room.logits.argmax(1) == room.targets, perfect.argmax(1) == room.targets
    assert trees["metrics"]["accuracy"] == pytest.approx(theirs.mean()) == pytest.approx(0.9)
    low, high = trees["paired"]["intervals"]["accuracy"]
    expected = bootstrap(lambda at: float(ours[at].mean() - theirs[at].mean()), 90, Resampling(90))
    assert expected is not None
    assert (low, high) == pytest.approx(expected, abs=0.06), "the same rows, drawn in another order"
    assert low < ours.mean() - theirs.mean() < high < 0
    assert trees["paired"]["intervals"]["loss"][0] > 0
    assert told_of(found) == (
        f"accuracy on the same 90 validation rows: the model {ours.mean():.4g}, whose epoch was chosen by them, "
        f"boosted trees 0.9; difference {ours.mean() - 0.9:+.3g} (95 % interval {low:.3g} to {high:.3g}): "
        "the model is worse."
    )


def test_a_rival_on_other_rows_has_no_figure_and_keeps_the_model_from_none(evaluated: Evaluated) -> None:
    targets = evaluated.room.targets
    outputs = np.eye(3, dtype=np.float32)[targets]
    for given, labels, why in (
        (outputs, np.roll(targets, 1), "it was given other rows than planning fixed"),
        (outputs[:50], targets[:50], "it answers 50 rows, and 90 were fixed"),
        (np.zeros((90, 3, 2), dtype=np.float32), targets, "do not fit"),
    ):
        keep(evaluated, given, labels)
        found = evaluated.evaluation()
        assert found.certified()["accuracy"] == pytest.approx(evaluated.accuracy)
        trees = rivals_of(found)["trees"]
        assert why in trees.get("problem", "do not fit" if not trees.get("metrics") else "")


def test_of_a_split_of_which_a_sample_was_fixed_a_rivals_rows_are_chosen(evaluated: Evaluated) -> None:
    room, chosen = evaluated.room, np.arange(0, 180, 2)
    record = room.order["rows"]["record"]["splits"]["validation"]
    evaluated.fix(splits={"validation": {**record, "size": 180, "chosen": room.array("chosen", chosen)}})
    outputs, targets = np.zeros((180, 3), dtype=np.float32), np.zeros(180, dtype=np.int64)
    targets[chosen] = room.targets
    outputs[chosen] = np.eye(3)[room.targets]
    keep(evaluated, outputs, targets)
    assert rivals_of(evaluated.evaluation())["trees"]["metrics"]["accuracy"] == 1.0


RULES = """\
import numpy


def predict(rows):
    print("to no one")
    return (rows[:, 1] > 0.5).astype(int)


def scored(rows):
    return numpy.stack([rows[:, 0], rows[:, 1], rows[:, 2]], axis=1)


def short(rows):
    return rows[:3]


def fit(rows, targets):
    means = numpy.stack([rows[targets == one].mean(axis=0) for one in range(3)])
    return lambda others: -((others[:, None] - means) ** 2).sum(axis=2)


def number(rows, targets):
    return 0.5


def missed(outputs, targets):
    return float((outputs.argmax(1) != targets).sum())
"""


def refer(evaluated: Evaluated, name: str) -> str:
    """Let the run have imported the user's file, whose function the gate names."""
    root = Path(evaluated.run.specification().code_root)
    (root / "rules.py").write_text(RULES)
    evaluated.run.write_evidence(Code(files={"rules.py": digest_file(root / "rules.py")}))
    evaluated.configure(evaluation_gate={"reference": f"rules.py:{name}"})
    return f"rules.py:{name}"


@pytest.mark.long
def test_a_reference_of_the_users_is_compared_on_the_same_rows(evaluated: Evaluated) -> None:
    room, name = evaluated.room, refer(evaluated, "predict")
    found = evaluated.evaluation()
    reference = rivals_of(found)[name]
    right = (room.inputs[:, 1] > 0.5).astype(int) == room.targets
    assert reference["metrics"] == {"accuracy": pytest.approx(right.mean())}, "it says nothing of how sure it is"
    low, high = reference["paired"]["intervals"]["accuracy"]
    assert f"your reference {name} {right.mean():.4g}; difference" in told_of(found, name)
    assert told_of(found, name).endswith(f"(95 % interval {low:.3g} to {high:.3g}): not told apart.")
    run, rows = evaluated.sealed()
    assert figures_again(run, Others(rows, None), found) == []
    forged = found.model_copy(deep=True)
    rivals_of(forged)[name]["metrics"]["accuracy"] = 0.0
    (told,) = figures_again(run, Others(rows, None), forged)
    assert f"validation accuracy of {name} recorded 0.0, evaluated again" in told
    file = Path(run.directory.specification().code_root) / "rules.py"
    file.write_text(RULES.replace("> 0.5", "< 0.5"))
    assert figures_again(run, Others(rows, None), found) == [], "its file may rightly have changed"
    assert rivals_of(evaluated.evaluation())[name]["metrics"] != reference["metrics"]


def test_a_goal_in_a_function_of_the_users_is_computed_of_a_rival_too(evaluated: Evaluated) -> None:
    room = evaluated.room
    perfect = np.eye(3, dtype=np.float32)[room.targets]
    keep(evaluated, perfect)
    refer(evaluated, "predict")
    evaluated.configure(metrics=["accuracy", "rules.py:missed"])
    found = evaluated.evaluation()
    wrong = int((room.logits.argmax(1) != room.targets).sum())
    trees = rivals_of(found)["trees"]
    low, high = trees["paired"]["intervals"]["missed"]
    assert trees["metrics"] == {"accuracy": 1.0, "loss": trees["metrics"]["loss"], "missed": 0.0}
    assert 0 < low < wrong < high
    assert "kept" not in trees
    assert told_of(found, metric="missed") == (
        f"missed on the same 90 validation rows: the model {wrong}, whose epoch was chosen by them, boosted trees 0; "
        f"difference {wrong:+d} "
        f"(95 % interval {low:.3g} to {high:.3g}): the model is worse."
    )


def test_a_reference_may_give_the_models_outputs_and_what_it_lacks_is_said(evaluated: Evaluated) -> None:
    name = refer(evaluated, "scored")
    right = evaluated.room.inputs[:, :3].argmax(1) == evaluated.room.targets
    metrics = rivals_of(evaluated.evaluation())[name]["metrics"]
    assert metrics["accuracy"] == pytest.approx(right.mean())
    assert metrics["loss"] > 0
    name = refer(evaluated, "short")
    found = evaluated.evaluation()
    assert "it gave float32 (3, 4) for 90 rows" in rivals_of(found)[name]["problem"]
    assert told_of(found, name).startswith(f"No figure of your reference {name}: your function needs more than")


def test_a_reference_that_is_not_there_is_refused_when_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "rules.py").write_text(RULES)
    for given, why in (("rules.py:predct", "no 'predct'"), ("rule.py:predict", "rule.py")):
        values = {"evaluation_gate": {"reference": given}}
        with pytest.raises(ConfigurationError, match=why):
            require_files(values, parse_config({**CONFIG, **values}), tmp_path)
    with pytest.raises(ConfigurationError, match="reference"):
        parse_config({**CONFIG, "evaluation_gate": {"reference": "rules"}})


def test_a_reference_that_takes_targets_is_fitted_on_the_kept_train_rows_alone(evaluated: Evaluated) -> None:
    room, name = evaluated.room, refer(evaluated, "fit")
    assert "takes targets" in rivals_of(evaluated.evaluation())[name]["problem"], "none were kept"
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    samples = TensorSamples(torch.from_numpy(x), torch.from_numpy(y))
    config = evaluated.run.specification().config
    kept = rivals_evidence(Splits({"train": samples}, {}, "npz"), config, evaluated.run.artifacts, of=())
    assert kept is not None
    evaluated.run.write_evidence(kept)
    means = np.stack([x[y == one].mean(axis=0) for one in range(3)])
    right = ((room.inputs[:, None] - means) ** 2).sum(axis=2).argmin(axis=1) == room.targets
    found = rivals_of(evaluated.evaluation())[name]
    assert found["metrics"]["accuracy"] == pytest.approx(right.mean())
    assert found["told"] == f"your reference {name}, fitted on the train rows"
    name = refer(evaluated, "number")
    assert "gave float in place of a function" in rivals_of(evaluated.evaluation())[name]["problem"]


def test_a_reference_is_no_part_of_what_a_run_depends_on() -> None:
    bound = {"minimum": {"accuracy": 0.5}}
    gates = ({}, {"evaluation_gate": bound})
    named = ({"reference": "rules.py:fit"}, {**bound, "reference": "rules.py:fit"})
    for gate, one in zip(gates, named, strict=True):
        plain, beside = (parse_config({**CONFIG, **values}) for values in (gate, {"evaluation_gate": one}))
        assert config_digest(plain) == config_digest(beside)
        assert not plain.exports_as(beside)
    assert len({config_digest(parse_config({**CONFIG, **one})) for one in gates}) == len(gates)
