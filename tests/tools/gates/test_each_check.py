"""Every check of the gates passes sound evidence, and fails where the one thing that it asks for is not so."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trainwright.tools.answers import NextCall
from trainwright.tools.gates import decide  # noqa: F401 - registers the checks
from trainwright.tools.gates.checklist import CheckLine, load_checklist
from trainwright.tools.gates.exits import verdict
from trainwright.tools.gates.outcomes import CHECKS
from trainwright.tools.gates.phases import Phase
from trainwright.tools.ledger.events import RunEvaluated
from trainwright.tools.workspace.settings import ProjectLimits, Settings
from trainwright.trainer.base.errors import ConfigurationError
from trainwright.trainer.checkpoints.index import write_index
from trainwright.trainer.config import parse_config
from trainwright.trainer.data.validation.report import Report, Verdict
from trainwright.trainer.run import RunDirectory, RunState
from trainwright.trainer.run.artifacts import ExportProbe, FixedRows, FixedSplit, Parity
from trainwright.trainer.run.evidence import (
    BestEpoch,
    Code,
    Data,
    Draws,
    Environment,
    Reproducibility,
    Resolved,
    Split,
    Summary,
)
from trainwright.trainer.run.results import Comparison, Evaluated, Export, Safetensors, TestSetAccess
from trainwright.trainer.run.split_rows import SplitRows
from trainwright.trainer.run.validation import Validation

LINES = {line.id: line for phase in Phase for line in load_checklist(phase).checks}
VALUES: dict[str, Any] = {
    "model": {"use": "mlp"}, "data": {"use": "iris"}, "metrics": ["accuracy"], "loader": {"batch_size": 10},
    "selection": {"metric": "accuracy", "direction": "maximize"}, "evaluation_gate": {"minimum": {"accuracy": 0.8}},
}  # fmt: skip
CONFIG = parse_config(VALUES)
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.9}
VERDICTS = Validation(report=Report(checks=[Verdict(family="table", name="nulls")]))
BROKEN = Validation(report=Report(checks=[Verdict(family="table", name="nulls", passed=False)]))
ALERT = {"id": "nan_loss", "severity": "critical", "fixes": [], "document": "diagnostics/nan_loss.md"}
SCALE = {"id": "scale", "text": "Scale.", "changes": {"target_scaling": "standardize"}}
UNSCALED = ALERT | {"id": "unscaled_targets", "severity": "warning", "fixes": [SCALE]}
IMPROVED = {
    "confidence": 0.95, "improvement_low": 0.1, "improvement_high": 0.3, "improvement_mean": 0.2, "seeds": [1, 2, 3],
    "baseline_spread": 0.05, "look": 1, "validated": True,
}  # fmt: skip
SEARCH = {"trials": 4, "space": {"optimizer.learning_rate": {"type": "float", "low": 0.001, "high": 0.1, "log": True}}}
Case = tuple[str, dict[str, Any], str]


class Of(SimpleNamespace):
    """Evidence, or a run of it, with the parts that checks read."""

    def call(self, tool: str, why: str, **arguments: Any) -> NextCall:
        return NextCall(tool=tool, why=why, arguments=arguments)

    def start(self, kind: Any) -> NextCall:
        return self.call("start_training", "", kind=kind)

    def next_call(self) -> NextCall:
        return self.call("run_status", "")

    def run(self, run_id: str) -> Any:
        return next((one for one in vars(self).values() if isinstance(one, Of) and vars(one).get("id") == run_id), None)

    def part(self, kind: Any) -> Any:
        return self.parts.get(kind, kind())

    def entries(self, kind: str) -> list[Any]:
        return list(enumerate(self.recorded.get(kind, [])))

    def artifact_digest(self, name: str) -> str | None:
        return self.files.get(name)

    def surroundings(self, run: Any) -> list[str]:
        return self.changed

    def reaches_goal(self, value: float | None) -> bool:
        return value is not None and value >= GOAL["target"]

    def final_value(self, metric: str) -> float | None:
        return self.final.best_value(metric)

    def best_value(self, metric: str) -> float | None:
        return self.certified().get(metric)

    def certified(self, split: str = "validation") -> dict[str, float]:
        return self.evaluation.certified(split) if self.evaluation is not None else {}

    def tested_metrics(self) -> dict[str, float]:
        return self.exported.test.metrics or {}

    def once(self, what: str, of: Any, find: Callable[[], Any]) -> Any:
        return find()


def checkpoints(folder: Path) -> RunDirectory:
    """A run's folder with one checkpoint, the best and the last."""
    own = folder / "checkpoints" / "step-00000004"
    own.mkdir(parents=True)
    files = {"model.safetensors": {"bytes": 1, "digest": "weights"}}
    manifest = {"step": 4, "epoch": 1, "digest": "best", "files": files}
    (own / "manifest.json").write_text(json.dumps(manifest))
    write_index(folder / "checkpoints", best=own.name, last=own.name, periodic=[])
    return RunDirectory(folder)


