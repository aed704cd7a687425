"""Each check on a project whose runs nobody trained: it passes on good records and names what is wrong in bad ones."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from tests.worlds.blank_pictures import blank_pictures
from tests.worlds.found import VERDICT
from tests.worlds.scripted import scripted

from trainwright.tools import projects
from trainwright.tools.gates.checklist import load_checklist
from trainwright.tools.gates.decide import evaluate_line
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.final_words import _groups
from trainwright.tools.gates.improvement import compare
from trainwright.tools.gates.outcomes import CHECKS, CheckResult
from trainwright.tools.gates.phases import Phase
from trainwright.tools.gates.repeats import owed_repeats, repeats_text
from trainwright.tools.gates.run_evidence import RunEvidence
from trainwright.tools.ledger.events import RunEvaluated
from trainwright.tools.owner import Grant
from trainwright.tools.training_orchestrator import replay_run, start_run, wait_for_run
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.errors import IntegrityError
from trainwright.trainer.checkpoints.index import list_checkpoints
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import RunKind, RunState
from trainwright.trainer.run.artifacts import ExportProbe, FixedRows
from trainwright.trainer.run.results import Export
from trainwright.trainer.run.validation import Report, Validation

pytestmark = [pytest.mark.slow, pytest.mark.requirement("GATE-1", "GATE-2")]

NAME = "digits"
CONFIG: dict[str, Any] = {
    "model": {"use": "mlp", "args": {"hidden": [16]}}, "data": {"use": "digits"}, "training": {"epochs": 3},
    "optimizer": {"learning_rate": 0.01}, "logging": {"tensorboard": False},
}  # fmt: skip
GOAL = {"metric": "accuracy", "direction": "maximize", "target": 0.5}
UNREACHED = {**GOAL, "target": 0.999}
NO_MEANING = {
    "planning.bounds_measured", "planning.code_captured", "planning.precision_on",
    "baseline.independently_evaluated", "baseline.gpu_utilisation", "optimization.study_completed",
    "optimization.best_configuration",
    "optimization.improvement_validated", "optimization.conclusion_grounded", "finalization.bounds_kept",
}  # fmt: skip
"""Of built-in code on the CPU, whose written runs export no program, with the goal met and without bounds."""
GAIN = {
    "confidence": 0.95, "improvement_mean": 0.1, "improvement_low": 0.05, "improvement_high": 0.15, "look": 1,
    "baseline_spread": 0.01, "seeds": [1, 2, 3], "validated": True,
}  # fmt: skip


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """A workspace whose project has passed all gates but the last, with a replay of its final run."""
    opened = Workspace.open(tmp_path_factory.mktemp("checks") / "workspace")
    with scripted(), blank_pictures():
        projects.create_project(opened, NAME, intent="compare", goal=GOAL, config=CONFIG)
        for kind, phase in ((RunKind.SMOKE, "planning"), (RunKind.BASELINE, "baseline")):
            assert wait_for_run(opened, start_run(opened, NAME, kind).run_id, 60).state == "completed"
            projects.pass_gate(opened, NAME, phase)
        projects.diagnose(opened, NAME)
        projects.pass_gate(opened, NAME, "diagnostics")
        projects.pass_gate(opened, NAME, "optimization")
        assert wait_for_run(opened, replay_run(opened, NAME).run_id, 60).state == "completed"
    yield opened
    opened.close()


@pytest.fixture
def evidence(workspace: Workspace) -> Iterator[Evidence]:
    """The project's evidence as it is, with an export beside it: a written run has no model to export."""
    with workspace.session() as session:
        found = Evidence(session, workspace, NAME)
        vars(found)["export"] = exported(found)
        yield found
        session.rollback()


