"""The card's numbers are the certified ones, and whoever holds the folder and the rows computes them again."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnxruntime
import pytest
from tests.worlds.flowers import finish

from trainwright.tools import ledger, projects
from trainwright.tools.documents.rendering import render
from trainwright.tools.gates.caveats import BEFORE_PLANNING
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.final_words import final_words
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.launchers.worker_wall import told
from trainwright.tools.ledger.events import RunEvaluated
from trainwright.tools.reports.certified import evaluated, table
from trainwright.tools.reports.model_card import _rule, data_warnings, open_warnings
from trainwright.tools.reports.pictures import draw_pictures
from trainwright.tools.training_monitor import Alert
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.run import RunKind
from trainwright.trainer.run.rivals import Rivals
from trainwright.trainer.run.validation import Report, Validation, Verdict

NAME = "flowers"
At = Callable[[str], Workspace]
Array = np.ndarray[Any, Any]
REPORTED = {"test": {"accuracy": 0.99}, "validation": {"accuracy": 0.98}}


@pytest.fixture
def stranger(tmp_path: Path) -> Callable[[Path, str], dict[str, Any]]:
    """Return a function that runs a command of the card with Python's own library, numpy and ONNX Runtime alone."""
    (libraries := tmp_path / "libraries").mkdir()
    for library in (np, onnxruntime):
        installed = Path(library.__file__).parent
        for path in (installed, installed.with_name(f"{installed.name}.libs")):
            if path.exists():
                (libraries / path.name).symlink_to(path)

    def run(folder: Path, command: str) -> dict[str, Any]:
        _, script, *arguments = command.split()
        given = f"sys.argv = {[script, *arguments]!r}; sys.path.append({str(libraries)!r})"
        code = f"import runpy, sys; {given}; runpy.run_path({script!r}, run_name='__main__')"
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", code], cwd=folder, capture_output=True, text=True, check=False
        )
        (line,) = done.stdout.splitlines()
        return {**json.loads(line), "status": done.returncode}

    return run


def command_of(card: str) -> str:
    return next(line for line in card.splitlines() if line.startswith("python final_model/evaluate.py"))


@pytest.mark.requirement("GATE-6", "CKPT-5", "PHASE-6")
def test_the_cards_first_number_is_certified_and_its_command_prints_it(
    at: At, stranger: Callable[[Path, str], dict[str, Any]]
) -> None:
    workspace = at("finished")
    folder = workspace.project_folder(NAME)
    model = folder / "final_model"
    card = (model / "README.md").read_text(encoding="utf-8")
    before = sorted(model.rglob("*"))
    found = stranger(folder, command_of(card))
    assert (found["status"], found["agrees"]) == (0, True)
    first = next(line for line in card.splitlines() if line.startswith("**Evaluated independently"))
    assert f"test accuracy {found['test']['accuracy']:.6g} on {found['test']['rows']} rows" in first
    assert f"(validation {found['validation']['accuracy']:.6g} on" in first
    head = card.partition("\n# ")[2].partition("## Results")[0]
    assert f"- {BEFORE_PLANNING}" in head, "under the head stands what it does not show"
    assert "One answer: `python predict.py " in head
    assert "blake3:" not in head, "digests stand below"
    assert re.search(r"\| splits \| train \d+, validation \d+, test \d+; seed \d+", card)
    assert "Reported by the training process: test " in card
    classes = card.partition("## Classes")[2].partition("\n## ")[0]
    of_test = [line.split("|")[1:-1] for line in classes.splitlines() if "| test |" in line]
    assert sum(int(line[2]) for line in of_test) == found["test"]["rows"]
    right = sum(int(line[2]) * float(line[3]) for line in of_test) / found["test"]["rows"]
    assert right == pytest.approx(found["test"]["accuracy"], abs=1e-3)
    metrics = json.loads((model / "metrics.json").read_text(encoding="utf-8"))
    assert metrics["test"]["metrics"].items() >= found["certified"]["test"].items() - {("rows", 30)}
    with workspace.session() as session:
        walls = {body["kind"]: body["wall"] for _, body in ledger.entries(session, NAME, "run_started")}
    assert f"| wall round the workers | {told(walls['final'] if 'final' in walls else walls['baseline'])}" in card
    assert not (model / "rows").exists()
    assert sorted(model.rglob("*")) == before, "evaluating it has changed the signed folder"