def run_of(name: str, folder: RunDirectory) -> Any:
    plan = SimpleNamespace(max_steps=None, exports_program=True, config=CONFIG, permit={})
    norms = SimpleNamespace(count=lambda key: 10)
    directory = SimpleNamespace(
        specification=lambda: plan, metrics=lambda: norms, checkpoints=folder.checkpoints, path=folder.path,
        artifacts=folder.artifacts,
    )  # fmt: skip
    splits = {
        name: Split(size=size, fingerprint=name) for name, size in (("train", 95), ("validation", 20), ("test", 20))
    }
    metrics = {"accuracy": 0.95}
    test = TestSetAccess(fingerprint="test", size=20)
    return Of(
        id=name, is_complete=True, differences=[], untrusted="", sealed={}, imported=[], lacks_rows=False,
        row=SimpleNamespace(kind=name, config_digest="config", project="p", source_run="final"),
        status=SimpleNamespace(state=RunState.COMPLETED, step=10, failure=None, attempt=1),
        directory=directory, plan=plan,
        summary=Summary(steps=10, best=BestEpoch(metrics=metrics), peak_memory_bytes=10, weights_digest="w"),
        reproducibility=Reproducibility(
            settings={"deterministic_algorithms": True},
            probe=Draws(draws_repeat={"python": True, "torch": True}, nondeterministic_operation_refused=True),
        ),
        environment=Environment(packages={"torch": "2"}, hardware={"memory_bytes": 100}),
        data=Data(splits=splits, disjoint=True, fingerprint="rows", test=test), split_rows=SplitRows(),
        code=Code(files={"net.py": "a"}, digest="code"),
        resolved=Resolved(device="cpu", steps_per_epoch=10, batch_size=10, products={"float32": 3}),
        kept_tags={"best", "last"}, checkpoint_problems=[], norms=norms,
        evaluation=RunEvaluated(run_id=name, splits={"validation": {"metrics": metrics}}),
        comparison=Comparison(identical=True, metrics_identical=True, source_weights_digest="w", relative_difference=0),
        exported=Export(
            checkpoint_digest="best", safetensors=Safetensors(reloaded_identical=True),
            test=Evaluated(fingerprint="test", size=20, metrics=metrics),
        ),
        parts={
            Validation: VERDICTS,
            ExportProbe: ExportProbe(parity=Parity(rows_compared=4, max_abs_difference=1e-7, passed=True)),
            FixedRows: FixedRows(
                validation=VERDICTS.digest(), splits={one: FixedSplit(rows=1, size=1) for one in ("validation", "test")}
            ),
        },
    )  # fmt: skip


def evidence_of(folder: Path) -> Any:
    """Return sound evidence of a finished project."""
    kinds = ("smoke", "baseline", "final", "replay", "export")
    runs = {name: run_of(name, checkpoints(folder / name)) for name in kinds}
    assessment = {"epochs": 10, "fit": "good", "recommendation": "deploy", "best_value": 0.95}
    diagnosis = {"run_id": "baseline", "artifacts": {"report.md": "a"}, "assessment": assessment, "alerts": []}
    started = {
        "smoke": SimpleNamespace(
            rows_key="key", kind="smoke", source_run=None, run_id="smoke", base_config_digest="config"
        )
    }
    return Of(
        name="p", goal=GOAL, goal_metric="accuracy", goal_text="accuracy >= 0.9", grants=[], settings=Settings(),
        project=SimpleNamespace(intent="", goal=GOAL, limits={}, code_root=str(folder)), config=CONFIG,
        config_digest="config", version=SimpleNamespace(number=1, values=VALUES),
        limits=ProjectLimits(), changed=[], files={"report.md": "a"},
        facts=SimpleNamespace(seals={}, started=started, overlay=lambda run_id: {}, configurations={}), spent="",
        recorded={"diagnosis": [diagnosis]}, study=SimpleNamespace(id="study-1", state="completed", search=SEARCH),
        trials_left=100, seconds_left=None, decisions=[], answers=[], named_baseline={},
        confirmation={"best_parameters": {"optimizer.learning_rate": 0.1}}, improvement=(IMPROVED, []), concludes=False,
        served_changes=lambda run: [],
        diagnosis=diagnosis, assessment=assessment, final_values={}, **runs,
    )  # fmt: skip


