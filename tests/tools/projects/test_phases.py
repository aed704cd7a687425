"""A project moves through the phases by passed gates and by nothing else."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from trainwright.tools import projects
from trainwright.tools.gates.decide import evaluate
from trainwright.tools.gates.evidence import Evidence
from trainwright.tools.gates.phases import Phase
from trainwright.tools.ledger import entries
from trainwright.tools.reports.final_model import assemble_final_model
from trainwright.tools.training_orchestrator import start_run
from trainwright.tools.verification import verify_workspace
from trainwright.tools.workspace import Workspace
from trainwright.trainer.base.canonical import digest_file
from trainwright.trainer.base.errors import ConflictError, GateRefusedError
from trainwright.trainer.config import parse_config
from trainwright.trainer.run import RunKind

NAME = "flowers"
PHASES = ("planning", "baseline", "diagnostics", "optimization", "finalization")
REACHED = {
    "created": "planning",
    "planned": "baseline",
    "based": "diagnostics",
    "diagnosed": "optimization",
    "tuned": "finalization",
}
At = Callable[[str], Workspace]


def status(workspace: Workspace) -> projects.ProjectStatus:
    found = projects.project_status(workspace, NAME)
    assert isinstance(found, projects.ProjectStatus)
    return found


@pytest.mark.requirement("PHASE-1")
@pytest.mark.parametrize(("stage", "phase"), REACHED.items())
def test_each_gate_opens_the_next_phase(at: At, stage: str, phase: str) -> None:
    found = status(at(stage))
    assert found.phase == phase
    assert not found.finished
    assert found.next is not None


@pytest.mark.requirement("PHASE-1", "PHASE-6")
def test_after_the_last_gate_the_project_is_finished_and_nothing_is_left_to_do(at: At) -> None:
    found = status(at("finished"))
    assert found.finished
    assert found.next is None
    assert set(found.gates.values()) == {"passed", "skipped"}


@pytest.mark.requirement("PHASE-1", "PHASE-7")
@pytest.mark.parametrize("stage", REACHED)
def test_no_gate_but_the_present_one_can_be_passed(at: At, stage: str) -> None:
    workspace = at(stage)
    before = status(workspace).phase
    for phase in PHASES:
        if phase != before:
            with pytest.raises(GateRefusedError):
                projects.pass_gate(workspace, NAME, phase)
    assert status(workspace).phase == before


@pytest.mark.requirement("PHASE-2", "PHASE-7", "GATE-2")
@pytest.mark.parametrize(
    ("stage", "kinds"),
    [
        ("created", ["baseline", "trial", "ablation", "final", "export", "replay"]),
        ("smoked", ["baseline", "final"]),
        ("planned", ["trial", "final", "export"]),
        ("based", ["trial", "final", "export"]),
        ("diagnosed", ["final", "export"]),
        ("tuned", ["trial", "baseline"]),
    ],
)
def test_a_run_of_a_later_phase_is_refused_with_what_is_missing(at: At, stage: str, kinds: list[str]) -> None:
    workspace = at(stage)
    runs = len(status(workspace).runs)
    for kind in kinds:
        with pytest.raises(GateRefusedError) as caught:
            start_run(workspace, NAME, RunKind(kind))
        assert caught.value.details["phase"] == status(workspace).phase
        assert caught.value.remedy.split("(")[0] in {
            "start_training",
            "run_status",
            "pass_gate",
            "configure",
            "diagnose_run",
            "start_tuning",
            "verify_reproducibility",
        }
        assert caught.value.document.endswith("checklist.md")
    assert len(status(workspace).runs) == runs


@pytest.mark.requirement("PHASE-5", "GATE-2")
def test_an_ablation_with_a_new_file_of_code_is_refused_before_it_runs(at: At) -> None:
    workspace = at("diagnosed")
    runs = len(status(workspace).runs)
    with pytest.raises(ConflictError, match="keeps the code that planning fixed, and mine.py is new") as caught:
        start_run(workspace, NAME, RunKind.ABLATION, changes={"model": {"use": "mine.py:Net"}})
    assert "configure(project='flowers'" in caught.value.remedy
    assert len(status(workspace).runs) == runs


@pytest.mark.requirement("GATE-2")
def test_a_refused_gate_names_check_measured_required_and_call(at: At) -> None:
    with pytest.raises(GateRefusedError) as caught:
        projects.pass_gate(at("created"), NAME, "planning")
    failed = {check["id"]: check for check in caught.value.details["checks"]}
    assert failed["planning.smoke_run_passed"]["measured"] == "no smoke run of this configuration"
    assert "at least 3 steps" in failed["planning.smoke_run_passed"]["required"]
    assert failed["planning.smoke_run_passed"]["next"]["tool"] == "start_training"
    assert caught.value.remedy == "start_training(project='flowers', kind='smoke')"
    assert caught.value.document == "phases/01_planning/checklist.md"


@pytest.mark.requirement("PHASE-2", "REPRO-3")
def test_planning_names_the_packages_that_were_imported_and_claims_no_more(at: At) -> None:
    workspace = at("smoked")
    (run,) = workspace.project_folder(NAME).glob("runs/smoke-*")
    environment = json.loads((run / "artifacts" / "environment.json").read_text())
    (line,) = [each for each in status(workspace).checks if each.id == "planning.environment_captured"]
    recorded, imported = line.measured.split("; ")
    assert recorded == f"{len(environment['packages'])} packages recorded"
    names = ", ".join(environment["import_tested"])
    assert imported == f"{names} import together, and with them what the smoke run's code imports"
    assert len(environment["import_tested"]) < len(environment["packages"])


@pytest.mark.requirement("GATE-3")
def test_refusals_are_recorded_too(at: At) -> None:
    workspace = at("created")
    with pytest.raises(GateRefusedError):
        projects.pass_gate(workspace, NAME, "planning")
    with workspace.session() as session:
        assert [body["outcome"] for _, body in entries(session, NAME, "gate")] == ["refused"]


@pytest.mark.requirement("PHASE-1", "GATE-2", "DIAG-9")
@pytest.mark.parametrize("stage", ["created", "based", "exported", "finished"])
def test_one_small_answer_shows_checks_alerts_limits_and_what_to_do(at: At, stage: str) -> None:
    found = status(at(stage))
    assert all(check.measured and check.required for check in found.checks)
    assert found.limits
    assert (found.next is None) == found.finished
    runs = {alert.run_id for alert in found.alerts if alert.id == "no_effect"}
    assert len(runs) == {"created": 0, "based": 2, "exported": 2, "finished": 2}[stage], (
        "of smoke and baseline, which is final too"
    )
    assert all("loader.prefetch_factor" in alert.message for alert in found.alerts if alert.id == "no_effect")
    assert len(found.model_dump_json()) / 4 < 2000, "tokens, at four characters each"


@pytest.mark.requirement("GATE-2", "MCP-5")
def test_a_short_answer_shows_the_checks_that_changed_since_the_last_decision(at: At) -> None:
    workspace = at("based")
    with pytest.raises(GateRefusedError):
        projects.pass_gate(workspace, NAME, "diagnostics")
    failed = {line.id for line in status(workspace).checks if line.status == "failed"}
    projects.diagnose(workspace, NAME)
    seen = status(workspace)
    assert {line.id for line in seen.checks if line.was == "failed"} == failed
    assert {line["id"] for line in seen.shown()["checks"]} == failed
    assert seen.checks_met == len(seen.checks)
    answer = projects.pass_gate(workspace, NAME, "diagnostics")
    assert {line["id"] for line in answer.shown()["checks"]} == failed
    assert all(line["was"] == "failed" for line in answer.shown()["checks"])


@pytest.mark.requirement("PHASE-1")
def test_following_next_alone_leads_from_phase_to_phase(at: At) -> None:
    assert status(at("created")).next.arguments == {"project": NAME, "kind": "smoke"}
    assert status(at("smoked")).next.arguments == {"project": NAME, "phase": "planning"}
    assert status(at("planned")).next.arguments == {"project": NAME, "kind": "baseline"}
    assert status(at("trained")).next.arguments == {"project": NAME, "phase": "baseline"}
    assert status(at("based")).next.tool == "diagnose_run"
    assert status(at("diagnosed")).next.arguments == {"project": NAME, "phase": "optimization"}
    assert status(at("tuned")).next.tool == "verify_reproducibility", "the baseline is the final run"
    assert status(at("exported")).next.arguments == {"project": NAME, "phase": "finalization"}


@pytest.mark.requirement("PHASE-2", "REPRO-3")
def test_planning_leaves_the_locked_configuration_and_the_manifest(at: At) -> None:
    workspace = at("planned")
    folder = workspace.project_folder(NAME)
    config = parse_config(yaml.safe_load((folder / "training_config.yaml").read_text()))
    assert config.seed == 42
    assert config.training.epochs == 6
    manifest = (folder / "reproducibility_manifest.md").read_text()
    import torch

    assert f"torch=={torch.__version__.partition('+')[0]}" in manifest
    assert "flower_model.py" in manifest
    assert "iris.csv" in manifest


@pytest.mark.requirement("PHASE-3")
def test_the_baseline_report_holds_the_recorded_numbers_and_no_gpu_reads_not_applicable(at: At) -> None:
    workspace = at("based")
    text = (workspace.project_folder(NAME) / "baseline_results.md").read_text()
    run = workspace.run_directory(NAME, status(workspace).runs[0].run_id)
    summary = run.evidence("summary")
    assert summary["weights_digest"] in text
    assert f"{summary['best']['metrics']['accuracy']:.6g}" in text
    assert "| baseline.gpu_utilisation | not applicable | no GPU; CPU" in text
    assert "the run made no use of: `loader.prefetch_factor`." in text


@pytest.mark.requirement("PHASE-4")
def test_diagnostics_leave_one_recommendation_and_plots(at: At) -> None:
    folder = at("diagnosed").project_folder(NAME)
    report = (folder / "diagnostic_report.md").read_text()
    assert report.count("Recommendation: ") == 1
    assert "this run made no use of: loader.prefetch_factor." in report
    for name in ("learning_curves.png", "gradient_health.png"):
        assert (folder / "plots" / name).read_bytes().startswith(b"\x89PNG")


@pytest.mark.requirement("PHASE-5")
def test_optimization_is_skipped_with_its_evidence_when_the_baseline_meets_the_goal(at: At) -> None:
    workspace = at("tuned")
    assert status(workspace).gates["optimization"] == "skipped"
    text = (workspace.project_folder(NAME) / "tuning_results.md").read_text()
    assert "The phase is skipped: the configuration of the baseline" in text
    with workspace.session() as session:
        body = entries(session, NAME, "gate")[-1][1]
    assert body["outcome"] == "skipped"
    assert "0.6" in next(check for check in body["checks"] if check["id"] == "optimization.needed")["required"]


@pytest.mark.requirement("PHASE-6", "CKPT-5")
def test_the_final_model_holds_everything_and_onnx_gives_its_outputs(at: At) -> None:
    import numpy as np
    import onnxruntime
    from huggingface_hub import ModelCard
    from safetensors.numpy import load_file

    folder = at("finished").project_folder(NAME) / "final_model"
    names = {path.name for path in folder.iterdir()}
    assert names >= {
        "README.md",
        "metrics.json",
        "model.onnx",
        "model.safetensors",
        "reproducibility_manifest.md",
        "config.yaml",
    }
    tensors = load_file(folder / "model.safetensors")
    rows = np.random.default_rng(0).normal(size=(7, 4)).astype("float32")
    measured = json.loads((folder / "resolved.json").read_text())["preprocessing"]
    scaled = ((rows - measured["mean"]) / measured["scale"]).astype("float32")
    hidden = np.maximum(scaled @ tensors["layers.0.weight"].T + tensors["layers.0.bias"], 0)
    expected = hidden @ tensors["layers.2.weight"].T + tensors["layers.2.bias"]
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    found = session.run(None, {session.get_inputs()[0].name: rows})[0]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    metrics = json.loads((folder / "metrics.json").read_text())
    assert metrics["test_looks"] == 1
    assert [look["project"] for look in metrics["test_looked_at_by"]] == [NAME]
    card = (folder / "README.md").read_text()
    assert "looked at once, by export-flowers" in card
    assert re.search(
        r"\| replay \| replay-flowers-\S+: passed, 4 tensors, identical; best checkpoint identical \|", card
    )
    assert metrics["test"]["metrics"]["accuracy"] > 0.6
    on_hub = ModelCard(card).data
    assert (on_hub.library_name, on_hub.pipeline_tag) == ("pytorch", "tabular-classification")
    assert on_hub.widget[0]["structuredData"].keys() == {"sepal_length", "sepal_width", "petal_length", "petal_width"}
    modes = {path.stat().st_mode & 0o666 for path in folder.rglob("*") if path.is_file()}
    assert modes == {folder.stat().st_mode & 0o666}, "a service under another user reads what its folder shows"
    found = {(each.dataset_split, each.metric_type): each.metric_value for each in on_hub.eval_results}
    assert found == {
        (split, name): value for split in ("test", "validation") for name, value in metrics[split]["metrics"].items()
    }
    for each in on_hub.eval_results:
        assert each.metric_args["rows"] == metrics[each.dataset_split]["size"]
        low, high = each.metric_args["interval_95"]
        assert low <= each.metric_value <= high


@pytest.mark.requirement("PHASE-6")
def test_the_final_model_of_a_library_has_a_folder_of_its_own_which_the_card_lists(at: At, tmp_path: Path) -> None:
    workspace = at("exported")
    with workspace.session() as session:
        evidence = Evidence(session, workspace, NAME)
        export = evidence.export
        assert export is not None
        assert export.sealed is not None
        file = export.directory.artifacts / "final_model" / "transformers" / "config.json"
        file.parent.mkdir()
        file.write_text("{}")
        export.sealed["artifacts/final_model/transformers/config.json"] = digest_file(file)
        assemble_final_model(evidence, evaluate(evidence, Phase.FINALIZATION), tmp_path)
    assert (tmp_path / "final_model" / "transformers" / "config.json").is_file()
    assert "transformers/config.json" in (tmp_path / "final_model" / "README.md").read_text()


@pytest.mark.requirement("GATE-1", "GATE-3")
@pytest.mark.parametrize(
    "file", ["status.json", "events.jsonl", "artifacts/summary.json", "artifacts/data.json", "run.json"]
)
def test_an_edited_record_of_a_run_closes_what_rested_on_it_and_verify_names_it(at: At, file: str) -> None:
    workspace = at("based")
    run = status(workspace).runs[0]
    assert run.kind == "baseline"
    path = workspace.run_directory(NAME, run.run_id).path / file
    path.write_bytes(path.read_bytes().replace(b"0", b"1", 1))
    assert status(workspace).phase == "baseline"
    problems = verify_workspace(workspace.path).problems
    assert any(run.run_id in problem and file in problem for problem in problems), problems


@pytest.mark.requirement("GATE-1", "GATE-3", "CKPT-2")
def test_one_changed_byte_in_a_checkpoint_fails_the_baseline_gate_and_verify(at: At) -> None:
    workspace = at("trained")
    run = status(workspace).runs[0]
    path = next(workspace.run_directory(NAME, run.run_id).checkpoints.glob("*/model.safetensors"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(GateRefusedError, match="baseline.checkpoints_verified"):
        projects.pass_gate(workspace, NAME, "baseline")
    assert any("checkpoint" in problem for problem in verify_workspace(workspace.path).problems)


@pytest.mark.requirement("GATE-1")
def test_metrics_edited_in_the_runs_database_fail_the_baseline_gate(at: At) -> None:
    import sqlite3

    workspace = at("trained")
    run = workspace.run_directory(NAME, status(workspace).runs[0].run_id)
    with sqlite3.connect(run.path / "metrics.sqlite") as connection:
        connection.execute("UPDATE metrics SET value = 0.999 WHERE key = 'validation/accuracy'")
    with pytest.raises(GateRefusedError, match=r"metrics\.sqlite was changed"):
        projects.pass_gate(workspace, NAME, "baseline")


@pytest.mark.requirement("GATE-1", "GATE-3")
@pytest.mark.parametrize("name", ["training_config.yaml", "baseline_results.md", "diagnostic_report.md"])
def test_an_edited_artifact_makes_its_gate_stale_and_verify_names_it(at: At, name: str) -> None:
    workspace = at("tuned")
    path = workspace.project_folder(NAME) / name
    path.write_text(path.read_text() + "accuracy 1.0\n")
    stale = [text for text in status(workspace).gates.values() if text.startswith("stale")]
    assert len(stale) == 1
    assert name in stale[0]
    assert f"project {NAME}: artifact {name} was changed" in verify_workspace(workspace.path).problems


@pytest.mark.requirement("GATE-1", "PHASE-3")
def test_a_run_folder_made_by_hand_is_no_baseline(at: At) -> None:
    workspace = at("planned")
    smoke = workspace.run_directory(NAME, status(workspace).runs[0].run_id)
    forged = smoke.path.with_name("baseline-flowers-forged")
    shutil.copytree(smoke.path, forged)
    with pytest.raises(GateRefusedError, match="no baseline run of this configuration"):
        projects.pass_gate(workspace, NAME, "baseline")


@pytest.mark.requirement("GATE-3")
def test_a_whole_project_verifies_without_a_difference(at: At) -> None:
    report = verify_workspace(at("finished").path)
    assert report.problems == []
    assert report.checked["sealed_runs"] == 4, "smoke, baseline, which is final too, replay, export"
    assert report.checked["verdicts"] == 5
    assert report.checked["artifacts"] >= 12


@pytest.mark.requirement("PHASE-1", "GATE-3")
def test_the_recorded_artifact_digests_are_those_of_the_files(at: At) -> None:
    workspace = at("finished")
    with workspace.session() as session:
        decisions = [body for _, body in entries(session, NAME, "gate")]
    folder = workspace.project_folder(NAME)
    for body in decisions:
        assert body["artifacts"], body["phase"]
        for name, digest in body["artifacts"].items():
            assert digest_file(folder / name) == digest