def exported(evidence: Evidence) -> Any:
    smoke, final = evidence.smoke, evidence.final
    assert smoke is not None
    assert final is not None
    best = next(record.digest for record in list_checkpoints(final.directory) if "best" in record.tags)
    test = {"size": 20, "fingerprint": smoke.data.test.fingerprint, "metrics": {"accuracy": 0.8}}
    record = Export.model_validate({
        "checkpoint_digest": best, "test": test, "safetensors": {"reloaded_identical": True},
        "onnx": {"passed": True, "max_abs_difference": 1e-7, "rows_compared": 20},
    })  # fmt: skip
    certified = {"validation": {"accuracy": 0.8}, "test": {"accuracy": 0.8}}
    evaluation = RunEvaluated(run_id="export-1", splits={name: {"metrics": one} for name, one in certified.items()})
    return SimpleNamespace(
        id="export-1", is_complete=True, exported=record, differences=[], evaluation=evaluation, facts=evidence.facts,
        row=SimpleNamespace(kind="export"), directory=final.directory, test_access=None, untrusted="",
        certified=lambda split="validation": certified[split], tested_metrics=lambda: certified["test"],
        status=SimpleNamespace(state=RunState.COMPLETED),
    )  # fmt: skip


def result(evidence: Evidence, name: str) -> CheckResult:
    lines = load_checklist(Phase(name.partition(".")[0])).checks
    return evaluate_line(evidence, next(line for line in lines if line.id == name))


@pytest.mark.parametrize("name", sorted(CHECKS))
def test_a_check_passes_on_good_records(evidence: Evidence, name: str) -> None:
    found = result(evidence, name)
    assert found.status == ("not_applicable" if name in NO_MEANING else "passed"), found
    assert found.measured
    assert found.next is None


Harm = Callable[[Evidence], object]


def run_of(evidence: Evidence, which: str) -> RunEvidence:
    run: RunEvidence | None = getattr(evidence, which)
    assert run is not None
    return run


def of_run(which: str, **values: Any) -> Harm:
    """Give values to attributes of a run."""
    return lambda evidence: vars(run_of(evidence, which)).update(values)


def of_part(which: str, name: str, **changes: Any) -> Harm:
    """Change fields of one part of a run's record."""

    def harm(evidence: Evidence) -> None:
        run = run_of(evidence, which)
        part = getattr(run, name)
        vars(run)[name] = type(part).model_validate(part.as_dict() | changes)

    return harm


def of_record(which: str, part: Any) -> Harm:
    """Put another record in the place of one of its kind."""

    def harm(evidence: Evidence) -> None:
        run = run_of(evidence, which)
        read = run.part
        vars(run)["part"] = lambda kind: part if kind is type(part) else read(kind)

    return harm


def ended(which: str, state: RunState) -> Harm:
    return lambda evidence: of_run(
        which, status=run_of(evidence, which).status.model_copy(update={"state": state})
    )(evidence)  # fmt: skip


def of_project(**values: Any) -> Harm:
    return lambda evidence: vars(evidence).update(values)


def together(*harms: Harm) -> Harm:
    return lambda evidence: [harm(evidence) for harm in harms]


def of_export(**values: Any) -> Harm:
    def harm(evidence: Evidence) -> None:
        export: Any = evidence.export
        record = export.exported.as_dict()
        export.exported = Export.model_validate(record | {key: record[key] | change for key, change in values.items()})

    return harm


def configured(**sections: Any) -> Harm:
    return of_project(config=parse_config(CONFIG | sections))


def diagnosed(**changes: Any) -> Harm:
    """Let the newest diagnosis say something else; `assessment` is changed by key."""

    def harm(evidence: Evidence) -> None:
        sequence, body = evidence.entries("diagnosis")[-1]
        assessment = body["assessment"] | changes.pop("assessment", {})
        evidence.facts.entries["diagnosis"] = [(sequence, body | {"assessment": assessment} | changes)]

    return harm


def searching(state: str = "completed", improvement: Any = ({}, ["not confirmed yet"])) -> Harm:
    """Let the goal be unreached, and a study have come so far."""
    space = {"optimizer.learning_rate": {"type": "float", "low": 0.001, "high": 0.1}}
    study = SimpleNamespace(id="study-1", state=state, search={"trials": 2, "space": space})
    return of_project(goal=UNREACHED, study=study, improvement=improvement, confirmation={"best_parameters": {}})