def config_with(**sections: Any) -> Any:
    return parse_config(VALUES | sections)


def changed(whole: Any, place: str, value: Any) -> None:
    """Put a value at a dotted place of evidence."""
    *path, last = place.split(".")
    for name in path:
        whole = whole[name] if isinstance(whole, dict) else getattr(whole, name)
    if isinstance(whole, dict):
        whole[last] = value
    elif isinstance(whole, SimpleNamespace):
        setattr(whole, last, value)
    else:
        object.__setattr__(whole, last, value)


CASES: list[Case] = [
    ("planning.goal_fixed", {"config": config_with(selection={"metric": "f1", "direction": "maximize"})}, "f1"),
    ("planning.goal_fixed", {"smoke.summary": Summary(problems={"accuracy": "the class is 1 in all rows"})}, "is 1 in"),
    ("planning.bounds_measured", {"smoke.summary": Summary(
        best=BestEpoch(metrics={"accuracy": 1.0}), problems={"accuracy": "no target counts"})}, "no target counts"),
    ("planning.limits_set", {"facts.seals": {"a": SimpleNamespace(used={"wall_clock_seconds": 1e9})}}, "1000000000 of"),
    ("planning.smoke_run_passed", {"smoke.is_complete": False}, "10 steps"),
    ("planning.smoke_run_passed", {"smoke.differences": ["status.json was changed"]}, "status.json"),
    ("planning.smoke_run_passed", {"changed": ["code: net.py changed"]}, "net.py"),
    ("planning.seeds_probed", {"smoke.reproducibility.probe": Draws(draws_repeat={"numpy": False})}, "numpy"),
    ("planning.determinism_probed", {"smoke.reproducibility.settings": {}}, "deterministic: False"),
    ("planning.determinism_probed", {"smoke.reproducibility.exemptions": ["put_"]}, "exempted in the run: put_"),
    ("planning.environment_captured", {"smoke.environment.import_failures": {"timm": "no"}}, "fail to import: timm"),
    ("planning.data_fingerprinted", {
        "smoke.data.disjoint": False, "smoke.data.shared_examples": [{"train": 5, "test": 7}]},
     "shared between splits (row 5 of train is row 7 of test)"),
    ("planning.code_captured", {"settings": Settings(require_git=True)}, "no git"),
    ("planning.data_validated", {"smoke.parts": {
        Validation: BROKEN, FixedRows: FixedRows(validation=BROKEN.digest())}}, "1 failed. nulls"),
    ("planning.data_validated", {"smoke.parts": {
        Validation: VERDICTS, FixedRows: FixedRows(validation="another")}}, "not those of the process"),
    ("planning.rows_fixed", {"smoke.parts": {FixedRows: FixedRows(splits={"validation": FixedSplit()})}}, "test split"),
    ("planning.bounds_measured", {"smoke.summary": Summary(best=BestEpoch(metrics={"loss": 1}))}, "computed: accuracy"),
    ("planning.memory_fits", {"smoke.summary.peak_memory_bytes": 99}, "(99%)"),
    ("planning.accumulation_adds_up", {"smoke.resolved.steps_per_epoch": 11}, "= 11 steps"),
    ("planning.precision_on", {
        "config": config_with(training={"precision": "bf16"}),
        "smoke.resolved.products": {"bfloat16": 1, "float32": 9}}, "9 layers in float32"),
    ("planning.export_tried", {"smoke.parts": {ExportProbe: ExportProbe(problem="has no forward")}}, "has no forward"),
    ("planning.export_tried", {"smoke.parts": {}}, "left no record of it"),
    ("planning.export_tried", {"smoke.parts": {
        ExportProbe: ExportProbe(parity=Parity(rows_compared=4, max_abs_difference=0.5))}}, "differs by 5.0e-01"),
    ("planning.export_tried", {"smoke.parts": {ExportProbe: ExportProbe(difference=math.nan, remedy="x")}}, "by nan"),
    ("planning.export_tried", {"smoke.parts": {ExportProbe: ExportProbe(own_problem="`data.prepare` (s.py:p): no")}},
     "`data.prepare` (s.py:p): no"),
    ("planning.export_tried", {
        "smoke.parts": {ExportProbe: ExportProbe(reason="too large", own_problem="`data.prepare` raises")}}, "raises"),
    ("planning.export_tried", {
        "config": config_with(deployment={"formats": ["safetensors"]}),
        "smoke.parts": {ExportProbe: ExportProbe(own_problem="`data.present` raises")}}, "raises"),
    ("planning.export_tried", {"smoke.parts": {
        ExportProbe: ExportProbe(problem="has no forward", own_problem="x")}}, "x; has no forward"),
    ("planning.states_kept", {
        "config": config_with(checkpoints={"save_best": False, "save_last": False})}, "neither best nor last"),
    ("baseline.run_completed", {"baseline.is_complete": False}, "baseline is completed"),
    ("baseline.run_completed", {"baseline.plan.max_steps": 5}, "cut short at 5 steps"),
    ("baseline.run_completed", {"baseline.differences": ["run.json was changed"]}, "run.json"),
    ("baseline.same_evidence", {"baseline.data": Data(fingerprint="other")}, "differs in data"),
    ("baseline.checkpoints_verified", {"baseline.checkpoint_problems": ["damaged"]}, "1 problems"),
    ("baseline.checkpoints_verified", {"baseline.kept_tags": {"last"}}, "tags last"),
    ("baseline.checkpoints_verified", {
        "baseline.kept_tags": {"last"}, "baseline.summary": Summary(final={"accuracy": math.nan})}, "was nan"),
    ("baseline.gpu_utilisation", {
        "baseline.resolved.device": "cuda", "baseline.summary.gpu_percent_mean": 20.0,
        "limits": ProjectLimits(gpu_utilisation_percent=50)}, "20 %"),
    ("baseline.independently_evaluated", {"baseline.evaluation": RunEvaluated(run_id="b", differences=["0.5"])}, "0.5"),
    ("baseline.independently_evaluated", {"baseline.evaluation": None}, "exported no program"),
    ("diagnostics.report_written", {"files": {"report.md": "edited"}}, "report.md"),
    ("diagnostics.learning_curves_analysed", {"assessment.epochs": 1}, "1 epochs"),
    ("diagnostics.fit_assessed", {"assessment.fit": "diverged"}, "diverged"),
    ("diagnostics.gradients_recorded", {"baseline.norms.count": lambda key: 1}, "1 of 10 steps"),
    ("diagnostics.no_critical_alert", {"diagnosis.alerts": [ALERT]}, "nan_loss"),
    ("diagnostics.recommendation_made", {"assessment.recommendation": "debug"}, "debug"),
    ("diagnostics.recommendation_made", {
        "assessment.recommendation": "debug", "assessment.fit": "guessing", "diagnosis.alerts": [UNSCALED]},
        "a fix is left"),
    ("optimization.study_completed", {"study.state": "running"}, "study-1 is running"),
    ("optimization.improvement_validated", {"improvement": ({**IMPROVED, "validated": False}, [])}, "+0.2"),
    ("optimization.conclusion_grounded", {"concludes": True, "improvement": ({}, [])}, "no study has ended"),
    ("finalization.replay_identical", {"replay.comparison.identical": False}, "different"),
    ("finalization.export_verified", {"export.exported.checkpoint_digest": "another"}, "no ONNX"),
    ("finalization.test_evaluated", {
        "export.exported": Export(test=Evaluated(fingerprint="another", size=20, metrics={"accuracy": 1.0}))}, "on 20"),
    ("finalization.goal_reached", {"final.evaluation": RunEvaluated(
        run_id="final", splits={"validation": {"metrics": {"accuracy": 0.5}}})}, "accuracy 0.5"),
    ("finalization.bounds_kept", {"final.evaluation": RunEvaluated(
        run_id="final", splits={"validation": {"metrics": {"accuracy": 0.7}}})}, "accuracy 0.7"),
]  # fmt: skip
"""A check, what is not so, and what the check must have measured."""
OF_A_SEARCH = {"optimization.study_completed", "optimization.improvement_validated", "optimization.conclusion_grounded"}
"""Checks of projects whose baseline is below the goal."""