@pytest.mark.requirement("CKPT-5", "PHASE-6")
def test_every_line_of_the_cards_use_runs_in_a_copy_of_the_folder(at: At, tmp_path: Path) -> None:
    model = at("finished").project_folder(NAME) / "final_model"
    shutil.copytree(model, alone := tmp_path / "alone")
    use = (model / "README.md").read_text(encoding="utf-8").partition("## Use")[2].partition("## Files")[0]
    lines = [line for block in use.split("```console\n")[1:] for line in block.partition("```")[0].splitlines()]
    assert any("predict.py" in line for line in lines)
    assert "python load.py" in lines
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    for line in lines:
        command = ["bash", "-c", line.replace("python", sys.executable, 1)]
        done = subprocess.run(command, cwd=alone, capture_output=True, text=True, check=False, env=environment)
        assert done.returncode == 0, (line, done.stderr)
        assert ("load" not in line) == done.stdout.startswith(("{", "[{", "row")), done.stdout
    assert "On 30 held-out rows its outputs were the model's, to 0.0e+00" in use


@pytest.mark.requirement("CKPT-5", "PHASE-6")
def test_the_card_says_what_the_environment_lacks_for_predict_and_of_what_kind_an_own_input_is() -> None:
    own = {"takes": "a file, .csv", "example": "input.csv"}
    prediction = {"needs": "numpy onnxruntime", "use": ["python predict.py --json input.csv"], "own": own}
    text = render(
        "reports/use.md.j2", prediction=prediction, lacking=["onnxruntime"], environment="python: .venv/bin/python"
    )
    assert "It takes a file, .csv, as the `raw_inputs`" in text
    assert "(python: .venv/bin/python) lacks onnxruntime, and nothing was installed" in text
    assert "python -m venv ~/predict && ~/predict/bin/pip install numpy onnxruntime\n" in text
    plain = render("reports/use.md.j2", prediction={"needs": "numpy", "use": ["python predict.py rows.csv"]})
    assert "lacks" not in plain
    assert "A made-up one, in this folder:" in plain


@pytest.mark.requirement("PHASE-6", "MON-2")
def test_the_card_has_pictures_of_validation_rows_and_of_rows_themselves_where_they_are_shared(
    at: At, tmp_path: Path
) -> None:
    workspace = at("finished")
    model = workspace.project_folder(NAME) / "final_model"
    names = ["pictures/calibration.png", "pictures/confusion.png"]
    assert sorted(path.relative_to(model).as_posix() for path in model.rglob("*.png")) == names
    results = (model / "README.md").read_text(encoding="utf-8").partition("## Results")[2].partition("## How")[0]
    assert [line.partition("](")[2] for line in results.splitlines() if line.startswith("![")] == [
        f"{name})" for name in names
    ]
    with workspace.session() as session:
        final = Evidence(session, workspace, NAME).final
        assert final is not None
        shared = draw_pictures(final.directory, NAME, tmp_path, shares_rows=True)
    assert [one.path for one in shared] == [*names, "pictures/worst_samples.png"]
    assert all((tmp_path / one.path).is_file() for one in shared)


def train_and_test(workspace: Workspace, smoke: RunEvidence) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return inputs and targets of the train rows, those of the table that are not held out, and of the test rows."""
    rows, categories = smoke.directory.artifacts / "rows", smoke.data.class_names or []
    (test_x, test_y), (held_x, _) = (
        [np.load(rows / split / f"{name}.npy") for name in ("input", "target")] for split in ("test", "validation")
    )
    table = [line.split(",") for line in (workspace.path.parent / "code" / "iris.csv").read_text().splitlines()[1:]]
    x = np.array([line[:4] for line in table], dtype=np.float32)
    y = np.array([categories.index(line[4]) for line in table])
    is_held = (x[:, None] == np.concatenate([test_x, held_x])).all(axis=2).any(axis=1)
    return (x[~is_held], y[~is_held]), (test_x, test_y)


@pytest.mark.requirement("PIPE-3", "PHASE-6")
def test_the_card_names_a_rivals_true_figure_on_the_test_rows_and_whether_they_are_told_apart(at: At) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    workspace = at("finished")
    model = workspace.project_folder(NAME) / "final_model"
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        assert evidence.smoke is not None
        words = final_words(evidence)
        train, (test_x, test_y) = train_and_test(workspace, evidence.smoke)
    told_trees = next(one.told for one in evidence.export.part(Rivals).rivals if one.name == "boosted_trees")
    count, leaves = map(int, re.findall(r"(\d+) iterations of (\d+) leaves", told_trees)[0])
    trees = HistGradientBoostingClassifier(random_state=42, early_stopping=False, max_iter=count, max_leaf_nodes=leaves)
    linear = make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))
    of_trees, theirs = (one.fit(*train).score(test_x, test_y) for one in (trees, linear))
    assert theirs > of_trees, "the strongest rival is told in full"
    program = onnxruntime.InferenceSession(model / "model.onnx")
    ours = (program.run(None, {program.get_inputs()[0].name: test_x})[0].argmax(1) == test_y).mean()
    card = (model / "README.md").read_text(encoding="utf-8")
    (told,) = [line for line in card.splitlines() if "boosted trees" in line]
    shown = f"accuracy on the same {len(test_y)} test rows: the model {ours:.4g}, a logistic regression {theirs:.4g}; "
    assert told.startswith(f"{shown}difference {ours - theirs:+.3g} (95 % interval ")
    low, high = map(float, told.partition("interval ")[2].partition(")")[0].split(" to "))
    word = "the model is better" if low > 0 else "the model is worse" if high < 0 else "not told apart"
    assert low <= ours - theirs <= high
    assert f"): {word}" in told
    assert f". {told_trees[0].upper()}{told_trees[1:]}: {of_trees:.4g}; difference " in told
    record = json.loads((model / "evaluation.json").read_text(encoding="utf-8"))
    assert record["compared"] == told
    assert record["rivals"]["test"]["linear"]["metrics"]["accuracy"] == pytest.approx(theirs)
    assert [one for one in words if "boosted trees" in one] == [told], "once, and not of validation again"


NEAREST = """
import numpy