def unfit(evidence: Evidence) -> None:
    vars(evidence).update(version=SimpleNamespace(number=2, values=CONFIG | {"mdoel": {}}))
    for derived in ("config", "config_digest"):
        vars(evidence).pop(derived)


def used_up(evidence: Evidence) -> None:
    run_id, seal = next(iter(evidence.facts.seals.items()))
    evidence.facts.seals[run_id] = seal.model_copy(update={"used": {"wall_clock_seconds": 1e9}})


def without_test_rows(evidence: Evidence) -> None:
    fixed = run_of(evidence, "smoke").part(FixedRows)
    kept = {name: split for name, split in fixed.splits.items() if name != "test"}
    of_record("smoke", fixed.model_copy(update={"splits": kept}))(evidence)


def unreadable(evidence: Evidence) -> None:
    def part(_: Any) -> Any:
        raise IntegrityError("The record cannot be read.", remedy="put it back")

    vars(run_of(evidence, "smoke"))["part"] = part


def unlike(evidence: Evidence) -> None:
    """Let the replay have recorded other weights than it was compared with."""
    of_part("replay", "comparison", identical=False, relative_difference=0.5)(evidence)


def loss_of_nothing(evidence: Evidence) -> None:
    store = SimpleNamespace(reading=blank_pictures, count=lambda key: 3, non_finite=lambda key: [1], close=lambda: None)
    run = run_of(evidence, "baseline")
    assert run.summary, "read before the directory is another"
    vars(run)["directory"] = SimpleNamespace(metrics=lambda: store, specification=run.directory.specification)


def other_data(which: str) -> Harm:
    return of_part(which, "data", fingerprint="blake3:other")


