"""Forging what runs have recorded: metrics, status, events, evidence, and the files that the server wrote."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

from tests.worlds.flowers import NAME

import trainwright
from cheat_suite.case import cheat
from cheat_suite.forging import append_entry, rewrite_copy
from cheat_suite.scene import Scene, edit_json, flip_byte
from trainwright.trainer.run.digests import METRICS

forged = partial(cheat, by="files", expected="detected", shows=("GATE-3",))


def _metrics(run: Path, statement: str) -> None:
    with closing(sqlite3.connect(run / METRICS)) as connection, connection:
        assert connection.execute(statement).rowcount


@forged(at="trained", rule="summary.json was changed after it was sealed")
def better_summary(scene: Scene) -> None:
    """Write a perfect accuracy into the baseline's summary."""
    path = scene.run("baseline") / "artifacts" / "summary.json"
    edit_json(path, lambda value: value["best"]["metrics"].update(accuracy=1.0))


@forged(at="based", rule="metrics.sqlite was changed after it was sealed")
def better_curve(scene: Scene) -> None:
    """Improve the validation curve in the metrics."""
    _metrics(scene.run("baseline"), "UPDATE metrics SET value = 1.0 WHERE key = 'validation/accuracy'")


@cheat(
    by="files",
    at="based",
    rule="metrics.sqlite was changed after it was sealed",
    expected="refused",
    shows=("GATE-1", "GATE-3"),
)
def curve_for_the_diagnosis(scene: Scene) -> None:
    """Improve the baseline's curves, have them diagnosed, and put the old ones back."""
    path = scene.run("baseline") / METRICS
    before = path.read_bytes()
    _metrics(path.parent, "UPDATE metrics SET value = 0.99 WHERE key LIKE '%/accuracy'")
    scene.attempt("diagnose_run", project=NAME)
    path.write_bytes(before)


@forged(at="based", rule=r"diagnosis of baseline-.*best_value: recorded 0\.999, derived")
def diagnosis_of_ones_own(scene: Scene) -> None:
    """Append a flattering diagnosis of one's own, correctly chained, and pass the gate on it."""
    scene.must("diagnose_run", project=NAME)
    body = scene.bodies("diagnosis")[-1]
    body["assessment"].update(best_value=0.999, gap=0.0)
    append_entry(scene, "diagnosis", body)
    rewrite_copy(scene)
    scene.must("pass_gate", project=NAME, phase="diagnostics")