def fit(rows, targets):
    assert rows.dtype == numpy.float64 and set((rows * 10 % 1).round(9).ravel()) == {0.0}, "in the file's decimals"
    print(len(rows))

    def predict(others):
        return targets[((others[:, None] - rows) ** 2).sum(axis=2).argmin(axis=1)]

    return predict
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.requirement("GATE-6", "PHASE-8")
def test_a_reference_that_is_named_late_is_fitted_on_the_train_rows_and_opens_no_gate(at: At) -> None:
    from sklearn.neighbors import KNeighborsClassifier

    workspace = at("exported")
    code = workspace.path.parent / "code"
    (code / "rules.py").write_text(NEAREST)
    answer = projects.configure(workspace, NAME, changes={"evaluation_gate.reference": "rules.py:fit"})
    assert (answer.reopened, answer.next and answer.next.tool) == ([], "export_model")
    assert finish(workspace, start_run(workspace, NAME, RunKind.EXPORT).run_id).state == "completed"
    assert projects.pass_gate(workspace, NAME).now_in == "finished"
    with workspace.session() as session:
        rows = Evidence(session, workspace, NAME).smoke
        assert rows is not None
        (train_x, train_y), (test_x, test_y) = train_and_test(workspace, rows)
    score = KNeighborsClassifier(1).fit(train_x, train_y).score(test_x, test_y)
    card = (workspace.project_folder(NAME) / "final_model" / "README.md").read_text(encoding="utf-8")
    assert f"your reference rules.py:fit, fitted on the train rows {score:.4g}; " in card
    assert verify_workspace(workspace.path).problems == []
    (code / "rules.py").write_text(NEAREST.replace("argmin", "argmax"))
    assert verify_workspace(workspace.path).problems == []
    assert projects.project_status(workspace, NAME).finished, "no gate depends on its file"


@pytest.mark.requirement("DIAG-8", "PHASE-6")
def test_the_card_lists_the_warnings_that_the_released_run_still_shows(at: At) -> None:
    workspace = at("finished")
    card = (workspace.project_folder(NAME) / "final_model" / "README.md").read_text(encoding="utf-8")
    section = card.partition("## Warnings still open\n")[2].partition("\n## ")[0]
    listed = [line.split("|")[1].strip() for line in section.splitlines() if line.startswith("|")][2:]
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        final = evidence.final
        assert final is not None
        assert [one["id"] for one in open_warnings(evidence, final)] == listed
        assert ("shows none" in section) == (not listed)


@pytest.mark.requirement("PIPE-2", "PHASE-6")
def test_the_card_lists_the_warnings_on_the_data_that_were_never_settled() -> None:
    zeros, leak = (
        Verdict(family=family, name="zeros", column="x+z", severity="warning", passed=False, text="Cells that are 0.")
        for family in ("outliers", "leaks")
    )
    found = Validation(report=Report(checks=[zeros, leak, zeros.model_copy(update={"passed": True})]))
    evidence: Any = SimpleNamespace(smoke=SimpleNamespace(part=lambda _: found))
    text = render("reports/open_warnings.md.j2", warnings=[], of_data=data_warnings(evidence))
    assert text.splitlines()[2:] == [
        "The final run shows none in its curves.", "", "Validation found in the data, and they were trained on so:", "",
        "- x+z.zeros (warning): Cells that are 0.",
    ]  # fmt: skip