CRITICAL = {
    "id": "exploding_gradients", "severity": "critical", "measured": 1e9, "signal": "gradient_norm", "fixes": [],
    "document": "diagnostics/exploding_gradients.md",
}  # fmt: skip
WEIGHTS = {"deployment.formats": ["safetensors"]}
BOUND = {"evaluation_gate": {"minimum": {"accuracy": 0.99}}}
APART = ["validation accuracy: 0.9 reported by the training process, 0.1 by its program"]
REFUSED: list[tuple[str, Harm, str, str, str]] = [
    ("planning.configuration_valid", unfit,
     "mdoel", "fits the schema", "configure"),
    ("planning.goal_fixed", configured(selection={"metric": "loss", "direction": "minimize"}),
     r"selection by loss \(minimize\)", "accuracy >= 0.5", "configure"),
    ("planning.goal_fixed", of_part("smoke", "summary", problems={"accuracy": "no target counts"}),
     "accuracy cannot be computed on validation: no target counts", "accuracy >= 0.5", "start_training"),
    ("planning.limits_set", used_up, r"1000000\d+ of \d+ s used", "time left", "project_status"),
    ("planning.smoke_run_passed", of_part("smoke", "summary", steps=2), "completed, 2 steps", "at least 3 steps",
     "start_training"),
    ("planning.smoke_run_passed", of_run("smoke", differences=["data.json was changed"]), "data.json was changed", "",
     "start_training"),
    ("planning.smoke_run_passed", of_project(smoke=None), "no smoke run", "", "start_training"),
    ("planning.memory_fits", of_part("smoke", "summary", peak_memory_bytes=2**60), "GiB", "at most 95%", "configure"),
    ("planning.accumulation_adds_up", of_part("smoke", "resolved", steps_per_epoch=99), "= 99 steps an epoch",
     r"\d steps an epoch", "start_training"),
    ("planning.precision_on", together(
        configured(training={"precision": "bf16"}),
        of_part("smoke", "resolved", products={"float32": 9, "bfloat16": 1})),
     "1 layers in bfloat16, 9 layers in float32", "products in bfloat16", "configure"),
    ("planning.export_tried", of_record("smoke", ExportProbe(problem="no ONNX function for it", changes=WEIGHTS)),
     "no ONNX function for it", "within 0.0001", "configure"),
    ("planning.export_tried", of_record("smoke", ExportProbe(problem="differs", difference=2e-4, changes=WEIGHTS)),
     "differs", "within 0.0001", "configure"),
    ("planning.export_tried", of_record("smoke", ExportProbe(difference=2e-4)),
     "ONNX differs by 2.0e-04", "within 0.0001", "configure"),
    ("planning.bounds_measured", configured(evaluation_gate={"minimum": {"f1": 0.5}}), "not computed: f1", "",
     "configure"),
    ("planning.states_kept", configured(checkpoints={"save_best": False, "save_last": False}), "neither best nor last",
     "", "configure"),
    ("planning.seeds_probed",
     of_part("smoke", "reproducibility", probe={"draws_repeat": {"torch": False, "numpy": True}}), "differ: torch",
     "the same draws twice", "start_training"),
    ("planning.determinism_probed", of_part("smoke", "reproducibility", settings={"deterministic_algorithms": False}),
     "deterministic: False", "refused", "configure"),
    ("planning.determinism_probed", of_part("smoke", "reproducibility", exemptions=["put_"]),
     "exempted in the run: put_; by the owner: none", "", "start_training"),
    ("planning.environment_captured", of_part("smoke", "environment", import_failures={"onnx": "no such file"}),
     "fail to import: onnx", "import together", "start_training"),
    ("planning.data_fingerprinted", of_part("smoke", "data", disjoint=False, shared_samples=7),
     "7 samples shared between splits", "no sample shared", "start_training"),
    ("planning.data_volume", of_part("smoke", "data", splits={
        "train": {"size": 9, "fingerprint": "a"}, "validation": {"size": 20, "fingerprint": "b"}}),
     "train 9, validation 20", "at least 10", "configure"),
    ("planning.data_validated", of_record("smoke", Validation()), "verdicts are gone", "", "start_training"),
    ("planning.data_validated", of_record("smoke", Validation(report=Report(checks=[VERDICT], rows=1, rows_read=1))),
     "not those of the process that fixed the rows", "", "start_training"),
    ("planning.rows_fixed", of_record("smoke", FixedRows()), "without fixing them", "", "start_training"),
    ("planning.rows_fixed", without_test_rows, "had a test split, and its rows were not fixed", "", "start_training"),
    ("baseline.run_completed", ended("baseline", RunState.STOPPED), "is stopped", "completed baseline run",
     "resume_training"),
    ("baseline.run_completed", of_run("baseline", differences=["summary.json was changed"]), "summary.json was changed",
     "record is unchanged", "start_training"),
    ("baseline.same_evidence", other_data("baseline"), "differs in data", "of the planning gate", "start_training"),
    ("baseline.losses_finite", loss_of_nothing, "3 recorded, 1 not finite", "every recorded loss finite", "configure"),
    ("baseline.losses_finite", of_part("baseline", "summary", non_finite_steps=3), "0 not finite", "", "configure"),
    ("baseline.checkpoints_verified", of_run("baseline", checkpoint_problems=["step-3: torn"]), "1 problems; step-3",
     "digests verified", "start_training"),
    ("baseline.checkpoints_verified", of_run("baseline", kept_tags={"last"}), "tags last", "", "start_training"),
    ("baseline.within_budget", of_part("baseline", "summary", train_seconds=7200.0), "120.0 minutes",
     "at most 60 minutes", "configure"),
    ("baseline.independently_evaluated",
     lambda evidence: evidence.facts.evaluations.update(
         {run_of(evidence, "baseline").id: RunEvaluated(run_id="b", differences=APART)}),
     "0.9 reported by the training process, 0.1", "", "start_training"),
    ("diagnostics.report_written", diagnosed(artifacts={"diagnostic_report.md": "blake3:other"}),
     "changed or missing: diagnostic_report.md", "unchanged since the server wrote it", "diagnose_run"),
    ("diagnostics.report_written", lambda evidence: evidence.facts.entries.pop("diagnosis"),
     "no diagnosis of the baseline", "unchanged since the server wrote it", "diagnose_run"),
    ("diagnostics.learning_curves_analysed", diagnosed(assessment={"epochs": 1}), "1 epochs", "at least 2",
     "configure"),
    ("diagnostics.fit_assessed", diagnosed(assessment={"fit": None}), "fit: None", "overfitting", "diagnose_run"),
    ("diagnostics.gradients_recorded", of_part("baseline", "summary", steps=10**6), "of 1000000 steps", "99 %",
     "start_training"),
    ("diagnostics.no_critical_alert", diagnosed(alerts=[CRITICAL]), "exploding_gradients", "no critical alert",
     "configure"),
    ("diagnostics.recommendation_made", diagnosed(assessment={"recommendation": "debug"}), "debug",
     "deploy or optimize", "diagnose_run"),
    ("optimization.needed", of_project(baseline=None), "no baseline", "accuracy >= 0.5", "start_training"),
    ("optimization.study_completed", of_project(goal=UNREACHED, study=None), "no study on this configuration", "",
     "start_tuning"),
    ("optimization.study_completed", searching("failed"), "study-1 is failed", "", "start_tuning"),
    ("optimization.best_configuration", of_project(goal=UNREACHED, study=None), "none yet", "", "start_tuning"),
    ("optimization.improvement_validated", searching(), "not confirmed yet", "at least 3 seeds", "start_tuning"),
    ("optimization.improvement_validated", searching(improvement=({**GAIN, "validated": False}, [])),
     r"\+0.1, 95 % \[\+0.05, \+0.15\] over 3 seeds", "interval above zero", "start_tuning"),
    ("optimization.conclusion_grounded", of_project(goal=UNREACHED, study=None, concludes=True), "no study has ended",
     "used-up limit", "start_tuning"),
    ("finalization.run_completed", of_project(final=None), "no final run", "completed final run", "start_training"),
    ("finalization.same_evidence", other_data("final"), "differs in data", "", "start_training"),
    ("finalization.losses_finite", of_part("final", "summary", non_finite_steps=1), "not finite", "", "configure"),
    ("finalization.checkpoints_verified", of_run("final", kept_tags={"best"}), "tags best", "", "start_training"),
    ("finalization.replay_identical", of_project(replay=None), "no replay", "identical weights",
     "verify_reproducibility"),
    ("finalization.replay_identical", unlike, "different by 5.0e-01 of their norm", "within 10%", "start_training"),
    ("finalization.export_verified", of_export(safetensors={"reloaded_identical": False}), "ONNX differs by 1.0e-07",
     "identical to the best checkpoint", "export_model"),
    ("finalization.export_verified", of_project(export=None), "no export", "", "export_model"),
    ("finalization.test_evaluated", of_export(test={"fingerprint": "blake3:other"}), "on 20 samples",
     "test split of the planning gate", "export_model"),
    ("finalization.independently_evaluated",
     lambda evidence: vars(evidence.export).update(evaluation=RunEvaluated(run_id="e", differences=APART)),
     "0.9 reported", "", "start_training"),
    ("finalization.drift_bounded", lambda evidence: vars(evidence.export).update(
        certified=lambda split="validation": {"accuracy": 0.1}), r"accuracy 0.1, baseline 0.8.*% worse", "at most 5 %",
     "start_training"),
    ("finalization.bounds_kept", configured(**BOUND), r"accuracy 0.8", "accuracy >= 0.99", "configure"),
    ("finalization.goal_reached", of_project(goal=UNREACHED), "validation accuracy 0.8", "0.999", "project_status"),
]  # fmt: skip
"""Check, what is wrong, and what the refusal measures, requires and names as the next call."""