@pytest.mark.requirement("GATE-1", "GATE-2")
@pytest.mark.parametrize(("name", "otherwise", "told"), CASES, ids=[f"{name}-{told}" for name, _, told in CASES])
def test_a_check_passes_sound_evidence_and_fails_where_one_thing_is_not_so(
    name: str, otherwise: dict[str, Any], told: str, tmp_path: Path
) -> None:
    evidence = evidence_of(tmp_path)
    if name in OF_A_SEARCH:
        evidence.baseline.row = SimpleNamespace(ended_at=None)
        evidence.baseline.evaluation = RunEvaluated(
            run_id="baseline", splits={"validation": {"metrics": {"accuracy": 0.5}}}
        )
    line: CheckLine = LINES[name]
    sound = CHECKS[name](evidence, line)
    assert sound.status in {"passed", "not_applicable"}, sound.measured
    for place, value in otherwise.items():
        changed(evidence, place, value)
    found = CHECKS[name](evidence, line)
    assert (found.status, told in found.measured) == ("failed", True), found.measured


@pytest.mark.requirement("PIPE-3", "GATE-2")
def test_a_bound_of_one_of_several_targets_is_certified_and_kept_or_named(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path)
    bounds = {"accuracy of b": 0.7, "test/accuracy of a": 0.8}
    evidence.config = config_with(evaluation_gate={"minimum": bounds})
    targets = [{"name": one, "metrics": {"accuracy": value}} for one, value in (("a", 0.9), ("b", 0.6))]
    splits = {split: {"metrics": {"accuracy": 0.75}, "targets": targets} for split in ("validation", "test")}
    evidence.export.evaluation = RunEvaluated(run_id="export", splits=splits)
    planned, kept = (CHECKS[name] for name in ("planning.bounds_measured", "finalization.bounds_kept"))
    refused = planned(evidence, LINES["planning.bounds_measured"])
    assert refused.measured == "not computed: accuracy of a, accuracy of b"
    evidence.smoke.data = evidence.smoke.data.model_copy(update={"target_names": ["a", "b"]})
    assert planned(evidence, LINES["planning.bounds_measured"]).status == "passed"
    found = kept(evidence, LINES["finalization.bounds_kept"])
    assert (found.status, found.measured) == ("failed", "accuracy of b 0.6, test/accuracy of a 0.9")
    with pytest.raises(ConfigurationError, match="of one target"):
        config_with(evaluation_gate={"slices": {"plan=basic": {"accuracy of b": 0.7}}})