@forged(at="based", rule="diagnostic documents have changed since: exploding_gradients")
def loosened_document(scene: Scene) -> None:
    """Have the baseline diagnosed by a server whose diagnostic documents were loosened, and put them back."""
    package = scene.world.folder / "loosened" / "trainwright"
    shutil.copytree(Path(trainwright.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    document = package / "skills" / "ml-trainer" / "diagnostics" / "exploding_gradients.md"
    document.write_text(document.read_text().replace("severity: warning", "severity: info", 1))
    loosened = scene.another_agent(PYTHONPATH=str(package.parent))
    for tool, arguments in (("diagnose_run", {}), ("pass_gate", {"phase": "diagnostics"})):
        reply = loosened.call(tool, {"project": NAME, **arguments})
        assert not reply.is_error, reply.text
    shutil.rmtree(package.parent)


@forged(at="based", rule="metrics.sqlite was changed after it was sealed")
def shorter_curve(scene: Scene) -> None:
    """Delete the bad end of a curve."""
    _metrics(scene.run("baseline"), "DELETE FROM metrics WHERE key = 'train/loss' AND step > 10")


@forged(at="based", rule="metrics.sqlite was changed after it was sealed")
def longer_curve(scene: Scene) -> None:
    """Add epochs that never were."""
    columns = "SELECT key, step + 1000, 0.0, time FROM metrics WHERE key = 'train/loss'"
    _metrics(scene.run("baseline"), f"INSERT INTO metrics (key, step, value, time) {columns}")


@forged(at="planned", rule=r"status\.json was changed|state was changed")
def status_completed(scene: Scene) -> None:
    """Declare a failed run completed."""
    (scene.world.code / "flower_model.py").write_text("raise ValueError('not today')\n")
    assert scene.train_aside().state == "failed"
    edit_json(scene.run("smoke") / "status.json", lambda value: value.update(state="completed", failure=None))


@forged(at="based", rule="events.jsonl was changed after it was sealed")
def events_added(scene: Scene) -> None:
    """Append to a run's events."""
    with (scene.run("baseline") / "events.jsonl").open("a") as file:
        file.write('{"time": 1.0, "kind": "epoch", "data": {"improved": true}}\n')


@forged(at="based", rule="events.jsonl was changed after it was sealed")
def events_removed(scene: Scene) -> None:
    """Remove an alert from a run's events."""
    path = scene.run("baseline") / "events.jsonl"
    path.write_text("\n".join(path.read_text().splitlines()[1:]) + "\n")


@forged(at="based", rule="run.json was changed")
def other_order(scene: Scene) -> None:
    """Rewrite a run's instructions."""
    edit_json(scene.run("baseline") / "run.json", lambda value: value["config"]["training"].update(epochs=100))


@forged(at="based", rule="run.json was changed")
def other_permit(scene: Scene) -> None:
    """Write another permit into a run."""
    edit_json(scene.run("baseline") / "run.json", lambda value: value["permit"].update(phase="finalization"))


@forged(at="smoked", rule="data.json was changed after it was sealed")
def evidence_of_data(scene: Scene) -> None:
    """Declare leaking splits disjoint in the evidence."""
    edit_json(
        scene.run("smoke") / "artifacts" / "data.json", lambda value: value.update(disjoint=True, shared_samples=-1)
    )


@forged(at="planned", rule="code.json was changed after it was sealed")
def evidence_of_code(scene: Scene) -> None:
    """Declare other code to have run."""
    edit_json(
        scene.run("smoke") / "artifacts" / "code.json", lambda value: value["files"].update({"flower_model.py": "x"})
    )


@forged(at="planned", rule="environment.json was changed after it was sealed")
def evidence_of_environment(scene: Scene) -> None:
    """Declare another environment."""
    edit_json(
        scene.run("smoke") / "artifacts" / "environment.json", lambda value: value["packages"].update(torch="9.9")
    )


@forged(at="smoked", rule="reproducibility.json was changed after it was sealed")
def evidence_of_seeds(scene: Scene) -> None:
    """Declare the probe of the random generators passed."""
    edit_json(
        scene.run("smoke") / "artifacts" / "reproducibility.json",
        lambda value: value["probe"].update(draws_repeat={"python": True, "all": True}),
    )


@forged(at="planned", rule="reproducibility.json was removed after it was sealed")
def evidence_removed(scene: Scene) -> None:
    """Remove evidence."""
    (scene.run("smoke") / "artifacts" / "reproducibility.json").unlink()


@forged(at="planned", rule="verdict.json was added after it was sealed")
def evidence_added(scene: Scene) -> None:
    """Add evidence of one's own."""
    (scene.run("smoke") / "artifacts" / "verdict.json").write_text('{"passed": true}')


@forged(at="exported", rule="comparison.json was changed after it was sealed")
def replay_identical(scene: Scene) -> None:
    """Declare a replay identical."""
    edit_json(
        scene.run("replay") / "artifacts" / "comparison.json", lambda value: value.update(identical=True, tensors=999)
    )


@forged(at="exported", rule="export.json was changed after it was sealed")
def better_test(scene: Scene) -> None:
    """Improve the test metrics of the export."""
    edit_json(
        scene.run("export") / "artifacts" / "export.json", lambda value: value["test"]["metrics"].update(accuracy=1.0)
    )


@forged(at="based", rule="run (flowers/)?smoke-.*(removed|no run.json|cannot be read|can no longer be read|gone)")
def run_removed(scene: Scene) -> None:
    """Remove a run's folder, a failed attempt say."""
    shutil.rmtree(scene.run("smoke"))


@forged(at="based", rule="the ledger never started it")
def run_of_ones_own(scene: Scene) -> None:
    """Put a run's folder of one's own beside the others."""
    own = scene.run("baseline").with_name("baseline-flowers-20260101-000000-abcdef")
    shutil.copytree(scene.run("baseline"), own)
    edit_json(own / "artifacts" / "summary.json", lambda value: value["best"]["metrics"].update(accuracy=1.0))


WRITTEN: dict[str, tuple[str, Callable[[Path], None]]] = {
    "reproducibility_manifest.md": ("the reproducibility manifest", flip_byte),
    "training_config.yaml": ("the written configuration", flip_byte),
    "baseline_results.md": ("the baseline's results", flip_byte),
    "diagnostic_report.md": ("the diagnostic report", flip_byte),
    "plots/learning_curves.png": ("the learning curves", flip_byte),
    "tuning_results.md": ("the tuning results", flip_byte),
    "final_config.yaml": ("the final configuration", flip_byte),
    "final_model/README.md": ("the model card", flip_byte),
    "final_model/model.safetensors": ("the final weights", flip_byte),
    "final_model/model.onnx": ("the ONNX file", flip_byte),
    "final_model/metrics.json": ("the final metrics", flip_byte),
}


def _declare_written(name: str, what: str, edit: Callable[[Path], None]) -> None:
    identifier = f"edit-{name.lower().replace('/', '-').replace('.', '-').replace('_', '-')}"

    @forged(
        identifier,
        f"Edit {what} (`{name}`)",
        at="finished",
        rule=f"artifact {name} was changed|artifact: {name} was changed",
    )
    def edit_written(scene: Scene) -> None:
        edit(scene.project_folder / name)


for _name, (_what, _edit) in WRITTEN.items():
    _declare_written(_name, _what, _edit)


@forged(at="finished", rule="final_model/better.safetensors was added by hand")
def added_model(scene: Scene) -> None:
    """Add a model of one's own to the final ones."""
    folder = scene.project_folder / "final_model"
    (folder / "better.safetensors").write_bytes((folder / "model.safetensors").read_bytes())