@pytest.mark.parametrize(("name", "harm", "measured", "required", "tool"), REFUSED)
def test_a_check_is_refused_on_bad_records(
    evidence: Evidence, name: str, harm: Harm, *, measured: str, required: str, tool: str
) -> None:
    harm(evidence)
    found = result(evidence, name)
    assert found.status == "failed", found
    assert re.search(measured, found.measured), found
    assert re.search(required, found.required), found
    assert found.next is not None
    assert found.next.tool == tool, found.next


def test_groups_of_too_few_rows_close_nothing_and_are_named_and_all_are_told_at_the_end(evidence: Evidence) -> None:
    parts = {name: {"rows": rows, "metrics": {"accuracy": value}}
             for name, rows, value in (("plan=a", 5, 0.2), ("plan=b", 40, 0.9))}  # fmt: skip
    splits = {name: {"metrics": {"accuracy": 0.8}, "slices": parts} for name in ("validation", "test")}
    vars(evidence.export)["evaluation"] = RunEvaluated(run_id="export-1", splits=splits)
    configured(evaluation_gate={"groups": {"plan": {"accuracy": 0.7}}})(evidence)
    found = result(evidence, "finalization.bounds_kept")
    assert (found.status, found.required) == ("passed", "plan=b accuracy >= 0.7")
    few = "; not judged, of fewer than 20 rows: plan=a accuracy 0.2 on 5 rows"
    assert found.measured == f"plan=b accuracy 0.9 on 40 rows{few}"
    assert _groups(evidence) == "Of the test rows, accuracy in each part: plan=a 0.2 on 5, plan=b 0.9 on 40."
    configured(evaluation_gate={"groups": {"plan": {}}})(evidence)
    assert result(evidence, "finalization.bounds_kept").status == "not_applicable"
    assert result(evidence, "planning.bounds_measured").status == "failed", "digits have no column of that name"