@pytest.mark.requirement("DIAG-8", "PHASE-6")
def test_a_warning_on_the_card_has_its_rule_from_the_document() -> None:
    alert = Alert(
        id="exploding_gradients", severity="warning", title="", message="", signal="applied_gradient_norm",
        measured=1e5, threshold=100.0, unit="norm", step=1, document="d.md", requirement="DIAG-3", fixes=[],
    )  # fmt: skip
    rule = _rule(alert)
    assert rule == "applied_gradient_norm above 100"
    shown = {"id": alert.id, "severity": alert.severity, "measured": "1e+05", "unit": "norm", "rule": rule}
    text = render("reports/open_warnings.md.j2", warnings=[{**shown, "document": "d.md", "tried": "nothing"}])
    line = "| exploding_gradients | warning | 1e+05 norm | applied_gradient_norm above 100 | d.md | nothing |"
    assert line in text.splitlines()


@pytest.mark.requirement("GATE-6", "CKPT-5")
def test_rows_that_may_be_shared_lie_in_the_models_folder(
    at: At, stranger: Callable[[Path, str], dict[str, Any]], tmp_path: Path
) -> None:
    workspace = at("exported")
    projects.configure(workspace, NAME, changes={"deployment.share_rows": True}, reason="the table is public")
    projects.pass_gate(workspace, NAME)
    folder = tmp_path / "elsewhere"
    shutil.copytree(workspace.project_folder(NAME) / "final_model", folder / "final_model")
    card = (folder / "final_model" / "README.md").read_text(encoding="utf-8")
    assert command_of(card) == "python final_model/evaluate.py"
    assert stranger(folder, command_of(card))["agrees"]
    assert verify_workspace(workspace.path).problems == []


@pytest.mark.requirement("CKPT-5")
def test_rows_are_shared_where_nothing_was_certified_too(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    workspace = at("exported")
    projects.configure(workspace, NAME, changes={"deployment.share_rows": True}, reason="the table is public")
    with workspace.session() as session:
        evaluation = Evidence(session, workspace, NAME).export.evaluation.model_copy(update={"problem": "own metric"})
    monkeypatch.setattr(RunEvidence, "evaluation", evaluation)
    projects.pass_gate(workspace, NAME)
    folder = workspace.project_folder(NAME) / "final_model"
    assert sorted(path.name for path in (folder / "rows").iterdir()) == ["test", "validation"]
    assert not (folder / "evaluate.py").exists()


@pytest.mark.requirement("GATE-6", "PHASE-6")
@pytest.mark.parametrize(
    ("found", "heads"),
    [
        (
            RunEvaluated(run_id="r", problem="the model draws random numbers", remedy="Draw them in training alone."),
            ["**Not independently evaluated: the model draws random numbers.** Draw them in training alone.",
             "Reported by the training process, and by it alone: test accuracy 0.99, validation accuracy 0.98.",
             "Checked instead: finalization.replay_identical ("],
        ),
        (
            RunEvaluated(run_id="r", splits={"validation": {"size": 9, "rows": 9, "metrics": {"loss": 0.5}}}),
            ["**Not independently evaluated: accuracy: only the training process computes it.**",
             "Certified for validation alone: loss."],
        ),
        (
            RunEvaluated(
                run_id="r", rows_run="smoke", rows="blake3:1",
                splits={"test": {"size": 9000, "rows": 900, "metrics": {"accuracy": 0.625},
                                 "intervals": {"accuracy": [0.59, 0.66]}}},
                differences=["test accuracy: 0.99 reported, 0.625 by the program"],
            ),
            ["**Evaluated independently: test accuracy 0.625 on a sample of 900 of 9000 rows, 95 % interval",
             "Reported by the training process: test 0.99.",
             "The two differ: test accuracy: 0.99 reported, 0.625 by the program."],
        ),
        (
            RunEvaluated(
                run_id="r", splits={"validation": {"size": 9, "rows": 9, "metrics": {"accuracy": 0.5}},
                                    "test": {"size": 9, "rows": 9, "not_computed": {"accuracy": "no program"}}},
            ),
            ["**Evaluated independently: validation accuracy 0.5 on 9 rows**",
             "**The test accuracy is not independently evaluated: no program.**"],
        ),
    ],
    ids=["no_program", "another_metric", "a_sample_that_differs", "no_test_figure"],
)  # fmt: skip
def test_the_head_says_what_was_certified_or_why_not(at: At, found: RunEvaluated, heads: list[str]) -> None:
    workspace = at("finished")
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        run, (_, decided) = evidence.export, evidence.entries("gate")[-1]
        assert run is not None
        evidence.facts.evaluations[run.id] = found
        checks = [type("Check", (), check) for check in decided["checks"]]
        head = render("reports/evaluated.md.j2", evaluated=evaluated(run, "accuracy", REPORTED, checks))
        columns, rows = table(run, REPORTED, str)
    assert ("95 % interval [0.59, 0.66]**" in head) == ("a sample" in head)
    for line in heads:
        assert any(shown.startswith(line) for shown in head.splitlines()), head
    assert ("test, certified" in columns) == bool(found.certified("test"))
    assert 0.99 in rows[0]