@pytest.mark.requirement("GATE-1", "PHASE-2")
def test_a_configuration_that_the_schema_refuses_closes_planning(tmp_path: Path) -> None:
    class Refused(Of):
        @property
        def config_digest(self) -> str:
            raise ConfigurationError("`x` is unknown.", remedy="")

    evidence = Refused(
        **{name: value for name, value in vars(evidence_of(tmp_path)).items() if name != "config_digest"}
    )
    assert CHECKS["planning.configuration_valid"](evidence, LINES["planning.configuration_valid"]).status == "failed"


@pytest.mark.requirement("PHASE-5")
def test_whether_the_baseline_meets_the_goal_is_said_with_its_value(tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path)
    for value, said in ((0.95, "0.95 (met"), (0.5, "0.5 (not met)")):
        evidence.baseline.evaluation = RunEvaluated(run_id="b", splits={"validation": {"metrics": {"accuracy": value}}})
        assert said in CHECKS["optimization.needed"](evidence, LINES["optimization.needed"]).measured


@pytest.mark.requirement("PHASE-12", "GATE-6")
@pytest.mark.parametrize(
    ("tested", "said"),
    [(0.95, "Goal reached: 0.95 of 0.9"), (0.7, "Goal reached on validation alone: 0.95 of 0.9")],
)
def test_a_goal_that_test_rows_miss_is_said_to_be_missed_there(tested: float, said: str, tmp_path: Path) -> None:
    evidence = evidence_of(tmp_path)
    evidence.final.evaluation = RunEvaluated(run_id="final", splits={"validation": {"metrics": {"accuracy": 0.95}}})
    evidence.export.tested_metrics = lambda: {"accuracy": tested}
    sentence = verdict(evidence, Phase.FINALIZATION)
    assert sentence.startswith(said)
    assert ("; MISSED on test: 0.7" in sentence) == (tested == 0.7)