def test_the_seeds_of_a_confirmation_are_those_that_a_sentence_asks_for(evidence: Evidence) -> None:
    found = compare([0.9, 0.92, 0.94], [0.91, 0.95, 0.96], "maximize")
    found |= {"baseline": [0.9, 0.92, 0.94], "best": [0.91, 0.95, 0.96], "certified": True}
    vars(evidence)["improvement"] = (found, [])
    goal = evidence.goal["target"]
    for asked in (3, 4):
        evidence.project.intent = f"digits, mean and std over {asked} seeds"
        assert (owed_repeats(evidence) is None) is (asked == 3)
        told = repeats_text(evidence)
        assert "by the search: validation accuracy 0.92 ± 0.02 (mean and deviation over 3 seeds, 95% interval" in told
        assert f"certified); {sum(value >= goal for value in (0.9, 0.92, 0.94))} of 3 seeds reach the goal of" in told


def test_every_check_has_a_refusal_here() -> None:
    elsewhere = {"baseline.gpu_utilisation", "planning.code_captured"}  # test_gpu_utilisation, projects/test_exemptions
    assert set(CHECKS) - {name for name, *_ in REFUSED} == elsewhere


EXEMPTED: list[tuple[str, Harm, Grant, str]] = [
    ("finalization.replay_identical",
     of_part("replay", "comparison", identical=False, relative_difference=0.01), Grant(kind="exemption", name="put_"),
     "exempted by the owner: put_"),
    ("diagnostics.no_critical_alert", diagnosed(alerts=[CRITICAL]), Grant(kind="alert", name="exploding_gradients"),
     "the owner accepts: exploding_gradients"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "harm", "grant", "measured"), EXEMPTED)
def test_what_the_owner_grants_passes_with_the_exemption(
    evidence: Evidence, name: str, harm: Harm, grant: Grant, measured: str
) -> None:
    harm(evidence)
    vars(evidence)["grants"] = [grant]
    found = result(evidence, name)
    assert (found.status, measured in found.measured) == ("passed_with_exemption", True), found


def test_records_that_cannot_be_read_are_a_refusal_with_the_reason(evidence: Evidence) -> None:
    unreadable(evidence)
    found = result(evidence, "planning.rows_fixed")
    assert (found.status, found.measured) == ("failed", "The record cannot be read.")
    assert found.next is not None
    assert found.next.why == "put it back"
